"""The stop ladder and the way down (supervisor.md 6) with real stubborn processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from berth.guest.core import procfs, wire
from support.supervisor import Supervisor, alive, until

Start = Callable[..., Supervisor]
QUICK = {"timeout_seconds": 1}
PYTHON = f"{sys.executable} -I -S -c"

IGNORES = "trap '' TERM; echo $$ > pid; while :; do sleep 0.2; done"
# A child in a session of its own, its environment cleared, its parent gone: only its tag says whose it is.
ESCAPES = "setsid env -i sh -c 'echo $$ > escaped; exec sleep 777' & until test -s escaped; do sleep 0.01; done;"
DOUBLE_FORK = (
    f'{PYTHON} "import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n'
    "open('escaped','w').write(str(os.getpid()))\ntime.sleep(777)\";"
    " until test -s escaped; do sleep 0.01; done;"
)


def read_pid(path: Path) -> int:
    until(lambda: path.exists() and path.read_text().strip())
    return int(path.read_text())


def stopped(one: Supervisor, name: str = "a") -> float:
    """Stop one process through the socket; the seconds that took."""
    begun = time.monotonic()
    assert one.ask("PATCH", f"/process/stop/{name}", timeout=30)[0] == 200
    return time.monotonic() - begun


def test_a_process_that_ignores_term_is_killed_at_its_limit(supervise: Start) -> None:
    one = supervise({"a": {"command": IGNORES, "shutdown": QUICK}})
    pid = read_pid(one.root / "pid")
    assert 1.0 <= stopped(one) < 1.5
    assert not alive(pid)
    assert one.state("a")["exit_code"] == 137


@pytest.mark.parametrize("escape", [ESCAPES, DOUBLE_FORK], ids=["setsid with an empty environment", "double fork"])
@pytest.mark.parametrize("by", ["stop", "down"])
def test_a_descendant_in_its_own_session_is_gone_too(supervise: Start, escape: str, by: str) -> None:
    one = supervise(
        {"a": {"command": f"{escape} exec sleep 1000", "shutdown": QUICK}, "b": {"command": "exec sleep 99"}}
    )
    pid = read_pid(one.root / "escaped")
    until(lambda: one.state("a")["status"] == "Running")
    took = stopped(one) if by == "stop" else one.down()
    assert took < 1.5
    assert not alive(pid)
    if by == "stop":
        one.reaches("b", "Running")


def test_a_descendant_that_outlives_its_leader_is_asked_before_it_is_killed(supervise: Start) -> None:
    child = "trap 'echo asked > asked; exit 0' TERM; echo $$ > escaped; while :; do sleep 0.05; done"
    one = supervise(
        {"a": {"command": f'setsid sh -c "{child.replace("$$", chr(92) + "$" + chr(92) + "$")}" & exec sleep 1000'}}
    )
    pid = read_pid(one.root / "escaped")
    assert stopped(one) < 2
    assert not alive(pid)
    assert (one.root / "asked").read_text() == "asked\n"


def test_a_stopped_process_ends_without_being_killed(supervise: Start) -> None:
    one = supervise({"a": {"command": "echo $$ > pid; exec sleep 1000", "shutdown": {"timeout_seconds": 10}}})
    pid = read_pid(one.root / "pid")
    os.kill(pid, signal.SIGSTOP)
    until(lambda: (entry := procfs.read(pid)) is not None and entry.state == "T")
    assert stopped(one) < 2
    assert one.state("a")["exit_code"] == 143


def test_the_declared_signal_is_sent(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": "trap 'echo got usr1; exit 0' USR1; echo up; while :; do sleep 0.05; done",
                "shutdown": {"signal": 10},
            }
        }
    )
    one.prints("a", "up")
    assert stopped(one) < 2
    assert "got usr1" in one.prints("a", "got usr1")


def test_parent_only_signals_the_leader_alone(supervise: Start) -> None:
    child = "trap 'echo child asked; exit 0' TERM; echo child up; while :; do sleep 0.05; done"
    parent = "trap 'sleep 0.3; echo parent done; exit 0' TERM"
    one = supervise(
        {
            "a": {
                "command": f"({child}) & {parent}; while :; do sleep 0.05; done",
                "shutdown": {"parent_only": True, "timeout_seconds": 5},
            }
        }
    )
    one.prints("a", "child up")
    assert stopped(one) < 3
    text = one.prints("a", "child asked")
    assert text.index("parent done") < text.index("child asked")


def test_a_shutdown_command_is_the_request_and_sees_the_process_s_environment(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": "echo $$ > pid; trap 'echo signalled; exit 0' TERM; until test -e bye; do sleep 0.05; done",
                "environment": ["WORD=bye"],
                "shutdown": {"command": 'touch "$WORD"; echo "$BERTH_PROCESS" > who', "timeout_seconds": 5},
            }
        }
    )
    read_pid(one.root / "pid")
    assert stopped(one) < 2
    assert (one.root / "who").read_text() == "a\n"
    assert "signalled" not in one.output("a")
    assert one.state("a")["exit_code"] == 0


def test_a_shutdown_command_that_hangs_does_not_hold_the_ladder_up(supervise: Start) -> None:
    one = supervise({"a": {"command": "exec sleep 1000", "shutdown": {"command": "sleep 888", "timeout_seconds": 1}}})
    pid = one.reaches("a", "Running")["pid"]
    assert 1.0 <= stopped(one) < 1.6
    assert not alive(int(str(pid)))
    until(lambda: len(one.tagged()) == 1)


def test_a_fork_bomb_of_500_is_gone_within_the_limit(supervise: Start) -> None:
    bomb = (
        f'{PYTHON} "import os,signal,time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n'
        "for i in range(500):\n    if not os.fork():\n        i % 2 and os.setsid()\n        time.sleep(999)\n"
        "print('bombed', flush=True)\ntime.sleep(999)\""
    )
    one = supervise({"a": {"command": bomb, "shutdown": QUICK}, "b": {"command": "exec sleep 1000"}})
    one.prints("a", "bombed", 30)
    assert len(one.tagged()) > 500
    assert stopped(one) < 4
    until(lambda: len(one.tagged()) == 3)  # the supervisor, b and its keeper
    one.reaches("b", "Running")


def test_a_process_that_keeps_forking_is_caught(supervise: Start) -> None:
    slow = (
        f'{PYTHON} "import os,signal,time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(1, flush=True)\n'
        'while 1:\n    pid = os.fork()\n    if pid:\n        time.sleep(0.02)\n        os._exit(0)"'
    )
    one = supervise({"a": {"command": slow, "shutdown": QUICK}})
    one.prints("a", "1")
    assert one.down() < 3.5
    assert one.tagged() == []


def test_a_traced_process_is_killed(supervise: Start) -> None:
    if not any(os.access(os.path.join(path, "strace"), os.X_OK) for path in os.environ["PATH"].split(":")):
        pytest.skip("needs strace")
    one = supervise({"a": {"command": "echo $$ > pid; exec sleep 1000", "shutdown": QUICK}})
    pid = read_pid(one.root / "pid")
    tracer = subprocess.Popen(["strace", "-f", "-o", "/dev/null", "-p", str(pid)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: "TracerPid:\t0" not in Path(f"/proc/{pid}/status").read_text())
        assert stopped(one) < 2.5
        assert not alive(pid)
    finally:
        tracer.kill()
        tracer.wait()


def test_an_orphan_is_stopped_with_its_own_process_only(supervise: Start) -> None:
    one = supervise(
        {
            "a": {"command": "setsid env -i sh -c 'echo $$ > a.pid; exec sleep 777' & sleep 0.2; exit 0"},
            "b": {"command": "setsid env -i sh -c 'echo $$ > b.pid; exec sleep 777' & sleep 0.2; exit 0"},
        }
    )
    first, second = read_pid(one.root / "a.pid"), read_pid(one.root / "b.pid")
    one.reaches("a", "Completed")
    one.reaches("b", "Completed")
    assert stopped(one, "a") < 2
    assert not alive(first)
    assert alive(second)
    assert one.down() < 2
    assert not alive(second)


def test_dependents_end_before_what_they_depend_on(supervise: Start) -> None:
    slow = "trap 'sleep 0.4; date +%s.%N > {0}.end; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    one = supervise(
        {
            "db": {"command": "trap 'date +%s.%N > db.asked; exit 0' TERM; echo up; while :; do sleep 0.05; done"},
            "web": {"command": slow.format("web"), "depends_on": {"db": {"condition": "process_started"}}},
        }
    )
    one.prints("web", "up")
    one.prints("db", "up")
    assert one.down() < 3
    assert float((one.root / "db.asked").read_text()) > float((one.root / "web.end").read_text())


def test_a_dependency_is_asked_at_half_of_the_limit_at_the_latest(supervise: Start) -> None:
    one = supervise(
        {
            "db": {
                "command": "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done",
                "shutdown": {"timeout_seconds": 2},
            },
            "web": {
                "command": IGNORES,
                "shutdown": {"timeout_seconds": 2},
                "depends_on": {"db": {"condition": "process_started"}},
            },
        }
    )
    one.prints("db", "up")
    read_pid(one.root / "pid")
    begun = time.monotonic()
    os.kill(one.pid, signal.SIGTERM)
    one.prints("db", "asked")
    assert 0.9 < time.monotonic() - begun < 1.5
    assert one.child is not None
    assert one.child.wait(5) == 0
    assert 2.0 <= time.monotonic() - begun < 3.0
    assert one.tagged() == []


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_supervisor_brings_everything_down(supervise: Start, signum: int) -> None:
    one = supervise({"a": {"command": "exec sleep 1000"}})
    one.reaches("a", "Running")
    os.kill(one.pid, signum)
    assert one.child is not None
    assert one.child.wait(5) == 0
    assert one.tagged() == []
    assert not (one.run / "pc.sock").exists()


def test_a_process_of_another_workspace_below_this_one_is_left_alone(supervise: Start) -> None:
    other = wire.tag("another workspace", 0)
    started = (
        f'{PYTHON} "import os,resource,time\nif os.fork(): os._exit(0)\nos.setsid()\n'
        f"resource.setrlimit(10, ({other}, resource.getrlimit(10)[1]))\nopen('other','w').write(str(os.getpid()))\n"
        'os.dup2(os.open(os.devnull, 2), 1); os.dup2(1, 2)\ntime.sleep(777)"; until test -s other; do sleep 0.01; done'
    )
    one = supervise({"a": {"command": f"{started}; exec sleep 1000", "shutdown": QUICK}})
    pid = read_pid(one.root / "other")
    try:
        one.reaches("a", "Running")
        assert one.down() < 2
        assert alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_requests_for_other_processes_are_answered_while_a_stubborn_one_is_stopped(supervise: Start) -> None:
    one = supervise({"a": {"command": IGNORES, "shutdown": {"timeout_seconds": 2}}, "b": {"command": "exec sleep 99"}})
    read_pid(one.root / "pid")
    took: list[float] = []
    thread = threading.Thread(target=lambda: took.append(stopped(one)))
    thread.start()
    one.reaches("a", "Terminating")
    begun = time.monotonic()
    one.reaches("b", "Running")
    assert one.ask("POST", "/process/restart/b")[0] == 200
    assert one.wait("b").word == "settled"
    assert time.monotonic() - begun < 0.5
    thread.join()
    assert 2.0 <= took[0] < 2.6
