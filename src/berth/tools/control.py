"""The host's end of a control socket: one HTTP exchange a connection, and many sockets asked at once.

Sockets are reached through descriptors, so that neither long paths nor planted links matter; answers are untrusted
input with a size and a time limit. What an answer means for a workspace is decided elsewhere. On the path of
``status`` and ``ls``: few imports (performance.md).
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time

from berth.guest.core import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence
else:
    try:
        import _socket as socket  # the C half: ``socket`` costs more than an interpreter start
    except ImportError:
        import socket

QUERY_SECONDS = 3.0
CONNECT_SECONDS = 0.5
RETRY_SECONDS = 0.15  # between two refused connections
LARGEST_ANSWER = 16 << 20

# What was found at a control socket (workspaces.md 8.5).
ABSENT = "absent"  # no socket
REFUSED = "refused"  # twice: nobody listens any more
ANSWERING = "answering"
SILENT = "silent"  # somebody listens, nobody answers in time
FOREIGN = "foreign"  # a regular file, a listener that is not ours, a wrong token

O_PATH = getattr(os, "O_PATH", os.O_RDONLY)


class Unreachable(Exception):
    """No answer from a control socket; ``kind`` is ABSENT, REFUSED, SILENT or FOREIGN, the text says what was found."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Control:
    """Where one supervisor is reached.

    ``directory`` is trusted (native: the control directory). ``below`` are components under it that are opened without
    following links (container: ``.berth``, ``run`` of the workspace). ``owner`` is the uid the socket must have,
    ``token`` the content of pc.token. ``relay`` reaches the socket by another way (an exec in a container): it gives
    a connected socket, and a function that says after its end what was found: ABSENT, REFUSED or None.
    """

    __slots__ = ("below", "directory", "owner", "relay", "token")

    def __init__(
        self,
        directory: str,
        token: str,
        *,
        below: tuple[str, ...] = (),
        owner: int | None = None,
        relay: Callable[[], tuple[int, Callable[[], str | None]]] | None = None,
    ) -> None:
        self.directory = directory
        self.token = token
        self.below = below
        self.owner = os.geteuid() if owner is None else owner
        self.relay = relay

    @property
    def path(self) -> str:
        return os.path.join(self.directory, *self.below, wire.SOCKET_FILE)


class State:
    """What one control socket said: ``kind`` as above, ``processes`` of ``process_objects``, ``detail`` as text."""

    __slots__ = ("detail", "kind", "processes")

    def __init__(self, kind: str, processes: list[dict[str, object]], detail: str) -> None:
        self.kind = kind
        self.processes = processes
        self.detail = detail


class Exchange:
    """One request to one socket, driven by ``step`` whenever its descriptor is ready or its time has come."""

    def __init__(self, control: Control, request: bytes, timeout_seconds: float) -> None:
        self.control = control
        self.answer: tuple[int, bytes] | None = None
        self.failure: Unreachable | None = None
        self.wake_at = 0.0
        self._request = request
        self._unsent = request
        self._received = bytearray()
        self._socket: socket.socket | None = None
        self._refusals = 0
        self._verdict: Callable[[], str | None] | None = None
        self._ended: str | None = None  # what a relay said when it was over
        self._deadline = time.monotonic() + timeout_seconds
        self._connect()

    @property
    def is_over(self) -> bool:
        return self.answer is not None or self.failure is not None

    @property
    def fd(self) -> int:
        return self._socket.fileno() if self._socket is not None else -1

    @property
    def events(self) -> int:
        return select.POLLOUT if self._unsent else select.POLLIN

    def step(self) -> None:
        """Go on as far as possible without waiting."""
        if self._socket is None:
            if time.monotonic() >= self.wake_at:
                self._connect()
            return
        try:
            if self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            else:
                self._receive()
        except BlockingIOError:
            pass  # not ready after all
        except OSError as error:
            self._fail(FOREIGN, f"{self.control.path}: {os.strerror(error.errno or 0)}")
        if not self.is_over and time.monotonic() >= self._deadline:
            self._fail(SILENT, f"{self.control.path}: no answer in time")

    def _connect(self) -> None:
        if self.control.relay is not None:
            number, self._verdict = self.control.relay()
            self._socket = socket.socket(fileno=number)
            self._socket.setblocking(False)
            self.wake_at = self._deadline
            return
        try:
            fd = open_socket(self.control)
        except Unreachable as failure:
            self.failure = failure
            return
        try:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | getattr(socket, "SOCK_CLOEXEC", 0))
            connection.setblocking(False)
            number = connection.connect_ex(
                f"/proc/self/fd/{fd}" if os.path.isdir("/proc/self/fd") else self.control.path
            )
        finally:
            os.close(fd)
        if number == 0:
            self._socket = connection
            self.wake_at = self._deadline
            return
        connection.close()
        self._not_connected(number)

    def _not_connected(self, number: int) -> None:
        now = time.monotonic()
        if number == errno.ECONNREFUSED:
            self._refusals += 1
            if self._refusals == 2:
                self._fail(REFUSED, f"{self.control.path}: nobody listens")
        elif number != errno.EAGAIN:
            self._fail(FOREIGN, f"{self.control.path}: {os.strerror(number)}")
        elif now >= self._deadline:  # EAGAIN: its queue is full, so somebody listens and does not accept
            self._fail(SILENT, f"{self.control.path}: connections are not accepted")
        self.wake_at = min(now + RETRY_SECONDS, max(self._deadline, now))

    def _receive(self) -> None:
        assert self._socket is not None
        block = self._socket.recv(1 << 20)
        self._received += block
        if len(self._received) > LARGEST_ANSWER:
            self._fail(FOREIGN, f"{self.control.path}: the answer is too large")
        elif not block:
            self._finish()

    def _finish(self) -> None:
        self.close()
        if not self._received:
            kind = self._ended
            self._fail(kind or SILENT, f"{self.control.path}: {kind or 'closed without an answer'}")
            return
        try:
            status, body = wire.parse_response(bytes(self._received))
        except ValueError as error:
            self._fail(FOREIGN, f"{self.control.path}: {error}")
            return
        if status == 401:
            self._fail(FOREIGN, f"{self.control.path}: the token is refused")
        else:
            self.answer = status, body

    def _fail(self, kind: str, message: str) -> None:
        self.close()
        self.failure = Unreachable(kind, message)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            if self._verdict is not None:
                self._ended = self._verdict()


def open_socket(control: Control) -> int:
    """A descriptor of the socket itself (O_PATH), its kind and owner checked. Raises Unreachable."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
    try:
        directory = os.open(control.directory, flags)
        try:
            for name in control.below:
                inner = os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
                os.close(directory)
                directory = inner
            found = os.stat(wire.SOCKET_FILE, dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISSOCK(found.st_mode):
                raise Unreachable(FOREIGN, f"{control.path}: not a socket")
            fd = os.open(wire.SOCKET_FILE, O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        finally:
            os.close(directory)
    except FileNotFoundError:
        raise Unreachable(ABSENT, f"{control.path}: no socket") from None
    except OSError as error:
        raise Unreachable(FOREIGN, f"{control.path}: {error.strerror}") from None
    status = os.fstat(fd)
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != control.owner:
        os.close(fd)
        raise Unreachable(FOREIGN, f"{control.path}: not a socket of user {control.owner}")
    return fd


def drive(exchanges: Sequence[Exchange]) -> None:
    """Let all ``exchanges`` come to an answer or a failure, waiting for all of them at once."""
    try:
        while waiting := [exchange for exchange in exchanges if not exchange.is_over]:
            poll = select.poll()
            by_fd = {}
            for exchange in waiting:
                if exchange.fd >= 0:
                    poll.register(exchange.fd, exchange.events)
                    by_fd[exchange.fd] = exchange
            now = time.monotonic()
            pause = max(0.0, min(exchange.wake_at for exchange in waiting) - now)
            for fd, _ in poll.poll(pause * 1000 + 1):
                by_fd[fd].step()
            now = time.monotonic()
            for exchange in waiting:
                if not exchange.is_over and exchange.wake_at <= now:
                    exchange.step()
    finally:
        for exchange in exchanges:
            exchange.close()


def query(
    control: Control, method: str, path: str, *, timeout_seconds: float = QUERY_SECONDS, body: bytes = b""
) -> tuple[int, object]:
    """(HTTP status, JSON document) of one request. Raises Unreachable."""
    exchange = Exchange(control, wire.encode_request(method, path, control.token, body), timeout_seconds)
    drive((exchange,))
    if exchange.answer is None:
        raise exchange.failure or Unreachable(SILENT, control.path)
    return exchange.answer[0], _document(control, exchange.answer[1])


def _document(control: Control, body: bytes) -> object:
    import json

    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # endlessly nested: code inside a container can answer here
        raise Unreachable(FOREIGN, f"{control.path}: the answer is not JSON") from None


def state(control: Control, *, timeout_seconds: float = QUERY_SECONDS) -> State:
    """What is found at ``control``, its processes included."""
    return states((control,), timeout_seconds=timeout_seconds)[0]


def states(controls: Sequence[Control], *, timeout_seconds: float = QUERY_SECONDS) -> list[State]:
    """The state at each of ``controls``, asked all at once, in their order."""
    exchanges = [
        Exchange(control, wire.encode_request("GET", "/processes", control.token), timeout_seconds)
        for control in controls
    ]
    drive(exchanges)
    return [_state(exchange) for exchange in exchanges]


def _state(exchange: Exchange) -> State:
    if exchange.answer is None:
        failure = exchange.failure or Unreachable(SILENT, exchange.control.path)
        return State(failure.kind, [], str(failure))
    status, body = exchange.answer
    try:
        document = _document(exchange.control, body)
        if status != 200:
            raise Unreachable(FOREIGN, f"{exchange.control.path}: status {status}")
        return State(ANSWERING, process_objects(document), "")
    except Unreachable as failure:
        return State(failure.kind, [], str(failure))
    except (KeyError, TypeError, ValueError, AttributeError):
        return State(FOREIGN, [], f"{exchange.control.path}: not the states of processes")


def process_objects(document: object) -> list[dict[str, object]]:
    """The Process objects of workspaces.md 2.4, without ``listening``, sorted by name, from ``GET /processes``.

    Raises KeyError, TypeError, ValueError or AttributeError when it is not such an answer.
    """
    return sorted((process_object(item) for item in document["data"]), key=lambda item: str(item["name"]))  # type: ignore[index]


def process_object(item: Mapping[str, object]) -> dict[str, object]:
    """One Process object from one state in process-compose's words."""
    status, ready, pid = str(item["status"]), str(item["is_ready"]), int(str(item["pid"]))
    has_code = status in ("Completed", "Error", "Restarting")
    return {
        "name": str(item["name"]),
        "status": status,
        "ready": ready,
        "healthy": status in ("Running", "Launched") and ready in ("Ready", "-"),
        "pid": pid or None,
        "exit_code": int(str(item["exit_code"])) if has_code else None,
        "restarts": int(str(item["restarts"])),
    }
