"""``new`` killed while git writes the checkout: the next command completes it or takes it back (workspaces.md 14)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from support.checkouts import refs_of
from support.cli import Berth, await_true
from support.repos import commit, git, write


class Gate:
    """A file of the repository whose filter waits at a FIFO; git stands there until it is opened."""

    def __init__(self, repo: Path) -> None:
        self.repo = repo
        self.fifo = repo.parent / "gate"
        os.mkfifo(self.fifo)
        git(repo, "config", "filter.slow.smudge", f"cat '{self.fifo}' >/dev/null; cat")
        commit(
            repo,
            {
                "berth.yaml": "version: 1\nports: [web]\n",
                ".gitattributes": "m-slow.txt filter=slow\n",
                "a-first.txt": "first\n",
                "m-slow.txt": "slow\n",
                "z-last.txt": "last\n",
            },
        )

    def open(self) -> None:
        with open(self.fifo, "w"):
            pass

    def remove(self) -> None:
        git(self.repo, "config", "filter.slow.smudge", "cat")


@pytest.fixture
def gate(repo: Path) -> Gate:
    return Gate(repo)


def kill_in_the_checkout(berth: Berth, gate: Gate) -> dict[str, object]:
    """``new a`` killed with SIGKILL while git stands at the gate; the row as ``status`` tells it."""
    process = berth.popen("new", "a")
    await_true((berth.path("a") / "a-first.txt").exists, seconds=30)
    process.kill()
    process.communicate()
    return berth.doc("status", "a")  # type: ignore[no-any-return]


def kill_git(path: Path) -> None:
    """What a power failure does to the git that outlived berth."""
    from berth.tools.git.completion import _creators

    ((creator, _),) = _creators(str(path))
    os.killpg(creator, signal.SIGKILL)
    await_true(lambda: not list(_creators(str(path))))


def test_new_again_waits_for_the_git_that_outlived_it_and_keeps_id_and_ports(berth: Berth, gate: Gate) -> None:
    before = kill_in_the_checkout(berth, gate)
    again = berth.popen("new", "a", "--json")
    gate.open()
    out, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    found = berth.doc("status", "a")
    assert (found["id"], found["ports"], found["phase"]) == (before["id"], before["ports"], "ready")
    assert found["dirty"] is False
    assert found["error"] is None
    assert out
    berth.ok("done", "a")


def test_new_again_completes_what_a_power_failure_left_and_keeps_files_of_others(berth: Berth, gate: Gate) -> None:
    before = kill_in_the_checkout(berth, gate)
    kill_git(berth.path("a"))
    gate.remove()
    write(berth.path("a"), {"mine.txt": "mine"})
    outcome = berth.ok("new", "a")
    assert outcome.out.startswith("resumed a\n")
    found = berth.doc("status", "a")
    assert (found["id"], found["ports"]) == (before["id"], before["ports"])
    assert git(berth.path("a"), "status", "--porcelain") == "?? mine.txt"
    assert (berth.path("a") / "m-slow.txt").read_text() == "slow\n"
    assert git(berth.path("a"), "symbolic-ref", "HEAD") == "refs/heads/berth/a"


def test_done_takes_back_what_a_power_failure_left(berth: Berth, gate: Gate, repo: Path) -> None:
    kill_in_the_checkout(berth, gate)
    kill_git(berth.path("a"))
    gate.remove()
    write(berth.path("a"), {"mine.txt": "mine"})
    assert "mine.txt" in berth.fails("dirty", "done", "a", "--force")["message"]
    assert (berth.path("a") / "mine.txt").exists()
    (berth.path("a") / "mine.txt").unlink()
    berth.ok("done", "a")
    assert not berth.path("a").exists()
    assert refs_of(repo).split()[0::2] == ["refs/heads/main"]
    assert len(git(repo, "worktree", "list").splitlines()) == 1
    assert berth.doc("ls")["workspaces"] == []
    berth.ok("new", "a")


def test_a_reused_branch_is_not_deleted_with_the_creation(berth: Berth, gate: Gate, repo: Path) -> None:
    git(repo, "branch", "berth/a")
    kill_in_the_checkout(berth, gate)
    kill_git(berth.path("a"))
    gate.remove()
    berth.ok("done", "a")
    assert "refs/heads/berth/a" in refs_of(repo)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_takes_everything_back(berth: Berth, gate: Gate, repo: Path, number: signal.Signals) -> None:
    before = refs_of(repo)
    process = berth.popen("new", "a")
    await_true((berth.path("a") / "a-first.txt").exists, seconds=30)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number, err
    assert not (repo.parent / "app.berths").exists()
    assert refs_of(repo) == before
    assert berth.doc("ls")["workspaces"] == []
    assert len(git(repo, "worktree", "list").splitlines()) == 1
