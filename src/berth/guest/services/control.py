"""The control socket: HTTP/1.1, one request a connection, a token before anything else (supervisor.md 8).

    pc.lock   flock held for life        pc.sock   the listener
    pc.pid    who this is                pc.exit   why everything was ended by itself

Framing, limits and time limits are here; what the routes mean is routes.py. A client can disturb only itself: what it
sends is bounded, what it does not read is dropped with it after five seconds.
"""

from __future__ import annotations

import errno
import os
import select
import stat

from ..core import codec, wire
from ..core.loop import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from ..core.log import Log
    from ..core.loop import Loop, Timer

    Handler = Callable[["Request"], None]
else:
    try:
        import _socket as socket
    except ImportError:
        import socket

CLIENTS = 64
CLIENT_SECONDS = 5.0  # for sending a request, and again for taking its answer
LARGEST_HEAD = 64 << 10
LARGEST_BODY = 1 << 20
ACCEPT_PAUSE_SECONDS = 0.5  # out of descriptors


class Request:
    """One request that was read whole and carries the token. Answer it once, now or later."""

    __slots__ = ("_client", "body", "headers", "method", "on_close", "path", "query")

    def __init__(self, client: Client, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        self._client = client
        self.method = method
        path, _, query = target.partition("?")
        self.path = [wire.unquote(part) for part in path.strip("/").split("/")]
        pairs = (part.partition("=") for part in query.split("&") if part)
        self.query = {wire.unquote(key): wire.unquote(value.replace("+", " ")) for key, _, value in pairs}
        self.headers = headers
        self.body = body
        self.on_close: Callable[[], None] = _nothing

    def answer(self, document: object, status: int = 200) -> None:
        """Send ``document`` as JSON; nothing happens when the client is gone."""
        self._client.send(wire.encode_response(status, codec.dumps(document).encode("ascii")))

    def answer_raw(self, data: bytes) -> None:
        self._client.send(data)


class Client:
    """One connection, from accept to close."""

    def __init__(self, fd: int, server: Server) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(False)
        self._server = server
        self._loop = server.loop
        self._data = bytearray()
        self._unsent = b""
        self._request: Request | None = None
        self._timer: Timer | None = self._loop.call_later(CLIENT_SECONDS, self.close)
        self._loop.watch(fd, READ, self._readable)

    def send(self, data: bytes) -> None:
        """Send the answer and close."""
        if self._socket.fileno() < 0:
            return
        if self._request is not None:
            self._request.on_close = _nothing
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(CLIENT_SECONDS, self.close)
        self._unsent = data
        self._writable(0)

    def close(self) -> None:
        if self._socket.fileno() < 0:
            return
        self._loop.unwatch(self._socket.fileno())
        self._socket.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._request is not None:
            self._request.on_close()
        self._server.closed(self)

    def _readable(self, events: int) -> None:
        try:
            block = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            block = b""
        if self._request is not None:
            self._more_than_asked(block)
            return
        self._data += block
        try:
            is_whole = self._parse()
        except ValueError:
            self.send(wire.encode_response(400))
            return
        if not block and not is_whole:
            self.close()

    def _more_than_asked(self, block: bytes) -> None:
        """A client that waits for its answer wrote more, ended its side, or went away."""
        poll = select.poll()
        poll.register(self._socket.fileno(), 0)
        if block or poll.poll(0):  # only a connection closed on both sides reports something here
            self.close()
        else:
            self._loop.unwatch(self._socket.fileno())

    def _parse(self) -> bool:
        parsed = wire.parse_head(bytes(self._data))
        if parsed is None:
            if len(self._data) > LARGEST_HEAD:
                self.send(wire.encode_response(431))
            return False
        line, headers, length = parsed
        if not self._server.is_authorised(headers):
            self.send(wire.encode_response(401))
            return True
        words = line.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
            raise ValueError("malformed request line")
        size = wire.content_length(headers)
        if size > LARGEST_BODY or "transfer-encoding" in headers:
            self.send(wire.encode_response(413))
            return True
        if len(self._data) < length + size:
            return False
        body = bytes(self._data[length : length + size])
        self._request = Request(self, words[0], words[1], headers, body)
        self._data.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._server.handle(self._request)
        return True

    def _writable(self, events: int) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent)
                self._unsent = self._unsent[sent:]
        except BlockingIOError:
            self._loop.watch(self._socket.fileno(), WRITE, self._writable)
            return
        except OSError:
            self._unsent = b""  # gone, or its side is closed
        self.close()


class Server:
    """Listens on ``path``, which lies in ``directory`` (a descriptor of it). Raises OSError when it cannot."""

    def __init__(self, path: str, directory: int, token: str, *, loop: Loop, log: Log, handler: Handler) -> None:
        self.loop = loop
        self._log = log
        self._token = token.encode()
        self._handler = handler
        self._clients: list[Client] = []
        self._directory = directory
        self._listener = _listen(path, directory)
        loop.watch(self._listener.fileno(), READ, self._accept)

    def is_authorised(self, headers: dict[str, str]) -> bool:
        offered = headers.get(wire.TOKEN_HEADER.lower(), "").encode("latin-1", "replace")
        return _equal(offered, self._token)

    def handle(self, request: Request) -> None:
        try:
            self._handler(request)
        except Exception:  # a request is no reason to stop; the log has the trace
            self._log.exception()
            request.answer({"error": "internal error, see the supervisor's log"}, 500)

    def closed(self, client: Client) -> None:
        if client in self._clients:
            self._clients.remove(client)
            self._listen_again()

    def shut(self) -> None:
        """Take the socket away, so that nobody new arrives. Answers can still be sent."""
        self.loop.unwatch(self._listener.fileno())
        self._listener.close()
        try:
            os.unlink(wire.SOCKET_FILE, dir_fd=self._directory)
        except FileNotFoundError:
            return

    def _accept(self, events: int) -> None:
        while len(self._clients) < CLIENTS:
            try:
                fd, _ = self._listener._accept()  # type: ignore[attr-defined]  # the public one builds a socket.socket
            except BlockingIOError:
                return
            except OSError as error:
                self._log.once(f"cannot accept a client: {error.strerror}")
                self.loop.call_later(ACCEPT_PAUSE_SECONDS, self._listen_again)
                break
            self._clients.append(Client(fd, self))
        self.loop.unwatch(self._listener.fileno())

    def _listen_again(self) -> None:
        if self._listener.fileno() >= 0 and len(self._clients) < CLIENTS:
            self.loop.watch(self._listener.fileno(), READ, self._accept)


def _listen(path: str, directory: int) -> socket.socket:
    """A listening socket named through the directory's descriptor, so that no limit on path lengths applies."""
    inside = f"/proc/self/fd/{directory}"
    if os.path.isdir(inside):
        path = f"{inside}/{wire.SOCKET_FILE}"
    _remove_stale(path, directory)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | getattr(socket, "SOCK_CLOEXEC", 0))
    listener.setblocking(False)
    mask = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(mask)
    listener.listen(128)
    return listener


def _remove_stale(path: str, directory: int) -> None:
    """Remove a socket that nobody listens at; a living listener and anything but a socket stay. Raises OSError."""
    try:
        found = os.stat(wire.SOCKET_FILE, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.EEXIST, "something that is no socket is in its place")
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | getattr(socket, "SOCK_CLOEXEC", 0))
    try:
        probe.setblocking(False)
        if probe.connect_ex(path) != errno.ECONNREFUSED:
            raise FileExistsError(errno.EADDRINUSE, "somebody else listens there")
    finally:
        probe.close()
    os.unlink(wire.SOCKET_FILE, dir_fd=directory)


def _equal(first: bytes, second: bytes) -> bool:
    """Compare in a time that does not depend on where they differ."""
    if len(first) != len(second):
        return False
    difference = 0
    for one, other in zip(first, second):  # noqa: B905  # equal lengths; hmac would cost an import of hashlib
        difference |= one ^ other
    return difference == 0


def _nothing() -> None:
    """Nobody waits for the end of this connection."""
