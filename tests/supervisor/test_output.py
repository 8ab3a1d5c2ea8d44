"""What a process prints is there: in order, whole, whoever dies (supervisor.md 7)."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import pytest

from berth.guest.core import libc, procfs, wire
from berth.tools import logs
from support.supervisor import Supervisor, alive, until

Start = Callable[..., Supervisor]
PYTHON = f"{sys.executable} -I -S -c"


def keepers(one: Supervisor) -> list[procfs.Entry]:
    return [entry for entry in one.tagged() if wire.split_tag(procfs.tag(entry.pid) or 0)[1] == wire.KEEPER_NUMBER]


def test_200_000_lines_printed_at_once_are_all_there_in_order(supervise: Start) -> None:
    one = supervise({"a": {"command": "seq 200000"}})
    one.reaches("a", "Completed", 20)
    text = one.prints("a", "200000\n", 20)
    assert text.split() == [str(number) for number in range(1, 200001)]


def test_a_line_of_a_megabyte_and_one_without_an_end_are_there(supervise: Start) -> None:
    one = supervise({"a": {"command": f"{PYTHON} \"print('x' * 1000000); print('end', end='')\""}})
    assert one.prints("a", "end") == "x" * 1000000 + "\nend"


def test_a_script_that_writes_to_dev_stderr_by_name_keeps_its_earlier_lines(supervise: Start) -> None:
    one = supervise({"a": {"command": "echo one; echo two > /dev/stderr; echo three > /dev/stdout"}})
    one.reaches("a", "Completed")
    assert one.prints("a", "three") == "one\ntwo\nthree\n"


def test_a_log_is_private_and_its_writer_a_keeper_of_no_workspace_s_directory(supervise: Start) -> None:
    one = supervise({"a": {"command": "exec sleep 1000"}})
    one.reaches("a", "Running")
    (keeper,) = keepers(one)
    assert os.readlink(f"/proc/{keeper.pid}/cwd") == "/"
    assert keeper.sid == keeper.pid
    assert procfs.variable(keeper.pid, wire.MARKER) is None
    assert (one.root / ".berth/logs/a.log").stat().st_mode & 0o777 == 0o600


def test_a_killed_supervisor_breaks_no_pipe_and_loses_no_line(supervise: Start) -> None:
    burst = (
        f'{PYTHON} "import time\nfor i in range(1, 200001):\n    print(i, flush=i % 100 == 0)\n'
        "    if i == 20000: open('on', 'w').close(); time.sleep(0.2)\nopen('whole', 'w').close()\""
    )
    one = supervise({"a": {"command": burst}})
    until(lambda: (one.root / "on").exists())
    os.kill(one.pid, signal.SIGKILL)
    until(lambda: (one.root / "whole").exists(), 20)
    until(lambda: len(one.tagged()) == 0)
    assert one.output("a").split() == [str(number) for number in range(1, 200001)]


def test_a_killed_keeper_gets_a_successor_and_the_writer_lives(supervise: Start) -> None:
    one = supervise({"a": {"command": "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"}})
    one.prints("a", "3\n")
    (keeper,) = keepers(one)
    os.kill(keeper.pid, signal.SIGKILL)
    until(lambda: keepers(one) and keepers(one)[0].pid != keeper.pid)
    seen = one.output("a").count("\n")
    until(lambda: one.output("a").count("\n") > seen + 5)
    assert one.state("a")["restarts"] == 0
    numbers = [int(line) for line in one.output("a").split()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_policy_restart_keeps_the_log_and_an_explicit_one_truncates_it(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": "echo run; test -e again && exec sleep 1000; touch again; exit 1",
                "availability": {"restart": "on_failure", "backoff_seconds": 1},
            }
        }
    )
    until(lambda: one.state("a")["restarts"] == 1 and one.state("a")["status"] == "Running")
    one.prints("a", "run\nrun\n")
    one.ask("POST", "/process/restart/a")
    one.reaches("a", "Running")
    until(lambda: one.output("a") == "run\n")


def test_no_old_line_follows_a_new_start(supervise: Start) -> None:
    """A writer that left the process's session but not its pipe: its keeper is killed after a second."""
    lingering = "setsid env -i sh -c 'while :; do echo old; sleep 0.1; done' & sleep 0.2; exit 0"
    one = supervise(
        {"a": {"command": f"if test -e second; then echo new; exec sleep 1000; fi; touch second; {lingering}"}}
    )
    one.reaches("a", "Completed")
    one.prints("a", "old")
    one.ask("POST", "/process/start/a")
    one.prints("a", "new")
    time.sleep(0.5)
    assert one.output("a") == "new\n"


def test_two_streams_are_one_in_order(supervise: Start) -> None:
    one = supervise({"a": {"command": "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done"}})
    one.reaches("a", "Completed")
    assert one.prints("a", "err 5").split("\n")[:4] == ["out 1", "err 1", "out 2", "err 2"]


def test_a_terminal_is_what_a_tty_process_gets(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": f'{PYTHON} "import os; print(os.isatty(1), os.isatty(2), *os.get_terminal_size(1))"; echo b',
                "is_tty": True,
            },
            "b": {"command": f'{PYTHON} "import os; print(os.isatty(1))"'},
        }
    )
    assert one.prints("a", "b\n") == "True True 80 24\nb\n"
    assert one.prints("b", "\n") == "False\n"
    until(lambda: not keepers(one))


def test_a_terminal_that_prints_much_never_blocks(supervise: Start) -> None:
    one = supervise({"a": {"command": "seq 100000", "is_tty": True}})
    one.reaches("a", "Completed", 20)
    assert one.prints("a", "100000\n").split() == [str(number) for number in range(1, 100001)]


def test_a_log_location_is_relative_to_the_workspace(supervise: Start) -> None:
    one = supervise({"a": {"command": "echo here; cd /; echo there", "log_location": "var/out/a.txt"}})
    one.reaches("a", "Completed")
    until(lambda: (one.root / "var/out/a.txt").read_text() == "here\nthere\n")


def test_a_log_that_cannot_be_written_is_an_error_of_its_process_alone(supervise: Start) -> None:
    one = supervise(
        {"a": {"command": "exec sleep 9", "log_location": "taken/a.log"}, "b": {"command": "exec sleep 1000"}},
        begin=False,
    )
    (one.root / "taken").write_text("a file")
    one.start()
    state = one.reaches("a", "Error")
    assert "taken/a.log" in str(state["error"])
    assert one.reaches("b", "Running")


def punches_holes(path: str) -> bool:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.write(fd, b"x" * (1 << 20))
        return libc.punch_hole(fd, 0, 1 << 19) and os.fstat(fd).st_blocks * 512 < 1 << 20
    finally:
        os.close(fd)
        os.unlink(path)


def test_a_log_gives_back_its_oldest_blocks_and_is_read_from_a_whole_line(supervise: Start) -> None:
    line = "n" * 90
    writer = (
        f"{PYTHON} \"import time\nfor i in range(1, 1500001):\n    print('%08d {line}' % i)\n"
        "    if i % 300000 == 0: time.sleep(1.2)\nprint('done', flush=True)\ntime.sleep(999)\""
    )
    one = supervise({"a": {"command": writer}})
    log = one.root / ".berth/logs/a.log"
    until(log.exists)
    if not punches_holes(str(one.root / "probe")):
        pytest.skip("this file system cannot punch holes")
    until(lambda: log.stat().st_size >= 1500000 * 100, 60)
    time.sleep(2.2)
    assert log.stat().st_blocks * 512 <= (64 << 20) + (1 << 20)
    fd = logs.open_below(str(one.root), ".berth/logs/a.log")
    try:
        lines = list(logs.lines(fd))
    finally:
        os.close(fd)
    assert lines[-1] == "done"
    assert sum(len(text) + 1 for text in lines) >= 32 << 20
    numbers = [int(text.split()[0]) for text in lines[:-1]]
    assert numbers == list(range(numbers[0], 1500001))


def test_output_that_is_closed_early_disturbs_nobody(supervise: Start) -> None:
    one = supervise({"a": {"command": "echo first; exec >&- 2>&-; sleep 0.3; exec sleep 1000"}})
    one.prints("a", "first")
    until(lambda: not keepers(one))
    one.reaches("a", "Running")
    assert one.down() < 2


def test_bytes_that_are_no_text_are_kept_and_reported_readable(supervise: Start) -> None:
    one = supervise({"a": {"command": "printf '\\377\\376ok\\n'; head -c 5000000 /dev/urandom; printf '\\nlast\\n'"}})
    one.reaches("a", "Completed", 20)
    until(lambda: (one.root / ".berth/logs/a.log").read_bytes().endswith(b"\nlast\n"))
    data = (one.root / ".berth/logs/a.log").read_bytes()
    assert data.startswith(b"\xff\xfeok\n")
    assert len(data) == 5 + 5000000 + 6
    status, document = one.ask("GET", "/process/logs/a/0/1")
    assert (status, document) == (200, {"logs": ["last"]})


def test_a_keeper_killed_with_its_supervisor_leaves_no_process_behind_after_down(supervise: Start) -> None:
    one = supervise({"a": {"command": "exec sleep 1000"}})
    one.reaches("a", "Running")
    (keeper,) = keepers(one)
    one.down()
    assert not alive(keeper.pid)
