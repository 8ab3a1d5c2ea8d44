"""Situations that other tools' users reported (field-reports.md), one test each, named after what happened there.

The docstring gives the report's number and the section of supervisor.md whose rule is the cure. Reports on supervision
that are not here concern berth's commands: C64, C65 in the terminal, C83, C84, C86.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from berth.guest.core import children, procfs
from berth.tools import logs, supervisor
from support.supervisor import Supervisor, alive, free_port, http_get, until

Start = Callable[..., Supervisor]
SLEEP = "exec sleep 1000"


def running(text: str) -> list[int]:
    """Live processes whose command line contains ``text``."""
    return [entry.pid for entry in procfs.alive(procfs.snapshot().values()) if text in procfs.command(entry.pid)]


def unique(number: int) -> str:
    """A number of seconds to sleep that no other process sleeps."""
    return f"{number}.{os.getpid()}"


@pytest.mark.parametrize("twice", [False, True], ids=["setsid", "double fork"])
def test_a_command_that_starts_a_server_and_exits_0_leaves_none_behind(supervise: Start, twice: bool) -> None:
    """C59, section 6: orphans are the supervisor's to find."""
    word = unique(7701)
    start = f"setsid sh -c 'sleep {word} & exit 0'" if twice else f"setsid sleep {word}"
    one = supervise({"a": {"command": f"{start} >/dev/null 2>&1 & echo http://127.0.0.1/; exit 0"}})
    one.reaches("a", "Completed")
    until(lambda: running(word))
    assert "what it left running" in one.history()
    one.down()
    assert not running(word)


def test_a_server_on_ipv6_only_is_seen_through_localhost(supervise: Start) -> None:
    """C60, section 5: localhost is tried on both families."""
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    port = free_port()
    serve = f"exec {sys.executable} -m http.server {port} --bind ::1"
    one = supervise({"a": {"command": serve, "readiness_probe": http_get(port, "localhost")}})
    assert one.wait(timeout=15).word == "settled"


def test_a_group_member_that_ignores_term_after_its_leader_s_exit_is_escalated(supervise: Start) -> None:
    """C62, section 6: the ladder waits for every descendant, not for the leader."""
    word = unique(7702)
    command = f"""trap "exit 0" TERM; sh -c "trap '' TERM; sleep {word}" & echo up; wait"""
    one = supervise({"a": {"command": command, "shutdown": {"timeout_seconds": 1}}})
    one.prints("a", "up")
    until(lambda: running(word))
    took = one.down()
    assert not running(word)
    assert 1.0 <= took < 3


@pytest.mark.parametrize("how", ["setsid", "script"])
def test_a_descendant_in_another_group_is_not_missed(supervise: Start, how: str) -> None:
    """C63, section 6: descendants below the leader, in whatever session."""
    if shutil.which(how) is None:
        pytest.skip(f"needs {how}")
    word = unique(7703)
    inner = f"setsid sleep {word}" if how == "setsid" else f"script -qc 'sleep {word}' /dev/null"
    one = supervise({"a": {"command": f"{inner} & echo up; wait", "shutdown": {"timeout_seconds": 1}}})
    until(lambda: running(f"sleep {word}"))
    one.ask("PATCH", "/process/stop/a")
    assert not running(f"sleep {word}")


def test_asking_five_times_to_stop_leaves_nothing_behind(supervise: Start) -> None:
    """C64, section 6: once begun, the way down is one."""
    word = unique(7704)
    one = supervise({"a": {"command": f"trap 'sleep 0.5; exit 0' TERM; sleep {word} & echo up; wait; wait"}})
    one.prints("a", "up")
    for _ in range(5):
        os.kill(one.pid, signal.SIGINT)
        time.sleep(0.05)
    assert one.child is not None
    assert one.child.wait(10) == 0
    assert not running(word)


def test_two_starts_at_once_make_one_supervisor(supervise: Start) -> None:
    """C68, section 1: pc.lock is held for life."""
    one = supervise({"a": {"command": SLEEP}}, begin=False)
    supervisor.make_token(str(one.run))
    arguments = [
        *(sys.executable, "-I", "-S", supervisor.guest_directory(), "supervise", "--config", str(one.config)),
        *("--socket", str(one.run / "pc.sock"), "--token-file", str(one.run / "pc.token"), "--log", str(one.log)),
    ]
    started = [
        subprocess.Popen(
            arguments, cwd=one.root, env=one.environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(6)
    ]
    until(lambda: sum(child.poll() is None for child in started) == 1)
    assert sorted(child.returncode for child in started if child.returncode is not None) == [3] * 5
    one.child = next(child for child in started if child.poll() is None)
    assert one.wait().word == "settled"
    one.down()


def test_a_living_foreign_listener_is_never_replaced(supervise: Start) -> None:
    """C69, section 1: stale sockets are, see test_starting."""
    one = supervise({"a": {"command": SLEEP}}, begin=False)
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(str(one.run / "pc.sock"))
        foreign.listen()
        with pytest.raises(AssertionError, match="somebody else listens"):
            one.start()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(one.run / "pc.sock"))
    (one.run / "pc.sock").unlink()
    (one.run / "pc.sock").write_text("a file")
    with pytest.raises(AssertionError, match="no socket"):
        one.start()
    assert (one.run / "pc.sock").read_text() == "a file"


def test_a_recycled_pid_is_never_signalled() -> None:
    """C70, section 6: signals go through a pidfd whose start time was checked."""
    stranger = subprocess.Popen(["sleep", "100"])
    try:
        found = procfs.read(stranger.pid)
        assert found is not None
        earlier = procfs.Entry(found.pid, "S", found.ppid, found.pgid, found.sid, 1, found.start - 1)
        assert children.signal_entry(earlier, signal.SIGKILL) is False
        assert stranger.poll() is None
        assert children.signal_entry(found, signal.SIGKILL) is True
        assert stranger.wait(5) == -signal.SIGKILL
    finally:
        stranger.kill()
        stranger.wait()


def test_a_readiness_failure_restarts_by_policy_and_then_gives_up_with_its_reason(supervise: Start) -> None:
    """C72, sections 3 and 5: the restart policy decides as after a failure."""
    one = supervise(
        {
            "a": {
                "command": "echo run; exec sleep 1000",
                "readiness_probe": {"exec": {"command": "false"}, "period_seconds": 0.2, "failure_threshold": 2},
                "availability": {"restart": "on_failure", "backoff_seconds": 1, "max_restarts": 2},
            },
            "b": {
                "command": "test -e second && touch fine; touch second; exec sleep 1000",
                "readiness_probe": {
                    "exec": {"command": "test -e fine"},
                    "period_seconds": 0.2,
                    "failure_threshold": 2,
                },
                "availability": {"restart": "on_failure", "backoff_seconds": 1, "max_restarts": 2},
            },
        }
    )
    state = one.reaches("a", "Completed", 20)
    assert (state["restarts"], state["reason"], state["verdict"]) == (2, "readiness", "failed")
    assert one.output("a") == "run\n" * 3
    assert one.wait("b", timeout=10).word == "settled"
    assert one.state("b")["restarts"] == 1


def test_restarting_a_process_that_waits_for_its_dependency_makes_one_copy(supervise: Start) -> None:
    """C73, section 3: a restart of a Pending process takes effect at once."""
    one = supervise(
        {
            "a": {
                "command": "sleep 1.5; touch ready; exec sleep 1000",
                "readiness_probe": {"exec": {"command": "test -e ready"}},
            },
            "b": {"command": "echo copy; exec sleep 1000", "depends_on": {"a": {"condition": "process_healthy"}}},
        }
    )
    for method, path in (
        *(("POST", "/process/restart/b"), ("PATCH", "/process/stop/b"), ("POST", "/process/start/b")),
        *(("POST", "/process/restart/b"), ("POST", "/process/restart/b")),
    ):
        begun = time.monotonic()
        assert one.ask(method, path)[0] == 200
        assert time.monotonic() - begun < 0.5
    assert one.state("b")["status"] == "Pending"
    assert one.wait("b").word == "settled"
    time.sleep(0.2)
    assert one.output("b") == "copy\n"
    assert len([entry for entry in one.tagged() if procfs.command(entry.pid) == "sleep 1000"]) == 2


def test_a_dependency_that_fails_in_milliseconds_stops_its_dependent_fifty_times(supervise: Start) -> None:
    """C75, section 3: a condition that can no longer hold skips the dependent, which has failed then."""
    processes: dict[str, object] = {}
    for number in range(50):
        processes[f"a{number}"] = {"command": "exit 1"}
        processes[f"b{number}"] = {
            "command": f"touch ran{number}",
            "depends_on": {f"a{number}": {"condition": "process_completed_successfully"}},
        }
    one = supervise(processes)
    assert one.wait(timeout=20).word == "failed"
    for number in range(50):
        one.reaches(f"b{number}", "Skipped")
    assert not list(one.root.glob("ran*"))


DOWN = {
    "a dependency is pending": {
        "a": {"command": SLEEP, "ready_log_line": "never"},
        "b": {"command": SLEEP, "depends_on": {"a": {"condition": "process_log_ready"}}},
    },
    "a probe hangs": {
        "a": {
            "command": SLEEP,
            "readiness_probe": {"exec": {"command": "touch hangs; sleep 600"}, "timeout_seconds": 600},
        }
    },
    "a back-off runs": {
        "a": {"command": "touch hangs; exit 1", "availability": {"restart": "always", "backoff_seconds": 600}}
    },
    "it ignores TERM": {
        "a": {"command": "trap '' TERM; touch hangs; sleep 600 & wait; wait", "shutdown": {"timeout_seconds": 1}}
    },
    "a daemon is being launched": {
        "a": {"command": "touch hangs; sleep 600", "is_daemon": True, "launch_timeout_seconds": 600}
    },
    "a shutdown command hangs": {
        "a": {"command": SLEEP, "shutdown": {"command": "sleep 600", "timeout_seconds": 1}},
    },
}


@pytest.mark.parametrize("processes", DOWN.values(), ids=DOWN)
def test_down_returns_within_its_limit_while(supervise: Start, processes: dict[str, object]) -> None:
    """C76, section 6: T is a limit for everything, whatever a process is in."""
    one = supervise(processes)
    if "hangs;" in str(processes) or 'hangs"' in str(processes):
        until(lambda: (one.root / "hangs").exists())
    until(lambda: one.state("a")["status"] != "Pending")
    assert one.down() < 3
    assert one.tagged() == []


def test_every_line_is_there_under_load_and_at_exit_also_when_followed(supervise: Start) -> None:
    """C77, section 7: a keeper reads until the last writer is gone."""
    one = supervise({"a": {"command": "sleep 0.2; seq 200000; printf '%1000000s\\n' x; (sleep 1; printf last) &"}})
    until(lambda: (one.root / ".berth/logs/a.log").exists())
    fd = logs.open_below(str(one.root), ".berth/logs/a.log")
    try:
        limit = time.monotonic() + 30
        ended = lambda: one.output("a").endswith("last") or time.monotonic() > limit  # noqa: E731
        followed = list(logs.follow(fd, offset=0, has_ended=ended))
    finally:
        os.close(fd)
    assert followed[:200000] == [str(number) for number in range(1, 200001)]
    assert [len(line) for line in followed[200000:]] == [1000000, 4]
    assert one.output("a").endswith("last")


def test_output_that_is_not_utf_8_blocks_nobody(supervise: Start) -> None:
    """C78, section 7: a keeper knows bytes only."""
    one = supervise({"a": {"command": "printf '\\377\\376'; head -c 20000000 /dev/urandom; touch done"}})
    until(lambda: (one.root / "done").exists(), 30)
    one.reaches("a", "Completed")
    until(lambda: (one.root / ".berth/logs/a.log").stat().st_size == 20000002)
    assert one.ask("GET", "/process/logs/a/0/5")[0] == 200


def test_no_zombie_is_left_by_200_orphans_also_as_pid_1(supervise: Start) -> None:
    """C80, section 1: the subreaper reaps everything."""
    forks = (
        f'{sys.executable} -I -S -c "import os\nfor i in range(200):\n    if not os.fork():\n'
        "        if not os.fork(): os._exit(0)\n        os._exit(0)\nprint('forked', flush=True)\n"
        'import time; time.sleep(1000)"'
    )
    one = supervise({"a": {"command": forks}})
    one.prints("a", "forked")

    def zombies(root: int) -> list[procfs.Entry]:
        return [entry for entry in procfs.below(root).values() if entry.state == "Z" and entry.ppid == root]

    until(lambda: not zombies(one.pid))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a pid namespace, that is root")
def test_as_pid_1_it_reaps_and_ends(supervise: Start) -> None:
    """C80, section 1."""
    forks = "for i in 1 2 3 4 5 6 7 8 9 10; do (setsid true &) ; done"
    forks = f"{forks}; until ! ps -eo stat= | grep Z; do sleep 0.1; done; echo end"
    one = supervise({"a": {"command": f"sleep 0.5; {forks}"}}, begin=False)
    supervisor.make_token(str(one.run))
    child = subprocess.Popen(
        [
            *("unshare", "-pf", "--kill-child", "--mount-proc"),
            *(sys.executable, "-I", "-S", supervisor.guest_directory(), "supervise", "--config", str(one.config)),
            *("--socket", str(one.run / "pc.sock"), "--token-file", str(one.run / "pc.token"), "--log", str(one.log)),
        ],
        cwd=one.root,
        env=one.environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    one.child = child
    assert child.stderr is not None
    until(lambda: (one.run / "pc.sock").exists() or child.poll() is not None)
    if child.poll() is not None:
        pytest.skip(f"no pid namespace here: {child.stderr.read().decode()}")
    one.reaches("a", "Completed")
    assert one.prints("a", "end").endswith("end\n")
    assert one.ask("POST", "/process/restart/a")[0] == 200
    one.reaches("a", "Running")
    supervisor.stop_project(one.control, timeout_seconds=10)
    assert child.wait(5) == 0
    child.stderr.close()


def test_a_grandchild_that_holds_the_pipe_does_not_extend_a_check(supervise: Start) -> None:
    """C82, section 5: the whole group is killed, and nobody waits for its pipes."""
    word = unique(7705)
    one = supervise(
        {
            "a": {
                "command": SLEEP,
                "readiness_probe": {"exec": {"command": f"sleep {word} & echo ok"}, "timeout_seconds": 2},
            }
        }
    )
    begun = time.monotonic()
    assert one.wait("a").word == "settled"
    assert time.monotonic() - begun < 1.5
    until(lambda: not running(word))


def test_names_that_broke_other_interfaces_work_or_are_refused_by_name(supervise: Start) -> None:
    """C85, section 8: names are percent-encoded; what cannot be a file's name is refused at load."""
    one = supervise({name: {"command": "echo hi; exec sleep 1000"} for name in ("a.b", "a b", "ü", "a:b", "50%", "-x")})
    for name in ("a.b", "a b", "ü", "a:b", "50%", "-x"):
        assert one.wait(name).word == "settled", name
        supervisor.restart_process(one.control, name, timeout_seconds=5)
        assert one.wait(name).word == "settled"
        until(lambda name=name: one.output(name) == "hi\n")
    bad = supervise({"a/b": {"command": SLEEP}}, begin=False)
    with pytest.raises(AssertionError, match="a/b"):
        bad.start()


def test_a_dollar_reaches_the_shell_as_it_is_written(supervise: Start) -> None:
    """C87, section 1: the guest expands nothing."""
    one = supervise({"a": {"command": """echo "$FOO" '$HOME' "$$" > out""", "environment": ["FOO=5", "BAR=${FOO}"]}})
    one.reaches("a", "Completed")
    words = (one.root / "out").read_text().split()
    assert words[:2] == ["5", "$HOME"]
    assert words[2].isdigit()


def test_a_killed_supervisor_s_processes_are_all_found_by_their_tag(supervise: Start, tmp_path: Path) -> None:
    """C01 and C70, section 1: the tag outlives environment, title and supervisor."""
    one = supervise({"a": {"command": "setsid env -i sh -c 'echo $$ > pid; exec sleep 777' & exec sleep 1000"}})
    until(lambda: (one.root / "pid").exists() and (one.root / "pid").read_text().strip())
    pid = int((one.root / "pid").read_text())
    os.kill(one.pid, signal.SIGKILL)
    assert one.child is not None
    one.child.wait()
    assert pid in [entry.pid for entry in one.tagged()]
    assert procfs.variable(pid, "BERTH_SUPERVISED") is None
    assert alive(pid)
