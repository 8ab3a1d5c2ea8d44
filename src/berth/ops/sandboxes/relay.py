"""One open relay to an app of a running sandbox: a line out, the line with the same id back (sandboxes.md 7.5)."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Mapping
from typing import Any

from berth.spec import sandbox as spec
from berth.tools import proc
from berth.tools.engine.client import Engine

MAX_LINE = 8 * 1024 * 1024 + 65536
STDERR_BYTES = 4096


class Unreachable(Exception):
    """The app's socket, or the way to it, does not answer."""


class Timeout(Exception):
    """No answer in time; the connection is closed, a late answer is nobody's."""


class ProtocolError(Exception):
    """Something else than one JSON line with the request's id came back."""


class Relay:
    """The engine's exec of the relay for one app; used by one thread at a time. ``container`` is a name or an id."""

    def __init__(self, engine: Engine, container: str, app: str) -> None:
        self._app = app
        self._count = 0
        self._rest = b""
        self._pid = 0
        pipes = [os.pipe() for _ in range(3)]
        (theirs_in, self._to), (self._from, theirs_out), (self._errors, theirs_err) = pipes
        words = ["exec", "-i", "-u", "0:0", container, *spec.RELAY, app]
        try:
            self._pid = engine.spawn(words, descriptors=(theirs_in, theirs_out, theirs_err))
        except BaseException:
            for descriptor in (self._to, self._from, self._errors):
                os.close(descriptor)
            raise
        finally:
            for descriptor in (theirs_in, theirs_out, theirs_err):
                os.close(descriptor)
        os.set_blocking(self._to, False)

    def call(self, export: str, input: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:  # noqa: A002
        """The response object. Raises Unreachable, Timeout and ProtocolError; then the relay is of no more use."""
        self._count += 1
        number = self._count
        line = json.dumps({"id": number, "export": export, "input": input}, allow_nan=False, ensure_ascii=False)
        deadline = time.monotonic() + seconds
        self._send(line.encode("utf-8") + b"\n", deadline)
        answer = self._parsed(self._line(deadline))
        if answer.get("id") is None and answer.get("error", {}).get("code") == "unreachable":
            raise Unreachable(f"{answer['error'].get('message')}{self._said()}")
        if answer.get("id") is None and "error" in answer:
            return answer
        if answer.get("id") != number:
            raise ProtocolError(f"an answer to another request came back: id {str(answer.get('id'))[:64]}")
        return answer

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [self._to], [], left)[1]:
                raise Timeout(f'"{self._app}" took no request in time')
            try:
                view = view[os.write(self._to, view[:65536]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return  # the relay has ended; what it said is read next

    def _line(self, deadline: float) -> bytes:
        parts, size = [self._rest], len(self._rest)
        while b"\n" not in parts[-1]:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._from], [], [], left)[0]:
                raise Timeout(f'no answer of "{self._app}" in time')
            block = os.read(self._from, 65536)
            if not block:
                raise Unreachable(f'the relay to "{self._app}" ended without an answer{self._said()}')
            parts.append(block)
            size += len(block)
            if size > MAX_LINE:
                raise ProtocolError("an answer of more than 8 MiB")
        line, _end, self._rest = b"".join(parts).partition(b"\n")
        return line

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or ("result" in answer) == ("error" in answer):
            raise ProtocolError(f"not an answer: {line[:200]!a}")
        return answer

    def _said(self) -> str:
        """What the relay or the engine wrote on stderr, to be appended to an error."""
        if not select.select([self._errors], [], [], 0.3)[0]:
            return ""
        text = os.read(self._errors, STDERR_BYTES).decode("utf-8", "backslashreplace").strip()
        return f" ({text})" if text else ""

    def is_alive(self) -> bool:
        """False when the relay has ended or said something nobody asked for."""
        return not self._rest and not select.select([self._from], [], [], 0)[0]

    def close(self) -> None:
        """End the relay; safe to call twice."""
        if self._pid == 0:
            return
        for descriptor in (self._to, self._from, self._errors):
            os.close(descriptor)
        os.kill(self._pid, signal.SIGTERM)
        if not _ended(self._pid, within_seconds=1.0):
            proc.kill_group(self._pid)
            os.waitpid(self._pid, 0)
        self._pid = 0


def _ended(pid: int, *, within_seconds: float) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return False
    try:
        select.select([descriptor], [], [], within_seconds)
    finally:
        os.close(descriptor)
    return os.waitpid(pid, os.WNOHANG)[0] == pid
