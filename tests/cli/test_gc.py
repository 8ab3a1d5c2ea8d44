"""``gc``: each kind for real, what it keeps, and that a dry run changes nothing."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from support.cli import Berth, alive, await_true
from support.repos import commit, git, make_repo, write

SLEEPER = "version: 1\nports: [web]\nprocesses: {web: {command: exec sleep 1000}}\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "app", {"berth.yaml": SLEEPER, "a.txt": "hi\n"})


def age(berth: Berth, slug: str, *, days: float) -> None:
    """Make the workspace look as if it was last used so long ago."""
    then = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - days * 86400))
    with sqlite3.connect(berth.home / "registry.db") as db:
        db.execute("UPDATE workspaces SET last_used_at = ? WHERE slug = ?", (then, slug))
    db.close()
    for lock in (berth.home / "locks").glob("*.lock"):
        os.utime(lock, (1, 1))


def kinds(document: dict[str, object]) -> list[tuple[str, str]]:
    return [(action["kind"], action["slug"]) for action in document["actions"]]  # type: ignore[union-attr,index]


def collect(berth: Berth) -> list[tuple[str, str]]:
    """A dry run, then the real one: they agree, and the dry one changed nothing."""
    before = berth.doc("ls")["workspaces"]
    said = berth.doc("gc", "--dry-run")
    assert said["dry_run"] is True
    assert berth.doc("ls")["workspaces"] == before
    done = berth.doc("gc")
    assert kinds(done) == kinds(said)
    assert done["bytes"] == sum(action["bytes"] for action in done["actions"])
    return kinds(done)


def test_nothing_to_collect(berth: Berth) -> None:
    berth.ok("new", "a")
    assert berth.ok("gc").out == "nothing to collect\n"
    assert berth.doc("gc") == {"dry_run": False, "actions": [], "bytes": 0, "warnings": []}


def test_a_missing_directory_is_reclaimed_and_its_branch_stays(berth: Berth, repo: Path, tmp_path: Path) -> None:
    path = Path(berth.doc("new", "a")["path"])
    berth.ok("new", "b")
    path.rename(tmp_path / "away")
    assert collect(berth) == [("reclaim", "a")]
    assert "berth/a" in git(repo, "branch", "--list", "berth/a")
    assert [row["slug"] for row in berth.doc("ls")["workspaces"]] == ["b"]


def test_a_missing_directory_is_kept_while_locked_or_its_disk_is_away(berth: Berth, repo: Path, tmp_path: Path) -> None:
    path = Path(berth.doc("new", "a")["path"])
    git(repo, "worktree", "lock", str(path))
    path.rename(tmp_path / "away")
    assert "locked" in berth.doc("gc")["warnings"][0]
    git(repo, "worktree", "unlock", str(path))
    path.parent.rename(tmp_path / "parent away")
    assert "parent" in berth.doc("gc")["warnings"][0]
    assert len(berth.doc("ls")["workspaces"]) == 1


def test_an_idle_workspace_is_stopped_and_its_age_stays(berth: Berth, repo: Path) -> None:
    commit(repo, {"berth.yaml": SLEEPER + "gc: {idle_stop_hours: 2}\n"})
    pid = berth.doc("new", "a", "--up")["processes"][0]["pid"]
    assert collect(berth) == []
    age(berth, "a", days=1)
    used = berth.doc("status", "a")["last_used_at"]
    assert collect(berth) == [("idle_stop", "a")]
    await_true(lambda: not alive(pid))
    row = berth.doc("status", "a")
    assert (row["running"], row["phase"], row["last_used_at"]) == (False, "stopped", used)


def test_an_old_merged_workspace_is_removed_and_unmerged_work_is_kept(berth: Berth, repo: Path) -> None:
    commit(repo, {"berth.yaml": SLEEPER + "gc: {remove_after_days: 3}\n"})
    for slug in ("merged", "young", "dirty", "unmerged", "up"):
        berth.ok("new", slug, *(["--up"] if slug == "up" else []))
        if slug != "young":
            age(berth, slug, days=4)
    write(berth.path("dirty"), {"new.txt": "mine"})
    commit(berth.path("unmerged"), {"new.txt": "mine"})
    assert collect(berth) == [("remove_merged", "merged")]
    assert not berth.path("merged").exists()
    assert git(repo, "branch", "--list", "berth/merged") == ""
    assert (berth.path("dirty") / "new.txt").exists()
    assert (berth.path("unmerged") / "new.txt").exists()
    assert "kept" in berth("gc", "-v").err


def test_the_longest_unused_are_evicted_until_the_number_fits(berth: Berth, repo: Path) -> None:
    commit(repo, {"berth.yaml": SLEEPER + "gc: {max_workspaces: 2}\n"})
    for number, slug in enumerate(("oldest", "old", "new", "newest")):
        berth.ok("new", slug)
        age(berth, slug, days=10 - number)
    assert collect(berth) == [("evict", "oldest"), ("evict", "old")]
    assert {row["slug"] for row in berth.doc("ls")["workspaces"]} == {"new", "newest"}


def test_a_workspace_whose_contract_is_broken_is_reclaimed_when_its_work_is_kept(berth: Berth, repo: Path) -> None:
    path = Path(berth.doc("new", "a")["path"])
    head = commit(path, {"berth.yaml": SLEEPER.replace("[web]", "[web, api]")})
    assert collect(berth) == []
    git(repo, "merge", "-q", "--ff-only", head)
    assert collect(berth) == [("reclaim_contract", "a")]


def test_processes_inside_keep_a_workspace(berth: Berth, repo: Path) -> None:
    commit(repo, {"berth.yaml": SLEEPER + "gc: {remove_after_days: 1}\n"})
    path = berth.doc("new", "a")["path"]
    age(berth, "a", days=2)
    with subprocess.Popen(["sleep", "300"], cwd=path) as stranger:
        assert collect(berth) == []
        assert stranger.poll() is None
        stranger.kill()
    assert collect(berth) == [("remove_merged", "a")]


def test_adopted_workspaces_are_never_removed(berth: Berth, repo: Path, tmp_path: Path) -> None:
    commit(repo, {"berth.yaml": SLEEPER + "gc: {remove_after_days: 1, max_workspaces: 1}\n"})
    git(repo, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "mine"))
    berth.ok("adopt", str(tmp_path / "mine"))
    age(berth, "mine", days=9)
    assert collect(berth) == []
    assert (tmp_path / "mine/a.txt").exists()


def test_a_busy_workspace_is_skipped(berth: Berth, repo: Path) -> None:
    commit(repo, {"berth.yaml": SLEEPER + "gc: {remove_after_days: 1}\n"})
    berth.ok("new", "a")
    run = berth.popen("run", "-w", "a", "sleep", "300")
    try:
        await_true(lambda: list((berth.home / "locks").glob("*.runs/*")))
        age(berth, "a", days=2)
        assert collect(berth) == []
    finally:
        run.terminate()
        run.communicate(timeout=20)


def test_an_invalid_configuration_is_a_warning_and_the_others_go_on(berth: Berth, repo: Path) -> None:
    commit(repo, {"berth.yaml": SLEEPER + "gc: {remove_after_days: 1}\n"})
    for slug in ("a", "b"):
        berth.ok("new", slug)
        age(berth, slug, days=2)
    write(berth.path("a"), {"berth.yaml": "nonsense: 1\n"})
    found = berth.doc("gc")
    assert kinds(found) == [("remove_merged", "b")]
    assert len(found["warnings"]) == 1
    assert found["warnings"][0].startswith(f"{berth.path('a')}: ")


def test_a_control_directory_without_workspace_is_ended_with_what_it_ran(berth: Berth) -> None:
    row = berth.doc("new", "a", "--up")
    pid = row["processes"][0]["pid"]
    with sqlite3.connect(berth.home / "registry.db") as db:
        db.execute("DELETE FROM workspaces")
    db.close()
    assert collect(berth)[0][0] == "orphan_run"
    await_true(lambda: not alive(pid))
    assert list((berth.home / "run").iterdir()) == []


def test_a_plan_that_no_workspace_refers_to_is_deleted(berth: Berth) -> None:
    berth.ok("new", "a")
    (berth.home / "plans").mkdir(exist_ok=True)
    (berth.home / "plans/1-2").write_text("old")
    assert [kind for kind, _ in collect(berth)] == ["leftover_plan"]


def test_a_moved_directory_whose_record_is_gone_is_deleted_by_its_marker(berth: Berth, tmp_path: Path) -> None:
    parent = Path(berth.doc("new", "a")["path"]).parent
    left = parent / (".berth-removing-" + "0" * 32)
    (left / ".berth").mkdir(parents=True)
    (left / ".berth/identity.json").write_text(json.dumps({"ID": "0" * 32}))
    (left / "big").write_bytes(b"x" * 100_000)
    strange = parent / (".berth-removing-" + "1" * 32)
    strange.mkdir()
    (strange / "file").write_text("whose?")
    found = berth.doc("gc")
    assert [action["kind"] for action in found["actions"]] == ["leftover"]
    assert found["bytes"] >= 100_000
    assert not left.exists()
    assert (strange / "file").exists()
    assert any(str(strange) in warning for warning in found["warnings"])


def test_a_removal_that_is_pending_is_named(berth: Berth) -> None:
    berth.ok("new", "a")
    with sqlite3.connect(berth.home / "registry.db") as db:
        db.execute("UPDATE workspaces SET phase = 'removing'")
    db.close()
    assert "berth done" in berth.doc("gc")["warnings"][0]
    assert "berth done" in berth.fails("removal_pending", "up", "a")["hint"]
    with sqlite3.connect(berth.home / "registry.db") as db:
        db.execute("UPDATE workspaces SET phase = 'ready'")
    db.close()


def test_gc_inside_a_run_leaves_that_workspace_alone(berth: Berth, repo: Path) -> None:
    import sys

    commit(repo, {"berth.yaml": SLEEPER + "gc: {remove_after_days: 1}\n"})
    berth.ok("new", "a")
    program = str(Path(__file__).resolve().parents[2] / "scripts/berth")
    outcome = berth("run", "-w", "a", "--", sys.executable, program, "gc", "--json")
    assert outcome.json["actions"] == []
    assert berth.path("a").exists()
