"""One HTTP check: a GET to each address of a host at once, until one of them answers well or the time is up.

A raw non-blocking exchange that reads the status line and closes: no redirects, no proxies, no certificates checked, no
thread for a server that never answers.
"""

from __future__ import annotations

import errno
import os

from ..core.loop import READ, WRITE
from . import lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from ..core.children import Children
    from ..core.loop import Loop
    from . import tls
    from .definition import ProbeSpec
    from .lookup import Address
else:
    try:
        import _socket as socket  # the C half: ``socket`` costs an interpreter start
    except ImportError:
        import socket

LONGEST_STATUS_LINE = 8192


class HttpCheck:
    """One GET to each address of the host at once; passes when one of them answers with an accepted status."""

    def __init__(
        self, spec: ProbeSpec, *, done: Callable[[bool, str], None], loop: Loop, children: Children, pids: set[int]
    ) -> None:
        self._spec = spec
        self._done: Callable[[bool, str], None] | None = done
        self._loop = loop
        self._open: list[_Exchange] = []
        self._lookup: lookup.Lookup | None = None
        self._timer = loop.call_later(spec.timeout, self._expired)
        known = lookup.literal(spec.host, spec.port)
        if known:
            self._ask(known)
        else:
            self._lookup = lookup.Lookup(spec.host, spec.port, found=self._ask, loop=loop, children=children, pids=pids)

    def _ask(self, addresses: list[Address]) -> None:
        self._lookup = None
        self._open = [_Exchange(address, self) for address in addresses]
        for exchange in list(self._open):
            exchange.begin(self._loop)
        if not addresses:
            self._finish(False, f"{self._spec.host} has no address")

    @property
    def is_over(self) -> bool:
        return self._done is None

    def cancel(self) -> None:
        """End it without an answer."""
        self._done = None
        self._close()

    def failed(self, exchange: _Exchange, complaint: str) -> None:
        """One address did not answer well; the last one to do so decides."""
        if exchange in self._open:
            self._open.remove(exchange)
        if not self._open:
            self._finish(False, complaint)

    def answered(self, exchange: _Exchange, status: int) -> None:
        wanted = self._spec.status_code
        if status == wanted if wanted else 200 <= status < 400:
            self._finish(True, "")
        else:
            self.failed(exchange, f"status {status} from {exchange.name}")

    def request(self) -> bytes:
        """The bytes to send; written so that the connection ends with the answer."""
        spec = self._spec
        host = f"[{spec.host}]" if ":" in spec.host else spec.host
        headers = {"Host": f"{host}:{spec.port}", "User-Agent": "berth-probe", "Accept": "*/*", "Connection": "close"}
        for key, value in spec.headers.items():
            headers = {known: kept for known, kept in headers.items() if known.lower() != key.lower()}
            headers[key] = value
        lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
        return f"GET {spec.path} HTTP/1.1\r\n{lines}\r\n".encode("utf-8", "surrogateescape")

    def channel(self) -> tls.Channel | None:
        """What encrypts an exchange, None where nothing does."""
        return self._spec.channel(self._spec.host) if self._spec.channel is not None else None

    def _expired(self) -> None:
        self._finish(False, f"no answer within {self._spec.timeout:g} s")

    def _finish(self, passed: bool, complaint: str) -> None:
        done, self._done = self._done, None
        self._close()
        if done is not None:
            done(passed, complaint)

    def _close(self) -> None:
        self._timer.cancel()
        if self._lookup is not None:
            self._lookup.cancel()
            self._lookup = None
        for exchange in self._open:
            exchange.close()
        self._open = []


class _Exchange:
    """A non-blocking connection to one address: connect, send, read the status line, close."""

    def __init__(self, address: Address, check: HttpCheck) -> None:
        self._family, self._address = address
        self._check = check
        self._channel = check.channel()
        self._socket: socket.socket | None = None
        self._unsent = check.request()
        self._answer = b""
        host, port = self._address[:2]
        self.name = f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"

    def begin(self, loop: Loop) -> None:
        self._loop = loop
        try:
            self._socket = socket.socket(self._family, socket.SOCK_STREAM | getattr(socket, "SOCK_CLOEXEC", 0))
            self._socket.setblocking(False)
            number = self._socket.connect_ex(self._address)
        except OSError as error:
            number = error.errno or errno.EIO
        if number not in (0, errno.EINPROGRESS):
            self._fail(number)
            return
        assert self._socket is not None
        loop.watch(self._socket.fileno(), WRITE, self._ready)

    def _ready(self, events: int) -> None:
        assert self._socket is not None
        try:
            number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                self._fail(number)
            elif self._channel is not None:
                self._talk_secretly(self._channel)
            elif self._unsent:
                self._send()
            else:
                self._receive(self._socket.recv(LONGEST_STATUS_LINE))
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error.errno or errno.EIO)

    def _send(self) -> None:
        assert self._socket is not None
        self._unsent = self._unsent[self._socket.send(self._unsent) :]
        self._loop.watch(self._socket.fileno(), WRITE if self._unsent else READ, self._ready)

    def _talk_secretly(self, channel: tls.Channel) -> None:
        """``_unsent`` is what the channel made; the request goes through it once, then the answer comes out of it."""
        assert self._socket is not None
        if not channel.is_begun:
            channel.request, self._unsent = self._unsent, b""
        else:
            try:
                channel.feed(self._socket.recv(65536))
            except BlockingIOError:
                pass  # woken to write
        answer, complaint = channel.step()
        self._unsent += channel.outgoing()
        if complaint:
            self.close()
            self._check.failed(self, f"{self.name}: {complaint}")
        elif answer is not None:
            self._receive(answer)
        else:
            self._loop.watch(self._socket.fileno(), READ | (WRITE if self._unsent else 0), self._ready)
            if self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]

    def _receive(self, block: bytes) -> None:
        self._answer += block
        line, end, _ = self._answer.partition(b"\n")
        if end or not block or len(self._answer) > LONGEST_STATUS_LINE:
            words = line.split(None, 2)
            self.close()
            if len(words) >= 2 and words[0].startswith(b"HTTP/") and words[1].isdigit():
                self._check.answered(self, int(words[1]))
            else:
                self._check.failed(self, f"{self.name} did not answer with HTTP")

    def _fail(self, number: int) -> None:
        self.close()
        self._check.failed(self, f"{self.name}: {os.strerror(number)}")

    def close(self) -> None:
        if self._socket is not None:
            self._loop.unwatch(self._socket.fileno())
            self._socket.close()
            self._socket = None
