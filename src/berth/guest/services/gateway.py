"""``guest gateway``: published ports to the loopback listeners of the applications, one event loop for all of them.

From 0.0.0.0:<gateway> to 127.0.0.1:<listen>, then [::1]:<listen> where that refuses (workspaces.md 9.2). It keeps
half-closed connections, holds at most 64 KiB each way and connection, and looks at no byte of what it carries. It
never ends by itself: whoever started it takes its end for a failure.

Edge-triggered: each descriptor is registered once, and read or written until the kernel says that it would block.
"""

from __future__ import annotations

import errno
import select
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

CHUNK = 65536
CONNECTIONS = 1024
TURNS = 8  # chunks moved for one connection before the others are looked at
BACKLOG = 1024
EXHAUSTED_SECONDS = 0.05

_EVENTS = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
_INPUT = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLHUP
_ENDED = select.EPOLLRDHUP | select.EPOLLHUP
_RARE = select.EPOLLERR | select.EPOLLHUP | select.EPOLLRDHUP
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Side:
    """One end of a connection: its socket, what is known to be possible, and what waits to be written to it."""

    __slots__ = ("can_read", "finished", "has_ended", "link", "other", "pending", "receive", "send", "socket")

    def __init__(self, connection: socket.socket, link: Link) -> None:
        self.socket = connection
        self.receive = connection.recv_into
        self.send = connection.send
        self.link = link
        self.other: Side = self
        self.can_read = False
        self.has_ended = False  # the peer will send nothing after what can be read now
        self.finished = False  # its end was read
        self.pending = b""


class Link:
    """A client and its application; ``targets`` are the addresses not tried yet."""

    __slots__ = ("client", "closed", "connected", "listener", "server", "targets")

    def __init__(self, connection: socket.socket, listener: Listener) -> None:
        self.listener = listener
        self.client = Side(connection, self)
        self.server: Side | None = None
        self.targets = list(listener.targets)
        self.connected = False
        self.closed = False


class Listener:
    """One published port and where it leads."""

    __slots__ = ("socket", "targets")

    def __init__(self, gateway: int, listen: int) -> None:
        self.targets = ((socket.AF_INET, "127.0.0.1", listen), (socket.AF_INET6, "::1", listen))
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.setblocking(False)
        self.socket.bind(("0.0.0.0", gateway))  # noqa: S104  # the engine publishes it on the host's loopback only
        self.socket.listen(BACKLOG)


class Gateway:
    """All ports of one workspace: ``pairs`` of (gateway port, listen port). Raises OSError when one cannot be bound."""

    def __init__(self, pairs: Sequence[tuple[int, int]], *, connections: int = CONNECTIONS) -> None:
        self._epoll = select.epoll()
        self._sides: dict[int, Side] = {}
        self._listeners: dict[int, Listener] = {}
        self._again: set[Side] = set()
        self._buffer = bytearray(CHUNK)
        self._view = memoryview(self._buffer)
        self._dead: list[socket.socket] = []
        self._links = 0
        self._largest = connections
        self._accepting = True
        for gateway, listen in pairs:
            listener = Listener(gateway, listen)
            self._listeners[listener.socket.fileno()] = listener
            self._epoll.register(listener.socket.fileno(), select.EPOLLIN)

    def run(self) -> None:
        """Serve for ever."""
        while True:
            self.turn()

    def turn(self) -> None:
        """Wait for something to do and do it."""
        sides, listeners = self._sides, self._listeners
        again, self._again = self._again, set()
        for fd, events in self._epoll.poll(0 if again else -1, 256):
            side = sides.get(fd)
            if side is None:
                if fd in listeners:
                    self._accept(listeners[fd])
            elif events & _RARE or side.pending or side.other.pending or not side.link.connected:
                self._event(side, events)
            elif events & select.EPOLLIN:
                self._carry(side)
        for side in again:
            if not side.link.closed:
                self._move(side)
        # Not before: a number given to a new connection would get what was reported of the old one in this turn.
        for connection in self._dead:
            connection.close()
        self._dead.clear()

    # -- connections come and go --------------------------------------------------------------------------------

    def _accept(self, listener: Listener) -> None:
        for _ in range(64):  # a bound, so that a flood of new ones does not starve the old ones
            if self._links >= self._largest:
                self._listen(False)
                return
            try:
                connection, _address = listener.socket.accept()
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    if self._links:
                        self._listen(False)  # it would be reported for ever; the next end listens again
                    else:
                        time.sleep(EXHAUSTED_SECONDS)  # others hold what is missing: nothing here can be awaited
                return
            self._open(connection, listener)

    def _listen(self, wanted: bool) -> None:
        """Accept, or leave new clients in the kernel's queue until a connection has ended."""
        if wanted != self._accepting:
            self._accepting = wanted
            for fd in self._listeners:
                self._epoll.modify(fd, select.EPOLLIN if wanted else 0)

    def _open(self, connection: socket.socket, listener: Listener) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(connection, listener)
        self._links += 1
        self._watch(link.client)
        self._connect(link)

    def _connect(self, link: Link) -> None:
        """Try the next address; when none is left the client is closed at once."""
        while link.targets:
            family, host, port = link.targets.pop(0)
            try:
                connection = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                continue  # no IPv6 here, or no descriptor left: the next address, or the end, decides
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number = connection.connect_ex((host, port))
            if number not in (0, errno.EINPROGRESS):
                connection.close()
                continue
            server = link.server = Side(connection, link)
            server.other, link.client.other = link.client, server
            link.connected = number == 0
            self._watch(server)
            return
        self._close(link)

    def _watch(self, side: Side) -> None:
        fd = side.socket.fileno()
        self._sides[fd] = side
        self._epoll.register(fd, _EVENTS)

    def _forget(self, side: Side) -> None:
        fd = side.socket.fileno()
        del self._sides[fd]
        self._epoll.unregister(fd)
        self._dead.append(side.socket)

    def _close(self, link: Link, *, reset: bool = False) -> None:
        """End both sides; with ``reset`` the one that is left hears of it as a reset, as if there were no gateway."""
        if link.closed:
            return
        link.closed = True
        for side in (link.client, link.server):
            if side is not None:
                if reset:
                    side.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                self._forget(side)
        self._links -= 1
        self._listen(True)

    # -- bytes -------------------------------------------------------------------------------------------------

    def _carry(self, source: Side) -> None:
        """The common case, on the shortest way: nothing waits in either direction, a message fits into one chunk."""
        try:
            size = source.receive(self._buffer)
        except BlockingIOError:
            source.can_read = False  # read by an earlier event of this turn
            return
        except OSError:
            self._close(source.link, reset=True)
            return
        if size == 0:
            self._finish(source)
            return
        target = source.other
        try:
            sent = target.send(self._view[:size])
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(source.link, reset=True)
            return
        if sent < size:
            target.pending = bytes(self._view[sent:size])
            source.can_read = True
        elif size == CHUNK:
            source.can_read = True
            self._again.add(source)
        else:
            source.can_read = False  # drained, epoll(7); more is a new event

    def _event(self, side: Side, events: int) -> None:
        link = side.link
        if side is link.server and not link.connected:
            if not self._has_connected(link, side):
                return
        elif events & select.EPOLLERR:
            self._close(link, reset=True)
            return
        if events & _ENDED:
            side.has_ended = True
        if events & _INPUT:
            side.can_read = True
        if side.pending or side.other.can_read:
            self._move(side.other)
        if side.can_read and not link.closed:
            self._move(side)

    def _has_connected(self, link: Link, server: Side) -> bool:
        """What became of an attempt that was under way."""
        number = server.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number == 0:
            link.connected = True
            return True
        self._forget(server)
        link.server = None
        self._connect(link)
        return False

    def _move(self, source: Side) -> None:
        """Carry from ``source`` to the other side until one of them would block."""
        target = source.other
        if target is source or not source.link.connected:
            return
        try:
            for _ in range(TURNS):
                if target.pending and not self._flush(target):
                    return
                if source.finished or not source.can_read:
                    return
                size = source.receive(self._buffer)
                if not size:
                    self._finish(source)
                    return
                if size < CHUNK and not source.has_ended:
                    source.can_read = False  # drained, epoll(7); more is a new event
                target.pending = bytes(self._view[:size])
            self._again.add(source)
        except BlockingIOError:
            source.can_read = False
        except OSError:
            self._close(source.link, reset=True)

    def _flush(self, target: Side) -> bool:
        """Write what waits for ``target``; False when it takes no more now."""
        try:
            sent = target.send(target.pending)
        except BlockingIOError:
            sent = 0
        if sent == len(target.pending):
            target.pending = b""
            return True
        target.pending = target.pending[sent:]
        return False

    def _finish(self, source: Side) -> None:
        """``source`` has sent its last byte: hand that on; when both have, the connection is over."""
        source.finished = True
        if source.other.finished:
            self._close(source.link)
            return
        try:
            source.other.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(source.link, reset=True)  # it was reset meanwhile


def raise_limit(wanted: int) -> int:
    """Allow ``wanted`` descriptors if the hard limit does, and return how many connections fit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(CONNECTIONS, (soft - 32) // 2))


def main(arguments: list[str]) -> int:
    """``gateway <gateway>:<listen> …``: serve until killed; 1 when a port cannot be bound."""
    try:
        pairs = [(int(gateway), int(listen)) for gateway, _, listen in (word.partition(":") for word in arguments[1:])]
    except ValueError:
        print("usage: guest gateway <gateway port>:<listen port> ...", file=sys.stderr)
        return 2
    connections = raise_limit(2 * CONNECTIONS + 64)
    try:
        gateway = Gateway(pairs, connections=connections)
    except OSError as error:
        print(f"gateway: {error.strerror}", file=sys.stderr)
        return 1
    gateway.run()
    return 1
