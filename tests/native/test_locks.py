"""Workspace locks between real processes (workspaces.md 5.1, 5.3)."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.tools import locks, procfs
from support.processes import end, eventually, line, python

KEY = "ab" * 32

HOLDER = """
import sys
from berth.tools import locks
kind, directory, key, command = sys.argv[1:5]
held = getattr(locks, kind)(directory, key, command=command, say=lambda text: print("say", text))
print("held", held.lease)
sys.stdin.readline()
held.release()
print("released")
sys.stdin.readline()
"""


def test_the_key_is_the_same_for_every_spelling_and_before_and_after_the_directory_exists(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    before = locks.lock_key(str(tmp_path / "real" / "ws"))
    (tmp_path / "real" / "ws").mkdir()
    spellings = ("real/ws", "real/ws/", "link/ws", "real/../real/ws", "real/ws/.", "real/ws/x/..")
    assert {locks.lock_key(f"{tmp_path}/{text}") for text in spellings} == {before}
    assert re.fullmatch("[0-9a-f]{64}", before)
    assert locks.lock_key(str(tmp_path / "real" / "other")) != before


def test_lock_files_are_private_stay_after_release_and_are_never_written(tmp_path: Path) -> None:
    directory = tmp_path / "locks"
    with locks.exclusive(str(directory), KEY, command="berth up a"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        me = procfs.identity()
        assert me is not None
        content = (directory / f"{KEY}.op").read_text()
        assert content == f"{me.pid} {me.start} {me.boot_id} berth up a\n"
    for suffix in ("lock", "op"):
        path = directory / f"{KEY}.{suffix}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_bytes() == b""


def test_a_lifecycle_lock_is_no_use_and_a_run_is_one_at_its_begin_and_its_end(tmp_path: Path) -> None:
    with locks.exclusive(str(tmp_path), KEY, command="berth adopt"):
        pass
    assert locks.last_use(str(tmp_path), KEY) == 0.0
    begin = time.time()
    with locks.shared(str(tmp_path), KEY, command="run"):
        assert abs(locks.last_use(str(tmp_path), KEY) - begin) < 2
        os.utime(tmp_path / f"{KEY}.lock", (5, 5))
    assert locks.last_use(str(tmp_path), KEY) >= begin - 1
    assert locks.last_use(str(tmp_path), "cd" * 32) == 0.0


def test_runs_overlap_and_an_exclusive_lock_waits_for_both_and_names_them(tmp_path: Path) -> None:
    where = str(tmp_path)
    with (
        python(HOLDER, "shared", where, KEY, "run make") as one,
        python(HOLDER, "shared", where, KEY, "run sleep 9") as two,
    ):
        leases = [line(one), line(two)]
        assert all(text.startswith(f"held {KEY}:") for text in leases)
        with pytest.raises(BerthError) as caught:
            locks.exclusive(where, KEY, command="down", limit=0)
        assert caught.value.code == "busy"
        for child, command in ((one, "run make"), (two, "run sleep 9")):
            assert f"pid {child.pid} ({command})" in caught.value.message
            assert f"pid {child.pid}" in (caught.value.hint or "")


def test_a_waiting_exclusive_lock_blocks_no_new_run(tmp_path: Path) -> None:
    where = str(tmp_path)
    with python(HOLDER, "shared", where, KEY, "run a") as run:
        line(run)
        with python(HOLDER, "exclusive", where, KEY, "down a") as waiter:
            assert line(waiter) == f"say waiting for pid {run.pid} (run a)"
            with locks.shared(where, KEY, command="run b", limit=0) as mine:
                assert mine.lease is not None
            end(run)
            assert line(waiter) == "held None"


def test_a_lock_is_had_the_moment_it_is_free(tmp_path: Path) -> None:
    where = str(tmp_path)
    with python(HOLDER, "exclusive", where, KEY, "up a") as holder:
        line(holder)
        killed_at: list[float] = []

        def kill() -> None:
            time.sleep(0.3)
            killed_at.append(time.monotonic())
            holder.kill()

        thread = threading.Thread(target=kill)
        thread.start()
        with locks.exclusive(where, KEY, command="down a"):
            took = time.monotonic() - killed_at[0]
        thread.join()
        assert took < 0.5


def test_waiting_is_told_after_a_second_and_then_every_ten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from berth.tools import waiting

    monkeypatch.setattr(waiting, "NEXT_WORD_SECONDS", 0.5)
    said: list[tuple[float, str]] = []
    with python(HOLDER, "exclusive", str(tmp_path), KEY, "up a") as holder:
        line(holder)
        begin = time.monotonic()
        with pytest.raises(BerthError) as caught:
            locks.shared(
                str(tmp_path),
                KEY,
                command="run",
                say=lambda text: said.append((time.monotonic() - begin, text)),
                limit=1.8,
            )
        assert caught.value.code == "busy"
        assert time.monotonic() - begin >= 1.8
    assert [text for _, text in said] == [f"waiting for pid {holder.pid} (up a)"] * 2
    assert 1.0 <= said[0][0] < 1.4
    assert 1.5 <= said[1][0] < 1.8


def test_a_signal_ends_the_waiting_at_once(tmp_path: Path) -> None:
    script = """
import signal, sys
from berth.errors import Interrupted
from berth.tools import locks
def stop(number, frame):
    raise Interrupted(number)
signal.signal(signal.SIGTERM, stop)
print("begin")
try:
    locks.exclusive(sys.argv[1], sys.argv[2], command="x")
except Interrupted as caught:
    print("interrupted", caught.signum, signal.getsignal(signal.SIGALRM) is signal.SIG_DFL, signal.getitimer(0))
"""
    with python(HOLDER, "exclusive", str(tmp_path), KEY, "up a") as holder:
        line(holder)
        with python(script, str(tmp_path), KEY) as waiter:
            assert line(waiter) == "begin"
            eventually(lambda: _is_blocked(waiter.pid))
            begin = time.monotonic()
            waiter.send_signal(signal.SIGTERM)
            assert line(waiter) == "interrupted 15 True (0.0, 0.0)"
            assert time.monotonic() - begin < 0.5


def _is_blocked(pid: int) -> bool:
    """Whether ``pid`` waits for an flock, as /proc/locks tells."""
    return any("->" in row and f" {pid} " in row for row in Path("/proc/locks").read_text().splitlines())


def test_waiting_costs_next_to_no_processor_time(tmp_path: Path) -> None:
    with python(HOLDER, "exclusive", str(tmp_path), KEY, "up a") as holder:
        line(holder)
        begin = time.process_time()
        with pytest.raises(BerthError):
            locks.exclusive(str(tmp_path), KEY, command="x", limit=0.6)
        assert time.process_time() - begin < 0.1


def test_a_thread_can_wait_too(tmp_path: Path) -> None:
    taken: list[locks.Held] = []
    with python(HOLDER, "exclusive", str(tmp_path), KEY, "up a") as holder:
        line(holder)
        thread = threading.Thread(target=lambda: taken.append(locks.exclusive(str(tmp_path), KEY, command="x")))
        thread.start()
        eventually(lambda: thread.is_alive())
        assert holder.stdin is not None
        holder.stdin.write("\n")
        holder.stdin.flush()
        thread.join(10)
    assert len(taken) == 1
    taken[0].release()


def test_thirty_milliseconds_are_thirty_milliseconds(tmp_path: Path) -> None:
    with python(HOLDER, "shared", str(tmp_path), KEY, "run a") as holder:
        line(holder)
        begin = time.monotonic()
        with pytest.raises(BerthError):
            locks.exclusive(str(tmp_path), KEY, command="gc", limit=0.03)
        assert 0.03 <= time.monotonic() - begin < 0.3


def test_an_operation_excludes_other_operations_but_no_run(tmp_path: Path) -> None:
    where = str(tmp_path)
    with python(HOLDER, "operation", where, KEY, "up a") as nested:
        line(nested)
        with locks.shared(where, KEY, command="run", limit=0):
            pass
        for take in (locks.operation, locks.exclusive):
            with pytest.raises(BerthError) as caught:
                take(where, KEY, command="x", limit=0)
            assert f"pid {nested.pid} (up a)" in caught.value.message
    with locks.operation(where, KEY, command="x", limit=0):  # positive control: ended, so free
        pass


def test_a_killed_holder_leaves_content_that_names_nobody(tmp_path: Path) -> None:
    where = str(tmp_path)
    with (
        python(HOLDER, "exclusive", where, KEY, "up a") as holder,
        python(HOLDER, "shared", where, "cd" * 32, "r") as run,
    ):
        line(holder)
        line(run)
        assert [str(one) for one in locks.holders(where, KEY)] == [f"pid {holder.pid} (up a)"]
        assert [str(one) for one in locks.holders(where, "cd" * 32)] == [f"pid {run.pid} (r)"]
    assert (tmp_path / f"{KEY}.op").read_bytes() != b""
    assert len(list((tmp_path / f"{'cd' * 32}.runs").iterdir())) == 1
    assert locks.holders(where, KEY) == []
    assert locks.holders(where, "cd" * 32) == []
    assert list((tmp_path / f"{'cd' * 32}.runs").iterdir()) == []


def test_a_lease_is_valid_while_its_file_exists_and_its_process_lives(tmp_path: Path) -> None:
    where = str(tmp_path)
    with python(HOLDER, "shared", where, KEY, "run a") as run:
        lease = locks.parse_lease(line(run).removeprefix("held "))
        assert lease is not None
        assert lease.pid == run.pid
        assert locks.is_valid(where, lease)
        recycled = locks.Lease(KEY, lease.pid, lease.start + 1)
        (tmp_path / f"{KEY}.runs" / f"{recycled.pid}-{recycled.start}").write_text("run b\n")
        assert not locks.is_valid(where, recycled)
        assert run.stdin is not None
        run.stdin.write("\n")
        run.stdin.flush()
        assert line(run) == "released"
        assert not locks.is_valid(where, lease)
    with python(HOLDER, "shared", where, KEY, "run a") as run:
        killed = locks.parse_lease(line(run).removeprefix("held "))
        assert killed is not None
    assert not locks.is_valid(where, killed)
    assert locks.remove_dead_runs(where) == [
        str(tmp_path / f"{KEY}.runs" / f"{one.pid}-{one.start}")
        for one in sorted((recycled, killed), key=lambda one: f"{one.pid}-{one.start}")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        KEY,
        f"{KEY}:",
        f"{KEY}:12",
        f"{KEY}:1-",
        f"{KEY}:-1",
        f"{KEY[1:]}:1-2",
        "../" * 21 + "a:1-2",
        f"{KEY}:1-2-3",
        f"{KEY}:१-2",
    ],
)
def test_anything_else_is_no_lease(text: str) -> None:
    assert locks.parse_lease(text) is None
    assert str(locks.parse_lease(f"{KEY}:1-2")) == f"{KEY}:1-2"


def test_children_inherit_no_lock(tmp_path: Path) -> None:
    held = locks.exclusive(str(tmp_path), KEY, command="x")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    try:
        held.release()
        locks.exclusive(str(tmp_path), KEY, command="y", limit=0).release()
    finally:
        child.communicate(b"\n", timeout=10)


def test_a_forked_copy_releases_nothing(tmp_path: Path) -> None:
    with locks.shared(str(tmp_path), KEY, command="x") as held:
        pid = os.fork()
        if pid == 0:
            held.release()
            os._exit(0)
        os.waitpid(pid, 0)
        fd = os.open(tmp_path / f"{KEY}.lock", os.O_RDWR)
        try:
            with pytest.raises(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(fd)
        assert held.lease is not None
        assert locks.is_valid(str(tmp_path), held.lease)


def test_a_lock_file_that_is_a_symlink_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / f"{KEY}.lock").symlink_to("elsewhere")
    with pytest.raises(OSError):
        locks.exclusive(str(tmp_path), KEY, command="x")
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_commands_with_line_breaks_and_control_characters_stay_one_line(tmp_path: Path) -> None:
    with python(HOLDER, "shared", str(tmp_path), KEY, "run sh -c 'a\nb\x1b[31m'") as run:
        line(run)
        assert [one.command for one in locks.holders(str(tmp_path), KEY)] == ["run sh -c 'a b [31m'"]
