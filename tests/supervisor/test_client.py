"""The host's end of the socket (workspaces.md 8.5): what is found there is told apart, and many are asked at once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.tools import control, logs, supervisor
from support.supervisor import Supervisor, supervised

Start = Callable[..., Supervisor]
SLEEP = "exec sleep 1000"
TOKEN = "0" * 64


@contextmanager
def listening(path: Path, answer: bytes | None) -> Iterator[None]:
    """A foreign listener that gives ``answer`` to every client, or none."""
    held = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            held.append(connection)
            if answer is not None:
                with suppress(OSError), connection:
                    connection.recv(65536)
                    connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in held:
                connection.close()


def test_no_socket_is_absent(tmp_path: Path) -> None:
    assert control.state(control.Control(str(tmp_path), TOKEN)).kind == control.ABSENT
    assert control.state(control.Control(str(tmp_path / "nothing"), TOKEN)).kind == control.ABSENT


def test_a_socket_without_a_listener_is_refused_after_a_second_try(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "pc.sock"))
    listener.close()
    begun = time.monotonic()
    assert control.state(control.Control(str(tmp_path), TOKEN)).kind == control.REFUSED
    assert 0.15 <= time.monotonic() - begun < 1


def test_a_supervisor_answers_with_the_processes_of_the_contract(supervise: Start) -> None:
    one = supervise({"b": {"command": SLEEP}, "a": {"command": "exit 3"}, "c": {"command": SLEEP, "disabled": True}})
    one.reaches("a", "Completed")
    pid = one.reaches("b", "Running")["pid"]
    state = control.state(one.control)
    assert state.kind == control.ANSWERING
    assert [list(item) for item in state.processes] == [
        ["name", "status", "ready", "healthy", "pid", "exit_code", "restarts"]
    ] * 3
    assert [list(item.values()) for item in state.processes] == [
        ["a", "Completed", "-", False, None, 3, 0],
        ["b", "Running", "-", True, pid, None, 0],
        ["c", "Disabled", "-", False, None, None, 0],
    ]


FOREIGN = {
    "not HTTP": b"SSH-2.0-x\r\n",
    "a wrong token": b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
    "no JSON": b"HTTP/1.1 200 OK\r\n\r\n<html>",
    "other JSON": b'HTTP/1.1 200 OK\r\n\r\n{"data": [{"name": "x"}]}',
    "a list": b"HTTP/1.1 200 OK\r\n\r\n[]",
    "half an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
    "an error": b"HTTP/1.1 500 Oops\r\n\r\n{}",
}


@pytest.mark.parametrize("answer", FOREIGN.values(), ids=FOREIGN)
def test_a_listener_that_is_not_ours_is_foreign(tmp_path: Path, answer: bytes) -> None:
    with listening(tmp_path / "pc.sock", answer):
        state = control.state(control.Control(str(tmp_path), TOKEN))
    assert state.kind == control.FOREIGN
    assert str(tmp_path / "pc.sock") in state.detail


def test_a_file_a_link_and_a_wrong_token_are_foreign(supervise: Start, tmp_path: Path) -> None:
    (tmp_path / "pc.sock").write_text("x")
    assert control.state(control.Control(str(tmp_path), TOKEN)).kind == control.FOREIGN
    one = supervise({"a": {"command": SLEEP}})
    assert control.state(control.Control(str(one.run), TOKEN)).kind == control.FOREIGN
    (tmp_path / "pc.sock").unlink()
    (tmp_path / "pc.sock").symlink_to(one.run / "pc.sock")
    assert control.state(control.Control(str(tmp_path), one.control.token)).kind == control.FOREIGN
    (tmp_path / "inner").symlink_to(one.run)
    below = control.Control(str(tmp_path), one.control.token, below=("inner",))
    assert control.state(below).kind == control.FOREIGN
    direct = control.Control(str(one.root), one.control.token, below=("run",))
    assert control.state(direct).kind == control.ANSWERING
    assert control.state(control.Control(str(one.run), one.control.token, owner=12345)).kind == control.FOREIGN


def test_one_that_does_not_answer_is_silent_after_its_time(tmp_path: Path) -> None:
    with listening(tmp_path / "pc.sock", None):
        begun = time.monotonic()
        state = control.state(control.Control(str(tmp_path), TOKEN), timeout_seconds=0.3)
        assert state.kind == control.SILENT
        assert 0.3 <= time.monotonic() - begun < 1


def test_a_stopped_supervisor_is_silent_and_a_continued_one_answers(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}})
    os.kill(one.pid, signal.SIGSTOP)
    assert control.state(one.control, timeout_seconds=0.3).kind == control.SILENT
    os.kill(one.pid, signal.SIGCONT)
    assert control.state(one.control).kind == control.ANSWERING


def test_many_are_asked_at_once(tmp_path: Path) -> None:
    """The slowest decides, not the sum."""
    (tmp_path / "one").mkdir()
    with supervised(tmp_path / "one", {"a": {"command": SLEEP}}) as one, ExitStack() as stack:
        controls = []
        for number in range(8):
            place = tmp_path / f"silent{number}"
            place.mkdir()
            stack.enter_context(listening(place / "pc.sock", None))
            controls.append(control.Control(str(place), TOKEN))
        controls[3:3] = [one.control]
        controls.append(control.Control(str(tmp_path), TOKEN))
        begun = time.monotonic()
        states = control.states(controls, timeout_seconds=0.4)
        assert time.monotonic() - begun < 1.2
        assert [state.kind for state in states] == [
            *(["silent"] * 3),
            "answering",
            *(["silent"] * 5),
            "absent",
        ]


def test_a_huge_answer_is_cut_off(tmp_path: Path) -> None:
    with listening(tmp_path / "pc.sock", b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (17 << 20)):
        assert control.state(control.Control(str(tmp_path), TOKEN), timeout_seconds=20).kind == control.FOREIGN


def test_an_unknown_process_is_named_with_the_known_ones(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}, "b": {"command": SLEEP}})
    for call in (
        lambda: supervisor.start_process(one.control, "x"),
        lambda: supervisor.stop_process(one.control, "x", timeout_seconds=5),
        lambda: supervisor.restart_process(one.control, "x", timeout_seconds=5),
        lambda: supervisor.wait(one.control, "x", timeout_seconds=5),
    ):
        with pytest.raises(BerthError) as raised:
            call()
        assert raised.value.code == "process_not_found"
        assert raised.value.hint == "known processes: a, b"


def test_a_wait_ends_with_the_supervisor(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP, "ready_log_line": "never"}})
    threading.Timer(0.3, lambda: os.kill(one.pid, signal.SIGKILL)).start()
    begun = time.monotonic()
    with pytest.raises(control.Unreachable):
        supervisor.wait(one.control, timeout_seconds=30)
    assert time.monotonic() - begun < 2


def test_a_token_is_made_once_is_private_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    assert supervisor.read_token(str(tmp_path)) is None
    token = supervisor.make_token(str(tmp_path))
    assert len(token) == 64
    assert supervisor.make_token(str(tmp_path)) == token
    path = tmp_path / "pc.token"
    assert path.read_text() == token + "\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["pc.token"]
    path.chmod(0o644)
    with pytest.raises(BerthError, match="process state unknown"):
        supervisor.read_token(str(tmp_path))
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(BerthError, match="process state unknown"):
        supervisor.make_token(str(tmp_path))


def test_logs_are_read_by_lines_from_any_end(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(100000)) + b"\xff cut")
    fd = logs.open_below(str(tmp_path), "x.log")
    try:
        lines = list(logs.lines(fd))
        assert lines[:2] == ["line 0", "line 1"]
        assert lines[-1] == "\ufffd cut"
        assert len(lines) == 100001
        for count in (0, 1, 2, 99999, 100001, 200000):
            offset = logs.tail_offset(fd, count)
            wanted = lines[len(lines) - min(count, len(lines)) :]
            assert list(logs.follow(fd, offset=offset, has_ended=lambda: True)) == wanted, count
    finally:
        os.close(fd)
    assert logs.last(str(path), 2) == ["line 99999", "\ufffd cut"]
    assert logs.last(str(tmp_path / "none"), 2) == []
    assert logs.last(os.devnull, 2) == []


def test_a_log_that_begins_with_a_hole_is_read_from_the_first_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with open(path, "wb") as file:
        file.seek(1 << 20)
        file.write(b"half a line\nwhole\nlast\n")
    fd = logs.open_below(str(tmp_path), "x.log")
    try:
        assert list(logs.lines(fd)) == ["whole", "last"]
        assert logs.last(str(path), 10) == ["whole", "last"]
    finally:
        os.close(fd)


def test_a_followed_log_goes_on_after_a_new_start(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("old line\n")
    fd = logs.open_below(str(tmp_path), "x.log")
    seen: list[str] = []
    ended = threading.Event()
    thread = threading.Thread(target=lambda: seen.extend(logs.follow(fd, offset=0, has_ended=ended.is_set)))
    thread.start()
    time.sleep(0.2)
    path.write_text("new\n")
    time.sleep(0.2)
    with open(path, "a") as file:
        file.write("more\nrest")
    ended.set()
    thread.join(5)
    os.close(fd)
    assert seen == ["old line", "new", "more", "rest"]


def test_a_log_that_is_a_link_or_a_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "dir").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / "dir")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "dir", "way/x"):
        with pytest.raises(BerthError) as raised:
            logs.open_below(str(tmp_path), name)
        assert raised.value.code == "io_error"
        assert name in raised.value.message
    with pytest.raises(FileNotFoundError):
        logs.open_below(str(tmp_path), "none")


def test_status_and_ls_load_no_more_than_they_need() -> None:
    """performance.md: what an import costs."""
    code = (
        "import sys; before = set(sys.modules); import berth.tools.control; print(*sorted(set(sys.modules) - before))"
    )
    source = os.path.join(os.path.dirname(__file__), "..", "..", "src")
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({source!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    heavy = "re json socket selectors signal enum typing collections pathlib subprocess dataclasses contextlib"
    assert not set(said) & set(heavy.split()), said
