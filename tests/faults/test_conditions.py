"""Bad days of a machine: no space, no permission, a clock set back, recycled pids, a stopped or killed supervisor."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import Berth, alive, await_true, command_lines
from support.repos import git, make_repo

SLEEP = f"sleep {3_000_000 + os.getpid()}"
CONFIG = f"version: 1\nports: [web]\nshutdown_timeout_seconds: 2\nprocesses: {{web: {{command: exec {SLEEP}}}}}\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "app", {"berth.yaml": CONFIG, "big.bin": os.urandom(2_000_000)})


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 1 MiB."""
    if os.geteuid() != 0:
        pytest.skip(reason="only root may mount a small file system")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(path: Path) -> None:
    """Take all the space there is."""
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    with pytest.raises(OSError, match="No space left"):
        take_all(descriptor)
    os.close(descriptor)


def take_all(descriptor: int) -> None:
    while True:
        os.write(descriptor, b"x" * 4096)


def supervisor_pid(berth: Berth) -> int:
    (control,) = (berth.home / "run").iterdir()
    return int((control / "pc.pid").read_text().split()[0])


def test_a_checkout_that_does_not_fit_is_rolled_back_entirely(berth: Berth, repo: Path, small_disk: Path) -> None:
    with (repo / "berth.yaml").open("a") as file:
        file.write(f"worktree_root: {small_disk}\n")
    outcome = berth("new", "a", "--json")
    assert outcome.code == 1, outcome
    assert outcome.error["code"] in ("git_failed", "io_error"), outcome
    assert list(small_disk.iterdir()) == []
    assert git(repo, "branch", "--list", "berth/a") == ""
    assert git(repo, "worktree", "list").count("\n") == 0
    assert berth.doc("ls")["workspaces"] == []


def test_a_home_without_space_says_so_and_nothing_is_made(berth: Berth, repo: Path, small_disk: Path) -> None:
    berth.home = small_disk / "home"
    berth.ok("ls")
    fill(small_disk / "filler")
    outcome = berth("new", "a", "--json")
    assert outcome.code == 1, outcome
    assert outcome.error["code"] == "io_error", outcome
    assert not berth.path("a").exists()
    assert git(repo, "branch", "--list", "berth/a") == ""
    (small_disk / "filler").unlink()
    berth.ok("new", "a")
    berth.ok("done", "a")


def test_a_workspace_without_space_still_goes_down_and_away(berth: Berth, repo: Path, small_disk: Path) -> None:
    (repo / "big.bin").unlink()
    git(repo, "commit", "-qam", "smaller")
    with (repo / "berth.yaml").open("a") as file:
        file.write(f"worktree_root: {small_disk}\n")
    berth.ok("new", "a", "--up")
    fill(small_disk / "a/.berth/data/filler")
    assert berth.doc("status", "a")["running"] is True
    assert berth.doc("down", "a")["was_running"] is True
    assert not command_lines(SLEEP)
    outcome = berth("up", "a", "--json")
    assert outcome.code == 1, outcome
    assert outcome.error["code"] in ("io_error", "supervisor_failed"), outcome
    assert berth.doc("done", "a")["checkout_removed"] is True
    assert list(small_disk.iterdir()) == []


def test_a_home_that_cannot_be_written_is_named(berth: Berth, tmp_path: Path) -> None:
    berth.ok("ls")
    if os.geteuid() == 0:
        subprocess.run(["mount", "--bind", berth.home, berth.home], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", berth.home], check=True)
    else:
        berth.home.chmod(0o500)
    try:
        error = berth.fails("io_error", "new", "a")
        assert str(berth.home) in error["message"]
        assert berth.doc("ls")["workspaces"] == []
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", berth.home], check=True)
        else:
            berth.home.chmod(0o700)


def test_a_recycled_pid_is_never_signalled(berth: Berth) -> None:
    berth.ok("new", "a", "--up")
    pid = supervisor_pid(berth)
    (control,) = (berth.home / "run").iterdir()
    os.kill(pid, signal.SIGKILL)
    await_true(lambda: not alive(pid))
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as stranger:
        words = (control / "pc.pid").read_text().split()
        (control / "pc.pid").write_text(" ".join([str(stranger.pid), *words[1:]]) + "\n")
        berth.ok("down", "a")
        berth.ok("gc")
        assert stranger.poll() is None
        berth.ok("done", "a")
        assert stranger.poll() is None
        stranger.kill()
    assert not command_lines(SLEEP)


def test_another_boot_makes_every_recorded_process_gone(berth: Berth) -> None:
    berth.ok("new", "a", "--up")
    pid = supervisor_pid(berth)
    (control,) = (berth.home / "run").iterdir()
    os.kill(pid, signal.SIGKILL)
    words = (control / "pc.pid").read_text().split()
    with subprocess.Popen(["sleep", "300"]) as stranger:
        start = Path(f"/proc/{stranger.pid}/stat").read_text().rpartition(")")[2].split()[19]
        words[0:3] = [str(stranger.pid), start, "00000000-0000-0000-0000-000000000000"]
        (control / "pc.pid").write_text(" ".join(words) + "\n")
        assert berth.doc("status", "a")["error"].startswith("supervisor lost")
        berth.ok("up", "a")
        assert stranger.poll() is None
        stranger.kill()
    assert len(command_lines(SLEEP)) == 1


def test_a_killed_supervisor_leaves_survivors_that_are_shown_and_ended(berth: Berth) -> None:
    row = berth.doc("new", "a", "--up")
    service = row["processes"][0]["pid"]
    os.kill(supervisor_pid(berth), signal.SIGKILL)
    await_true(lambda: berth.doc("status", "a")["running"] is False)
    shown = berth.doc("status", "a")
    assert shown["error"].startswith("supervisor lost")
    assert [(one["name"], one["status"], one["pid"]) for one in shown["processes"]] == [("web", "Survivor", service)]
    assert berth.doc("ls")["workspaces"][0]["running"] is False
    assert "lost" in berth.ok("ls").out
    berth.ok("up", "a")
    assert not alive(service)
    assert len(command_lines(SLEEP)) == 1
    os.kill(supervisor_pid(berth), signal.SIGKILL)
    ended = berth.doc("down", "a")
    assert [(one["name"], one["signal"]) for one in ended["terminated"]] == [("web", "TERM")]
    assert not command_lines(SLEEP)


def test_a_stopped_supervisor_is_unknown_to_look_at_and_down_ends_it(berth: Berth) -> None:
    berth.ok("new", "a", "--up")
    pid = supervisor_pid(berth)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert berth.doc("status", "a")["running"] is None
        began = time.monotonic()
        berth.ok("down", "a")
        assert time.monotonic() - began < 2 * 2 + 5 + 4, "2 T + 5 s, and what two looks at a silent socket take"
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGCONT)
    assert not command_lines(SLEEP)
    assert not alive(pid)


def test_a_live_foreign_listener_at_the_socket_is_never_replaced(berth: Berth) -> None:
    berth.ok("new", "a", "--up")
    berth.ok("down", "a")
    (control,) = (berth.home / "run").iterdir()
    with socket.socket(socket.AF_UNIX) as stranger:
        here = os.getcwd()
        os.chdir(control)
        try:
            stranger.bind("pc.sock")
        finally:
            os.chdir(here)
        stranger.listen()
        for words in (["up", "a"], ["down", "a"], ["reset", "a"], ["done", "a", "--force"]):
            assert "process state unknown" in berth.fails("state_unknown", *words)["message"]
        assert (control / "pc.sock").is_socket()
        assert berth.path("a").is_dir()
    (control / "pc.sock").unlink()
    berth.ok("up", "a")


def test_a_clock_that_was_set_back_changes_nothing(berth: Berth, repo: Path) -> None:
    (repo / "berth.yaml").write_text(CONFIG + "gc: {idle_stop_hours: 1}\n")
    git(repo, "commit", "-qam", "gc")
    berth.ok("new", "a", "--up")
    import sqlite3

    with sqlite3.connect(berth.home / "registry.db") as db:  # used in what is now the future
        db.execute("UPDATE workspaces SET last_used_at = '2999-01-01T00:00:00.000Z'")
    db.close()
    assert berth.doc("gc")["actions"] == []
    assert berth.doc("status", "a")["running"] is True
    berth.ok("restart", "web", "a")
    berth.ok("down", "a")


def test_a_second_interrupt_never_makes_it_worse(berth: Berth, repo: Path) -> None:
    slow = CONFIG.replace(f"exec {SLEEP}", f"'trap \"sleep 1; exit 0\" TERM; {SLEEP} & wait'")
    slow += "hooks: {setup: ['sleep 1']}\n"
    (repo / "berth.yaml").write_text(slow)
    git(repo, "commit", "-qam", "slow")
    process = berth.popen("new", "a", "--up")
    await_true(lambda: berth.path("a").is_dir())
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    berth.ok("new", "a", "--up")
    down = berth.popen("down", "a")
    time.sleep(0.3)
    for _ in range(3):
        down.send_signal(signal.SIGINT)
    down.communicate(timeout=30)
    berth.ok("down", "a")
    assert not command_lines(SLEEP)
