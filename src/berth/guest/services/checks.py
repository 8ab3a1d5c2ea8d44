"""One check of a probe: run a command, or ask an HTTP server for its status line. Neither blocks the loop.

A check calls ``done(passed, complaint)`` exactly once, unless it is cancelled first. Deadlines are the check's own.
"""

from __future__ import annotations

import errno
import os

from ..core.children import exit_code, signal_group
from ..core.loop import READ, WRITE, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from ..core.children import Children
    from ..core.loop import Loop
    from .definition import ProbeSpec
else:
    try:
        import _socket as socket  # the C half: ``socket`` costs an interpreter start
    except ImportError:
        import socket

KEPT_OUTPUT = 4096
LONGEST_STATUS_LINE = 8192


class Command:
    """``sh -c`` in its own session with a time limit; what is left of its group when it ends is killed.

    ``pids`` holds its pid while it is unreaped.
    """

    def __init__(
        self,
        command: str,
        *,
        env: Mapping[str, str],
        cwd: str | None,
        tag: int | None,
        timeout: float,
        done: Callable[[bool, str], None],
        loop: Loop,
        children: Children,
        pids: set[int],
    ) -> None:
        self.pid = 0
        self._pids = pids
        self._done: Callable[[bool, str], None] | None = done
        self._loop = loop
        self._timeout = timeout
        self._output = b""
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        try:
            self.pid = children.spawn(
                ("/bin/sh", "-c", command),
                env=env,
                cwd=cwd,
                stdout=writer,
                stderr=writer,
                tag=tag,
                on_exec=self._executed,
                on_exit=self._ended,
                sweep_group=True,
            )
        except OSError:
            os.close(self._reader)
            raise
        finally:
            os.close(writer)
        pids.add(self.pid)
        loop.watch(self._reader, READ, self._readable)
        self._timer = loop.call_later(timeout, self._expired)

    @property
    def is_over(self) -> bool:
        return self._done is None

    def cancel(self) -> None:
        """End it without an answer."""
        if self._done is not None:
            self._done = None
            signal_group(self.pid, signal.SIGKILL)
            self._close()

    def _readable(self, events: int) -> None:
        try:
            block = os.read(self._reader, 65536)
        except BlockingIOError:
            return
        self._output = (self._output + block)[-KEPT_OUTPUT:]
        if not block:
            self._loop.unwatch(self._reader)

    def _executed(self, number: int) -> None:
        if number:
            self._finish(False, f"could not be run: {os.strerror(number)}")

    def _expired(self) -> None:
        signal_group(self.pid, signal.SIGKILL)
        self._finish(False, f"no answer within {self._timeout:g} s")

    def _ended(self, status: int) -> None:
        self._pids.discard(self.pid)
        if self._done is not None:
            self._readable(0)
            code = exit_code(status)
            self._finish(code == 0, "" if code == 0 else f"exit code {code}")

    def _finish(self, passed: bool, complaint: str) -> None:
        done, self._done = self._done, None
        self._close()
        said = self._output.decode("utf-8", "replace").strip()
        if done is not None:
            done(passed, f"{complaint}: {said}" if complaint and said else complaint)

    def _close(self) -> None:
        self._timer.cancel()
        if self._reader >= 0:
            self._loop.unwatch(self._reader)
            os.close(self._reader)
            self._reader = -1


class HttpCheck:
    """One GET to each address of the host at once; passes when one of them answers with an accepted status."""

    def __init__(self, spec: ProbeSpec, *, done: Callable[[bool, str], None], loop: Loop) -> None:
        self._spec = spec
        self._done: Callable[[bool, str], None] | None = done
        self._loop = loop
        self._complaint = ""
        self._open = [_Exchange(address, self) for address in addresses(spec.host, spec.port)]
        self._timer = loop.call_later(spec.timeout, self._expired)
        for exchange in list(self._open):
            exchange.begin(loop)
        if not self._open:
            self._finish(False, self._complaint or f"{spec.host} has no address")

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
        self._complaint = complaint
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

    def secure(self) -> bool:
        return self._spec.scheme == "https"

    def _expired(self) -> None:
        self._finish(False, f"no answer within {self._spec.timeout:g} s")

    def _finish(self, passed: bool, complaint: str) -> None:
        done, self._done = self._done, None
        self._close()
        if done is not None:
            done(passed, complaint)

    def _close(self) -> None:
        self._timer.cancel()
        for exchange in self._open:
            exchange.close()
        self._open = []


class _Exchange:
    """A non-blocking connection to one address: connect, send, read the status line, close."""

    def __init__(self, address: tuple[int, tuple[object, ...]], check: HttpCheck) -> None:
        self._family, self._address = address
        self._check = check
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
            if self._unsent:
                number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if number:
                    self._fail(number)
                    return
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
                if not self._unsent:
                    self._loop.watch(self._socket.fileno(), READ, self._ready)
            else:
                self._receive(self._socket.recv(LONGEST_STATUS_LINE))
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error.errno or errno.EIO)

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


def addresses(host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
    """(family, address) pairs for ``host``; ``localhost`` is both loopbacks, whatever the resolver says."""
    if host.lower().rstrip(".") == "localhost":
        return [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port))]
    try:
        found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    except OSError:
        return []
    return [(family, address) for family, _, _, _, address in found]
