"""The control socket (supervisor.md 8): routes in process-compose's shapes, the waiting request, hostile clients."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
import time
from collections.abc import Callable

import pytest

from berth.guest.core import wire
from berth.tools import supervisor
from support.supervisor import Supervisor, answer, free_port, http_get, until

Start = Callable[..., Supervisor]
SLEEP = "exec sleep 1000"


def connect(one: Supervisor) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(one.run / "pc.sock"))
    connection.settimeout(10)
    return connection


def exchange(one: Supervisor, data: bytes) -> bytes:
    with connect(one) as connection:
        connection.sendall(data)
        answer = b""
        while block := connection.recv(65536):
            answer += block
        return answer


def token(one: Supervisor) -> str:
    return (one.run / "pc.token").read_text().strip()


def test_without_the_token_nothing_is_said(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}})
    for header in ("", "X-PC-Token-Key: \r\n", f"X-PC-Token-Key: {'0' * 64}\r\n", f"X-PC-Token-Key: {token(one)}0\r\n"):
        said = exchange(one, f"GET /processes HTTP/1.1\r\nHost: x\r\n{header}\r\n".encode())
        assert said == b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    assert one.ask("GET", "/live") == (200, {"status": "alive"})


def test_the_socket_is_the_user_s_alone(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}})
    assert stat.S_IMODE((one.run / "pc.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE((one.run / "pc.token").stat().st_mode) == 0o600


def test_the_states_have_process_compose_s_shape(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP, "namespace": "n"}, "b": {"command": "exit 3"}})
    one.reaches("a", "Running")
    one.reaches("b", "Completed")
    status, document = one.ask("GET", "/processes")
    assert status == 200
    assert isinstance(document, dict)
    a, b = document["data"]
    keys = [
        "name",
        "namespace",
        "status",
        "system_time",
        "age",
        "is_ready",
        "has_ready_probe",
        "restarts",
        "exit_code",
        "pid",
        "is_elevated",
        "password_provided",
        "mem",
        "cpu",
        "is_running",
    ]
    assert list(a)[: len(keys)] == keys
    assert (a["name"], a["namespace"], a["status"], a["is_ready"]) == ("a", "n", "Running", "-")
    assert a["pid"] > 0
    assert a["is_running"] is True
    assert a["mem"] > 0
    assert a["age"] > 0
    assert (b["status"], b["exit_code"], b["is_running"], b["pid"]) == ("Completed", 3, False, 0)


def test_the_project_s_state_has_process_compose_s_shape(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}, "b": {"command": "exit 0"}})
    one.reaches("b", "Completed")
    status, document = one.ask("GET", "/project/state/?withMemory=false")
    assert status == 200
    assert isinstance(document, dict)
    assert document["processNum"] == 2
    assert document["runningProcessNum"] == 1
    assert document["fileNames"] == [str(one.config)]
    assert set(document) == {
        *("fileNames", "upTime", "startTime", "processNum", "runningProcessNum", "userName", "version"),
        "projectName",
    }


def test_logs_are_answered_by_offset_from_the_end_and_limit(supervise: Start) -> None:
    one = supervise({"a": {"command": "seq 10"}})
    one.prints("a", "10\n")
    numbers = [str(number) for number in range(1, 11)]
    for path, wanted in (
        ("0/0", numbers),
        ("0/3", ["8", "9", "10"]),
        ("5/2", ["4", "5"]),
        ("99/1", []),
        ("8/9", numbers[:2]),
    ):
        assert one.ask("GET", f"/process/logs/a/{path}") == (200, {"logs": wanted}), path


def test_several_are_stopped_at_once_and_a_wrong_name_is_told(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}, "b": {"command": SLEEP}, "c": {"command": SLEEP}})
    one.reaches("c", "Running")
    status, document = one.ask("PATCH", "/processes/stop", body=json.dumps(["a", "b"]).encode())
    assert (status, document) == (200, {"a": "ok", "b": "ok"})
    status, document = one.ask("PATCH", "/processes/stop", body=json.dumps(["c", "x"]).encode())
    assert status == 207
    assert one.state("c")["status"] == "Completed"
    assert one.ask("PATCH", "/processes/stop", body=b"{}")[0] == 400
    assert one.ask("PATCH", "/processes/stop", body=b'["x"]')[0] == 400


def test_a_signal_reaches_the_process_s_group(supervise: Start) -> None:
    one = supervise({"a": {"command": "trap 'echo usr1' USR1; echo up; while :; do sleep 0.05; done"}})
    one.prints("a", "up")
    assert one.ask("PATCH", "/process/signal/a/10")[0] == 200
    one.prints("a", "usr1")
    assert one.ask("PATCH", "/process/signal/a/99")[0] == 400


def test_unknown_names_routes_and_methods_are_refused_by_name(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}})
    status, document = one.ask("GET", "/process/nope")
    assert (status, document) == (
        400,
        {"error": "no such process: nope", "code": "process_not_found", "known": ["a"]},
    )
    assert one.ask("GET", "/nothing/here")[0] == 404
    assert one.ask("DELETE", "/live")[0] == 405


def test_a_waiting_request_returns_with_the_event(supervise: Start) -> None:
    port = free_port()
    one = supervise({"a": {"command": answer(port, delay=0.7), "readiness_probe": http_get(port)}})
    begun = time.monotonic()
    assert one.wait("a", timeout=0.2).word == "wait"
    assert 0.2 <= time.monotonic() - begun < 0.4
    verdict = one.wait("a", timeout=10)
    answered = time.time()
    assert verdict.word == "settled"
    history = [line for line in one.history().splitlines() if line.endswith("a: Ready")]
    seconds = time.mktime(time.strptime(history[0][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
    assert answered - (seconds + float("0" + history[0][19:23])) < 0.1


def test_a_waiting_request_ends_when_one_has_failed(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP, "ready_log_line": "never"}, "b": {"command": "sleep 0.3; exit 9"}})
    begun = time.monotonic()
    verdict = one.wait(timeout=10)
    assert verdict.word == "failed"
    assert time.monotonic() - begun < 2
    failed = [item for item in verdict.processes if item["verdict"] == "failed"]
    assert [(item["name"], item["exit_code"]) for item in failed] == [("b", 9)]


def test_a_waiting_request_ends_when_everything_is_brought_down(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP, "ready_log_line": "never"}})
    words: list[str] = []
    thread = threading.Thread(target=lambda: words.append(one.wait(timeout=20).word))
    thread.start()
    time.sleep(0.2)
    one.down()
    thread.join(5)
    assert words == ["stopping"]


HOSTILE = {
    "garbage": b"\x00\xff\x16\x03\x01garbage\r\n\r\n",
    "half a request": b"GET /live HTTP/1.1\r\nHost:",
    "nothing": b"",
    "a megabyte of headers": b"GET /live HTTP/1.1\r\n" + b"X-A: " + b"a" * (1 << 20),
    "a header without a colon": b"GET /live HTTP/1.1\r\nwhat\r\n\r\n",
    "an endless body": b"POST /project/stop HTTP/1.1\r\nX-PC-Token-Key: TOKEN\r\nContent-Length: 99999999999\r\n\r\n",
    "a negative length": b"POST /project/stop HTTP/1.1\r\nX-PC-Token-Key: TOKEN\r\nContent-Length: -5\r\n\r\n",
    "a body that does not come": b"PATCH /live HTTP/1.1\r\nX-PC-Token-Key: TOKEN\r\nContent-Length: 50\r\n\r\n[",
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_client_is_closed_within_five_seconds_and_disturbs_no_one(supervise: Start, sent: bytes) -> None:
    one = supervise({"a": {"command": SLEEP}})
    with connect(one) as connection:
        try:
            connection.sendall(sent.replace(b"TOKEN", token(one).encode()))
        except (BrokenPipeError, ConnectionResetError):
            assert len(sent) > 1 << 19
        begun = time.monotonic()
        assert one.ask("GET", "/live") == (200, {"status": "alive"})
        assert time.monotonic() - begun < 0.5
        try:
            while connection.recv(65536):
                continue
        except ConnectionResetError:
            assert len(sent) > 1 << 19
        assert time.monotonic() - begun < 6
    one.reaches("a", "Running")


def test_64_clients_at_once_are_served_and_the_next_one_later(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP, "ready_log_line": "never"}})
    request = wire.encode_request("GET", "/berth/wait?timeout=60", token(one))
    waiting = []
    for _ in range(63):
        connection = connect(one)
        connection.sendall(request)
        waiting.append(connection)
    assert one.ask("GET", "/live")[0] == 200
    more = [connect(one) for _ in range(10)]
    for connection in more:
        connection.sendall(wire.encode_request("GET", "/live", token(one)))
    for connection in waiting:
        connection.close()
    for connection in more:
        assert b"alive" in connection.recv(65536)
        connection.close()
    assert one.ask("GET", "/live")[0] == 200


def test_clients_that_went_away_do_not_fill_the_house(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP, "ready_log_line": "never"}})
    for _ in range(200):
        with connect(one) as connection:
            connection.sendall(wire.encode_request("GET", "/berth/wait?timeout=60", token(one)))
    assert one.ask("GET", "/live")[0] == 200


def test_a_client_that_half_closes_still_gets_its_answer(supervise: Start) -> None:
    one = supervise({"a": {"command": "echo ready; exec sleep 1000", "ready_log_line": "ready"}})
    with connect(one) as connection:
        connection.sendall(wire.encode_request("GET", "/berth/wait?timeout=5", token(one)))
        connection.shutdown(socket.SHUT_WR)
        said = b""
        while block := connection.recv(65536):
            said += block
    assert b'"verdict":"settled"' in said


def test_a_client_that_does_not_read_is_dropped(supervise: Start) -> None:
    one = supervise({"a": {"command": "seq 400000; exec sleep 1000"}})
    one.prints("a", "400000\n", 20)
    with connect(one) as connection:
        connection.sendall(wire.encode_request("GET", "/process/logs/a/0/0", token(one)))
        assert one.ask("GET", "/live")[0] == 200
        time.sleep(5.3)
        said = 0
        try:
            while block := connection.recv(1 << 20):
                said += len(block)
        except ConnectionResetError:
            pass  # the rest was thrown away
        assert said < 2_000_000
    assert one.ask("GET", "/live")[0] == 200


def test_names_are_percent_encoded(supervise: Start) -> None:
    one = supervise({"a b.ü": {"command": SLEEP}})
    assert one.wait("a b.ü").word == "settled"
    supervisor.stop_process(one.control, "a b.ü", timeout_seconds=5)
    until(lambda: one.ask("GET", "/processes")[1]["data"][0]["status"] == "Completed")  # type: ignore[call-overload, index]


def test_project_stop_answers_when_all_is_stopped(supervise: Start) -> None:
    one = supervise({"a": {"command": "trap 'sleep 0.5; exit 0' TERM; echo up; while :; do sleep 0.05; done"}})
    one.prints("a", "up")
    assert 0.5 <= one.down() < 2
    assert one.tagged() == []
    assert sorted(os.listdir(one.run)) == ["pc.lock", "pc.token"]


def test_logs_are_streamed_to_process_compose_s_client(supervise: Start) -> None:
    one = supervise({"a": {"command": f"printf '{'x' * 200}\\n'; seq 3"}})
    one.prints("a", "3\n")
    head = (
        "GET /process/logs/ws?name=a&offset=3&follow={} HTTP/1.1\r\nHost: unix\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-PC-Token-Key: {token(one)}\r\n\r\n"
    )
    said = exchange(one, head.format("false").encode())
    answered, _, frames = said.partition(b"\r\n\r\n")
    assert b"101" in answered
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in answered  # the example of RFC 6455
    messages = []
    while frames[:1] == b"\x81":
        size = frames[1]
        messages.append(json.loads(frames[2 : 2 + size]))
        frames = frames[2 + size :]
    assert messages == [{"message": str(number), "process_name": "a"} for number in (1, 2, 3)]
    assert frames == b"\x88\x02\x03\xe8"
    assert exchange(one, head.format("true").encode()).startswith(b"HTTP/1.1 400")
