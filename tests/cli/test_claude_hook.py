"""``berth hook run claude``: the harness asks for a worktree on stdin and reads its path from the end of stdout."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from support.cli import PROGRAM, Berth
from support.repos import commit, git, write


def request(**keys: object) -> bytes:
    return json.dumps(keys).encode()


def test_the_worktree_is_made_adopted_and_set_up(berth: Berth, repo: Path) -> None:
    commit(repo, {"berth.yaml": "version: 1\nports: [web]\nhooks: {setup: ['echo noise; touch set-up']}\n"})
    outcome = berth("hook", "run", "claude", stdin=request(name="bold-oak", cwd=str(repo), hook_event_name="x"))
    path = repo / ".claude/worktrees/bold-oak"
    assert outcome.code == 0, outcome
    assert outcome.out == f"{path}\n"
    assert "noise" in outcome.err
    assert (path / "set-up").exists()
    assert git(path, "branch", "--show-current") == "worktree-bold-oak"
    document = berth.doc("status", str(path))
    assert document["ownership"] == "adopted"
    assert document["slug"] == "bold-oak"
    assert list(document["ports"]) == ["web"]


def test_the_older_spelling_and_the_current_directory_work(berth: Berth, repo: Path) -> None:
    assert berth("hook", "run", "claude", stdin=request(worktree_name="x")).out == f"{repo}/.claude/worktrees/x\n"


def test_from_a_worktree_the_new_one_lies_in_the_primary_checkout(berth: Berth, repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", str(tmp_path / "linked"))
    outcome = berth("hook", "run", "claude", stdin=request(name="y", cwd=str(tmp_path / "linked")))
    assert outcome.out == f"{repo}/.claude/worktrees/y\n"


def test_it_starts_at_the_configured_base_and_else_at_head_with_a_warning(berth: Berth, repo: Path) -> None:
    base = git(repo, "rev-parse", "HEAD")
    git(repo, "branch", "stable")
    commit(repo, {"berth.yaml": "base: stable\n"})
    berth("hook", "run", "claude", stdin=request(name="a"))
    assert git(repo / ".claude/worktrees/a", "rev-parse", "HEAD") == base
    write(repo, {"berth.yaml": "base: nowhere\n"})
    outcome = berth("hook", "run", "claude", stdin=request(name="b"))
    assert outcome.out == f"{repo}/.claude/worktrees/b\n"
    assert "warning: " in outcome.err
    assert "nowhere" in outcome.err
    assert git(repo / ".claude/worktrees/b", "rev-parse", "HEAD") == git(repo, "rev-parse", "HEAD")


def test_an_existing_worktree_or_branch_is_used_again(berth: Berth, repo: Path) -> None:
    first = berth("hook", "run", "claude", stdin=request(name="a"))
    path = repo / ".claude/worktrees/a"
    kept = commit(path, {"work.txt": "work"})
    again = berth("hook", "run", "claude", stdin=request(name="a"))
    assert again.out == first.out == f"{path}\n"
    assert git(path, "rev-parse", "HEAD") == kept
    berth.ok("done", str(path))
    git(repo, "worktree", "remove", "--force", str(path))
    assert berth("hook", "run", "claude", stdin=request(name="a")).code == 0
    assert git(path, "rev-parse", "HEAD") == kept


def test_the_path_is_printed_also_when_adoption_fails(berth: Berth, repo: Path) -> None:
    commit(repo, {"berth.yaml": "version: 1\nhooks: {setup: ['exit 7']}\n"})
    outcome = berth("hook", "run", "claude", stdin=request(name="a"))
    assert outcome.code == 0
    assert outcome.out == f"{repo}/.claude/worktrees/a\n"
    assert "exit 7" in outcome.err or "code 7" in outcome.err
    assert (repo / ".claude/worktrees/a/a.txt").exists()
    document = berth("hook", "run", "claude", "--json", stdin=request(name="a")).json
    assert document == {"path": f"{repo}/.claude/worktrees/a", "workspace": None}


def test_it_does_not_wait_for_the_end_of_stdin(berth: Berth, repo: Path) -> None:
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [*PROGRAM, "hook", "run", "claude"],
        cwd=repo,
        env=berth.environment(),
        stdin=reader,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        os.close(reader)
        os.write(writer, b' \n{"name": "a", "note": "brace } in \\" a string",')
        os.write(writer, b' "cwd": ' + json.dumps(str(repo)).encode() + b"}")
        out, _ = process.communicate(timeout=60)
    finally:
        os.close(writer)
    assert out.decode() == f"{repo}/.claude/worktrees/a\n"


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[1]", b'"x"', b"{", b"{}", b'{"name": 3}', b'{"name": ""}', b'{"name": "../x"}', b'{"name": "-x"}',
     b'{"name": "a b"}', b'{"name": "a..b"}', b'{"name": "/abs"}', b'{"name": "a\\u0000"}', b"\xff{}", b"}"],
)  # fmt: skip
def test_what_is_no_request_is_a_usage_error_and_makes_nothing(berth: Berth, repo: Path, data: bytes) -> None:
    outcome = berth("hook", "run", "claude", stdin=data)
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert not (repo / ".claude").exists()


def test_a_link_that_leads_outside_the_repository_is_refused(berth: Berth, repo: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (repo / ".claude").symlink_to(outside)
    outcome = berth("hook", "run", "claude", "--json", stdin=request(name="a"))
    assert outcome.code == 1
    assert outcome.error["code"] == "unsupported_path"
    assert list(outside.iterdir()) == []


def test_the_installed_command_gives_the_harness_what_it_reads(berth: Berth, repo: Path, tmp_path: Path) -> None:
    berth.ok("hook", "install", "claude")
    document = json.loads((repo / ".claude/settings.json").read_text())
    command = document["hooks"]["WorktreeCreate"][0]["hooks"][0]["command"]
    write(tmp_path, {"bin/berth": '#!/bin/sh\nexec {} "$@"\n'.format(" ".join(f"'{word}'" for word in PROGRAM))})
    (tmp_path / "bin/berth").chmod(0o755)
    env = {**berth.environment(), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    for data, expected in ((request(name="a", cwd=str(repo)), f"{repo}/.claude/worktrees/a\n"), (b"garbage", "")):
        done = subprocess.run(
            ["sh", "-c", command], cwd=repo, env=env, input=data, capture_output=True, check=False, timeout=60
        )
        assert (done.returncode, done.stdout.decode()) == (0, expected)
