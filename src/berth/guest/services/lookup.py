"""Addresses of a host. A name is looked up in a child process, because the resolver blocks for as long as it likes."""

from __future__ import annotations

import os

from ..core.loop import READ, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from ..core.children import Children
    from ..core.loop import Loop

    Address = tuple[int, tuple[str, int]]
else:
    try:
        import _socket as socket
    except ImportError:
        import socket


def literal(host: str, port: int) -> list[Address]:
    """(family, address) pairs for ``localhost``, which is both loopbacks whatever the resolver says, or an address."""
    if host.lower().rstrip(".") == "localhost":
        return [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port))]
    try:
        return _resolve(host, port, socket.AI_NUMERICHOST)
    except OSError:
        return []


def _resolve(host: str, port: int, flags: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, 0, flags)
    return [(int(family), (str(address[0]), int(address[1]))) for family, _, _, _, address in found]


class Lookup:
    """One question to the resolver; ``found(addresses)`` once it has answered. Raises OSError: no process."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        found: Callable[[list[Address]], None],
        loop: Loop,
        children: Children,
        pids: set[int],
    ) -> None:
        self._found = found
        self._loop = loop
        self._pids = pids
        self._port = port
        self._reader, writer = os.pipe()
        try:
            self._pid = children.fork(lambda: _look(host, port, writer), on_exit=self._ended)
        except OSError:
            os.close(self._reader)
            raise
        finally:
            os.close(writer)
        pids.add(self._pid)
        loop.watch(self._reader, READ, self._answered)

    def cancel(self) -> None:
        """End it without an answer."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
        self._close()

    def _answered(self, events: int) -> None:
        text = os.read(self._reader, 65536).decode()
        self._close()
        pairs = (line.split() for line in text.splitlines())
        self._found([(int(family), (address, self._port)) for family, address in pairs])

    def _ended(self, status: int) -> None:
        self._pids.discard(self._pid)
        self._pid = 0

    def _close(self) -> None:
        if self._reader >= 0:
            self._loop.unwatch(self._reader)
            os.close(self._reader)
            self._reader = -1


def _look(host: str, port: int, writer: int) -> None:
    """In the child: the answer as lines of family and address, written at once."""
    try:
        found = _resolve(host, port, 0)
    except OSError:
        found = []
    os.write(writer, "".join(f"{family} {address[0]}\n" for family, address in found[:16]).encode())
