"""The listening TCP sockets of this machine, asked from the kernel (sock_diag(7)).

A netlink dump of listeners alone is far cheaper than /proc/net/tcp, which lists every connection; that file is read
where netlink is refused. Who holds a socket is the matter of ``tools.listeners``.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_DUMP_REQUEST = 0x301
_NLMSG_ERROR = 2
_NLMSG_DONE = 3
_INET_DIAG_REQ_PROTOCOL = 2  # an attribute, for protocol numbers that need more than a byte
_LISTEN = 10
_TCP = 6
_MPTCP = 262
_RAW = 255
_MESSAGE_HEAD = 16
_SOCKET_HEAD = 4


class Listener:
    """One listening socket: ``address`` is 4 or 16 bytes, ``inode`` is what /proc/<pid>/fd shows of it.

    Of a multipath TCP server there are two: one for the program's socket (``is_multipath``), and one that the
    kernel keeps for it and that no process holds.
    """

    __slots__ = ("address", "inode", "is_multipath", "port")

    def __init__(self, port: int, address: bytes, inode: int, *, is_multipath: bool = False) -> None:
        self.port = port
        self.address = address
        self.inode = inode
        self.is_multipath = is_multipath


def listeners() -> list[Listener]:
    """Every listening TCP socket of this network namespace, IPv4 and IPv6; empty on macOS."""
    if not sys.platform.startswith("linux"):
        return []
    import _socket

    families = (_socket.AF_INET, _socket.AF_INET6)
    try:
        found = [one for family in families for one in dump(family, _TCP)]
    except OSError:  # no netlink, or a sandbox that forbids it
        return list(from_files())
    try:
        found.extend(one for family in families for one in dump(family, _MPTCP))
    except OSError:
        pass  # a kernel without multipath TCP
    return found


def dump(family: int, protocol: int) -> list[Listener]:
    """The listeners of one address family and protocol. Raises OSError when the kernel refuses."""
    import _socket

    found: list[Listener] = []
    channel = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG)
    try:
        channel.sendto(_request(family, protocol), (0, 0))
        while True:
            for kind, body in _messages(channel.recv(1 << 16)):
                if kind in (_NLMSG_DONE, _NLMSG_ERROR):
                    if number := int.from_bytes(body[:4], sys.byteorder, signed=True):
                        raise OSError(-number, "sock_diag refused")
                    return found
                found.append(_decode(body, protocol == _MPTCP))
    finally:
        channel.close()


def _request(family: int, protocol: int) -> bytes:
    def number(value: int, size: int) -> bytes:
        return value.to_bytes(size, sys.byteorder)

    attribute = b"" if protocol <= _RAW else number(8, 2) + number(_INET_DIAG_REQ_PROTOCOL, 2) + number(protocol, 4)
    states = number(1 << _LISTEN, 4)
    body = bytes((family, min(protocol, _RAW), 0, 0)) + states + bytes(48) + attribute
    head = number(_MESSAGE_HEAD + len(body), 4) + number(_SOCK_DIAG_BY_FAMILY, 2) + number(_NLM_F_DUMP_REQUEST, 2)
    return head + bytes(8) + body


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _MESSAGE_HEAD <= len(data):
        length = int.from_bytes(data[at : at + 4], sys.byteorder)
        if length < _MESSAGE_HEAD:
            return
        yield int.from_bytes(data[at + 4 : at + 6], sys.byteorder), data[at + _MESSAGE_HEAD : at + length]
        at += (length + 3) & ~3


def _decode(body: bytes, is_multipath: bool) -> Listener:
    """struct inet_diag_msg: 4 bytes, the socket's id (ports big-endian, then addresses), five numbers."""
    import _socket

    size = 4 if body[0] == _socket.AF_INET else 16
    port = int.from_bytes(body[_SOCKET_HEAD : _SOCKET_HEAD + 2], "big")
    address = body[_SOCKET_HEAD + 4 : _SOCKET_HEAD + 4 + size]
    return Listener(port, address, int.from_bytes(body[68:72], sys.byteorder), is_multipath=is_multipath)


def from_files() -> Iterator[Listener]:
    """The same from /proc/net/tcp and tcp6 (proc(5)), without multipath."""
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{name}") as file:
                rows = file.read().splitlines()[1:]
        except OSError:  # no such family
            continue
        for row in rows:
            words = row.split()
            if words[3] != f"{_LISTEN:02X}":
                continue
            address, port = words[1].split(":")
            packed = b"".join(
                int(address[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(address), 8)
            )
            yield Listener(int(port, 16), packed, int(words[9]))
