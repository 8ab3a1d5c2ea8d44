"""The guest's small verbs, run as the real program on this machine: hook, kill, sweep, relay, version."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.guest.core import wire
from support.cli import alive, await_true

GUEST = Path(__file__).resolve().parents[2] / "src" / "berth" / "guest"
COMMAND = [sys.executable, "-I", "-S", str(GUEST)]


def guest(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *words], input=stdin, capture_output=True, timeout=30)


@pytest.fixture
def workspace() -> Iterator[str]:
    """An id that no other test has; whatever carries it is ended."""
    found = uuid.uuid4().hex
    yield found
    guest("sweep", "end", json.dumps({"workspace": found, "default": 0}))


def number(path: Path) -> int:
    await_true(lambda: path.exists() and path.read_text().strip())
    return int(path.read_text())


def test_version_is_the_interface() -> None:
    assert guest("version").stdout.decode().strip() == str(wire.INTERFACE_VERSION)


def test_a_hook_has_marker_and_group_no_input_and_its_own_code(workspace: str) -> None:
    script = 'echo "$BERTH_SUPERVISED"; ps -o pid=,pgid= -p $$; cat; exit 7'
    done = guest("hook", "n0", workspace, "sh", "-c", script, stdin=b"not for the hook")
    marker, group, *rest = done.stdout.decode().splitlines()
    assert marker == workspace
    assert len(set(group.split())) == 1
    assert rest == []
    assert done.returncode == 7
    assert guest("hook", "n0", workspace, "sh", "-c", "kill -9 $$").returncode == 137
    assert guest("hook", "n0", workspace, "/no/such/program").returncode == 127


def test_kill_ends_a_hook_with_everything_it_started_and_nothing_else(workspace: str, tmp_path: Path) -> None:
    script = (
        f"cd {tmp_path}; setsid sh -c 'echo $$ > far; exec sleep 300' & "
        "(env -i sh -c 'echo $$ > bare; exec sleep 300' &) ; echo $$ > near; trap '' TERM; sleep 300; sleep 300"
    )
    bystander = subprocess.Popen([*COMMAND, "hook", "other", workspace, "sleep", "300"])
    running = subprocess.Popen([*COMMAND, "hook", "nonce1", workspace, "sh", "-c", script])
    pids = [number(tmp_path / name) for name in ("far", "bare", "near")]
    assert all(map(alive, pids))
    assert guest("kill", "nonce1").returncode == 0
    assert running.wait(10) == 137
    await_true(lambda: not any(map(alive, pids)))
    assert bystander.poll() is None
    assert guest("kill", "other").returncode == 0
    bystander.wait(10)
    assert guest("kill", "never-there").returncode == 0


def test_sweep_lists_and_ends_what_is_marked_by_its_time_limit(workspace: str, tmp_path: Path) -> None:
    marked = {**os.environ, wire.MARKER: workspace}
    quick = subprocess.Popen(["sleep", "300"], env={**marked, wire.PROCESS_VARIABLE: "quick"})
    script = "trap '' TERM; echo $$ > stubborn; while :; do sleep 1; done"
    stubborn = subprocess.Popen(
        ["sh", "-c", script], env={**marked, wire.PROCESS_VARIABLE: "stubborn"}, cwd=tmp_path, start_new_session=True
    )
    stranger = subprocess.Popen(["sleep", "300"], env={**os.environ, wire.MARKER: uuid.uuid4().hex})
    number(tmp_path / "stubborn")
    wanted = {"workspace": workspace, "names": ["quick", "stubborn"], "timeouts": {"stubborn": 0.5}, "default": 10}
    try:
        listed = json.loads(guest("sweep", "list", json.dumps(wanted)).stdout)
        assert {(one["pid"], one["name"]) for one in listed} >= {(quick.pid, "quick"), (stubborn.pid, "stubborn")}
        assert quick.poll() is None
        began = time.monotonic()
        threads = [quick, stubborn]
        sweep = subprocess.Popen([*COMMAND, "sweep", "end", json.dumps(wanted)], stdout=subprocess.PIPE)
        codes = [process.wait(10) for process in threads]  # reaped here, as process 1 does inside
        out, _ = sweep.communicate(timeout=10)
        assert sweep.returncode == 0
        assert codes == [-15, -9]
        assert time.monotonic() - began < 8
        signals = {one["name"]: one["signal"] for one in json.loads(out) if one["pid"] in (quick.pid, stubborn.pid)}
        assert signals == {"quick": "TERM", "stubborn": "KILL"}
        assert stranger.poll() is None
    finally:
        for process in (quick, stubborn, stranger):
            process.kill()
            process.wait()


def test_a_relay_joins_both_ways_and_hands_on_the_end(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        running = subprocess.Popen([*COMMAND, "relay", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        connection, _ = listener.accept()
        with connection:
            assert running.stdin is not None
            running.stdin.write(b"question")
            running.stdin.close()
            received = b""
            while block := connection.recv(100):
                received += block
            assert received == b"question"
            connection.sendall(b"answer" * 5_000)
            running.stdin = None
            connection.shutdown(socket.SHUT_WR)
            out, _ = running.communicate(timeout=10)
    assert out == b"answer" * 5_000
    assert running.returncode == 0
    assert guest("relay", str(path)).returncode == wire.STATUS_REFUSED
    assert guest("relay", str(tmp_path / "none")).returncode == wire.STATUS_ABSENT
