"""Lines of RPC: what is a request and what is not; shapes of input and output; a server on a real socket pair."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.guest.core.loop import Loop
from berth.guest.sandbox import protocol, signatures
from berth.guest.sandbox.declared import Declared
from berth.guest.sandbox.pool import Pool
from berth.guest.sandbox.protocol import BadRequest, parse
from berth.guest.sandbox.server import Export, Server
from berth.guest.sandbox.shapes import Misfit, check_input, check_output
from support.jail import document_of, manifest


def test_a_request_keeps_its_id_as_it_came() -> None:
    assert parse(b'{"id":"a","export":"x"}').id == "a"
    request = parse(b'{"id":7,"export":"x","input":{"a":1},"hops":3}')
    assert (request.id, request.export, request.input, request.hops) == (7, "x", {"a": 1}, 3)


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (b"nonsense", None),
        (b"[]", None),
        (b'{"export":"x"}', None),
        (b'{"id":1}', 1),
        (b'{"id":true,"export":"x"}', None),
        (b'{"id":1.5,"export":"x"}', None),
        (b'{"id":null,"export":"x"}', None),
        (b'{"id":1,"export":"x","extra":1}', 1),
        (b'{"id":1,"export":2}', 1),
        (b'{"id":1,"export":"x","hops":-1}', 1),
        (b'{"id":1,"export":"x","hops":true}', 1),
        (b'{"id":1,"export":"x","input":NaN}', None),
        (b'{"id":1,"export":"x","input":-Infinity}', None),
        (b'{"id":1,"export":"x","input":1e999}', None),
        (b'{"id":1,"export":"x","input":"\\ud800"}', None),
        (b'{"id":1,"export":"x","input":"\xff"}', None),
        (b'\xef\xbb\xbf{"id":1,"export":"x"}', None),
        (b'{"id":1,"id":2,"export":"x"}', None),
        (b'{"id":1,"export":"x","input":' + b"9" * 4301 + b"}", None),
        (b'{"id":1,"export":"x","input":' + b"[" * 100 + b"]" * 100 + b"}", None),
        (b"[" * 1_000_000, None),
    ],
)
def test_what_is_no_request_is_bad_and_keeps_a_readable_id(line: bytes, number: Any) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(line)
    assert caught.value.id == number


def test_nesting_up_to_the_limit_and_brackets_in_strings_are_fine() -> None:
    assert parse(b'{"id":1,"export":"x","input":' + b"[" * 99 + b"]" * 99 + b"}").export == "x"
    tricky = json.dumps({"id": 1, "export": "x", "input": {"a": '\\"[[' * 200, "b": [[]] * 300}}).encode()
    assert parse(tricky).input["a"] == '\\"[[' * 200


def test_hostile_lines_are_answered_quickly() -> None:
    for line in (b'"' * 4_000_000, b'"' + b'\\"' * 2_000_000 + b"[" * 200, b"[]" * 2_000_000, b'{"a":' * 1_000_000):
        started = time.monotonic()
        with pytest.raises(BadRequest):
            parse(line)
        assert time.monotonic() - started < 5


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(line: bytes) -> None:
    try:
        parse(line)
    except BadRequest:
        pass


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_no_json_value_raises_anything_else(value: Any) -> None:
    line = json.dumps({"id": 1, "export": "x", "input": value}, ensure_ascii=True).encode()
    try:
        assert parse(line).input == value
    except BadRequest as bad:
        refused = str(bad)
    else:
        return
    assert "surrogate" in refused or "nested" in refused


FIELDS = {"text": "string", "count": "number?", "tags": "array?"}


def test_input_must_fit_and_the_message_names_the_field() -> None:
    assert check_input(FIELDS, {"text": "a", "count": 2}) == {"text": "a", "count": 2}
    assert check_input(FIELDS, {"text": "a", "count": None}) == {"text": "a"}
    assert check_input(None, {"anything": 1}) == {"anything": 1}
    for bad, word in (
        ({}, "text"),
        ({"text": 1}, "text"),
        ({"text": "a", "count": True}, "count"),
        ({"text": "a", "x": 1}, "x"),
        ([], "object"),
    ):
        with pytest.raises(Misfit, match=word):
            check_input(FIELDS, bad)


def test_output_is_normalised() -> None:
    assert check_output(FIELDS, {"text": "a", "secret": 1, "count": None}) == {"text": "a"}
    assert check_output({"a": "string?"}, None) is None
    assert check_output(None, [1]) == [1]
    with pytest.raises(Misfit, match="text"):
        check_output(FIELDS, {"count": 1})
    with pytest.raises(Misfit):
        check_output(FIELDS, None)


def declared(*functions: Any) -> Declared:
    made = Declared()
    for function in functions:
        made.add(function)
    return made


def test_signatures_are_compared_with_the_manifest() -> None:
    def add(text: str, count: int = 1, tags: list[str] | None = None) -> None: ...

    def mixed(a: float, b: bool, c: dict[str, int]) -> None: ...

    exports = [
        {"name": "add", "input": {"text": "string", "count": "number?", "tags": "array?"}, "output": None},
        {"name": "mixed", "input": {"a": "number", "b": "boolean", "c": "object"}, "output": None},
    ]
    signatures.compare(declared(add, mixed), exports)
    with pytest.raises(signatures.Mismatch, match=r"declares \[add, mixed\], the code registers \[add\]"):
        signatures.compare(declared(add), exports)
    with pytest.raises(signatures.Mismatch, match="registered twice: add"):
        signatures.compare(declared(add, add, mixed), exports)
    exports[0]["input"] = {"text": "string"}
    with pytest.raises(signatures.Mismatch, match=r"text: string.*count: number\?"):
        signatures.compare(declared(add, mixed), exports)


def test_an_int_takes_integral_numbers_only() -> None:
    def cut(size: int, ratio: float, note: str | None) -> None: ...

    bind = signatures.binder(cut, {"size": "number", "ratio": "number", "note": "string?"})
    assert bind({"size": 3.0, "ratio": 1}) == {"size": 3, "ratio": 1.0, "note": None}
    with pytest.raises(Misfit, match="size"):
        bind({"size": 3.5, "ratio": 1})


class Served:
    """A server of a few exports on one listener, its loop on a thread of its own."""

    def __init__(self, directory: Path, *, uid: int) -> None:
        self.path = str(directory / "rpc.sock")
        self.told: list[str] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(64)
        self.gate = threading.Event()
        functions = {
            "echo": lambda arguments, hops: arguments,
            "slow": lambda arguments, hops: self.gate.wait(20) and None,
            "fail": lambda arguments, hops: open("/nonexistent/file"),
            "raise": lambda arguments, hops: 1 / 0,
            "huge": lambda arguments, hops: "x" * (9 * 1024 * 1024),
            "unspeakable": lambda arguments, hops: {1, 2},
        }
        exports = {
            name: Export(name, call, bind=dict, input=None, output=None, is_coroutine=False)
            for name, call in functions.items()
        }

        async def later(arguments: Any, hops: int) -> Any:
            return {"hops": hops}

        exports["later"] = Export("later", later, bind=dict, input=None, output=None, is_coroutine=True)
        self.loop = Loop()
        policy = document_of(manifest("a")).apps[0]
        self.server = Server(
            self.loop, Pool(), policy, exports, tell=self.told.append,
            event=lambda name, **fields: self.events.append((name, fields)),
        )  # fmt: skip
        self.server.listen(listener.detach(), caller="self", uid=uid)
        self.thread = threading.Thread(target=self.loop.run)
        self.thread.start()

    def connect(self) -> Any:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(20)
        connection.connect(self.path)
        return connection

    def stop(self) -> None:
        self.gate.set()
        self.server.wake(lambda: self.server.stop(self.loop.stop))
        self.thread.join(20)
        assert not self.thread.is_alive()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path, uid=os.getuid())
    yield made
    made.stop()


def ask(connection: Any, *lines: bytes) -> list[Any]:
    """The answers to as many lines, in the order in which they come."""
    connection.sendall(b"".join(line + b"\n" for line in lines))
    reader = connection.makefile("rb")
    return [json.loads(reader.readline()) for _line in lines]


def test_answers_come_by_id_and_out_of_order(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(b'{"id":1,"export":"slow"}\n{"id":2,"export":"echo","input":{"a":"\xc3\xa9"}}\n\n')
        reader = connection.makefile("rb")
        assert json.loads(reader.readline()) == {"id": 2, "result": {"a": "é"}}
        served.gate.set()
        assert json.loads(reader.readline()) == {"id": 1, "result": None}


def test_errors_have_their_codes_and_the_connection_stays(served: Served) -> None:
    with served.connect() as connection:

        def code(line: bytes) -> Any:
            return ask(connection, line)[0]["error"]["code"]

        assert code(b"x") == "bad_request"
        assert code(b'{"id":1,"export":"nope"}') == "no_such_export"
        assert code(b'{"id":1,"export":"echo","hops":17}') == "too_deep"
        assert code(b'{"id":1,"export":"echo","input":[]}') == "invalid_input"
        assert code(b'{"id":1,"export":"huge"}') == "too_large"
        assert code(b'{"id":1,"export":"unspeakable"}') == "invalid_output"
        (failed,) = ask(connection, b'{"id":1,"export":"fail"}')
        assert failed["error"]["errno"] == "ENOENT"
        assert failed["error"]["object"] == "/nonexistent/file"
        (raised,) = ask(connection, b'{"id":1,"export":"raise"}')
        assert raised["error"] == {"code": "app_error", "message": "division by zero"}
        assert ask(connection, b'{"id":1,"export":"later","hops":16}') == [{"id": 1, "result": {"hops": 16}}]


def test_a_line_over_eight_mebibytes_ends_its_connection_and_no_other(served: Served) -> None:
    with served.connect() as endless, served.connect() as other:

        def flood() -> None:
            try:
                for _block in range(100):
                    endless.sendall(b"x" * 1024 * 1024)
            except OSError:
                pass  # closed by the server, which is the point

        thread = threading.Thread(target=flood)
        thread.start()
        started = time.monotonic()
        assert ask(other, b'{"id":1,"export":"echo"}') == [{"id": 1, "result": {}}]
        assert time.monotonic() - started < 1
        assert json.loads(endless.makefile("rb").readline())["error"]["code"] == "too_large"
        thread.join(20)


def test_the_65th_request_in_flight_is_too_many(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(b"".join(b'{"id":%d,"export":"slow"}\n' % number for number in range(65)))
        reader = connection.makefile("rb")
        assert json.loads(reader.readline()) == {
            "id": 64, "error": {"code": "too_many", "message": "64 requests are in flight"},
        }  # fmt: skip
        served.gate.set()
        assert {json.loads(reader.readline())["id"] for _number in range(64)} == set(range(64))


def test_the_33rd_connection_of_one_uid_is_too_many(served: Served) -> None:
    many = [served.connect() for _number in range(32)]
    for connection in many:
        ask(connection, b'{"id":1,"export":"echo"}')
    with served.connect() as surplus:
        assert json.loads(surplus.makefile("rb").readline())["error"]["code"] == "too_many"
        assert surplus.recv(1) == b""
    for connection in many:
        connection.close()


def test_a_half_closed_connection_still_gets_its_answer(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(b'{"id":1,"export":"slow"}\n')
        connection.shutdown(socket.SHUT_WR)
        served.gate.set()
        assert json.loads(connection.makefile("rb").readline()) == {"id": 1, "result": None}


@pytest.mark.skipif(os.getuid() == 0, reason="root may call every app")
def test_another_uid_is_turned_away_here(tmp_path: Path) -> None:
    made = Served(tmp_path, uid=os.getuid() + 1)
    with made.connect() as connection:
        assert connection.recv(1) == b""
    made.stop()
    assert made.events[0][0] == "peer_uid_mismatch"


def test_a_large_answer_reaches_a_slow_reader_whole(served: Served) -> None:
    text = "y" * 3_000_000
    with served.connect() as connection:
        line = json.dumps({"id": 1, "export": "echo", "input": {"text": text}}).encode() + b"\n"
        threading.Thread(target=connection.sendall, args=(line,)).start()
        time.sleep(0.3)  # the answer meets a full socket buffer
        assert json.loads(connection.makefile("rb").readline())["result"]["text"] == text


def test_an_error_that_no_json_can_hold_is_escaped() -> None:
    line = protocol.error_line("\u00e9", "app_error", "bad \udcff name")
    assert json.loads(line)["error"]["message"] == "bad \\udcff name"
