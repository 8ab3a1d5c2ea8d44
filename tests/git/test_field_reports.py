"""Public bug reports of tools that do a part of berth's job, tried on berth: removal, data loss, git's corner cases.

Numbers are those of the field reports. After every one the repository must be sound and its configuration untouched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.checkouts import refs_of
from support.cli import Berth
from support.repos import commit, git, make_repo, write

ONE_PROCESS = "version: 1\nprocesses: {idle: {command: exec sleep 1000}}\n"


@pytest.fixture(autouse=True)
def _sound_afterwards(repo: Path) -> Iterator[None]:
    yield
    assert git(repo, "fsck", "--full", "--no-dangling", "--no-progress") == ""
    assert git(repo, "config", "--file", ".git/config", "core.bare") == "false"


@pytest.fixture
def config(repo: Path) -> Iterator[bytes]:
    """The shared configuration, which must be byte-identical in the end."""
    before = (repo / ".git/config").read_bytes()
    yield before
    assert (repo / ".git/config").read_bytes() == before


def test_c01_uncommitted_lines_survive_every_verb(berth: Berth, repo: Path, config: bytes) -> None:
    berth.ok("new", "a")
    a = berth.path("a")
    with (a / "a.txt").open("a") as file:
        file.write("uncommitted\n")
    berth.ok("new", "a")
    berth.ok("adopt", str(a))
    berth.ok("reset", "a")
    assert (a / "a.txt").read_text() == "hi\nuncommitted\n"


def test_c03_commits_that_are_nowhere_else_block_done_and_gc(berth: Berth, repo: Path, config: bytes) -> None:
    write(repo, {"berth.yaml": "version: 1\ngc: {max_workspaces: 1, remove_after_days: 1}\n"})
    commit(repo, {}, "config")
    berth.ok("new", "a")
    git(berth.path("a"), "commit", "-q", "--allow-empty", "-m", "the work")
    error = berth.fails("not_preserved", "done", "a")
    assert "the work" in error["message"]
    berth.ok("new", "b")
    berth.ok("gc")
    assert "the work" in git(repo, "log", "--all", "--format=%s")
    assert (berth.path("a") / "a.txt").exists()


def test_c04_the_recorded_base_is_kept_over_reattaching_and_untracked_work_is_seen(
    berth: Berth, repo: Path, config: bytes
) -> None:
    berth.ok("new", "a")
    commit(berth.path("a"), {"b.txt": "b"})
    berth.ok("new", "a")
    berth.ok("adopt", str(berth.path("a")))
    berth.ok("gc")
    berth.fails("not_preserved", "done", "a")
    berth.ok("new", "u")
    write(berth.path("u"), {"only/untracked.txt": "x"})
    assert "only/untracked.txt" in berth.fails("dirty", "done", "u")["message"]
    assert (berth.path("u") / "only/untracked.txt").exists()


def test_c05_a_writer_inside_is_reported_and_nothing_is_half_done(berth: Berth, repo: Path) -> None:
    berth.ok("new", "a")
    a = berth.path("a")
    write(a, {"precious.txt": "x"})
    writer = subprocess.Popen(["sh", "-c", "while :; do date >> log; sleep .01; done"], cwd=a, start_new_session=True)
    try:
        assert str(writer.pid) in berth.fails("processes_inside", "done", "a")["message"]
        assert (a / "precious.txt").exists()
        assert git(a, "rev-parse", "--abbrev-ref", "HEAD") == "berth/a"
    finally:
        os.killpg(writer.pid, 9)
        writer.wait()
    berth.fails("dirty", "done", "a")
    assert (a / "precious.txt").exists()


def test_c08_a_dirty_workspace_is_refused_in_json_mode_with_a_reason(berth: Berth, repo: Path, config: bytes) -> None:
    berth.ok("new", "a")
    write(berth.path("a"), {"x": "x"})
    outcome = berth("done", "a", "--json")
    assert (outcome.code, outcome.error["code"]) == (3, "dirty")
    assert (berth.path("a") / "x").exists()


def test_c09_a_directory_moved_onto_anothers_path_is_never_removed(berth: Berth, repo: Path, config: bytes) -> None:
    berth.ok("new", "a")
    berth.ok("new", "b")
    a, b = berth.path("a"), berth.path("b")
    write(b, {"work.txt": "of b"})
    a.rename(a.with_name("a.bak"))
    b.rename(a)
    assert "b" in berth.fails("identity_mismatch", "done", "a", "--force")["message"]
    assert (a / "work.txt").read_text() == "of b"
    berth.ok("gc")
    assert (a / "work.txt").read_text() == "of b"


def test_c10_a_clone_at_a_registered_path_is_never_removed(berth: Berth, repo: Path, config: bytes) -> None:
    berth.ok("new", "a")
    a = berth.path("a")
    shutil.rmtree(a)
    git(repo, "clone", "-q", ".", str(a))
    write(a, {"new": "w"})
    berth.fails("identity_mismatch", "done", "a", "--force")
    berth.ok("gc")
    assert (a / "new").read_text() == "w"
    assert git(a, "status", "--porcelain") == "?? new"


def test_c12_a_locked_and_missing_worktree_is_not_gone(berth: Berth, repo: Path, config: bytes) -> None:
    berth.ok("new", "a")
    git(repo, "worktree", "lock", "--reason", "on a stick", str(berth.path("a")))
    before = refs_of(repo)
    berth.path("a").rename(repo.parent / "away")
    for words in (["done", "a"], ["done", "a", "--force"]):
        assert "on a stick" in berth.fails("worktree_locked", *words)["message"]
    assert berth.doc("gc")["actions"] == []
    assert refs_of(repo) == before
    assert len(berth.doc("ls")["workspaces"]) == 1


def test_c13_a_branch_that_is_checked_out_twice_stays(berth: Berth, repo: Path, config: bytes) -> None:
    berth.ok("new", "a")
    second = repo.parent / "second"
    git(repo, "worktree", "add", "-q", "-f", str(second), "berth/a")
    berth.fails("branch_checked_out", "done", "a", "--force")
    assert git(second, "status", "--porcelain") == ""
    assert berth.path("a").exists()


def test_c14_a_workspace_with_submodules_really_goes_and_unpushed_work_in_them_blocks(
    berth: Berth, repo: Path, tmp_path: Path
) -> None:
    make_repo(tmp_path / "library", {"lib.txt": "1"})
    git(repo, "submodule", "add", "-q", str(tmp_path / "library"), "lib")
    git(repo, "commit", "-qm", "submodule")
    config = (repo / ".git/config").read_bytes()
    berth.ok("new", "a")
    lib = berth.path("a") / "lib"
    assert (lib / "lib.txt").exists()
    write(lib, {"dirt": "x"})
    berth.fails("dirty", "done", "a")
    git(lib, "add", "-A")
    git(lib, "commit", "-qm", "unpushed")
    git(lib, "switch", "-q", "--detach", "HEAD~1")
    git(lib, "branch", "-q", "kept", "HEAD@{1}")
    berth.fails("submodule_unpushed", "done", "a")
    git(lib, "push", "-q", "origin", "kept")
    berth.ok("done", "a")
    assert not berth.path("a").exists()
    assert (repo / ".git/config").read_bytes() == config


@pytest.mark.parametrize("deed", ["echo x > dirt", "git commit -q --allow-empty -m sneaked"])
def test_c15_a_teardown_that_dirties_or_commits_is_caught(berth: Berth, repo: Path, deed: str) -> None:
    commit(repo, {"berth.yaml": f"version: 1\nhooks: {{teardown: ['{deed}']}}\n"})
    berth.ok("new", "a")
    outcome = berth("done", "a", "--json")
    assert outcome.error["code"] in ("dirty", "not_preserved")
    assert berth.path("a").exists()


def test_c16_the_target_of_a_link_is_never_emptied(berth: Berth, repo: Path) -> None:
    commit(repo, {".gitignore": "node_modules\n.berth\n"})
    write(repo, {"node_modules/pkg/index.js": "x"})
    berth.ok("new", "a")
    (berth.path("a") / "node_modules").symlink_to(repo / "node_modules")
    (berth.path("a") / ".berth/data/link").symlink_to(repo / "node_modules")
    berth.ok("reset", "a")
    berth.ok("done", "a", "--force")
    assert (repo / "node_modules/pkg/index.js").read_text() == "x"


def test_c18_teardown_runs_once_with_force_and_in_json_mode(berth: Berth, repo: Path, tmp_path: Path) -> None:
    commit(repo, {"berth.yaml": f"version: 1\nhooks: {{teardown: ['echo ran >> {tmp_path}/log']}}\n"})
    for words in (["done", "a"], ["done", "a", "--force"], ["done", "a", "--json"]):
        berth.ok("new", "a")
        berth.ok(*words)
        assert (tmp_path / "log").read_text() == "ran\n"
        (tmp_path / "log").unlink()


def test_c19_nothing_lasting_is_below_a_temporary_directory(berth: Berth, repo: Path) -> None:
    path = Path(berth.doc("new", "a")["path"])
    assert path.parent == repo.parent / "app.berths"


def test_c20_whatever_is_at_the_path_is_refused_and_untouched(berth: Berth, repo: Path, config: bytes) -> None:
    target = berth.path("a")
    git(repo, "worktree", "add", "-q", "-b", "mine", str(target))
    write(target, {"dirty.txt": "x"})
    berth.fails("path_exists", "new", "a")
    assert (target / "dirty.txt").exists()
    assert git(target, "status", "--porcelain") == "?? dirty.txt"
    write(berth.path("b"), {"file": "x"})
    berth.path("c").write_text("x")
    before = refs_of(repo)
    for slug in ("b", "c"):
        berth.fails("path_exists", "new", slug)
    assert refs_of(repo) == before
    assert berth.doc("ls")["workspaces"] == []


@pytest.mark.parametrize("context", [None, "9"])
def test_c21_squash_merged_work_may_go_and_a_commit_after_it_may_not(
    berth: Berth, repo: Path, context: str | None
) -> None:
    if context:
        git(repo, "config", "diff.context", context)
    for slug, more in (("a", False), ("b", True)):
        berth.ok("new", slug)
        commit(berth.path(slug), {f"{slug}.txt": "one\n"})
        commit(berth.path(slug), {f"{slug}.txt": "one\ntwo\n"})
        git(repo, "merge", "-q", "--squash", f"berth/{slug}")
        git(repo, "commit", "-qm", "squashed")
        if more:
            commit(berth.path(slug), {f"{slug}.txt": "one\ntwo\nthree\n"})
            berth.fails("not_preserved", "done", slug)
        else:
            assert berth.doc("done", slug)["branch_deleted"] is True


def test_c23_a_moved_worktree_is_an_explicit_mismatch_with_its_data(berth: Berth, repo: Path, config: bytes) -> None:
    berth.ok("new", "a")
    write(berth.path("a"), {".berth/data/db": "data"})
    moved = repo.parent / "moved-a"
    git(repo, "worktree", "move", str(berth.path("a")), str(moved))
    assert berth.fails("identity_mismatch", "adopt", str(moved))["hint"]
    assert (moved / ".berth/data/db").read_text() == "data"
    git(repo, "worktree", "move", str(moved), str(berth.path("a")))
    berth.ok("done", "a")


@pytest.mark.parametrize("damage", ["deleted", "without .git", "empty"])
def test_c25_damage_is_named_and_does_not_reach_the_others(
    berth: Berth, repo: Path, config: bytes, damage: str
) -> None:
    berth.ok("new", "a")
    a = berth.path("a")
    if damage == "without .git":
        (a / ".git").unlink()
    else:
        shutil.rmtree(a)
    if damage == "empty":
        a.mkdir()
    assert berth.doc("status", "a")["error"]
    berth.ok("new", "c")
    assert len(berth.doc("ls")["workspaces"]) == 2
    if damage == "deleted":
        berth.fails("checkout_missing", "done", "a")
        assert berth.doc("done", "a", "--force")["branch_deleted"] is True
        assert "berth/a" not in git(repo, "worktree", "list")
    else:
        berth.fails("identity_mismatch", "done", "a", "--force")
        assert a.exists()


def test_c26_a_repository_that_was_moved_away_is_missing_and_nothing_is_deleted(
    berth: Berth, repo: Path, tmp_path: Path
) -> None:
    other = make_repo(tmp_path / "other")
    berth.ok("new", "a")
    berth.ok("new", "z", cwd=other)
    write(berth.path("a"), {"work.txt": "w"})
    repo.rename(repo.parent / "moved")
    assert "repository" in berth.doc("status", "app/a", cwd=tmp_path)["error"]
    berth.fails("repository_missing", "done", str(berth.path("a")), "--force", cwd=tmp_path)
    berth.ok("gc", cwd=tmp_path)
    assert (berth.path("a") / "work.txt").exists()
    assert berth.doc("status", "z", cwd=other)["error"] is None
    (repo.parent / "moved").rename(repo)
    assert berth.doc("status", "a")["error"] is None


def test_c27_twelve_at_once_have_distinct_ports_while_a_lock_is_held(berth: Berth, repo: Path) -> None:
    commit(repo, {"berth.yaml": "version: 1\nports: [web]\n"})
    lock = repo / ".git/config.lock"
    lock.touch()
    release = threading.Timer(2, lock.unlink)
    release.start()
    started = [berth.popen("new", f"t{number}", "--json") for number in range(12)]
    for process in started:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, (out, err)
    release.join()
    workspaces = berth.doc("ls")["workspaces"]
    assert len({item["ports"]["web"] for item in workspaces}) == 12
    assert len(refs_of(repo).splitlines()) == 13


def test_c28_a_failed_creation_leaves_no_branch_no_record_and_no_port(berth: Berth, repo: Path, config: bytes) -> None:
    commit(repo, {"berth.yaml": "version: 1\nports: [web]\n"})
    (repo.parent / "app.berths").write_text("in the way")
    before = refs_of(repo)
    berth.fails("io_error", "new", "z")
    assert refs_of(repo) == before
    assert berth.doc("ls")["workspaces"] == []
    (repo.parent / "app.berths").unlink()
    berth.ok("new", "z")


@pytest.mark.parametrize("script", ["exit 7", "kill -PIPE $$", "npx-that-is-not-here"])
def test_c29_a_post_checkout_hook_that_fails_is_a_warning(berth: Berth, repo: Path, script: str) -> None:
    path = repo / ".git/hooks/post-checkout"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho words of the hook\n{script}\n")
    path.chmod(0o755)
    outcome = berth.ok("new", "a")
    assert "warning:" in outcome.err
    assert "words of the hook" in outcome.err
    assert "words of the hook" not in outcome.out
    berth.ok("done", "a")


def test_c32_location_variables_of_an_alias_or_a_hook_are_not_inherited(berth: Berth, repo: Path) -> None:
    berth.ok("new", "a")
    outcome = berth.ok(
        "run", "-w", "a", "--", "git", "rev-parse", "--show-toplevel", env={"GIT_DIR": str(repo / ".git")}
    )
    assert outcome.out.strip() == str(berth.path("a"))
    index = repo / ".git/index"
    before = index.read_bytes()
    berth.ok("new", "b", env={"GIT_INDEX_FILE": str(index), "GIT_DIR": str(repo / ".git")})
    assert index.read_bytes() == before
    env = berth.ok("run", "-w", "b", "--", "env", env={"GIT_WORK_TREE": str(repo), "GIT_PREFIX": "x/"}).out
    assert "GIT_WORK_TREE" not in env
    assert "GIT_PREFIX" not in env


@pytest.mark.parametrize("checked_out", [True, False])
def test_c33_a_bare_layout_works_and_its_default_branch_is_protected(
    berth: Berth, repo: Path, tmp_path: Path, checked_out: bool
) -> None:
    root = tmp_path / "b"
    root.mkdir()
    git(repo, "clone", "-q", "--bare", ".", str(root / ".bare"))
    (root / ".git").write_text("gitdir: ./.bare\n")
    where = root
    if checked_out:
        git(root, "worktree", "add", "-q", "main", "main")
        where = root / "main"
    config = (root / ".bare/config").read_bytes()
    assert berth.doc("new", "a", cwd=where)["path"] == str(tmp_path / "b.berths/a")
    if checked_out:
        berth.ok("adopt", str(where), cwd=root)
        result = berth.doc("done", str(where), "--force", cwd=root)
        assert (result["checkout_removed"], result["branch_deleted"]) == (False, False)
        assert (where / "a.txt").exists()
    berth.ok("done", "a", cwd=root)
    assert git(root, "rev-parse", "--verify", "refs/heads/main")
    assert (root / ".bare/config").read_bytes() == config


def test_c34_a_repository_without_commits_gets_a_plain_message(berth: Berth, repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "x")
    berth.fails("base_not_found", "new", "a", cwd=tmp_path / "x")
    berth.ok("new", "a")
    git(berth.path("a"), "checkout", "-q", "--orphan", "unborn")
    berth.ok("new", "b")
    assert {item["branch"] for item in berth.doc("ls")["workspaces"]} == {"unborn", "berth/b"}


def test_c36_names_that_clash_in_git_are_said_and_names_alike_are_apart(berth: Berth, repo: Path) -> None:
    git(repo, "branch", "berth/p/q")
    assert "berth/p/q" in berth.fails("branch_exists", "new", "p")["message"]
    long = "n" * 40
    slugs = ["x-y", "x_y", f"{long}1", f"{long}2"]
    paths = {berth.doc("new", slug)["path"] for slug in slugs}
    assert len(paths) == 4
    for slug in ("X-y", "x.y", "x/y"):
        berth.fails("invalid_slug", "new", slug)


@pytest.mark.parametrize("name", ["", " ", "..", "HEAD", "a.lock", "a~1", "-", "a b", "é"])
def test_c37_odd_names_are_usage_errors(berth: Berth, repo: Path, config: bytes, name: str) -> None:
    before = refs_of(repo)
    berth.fails("invalid_slug", "new", "--", name)
    assert refs_of(repo) == before


def test_c37_a_trailing_slash_is_dropped(berth: Berth, repo: Path) -> None:
    assert berth.doc("new", "docs/")["slug"] == "docs"


def test_c38_a_base_is_taken_by_its_exact_name(berth: Berth, repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "tag", "v1")
    git(repo, "branch", "user/feature")
    git(repo, "remote", "add", "user", ".")
    git(repo, "branch", "origin/foo")
    commit(repo, {"b.txt": "b"})
    for slug, base in (("a", "v1"), ("b", first), ("c", "user/feature"), ("d", "origin/foo")):
        berth.ok("new", slug, "--base", base)
        assert git(berth.path(slug), "rev-parse", "HEAD") == first
        assert git(repo, "for-each-ref", "--format=%(upstream)", f"refs/heads/berth/{slug}") == ""
    assert "refs/remotes" not in refs_of(repo)


def test_c39_a_sparse_checkout_is_inherited(berth: Berth, repo: Path) -> None:
    commit(repo, {"src/x": "1", "big/y": "2"})
    git(repo, "sparse-checkout", "set", "src")
    config = (repo / ".git/config").read_bytes()
    berth.ok("new", "a")
    assert not (berth.path("a") / "big").exists()
    assert (berth.path("a") / "src/x").exists()
    berth.ok("done", "a")
    assert (repo / ".git/config").read_bytes() == config


def test_c40_a_missing_filter_is_named_and_leaves_nothing(berth: Berth, repo: Path) -> None:
    commit(repo, {".gitattributes": "*.bin filter=lfs\n", "x.bin": "data"})
    git(repo, "config", "filter.lfs.required", "true")
    git(repo, "config", "filter.lfs.process", "git-lfs filter-process")
    git(repo, "config", "filter.lfs.smudge", "git-lfs smudge -- %f")
    before = refs_of(repo)
    assert "git-lfs" in berth.fails("filter_missing", "new", "a")["message"]
    assert refs_of(repo) == before
    assert berth.doc("ls")["workspaces"] == []
    assert not (repo.parent / "app.berths").exists()


def test_c41_a_submodule_that_could_not_be_filled_is_a_lasting_warning(
    berth: Berth, repo: Path, tmp_path: Path
) -> None:
    make_repo(tmp_path / "library", {"lib.txt": "1"})
    git(repo, "submodule", "add", "-q", "../library", "lib")
    git(repo, "commit", "-qm", "submodule")
    (tmp_path / "library").rename(tmp_path / "gone")
    shutil.rmtree(repo / ".git/modules")
    shutil.rmtree(repo / "lib")
    outcome = berth.ok("new", "a")
    assert "submodule lib" in outcome.err
    assert "submodule lib" in berth.doc("status", "a")["warnings"][0]


def test_c43_two_spellings_are_one_workspace(berth: Berth, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repo)
    (tmp_path / "parent").symlink_to(tmp_path)
    made = berth.doc("new", "a", cwd=tmp_path / "link")
    assert made["path"] == str(berth.path("a"))
    assert berth.doc("status", str(tmp_path / "parent/app.berths/a/"))["id"] == made["id"]
    assert berth.doc("new", "a", cwd=tmp_path / "parent/app")["id"] == made["id"]
    berth.ok("done", str(tmp_path / "parent/app.berths/../app.berths/a"))
    assert berth.doc("ls")["workspaces"] == []


def test_c44_a_dead_directory_is_a_clear_message(berth: Berth, repo: Path) -> None:
    commit(repo, {"sub/x": "x"})
    berth.ok("new", "a")
    inside = berth.path("a") / "sub"
    script = f'cd "{inside}" && "$@" done a && "$@" status'
    from support.cli import PROGRAM

    done = subprocess.run(
        ["sh", "-c", script, "sh", *PROGRAM], env=berth.environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert not berth.path("a").exists()
    assert str(repo) in done.stderr  # the note names the primary checkout


def test_c45_a_workspace_made_inside_a_workspace_is_its_sibling_from_the_base(berth: Berth, repo: Path) -> None:
    commit(repo, {"sub/x": "x"})
    berth.ok("new", "a")
    commit(berth.path("a"), {"work.txt": "w"})
    berth.ok("new", "b", cwd=berth.path("a") / "sub")
    assert git(berth.path("b"), "rev-parse", "HEAD") == git(repo, "rev-parse", "main")


def test_c46_the_stack_of_stashes_is_never_touched(berth: Berth, repo: Path, config: bytes) -> None:
    commit(repo, {"berth.yaml": ONE_PROCESS})
    berth.ok("new", "a")
    berth.ok("new", "b")
    write(berth.path("a"), {"a.txt": "stashed\n"})
    git(berth.path("a"), "stash", "-q")
    before = git(repo, "stash", "list")
    for words in (["status", "b"], ["up", "b"], ["down", "b"], ["reset", "b"], ["done", "b"], ["gc"]):
        berth.ok(*words)
    assert git(repo, "stash", "list") == before != ""
    git(berth.path("a"), "stash", "pop", "-q")
    assert (berth.path("a") / "a.txt").read_text() == "stashed\n"


def test_c47_spaces_and_worse_in_paths(berth: Berth, repo: Path, tmp_path: Path) -> None:
    odd = make_repo(tmp_path / "my répo 日本 'q\" $x & (1)", {"berth.yaml": ONE_PROCESS, "a.txt": "x"})
    made = berth.doc("new", "a", cwd=odd)
    assert Path(made["path"]).is_dir()
    assert berth.ok("run", "-w", "a", "--", "pwd", cwd=odd).out.strip() == made["path"]
    berth.ok("up", "a", cwd=odd)
    berth.ok("done", "a", cwd=odd)
    assert not Path(made["path"]).exists()


def test_c48_names_that_are_no_utf8_break_nothing(berth: Berth, repo: Path) -> None:
    (repo / os.fsdecode(b"bad\xff")).write_text("x")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "bytes")
    berth.ok("new", "a", env={"LC_ALL": "C", "SHELL": "/bin/日本"})
    git(berth.path("a"), "switch", "-q", "-c", "功能/é")
    (berth.path("a") / os.fsdecode(b"new\xfe")).write_text("x")
    shown = berth.doc("status", "a", env={"LC_ALL": "C"})
    assert (shown["branch"], shown["dirty"]) == ("功能/é", True)
    assert "new�" in berth.fails("dirty", "done", "a", env={"LC_ALL": "C"})["message"]
    assert "功能/é" in berth.ok("ls", env={"LC_ALL": "C"}).out


def test_a_first_lifecycle_command_after_a_second_refreshes_the_index_once(berth: Berth, repo: Path) -> None:
    commit(repo, {"berth.yaml": ONE_PROCESS})
    berth.ok("new", "a")
    index = Path(git(berth.path("a"), "rev-parse", "--absolute-git-dir"), "index")
    written = index.stat().st_mtime_ns
    while time.time_ns() - written < 1_100_000_000:
        time.sleep(0.05)
    berth.ok("up", "a")
    refreshed = index.stat().st_mtime_ns
    assert refreshed > written
    berth.ok("down", "a")
    assert index.stat().st_mtime_ns == refreshed


def test_every_branch_but_the_current_own_one_stays_and_is_named(berth: Berth, repo: Path, config: bytes) -> None:
    berth.ok("new", "a")
    git(berth.path("a"), "switch", "-q", "-c", "other")
    result = berth.doc("done", "a")
    assert (result["branch"], result["branch_deleted"]) == ("other", False)
    assert result["branches_kept"] == ["other", "berth/a"]
    berth.ok("new", "a")
    git(berth.path("a"), "switch", "-q", "--detach")
    result = berth.doc("done", "a")
    assert (result["branch"], result["branches_kept"]) == (None, ["berth/a"])
    berth.ok("new", "a")
    result = berth.doc("done", "a")
    assert (result["branch_deleted"], result["branches_kept"]) == (True, [])


def test_a_missing_checkout_is_not_said_to_be_removed_and_its_unkept_branch_stays(berth: Berth, repo: Path) -> None:
    berth.ok("new", "a")
    commit(berth.path("a"), {"b.txt": "b"})
    shutil.rmtree(berth.path("a"))
    result = berth.doc("done", "a", "--force")
    assert (result["checkout_removed"], result["branch_deleted"]) == (False, False)
    assert result["branches_kept"] == ["berth/a"]
    assert len(git(repo, "worktree", "list").splitlines()) == 1
