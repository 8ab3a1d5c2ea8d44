"""Which processes belong to a workspace, and ending them (workspaces.md 8.6; field reports C58, C62, C63, C70)."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.guest.core import wire
from berth.tools import processes, procfs, termination
from support.processes import eventually

MINE = "11" * 16
OTHER = "22" * 16
Start = Callable[..., subprocess.Popen[bytes]]

has_tags = resource.getrlimit(10)[1] == resource.RLIM_INFINITY
needs_tags = pytest.mark.skipif(not has_tags, reason="the hard limit of locks leaves no room for a tag")


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a program, marked and tagged as asked; all are killed at the end."""
    children: list[subprocess.Popen[bytes]] = []

    def begin(
        *argv: str, marker: str | None = None, tag: tuple[str, int] | None = None, name: str | None = None
    ) -> subprocess.Popen[bytes]:
        env = {"PATH": os.environ["PATH"]}
        if marker is not None:
            env["BERTH_SUPERVISED"] = marker
        if name is not None:
            env["BERTH_PROCESS"] = name
        value = None if tag is None else wire.tag(*tag)

        def limit() -> None:
            if value is not None:
                resource.setrlimit(10, (value, resource.RLIM_INFINITY))

        child = subprocess.Popen(
            argv, env=env, preexec_fn=limit, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True
        )
        children.append(child)
        return child

    yield begin
    for child in children:
        child.kill()
        child.wait(10)
        assert child.stdout is not None
        child.stdout.close()
    for workspace in (MINE, OTHER):
        for process in processes.marked(workspace):
            os.kill(process.pid, signal.SIGKILL)


def ready(child: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Await the first line of ``child``."""
    assert child.stdout is not None
    assert child.stdout.readline()
    return child


def pids(workspace: str = MINE) -> set[int]:
    return {process.pid for process in processes.marked(workspace)}


def is_gone(pid: int) -> bool:
    return procfs.start_time(pid) is None


IGNORES_TERM = ("sh", "-c", 'trap "" TERM; echo ready; while :; do sleep 0.05; done')
SLEEP = ("sleep", "300")


def test_a_marker_makes_a_process_the_workspaces_and_its_name_is_known(start: Start) -> None:
    child = start(*SLEEP, marker=MINE, name="web")
    eventually(lambda: pids() == {child.pid})
    (found,) = processes.marked(MINE)
    assert (found.name, found.number, found.command, found.is_keeper) == ("web", None, "sleep 300", False)
    assert found.start == procfs.start_time(child.pid)


@needs_tags
def test_a_tag_alone_is_enough_and_its_number_gives_the_name(start: Start) -> None:
    child = start("env", "-i", *SLEEP, tag=(MINE, 2))
    eventually(lambda: pids() == {child.pid})
    (found,) = processes.marked(MINE)
    assert (found.name, found.number) == (None, 2)
    assert found.name_among(["web", "db", "cache"]) == "db"
    assert found.name_among(["web"]) is None


@needs_tags
def test_what_carries_another_workspaces_tag_or_marker_belongs_to_neither(start: Start) -> None:
    start(*SLEEP, marker=MINE, tag=(OTHER, 1))
    start(*SLEEP, marker=OTHER, tag=(MINE, 1))
    control = start(*SLEEP, marker=MINE, tag=(MINE, 1))
    eventually(lambda: pids() == {control.pid})
    assert pids(OTHER) == set()


def test_a_limit_that_somebody_meant_as_a_limit_is_no_tag(start: Start) -> None:
    child = start(
        "sh", "-c", "ulimit -S -x 1024 2>/dev/null || prlimit --locks=1024: -p $$; exec sleep 300", marker=MINE
    )
    eventually(lambda: processes.marked(MINE) and processes.marked(MINE)[0].command == "sleep 300")
    (found,) = processes.marked(MINE)
    assert (found.pid, found.number) == (child.pid, None)


def test_many_workspaces_are_told_apart_in_one_scan(start: Start) -> None:
    """Two workspaces with the same command line (C58)."""
    one = start(*SLEEP, marker=MINE, name="web")
    two = start(*SLEEP, marker=OTHER, name="web")
    stranger = start(*SLEEP)
    eventually(lambda: pids() and pids(OTHER))
    found = processes.scan((MINE, OTHER, "33" * 16))
    assert {key: [process.pid for process in value] for key, value in found.items()} == {
        MINE: [one.pid],
        OTHER: [two.pid],
        "33" * 16: [],
    }
    assert not processes.belongs(stranger.pid, MINE)
    assert processes.belongs(one.pid, MINE)
    assert not processes.belongs(two.pid, MINE)


def test_zombies_berth_itself_and_its_ancestors_are_never_found() -> None:
    script = f"""
import os, subprocess, sys
sys.path.insert(0, {str(Path(processes.__file__).parents[2])!r})
from berth.tools import processes
zombie = os.fork()
if zombie == 0:
    os._exit(0)
os.waitid(os.P_PID, zombie, os.WEXITED | os.WNOWAIT)
child = subprocess.Popen(["sleep", "300"])
print([p.pid for p in processes.marked({MINE!r})] == [child.pid])
child.kill(); child.wait()
"""
    env = {**os.environ, "BERTH_SUPERVISED": MINE}
    shell = ["sh", "-c", f'"{sys.executable}" -c "$0"; true', script]
    done = subprocess.run(shell, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "True\n", done.stderr


@needs_tags
def test_keepers_are_told_apart(start: Start) -> None:
    keeper = start(*SLEEP, tag=(MINE, wire.KEEPER_NUMBER))
    eventually(lambda: pids() == {keeper.pid})
    assert [process.is_keeper for process in processes.marked(MINE)] == [True]


def test_term_ends_the_willing_and_kill_the_stubborn_after_its_own_timeout(start: Start) -> None:
    willing = start(*SLEEP, marker=MINE, name="a")
    stubborn = ready(start(*IGNORES_TERM, marker=MINE, name="b"))
    eventually(lambda: {willing.pid, stubborn.pid} <= pids())
    begin = time.monotonic()
    result = termination.end_marked(MINE, timeouts={"a": 30, "b": 0.6})
    took = time.monotonic() - begin
    assert 0.6 <= took < 3
    signals = {one.pid: (one.name, one.signal) for one in result}
    assert signals[willing.pid] == ("a", "TERM")
    assert signals[stubborn.pid] == ("b", "KILL")
    assert pids() == set()


def test_at_once_means_kill_without_a_term(start: Start) -> None:
    child = start(*SLEEP, marker=MINE)
    eventually(lambda: pids() == {child.pid})
    (ended,) = termination.end_marked(MINE, at_once=True)
    assert (ended.pid, ended.signal, ended.command, ended.name) == (child.pid, "KILL", "sleep 300", None)
    assert child.wait(5) == -signal.SIGKILL


def test_every_disguise_is_found_and_the_neighbours_live(start: Start, tmp_path: Path) -> None:
    """setsid, a double fork, a group member that ignores TERM, a stopped one; never strangers (C58, C62, C63)."""
    script = """
    setsid sleep 701 & (setsid sh -c 'sleep 702 & exit 0' &) ; sh -c 'trap "" TERM; sleep 703' &
    sleep 704 & kill -STOP $!
    echo ready; trap 'exit 0' TERM; wait; sleep 300
    """
    leader = ready(start("sh", "-c", script, marker=MINE))
    neighbour = start("sleep", "701", marker=OTHER)
    stranger = start("sleep", "702")
    eventually(lambda: len(pids()) >= 6)
    victims = pids()
    ended = termination.end_marked(MINE, default_timeout=0.5)
    assert {one.pid for one in ended} >= victims
    leader.wait(5)
    assert all(is_gone(pid) for pid in victims)
    assert neighbour.poll() is None
    assert stranger.poll() is None


@needs_tags
def test_a_cleared_environment_does_not_hide_an_orphan(start: Start) -> None:
    leader = start("sh", "-c", "setsid env -i sleep 705 & exit 0", marker=MINE, tag=(MINE, 1))
    leader.wait(5)
    eventually(lambda: [one.command for one in processes.marked(MINE)] == ["sleep 705"])
    (ended,) = termination.end_marked(MINE, timeouts={"web": 5.0})
    assert (ended.name, ended.signal) == ("web", "TERM")


def test_what_is_forked_while_others_are_being_ended_is_ended_too(start: Start) -> None:
    forker = "trap 'setsid sleep 706 & setsid sleep 707 & exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    ready(start("sh", "-c", forker, marker=MINE))
    termination.end_marked(MINE, default_timeout=3)
    assert pids() == set()
    eventually(lambda: not _alive_commands({"sleep 706", "sleep 707"}))


def _alive_commands(commands: set[str]) -> set[str]:
    return {text for pid in procfs.pids() if (text := procfs.command(pid)) in commands}


def test_a_bomb_of_processes_that_fork_anew_when_told_to_end_is_ended(start: Start) -> None:
    bomb = """
import os, signal, sys, time
def again(*_):
    if os.fork() == 0:
        os.setsid()
    else:
        os._exit(0)
signal.signal(signal.SIGTERM, again)
for _ in range(30):
    if os.fork() == 0:
        break
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""
    ready(start(sys.executable, "-c", bomb, marker=MINE))
    eventually(lambda: len(pids()) >= 31)
    begin = time.monotonic()
    termination.end_marked(MINE, default_timeout=1)
    assert time.monotonic() - begin < 5
    assert pids() == set()


@needs_tags
def test_keepers_get_no_term_and_a_second_after_the_rest(start: Start) -> None:
    """A keeper that still writes may finish; one that hangs is killed, and neither is in the result."""
    finishes = ready(
        start("sh", "-c", "trap 'echo term > told' TERM; echo r; sleep 0.5", tag=(MINE, wire.KEEPER_NUMBER))
    )
    hangs = start(*SLEEP, tag=(MINE, wire.KEEPER_NUMBER))
    service = start(*SLEEP, tag=(MINE, 1), marker=MINE)
    eventually(lambda: {finishes.pid, hangs.pid, service.pid} <= pids())
    begin = time.monotonic()
    ended = termination.end_marked(MINE)
    assert [one.pid for one in ended] == [service.pid]
    assert time.monotonic() - begin >= 1.0
    assert finishes.wait(5) == 0
    assert hangs.wait(5) == -signal.SIGKILL


@needs_tags
def test_keepers_can_be_left_alone(start: Start) -> None:
    keeper = start(*SLEEP, tag=(MINE, wire.KEEPER_NUMBER))
    eventually(lambda: pids() == {keeper.pid})
    assert termination.end_marked(MINE, keepers=False) == []
    assert keeper.poll() is None


def test_only_what_the_caller_means_is_ended(start: Start) -> None:
    old = start(*SLEEP, marker=MINE)
    eventually(lambda: pids() == {old.pid})
    new = start(*SLEEP, marker=MINE)
    eventually(lambda: pids() == {old.pid, new.pid})
    ended = termination.end_marked(MINE, only=lambda process: process.pid != old.pid)
    assert [one.pid for one in ended] == [new.pid]
    assert old.poll() is None


def test_a_recycled_pid_is_never_signalled(start: Start) -> None:
    """A pid on record that is somebody else's now, by start time or by boot (C70)."""
    stranger = start(*SLEEP)
    began = procfs.start_time(stranger.pid)
    assert began is not None
    assert not termination.send_checked(stranger.pid, began - 1, signal.SIGKILL)
    assert not procfs.is_alive(procfs.Identity(stranger.pid, began, "another boot"))
    assert procfs.is_alive(procfs.Identity(stranger.pid, began, procfs.boot_id()))
    assert stranger.poll() is None
    assert termination.send_checked(stranger.pid, began, signal.SIGTERM)  # positive control
    assert termination.wait_gone(stranger.pid, began, 5)
    assert stranger.wait(5) == -signal.SIGTERM
    assert termination.wait_gone(stranger.pid, began, 0)


def test_a_process_that_stopped_belonging_between_sight_and_deed_is_left_alone(start: Start) -> None:
    child = start(*SLEEP, marker=MINE)
    eventually(lambda: pids() == {child.pid})
    (seen,) = processes.marked(MINE)
    assert processes.is_still(seen)
    earlier = processes.Marked(MINE, child.pid, ppid=seen.ppid, start=seen.start - 1, name=None, number=None)
    assert not processes.is_still(earlier)
    elsewhere = processes.Marked(OTHER, child.pid, ppid=seen.ppid, start=seen.start, name=None, number=None)
    assert not processes.is_still(elsewhere)


def test_what_survives_kill_is_named(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in an uninterruptible wait cannot be made at will; a KILL that has no time to work stands in."""
    monkeypatch.setattr(termination, "KILL_SECONDS", 0.0)
    child = start(*SLEEP, marker=MINE)
    eventually(lambda: pids() == {child.pid})
    with pytest.raises(BerthError) as caught:
        termination.end_marked(MINE, at_once=True)
    assert caught.value.code == "stop_failed"
    assert f"pid {child.pid} (sleep 300)" in caught.value.message
    assert str(child.pid) in (caught.value.hint or "")


def test_ending_nothing_is_quick_and_says_so() -> None:
    begin = time.monotonic()
    assert termination.end_marked("44" * 16) == []
    assert time.monotonic() - begin < 1


def test_processes_inside_a_directory_are_named_but_not_berths_own(start: Start, tmp_path: Path) -> None:
    place = tmp_path / "ws"
    (place / "sub").mkdir(parents=True)
    (tmp_path / "ws2").mkdir()
    inside = start("sh", "-c", f"cd {place}/sub; echo r; exec sleep 300")
    root = start("sh", "-c", f"cd {place}; echo r; exec sleep 301")
    beside = start("sh", "-c", f"cd {tmp_path}/ws2; echo r; exec sleep 302")
    for child in (inside, root, beside):
        ready(child)
    eventually(lambda: procfs.command(beside.pid) == "sleep 302")
    eventually(lambda: {one.command for one in processes.inside(str(place))} == {"sleep 300", "sleep 301"})
    assert [one.pid for one in processes.inside(str(place), besides=(root.pid,))] == [inside.pid]
    before = Path.cwd()
    os.chdir(place)
    try:
        assert os.getpid() not in {one.pid for one in processes.inside(str(place))}
    finally:
        os.chdir(before)


@pytest.mark.skipif(os.getuid() != 0, reason="needs two users")
def test_processes_of_another_user_are_no_matter_of_ours(start: Start, tmp_path: Path) -> None:
    own = start(*SLEEP, marker=MINE)
    command = "import os,sys; os.setgid(65534); os.setuid(65534); os.execv(sys.argv[1], ['sleep', '300'])"
    foreign = start(sys.executable, "-c", command, shutil.which("sleep") or "", marker=MINE)
    eventually(lambda: procfs.command(foreign.pid) == "sleep 300")
    assert pids() == {own.pid}


def test_a_command_line_is_one_printable_line(start: Start) -> None:
    child = start("sh", "-c", "echo r; read x < /dev/zero", "a\nb\x1b[31m" + "x" * 5000)
    ready(child)
    text = procfs.command(child.pid)
    assert text.isprintable()
    assert len(text) == 200
