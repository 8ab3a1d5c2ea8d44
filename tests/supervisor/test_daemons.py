"""Daemons (supervisor.md 2, is_daemon): the command returns, and what it left is found, watched and stopped."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

from support.supervisor import Supervisor, alive, until

Start = Callable[..., Supervisor]
PYTHON = f"{sys.executable} -I -S -c"
# Double fork, own session, no environment, its output closed: as daemons do.
DAEMON = (
    f'env -i {PYTHON} "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n'
    "os.dup2(os.open(os.devnull, 2), 1); os.dup2(1, 2)\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(777)\""
)


def read_pid(one: Supervisor) -> int:
    until(lambda: (one.root / "pid").exists() and (one.root / "pid").read_text())
    return int((one.root / "pid").read_text())


def test_a_daemon_is_launched_watched_and_stopped(supervise: Start) -> None:
    one = supervise({"d": {"command": DAEMON, "is_daemon": True}})
    assert one.wait().word == "settled"
    pid = read_pid(one)
    state = one.state("d")
    assert (state["status"], state["pid"]) == ("Launched", pid)
    assert one.moves("d") == ["Launching", "Launched"]
    assert one.ask("PATCH", "/process/stop/d")[0] == 200
    assert not alive(pid)
    assert one.state("d")["status"] == "Completed"


def test_a_daemon_that_dies_is_seen_and_restarted_by_policy(supervise: Start) -> None:
    one = supervise(
        {"d": {"command": DAEMON, "is_daemon": True, "availability": {"restart": "always", "backoff_seconds": 1}}}
    )
    assert one.wait().word == "settled"
    pid = read_pid(one)
    os.kill(pid, signal.SIGKILL)
    until(lambda: one.state("d")["restarts"] == 1 and one.state("d")["status"] == "Launched")
    assert int(str(one.state("d")["pid"])) != pid
    assert one.down() < 2


def test_a_command_that_returns_without_a_daemon_has_failed(supervise: Start) -> None:
    one = supervise({"d": {"command": "exit 0", "is_daemon": True}, "e": {"command": "exit 4", "is_daemon": True}})
    assert one.wait("d").word == "failed"
    assert "no daemon" in str(one.state("d")["error"])
    assert one.reaches("e", "Completed")["exit_code"] == 4


def test_one_that_lives_elsewhere_is_known_by_its_shutdown_command(supervise: Start) -> None:
    """As with ``docker run -d`` and ``docker stop``."""
    one = supervise(
        {
            "d": {
                "command": "touch started",
                "is_daemon": True,
                "shutdown": {"command": "sleep 0.3; touch stopped", "timeout_seconds": 5},
                "readiness_probe": {"exec": {"command": "test -e started"}},
            }
        }
    )
    assert one.wait().word == "settled"
    assert one.state("d")["status"] == "Launched"
    begun = time.monotonic()
    assert one.ask("PATCH", "/process/stop/d")[0] == 200
    assert 0.3 <= time.monotonic() - begun < 2
    assert (one.root / "stopped").exists()


def test_a_command_that_does_not_return_in_time_is_stopped_and_has_failed(supervise: Start) -> None:
    one = supervise({"d": {"command": "exec sleep 778", "is_daemon": True, "launch_timeout_seconds": 0.4}})
    begun = time.monotonic()
    assert one.wait("d").word == "failed"
    assert 0.4 <= time.monotonic() - begun < 2
    assert "did not return within 0.4 s" in str(one.state("d")["error"])
    until(lambda: len(one.tagged()) == 1)
