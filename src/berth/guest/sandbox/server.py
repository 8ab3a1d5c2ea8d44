"""The RPC server inside an app: who called, may they, does it fit, and the answer (sandboxes.md 7.3, 7.4).

The caller is the listener a connection arrived on, checked against the kernel's SO_PEERCRED; nothing in a request
changes it. The listeners were opened by the supervisor; this process could not open them.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
import threading
from collections import deque

from berth.guest.core.loop import READ
from berth.guest.sandbox import protocol
from berth.guest.sandbox.connection import Connection
from berth.guest.sandbox.shapes import Misfit, check_input, check_output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Deque, Dict, List, Optional, Union

    from berth.guest.core.loop import Loop
    from berth.guest.sandbox.policy import Policy
    from berth.guest.sandbox.pool import Pool

MAX_CONNECTIONS = 32
SELF, HOST = "self", "host"


class Export:
    """One export: the manifest's ``input`` and ``output``; ``bind`` makes arguments of a fitting input (Misfit);
    ``call`` takes them and the hops so far, and returns a coroutine where ``is_coroutine``."""

    __slots__ = ("bind", "call", "input", "is_coroutine", "name", "output")

    def __init__(
        self,
        name: str,
        call: Callable[[Dict[str, Any], int], Any],
        *,
        bind: Callable[[Dict[str, Any]], Dict[str, Any]],
        input: Optional[Dict[str, str]],  # noqa: A002  # the manifest's word
        output: Optional[Dict[str, str]],
        is_coroutine: bool,
    ) -> None:
        self.name = name
        self.bind = bind
        self.call = call
        self.input = input
        self.output = output
        self.is_coroutine = is_coroutine


class Server:
    """Serves ``exports`` on inherited listeners. ``tell`` writes a line to the app's log; ``event`` a JSON event."""

    def __init__(
        self,
        loop: Loop,
        pool: Pool,
        policy: Policy,
        exports: Dict[str, Export],
        *,
        tell: Callable[[str], None],
        event: Callable[..., None],
    ) -> None:
        self._loop = loop
        self._pool = pool
        self._policy = policy
        self._exports = exports
        self._tell = tell
        self._event = event
        self._open: Dict[int, List[Connection]] = {}
        self._listeners: List[socket.socket] = []
        self._woken: Deque[Callable[[], None]] = deque()
        self._wake_reader, self._wake_writer = os.pipe()
        self._running = 0
        self._count = threading.Lock()
        self._when_idle: Optional[Callable[[], None]] = None
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)
        loop.watch(self._wake_reader, READ, self._run_woken)

    # -- listeners ----------------------------------------------------------------------------------------------

    def listen(self, descriptor: int, *, caller: str, uid: int) -> None:
        """Serve an inherited listener. ``caller`` is ``self`` for the own one, where ``uid`` and root may connect;
        else the sibling whose ``uid`` alone may."""
        listener = socket.socket(fileno=descriptor)
        listener.setblocking(False)
        self._listeners.append(listener)
        self._open[descriptor] = []
        self._loop.watch(descriptor, READ, lambda _events: self._accept(descriptor, listener, caller, uid))

    def _accept(self, number: int, listener: socket.socket, caller: str, uid: int) -> None:
        try:
            connection, _address = listener.accept()
        except OSError:
            return  # it went away again, or there is no descriptor left just now
        seen = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        if caller == SELF and seen == 0:
            name = HOST
        elif seen == uid:
            name = caller
        else:
            self._event("peer_uid_mismatch", caller=caller, uid=seen, expected=uid)
            connection.close()
            return
        served = self._open[number]
        if len([one for one in served if one.caller == name]) >= MAX_CONNECTIONS:
            _refuse(connection)
            return
        served.append(
            Connection(
                self._loop,
                connection,
                caller=name,
                wake=self.wake,
                on_line=self._line,
                on_long=_tell_too_long,
                on_close=served.remove,
            )
        )

    # -- requests -----------------------------------------------------------------------------------------------

    def _line(self, connection: Connection, line: bytes) -> None:
        if not line.strip(b" \t\r"):
            return
        if len(line) > 65536:  # parsing it takes a while: others are served meanwhile
            if not connection.begin():
                connection.answer(protocol.error_line(None, "too_many", "64 requests are in flight"))
                return
            self._begun()
            self._pool.submit(lambda: self._parse_apart(connection, line))
            return
        request = self._parsed(connection, line)
        if isinstance(request, bytes):
            connection.answer(request)
        elif not connection.begin():
            connection.answer(protocol.error_line(request.id, "too_many", "64 requests are in flight"))
        else:
            self._begun()
            self._dispatch(connection, request)

    def _begun(self) -> None:
        with self._count:
            self._running += 1

    def _parse_apart(self, connection: Connection, line: bytes) -> None:
        request = self._parsed(connection, line)
        if isinstance(request, bytes):
            self._finish(connection, request)
        else:
            self.wake(lambda: self._dispatch(connection, request))

    def _parsed(self, connection: Connection, line: bytes) -> Union[protocol.Request, bytes]:
        """The request, or the error line that answers it."""
        try:
            request = protocol.parse(line)
        except protocol.BadRequest as bad:
            return protocol.error_line(bad.id, "bad_request", str(bad))
        refusal = self._refusal(connection.caller, request)
        return request if refusal is None else protocol.error_line(request.id, *refusal)

    def _refusal(self, caller: str, request: protocol.Request) -> Optional[List[str]]:
        """[code, message] of why ``caller`` may not have this request run, or None."""
        shown = request.export[:64]
        if caller not in (SELF, HOST):
            allowed = self._policy.callers.get(caller, [])
            if allowed != "*" and request.export not in allowed:
                return ["not_allowed", f'"{caller}" may not call "{shown}" of "{self._policy.name}"']
        if request.export not in self._exports:
            return ["no_such_export", f'"{self._policy.name}" has no export "{shown}"']
        if request.hops > protocol.MAX_HOPS:
            return ["too_deep", f"more than {protocol.MAX_HOPS} calls deep"]
        export = self._exports[request.export]
        try:
            request.input = export.bind(check_input(export.input, request.input))
        except Misfit as misfit:
            return ["invalid_input", str(misfit)]
        return None

    def _dispatch(self, connection: Connection, request: protocol.Request) -> None:
        export = self._exports[request.export]
        if connection.caller not in (SELF, HOST):
            self._tell(f'[berth:runtime] "{connection.caller}" invoked export "{export.name}"')
        if not export.is_coroutine:
            self._pool.submit(lambda: self._run(connection, request, export), nested=request.hops > 0)
            return

        def finished(future: Any) -> None:
            self._finish(connection, _answer(request, export, future.result))

        self._pool.start_coroutine(export.call(request.input, request.hops), finished)

    def _run(self, connection: Connection, request: protocol.Request, export: Export) -> None:
        self._finish(connection, _answer(request, export, lambda: export.call(request.input, request.hops)))

    def _finish(self, connection: Connection, line: bytes) -> None:
        connection.done(line)
        with self._count:
            self._running -= 1
        if self._when_idle is not None:
            self.wake(self._tell_if_idle)

    # -- end and wake-ups ---------------------------------------------------------------------------------------

    def stop(self, when_idle: Callable[[], None]) -> None:
        """Accept nothing more; ``when_idle`` is called from the loop once the running requests are answered."""
        self._when_idle = when_idle
        for listener in self._listeners:
            self._loop.unwatch(listener.fileno())
            listener.close()
        self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        if self._running == 0 and self._when_idle is not None:
            for served in self._open.values():
                for connection in list(served):
                    connection.close()
            self._when_idle()

    def wake(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` on the loop's thread soon; from any thread."""
        self._woken.append(callback)
        try:
            os.write(self._wake_writer, b"\n")
        except BlockingIOError:
            pass  # it is awake already

    def _run_woken(self, _events: int) -> None:
        try:
            os.read(self._wake_reader, 4096)
        except BlockingIOError:
            pass  # somebody else's wake-up covered this one
        for _count in range(len(self._woken)):
            self._woken.popleft()()


def _answer(request: protocol.Request, export: Export, call: Callable[[], Any]) -> bytes:
    """The line that answers ``request``; whatever the handler raised is an error in it, and the app goes on."""
    try:
        result = call()
    except BaseException as error:
        return _failure(request, error)
    try:
        line = protocol.encode({"id": request.id, "result": check_output(export.output, result)})
    except (Misfit, ValueError, TypeError) as misfit:
        return protocol.error_line(request.id, "invalid_output", f"{misfit}" or "no JSON value")
    if len(line) > protocol.MAX_LINE:
        return protocol.error_line(request.id, "too_large", f"the result has {len(line)} bytes")
    return line


def _failure(request: protocol.Request, error: BaseException) -> bytes:
    if isinstance(error, OSError) and error.errno is not None:
        extra = {"errno": errno.errorcode.get(error.errno, str(error.errno))}
        if error.filename is not None:
            extra["object"] = (
                os.fsdecode(error.filename) if not isinstance(error.filename, int) else str(error.filename)
            )
        return protocol.error_line(request.id, "app_error", str(error), extra=extra)
    try:
        text = str(error)
    except Exception:
        text = type(error).__name__
    return protocol.error_line(request.id, "app_error", text or type(error).__name__)


def _tell_too_long(connection: Connection) -> None:
    connection.answer(protocol.error_line(None, "too_large", "a line has more than 8 MiB"))


def _refuse(connection: socket.socket) -> None:
    """The 33rd connection of one uid: told why, then closed."""
    connection.setblocking(False)
    try:
        connection.send(protocol.error_line(None, "too_many", f"{MAX_CONNECTIONS} connections are open"))
    except OSError:
        print("[berth:runtime] a refused connection was gone already", file=sys.stderr)
    connection.close()
