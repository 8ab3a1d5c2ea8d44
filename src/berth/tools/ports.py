"""Whether a port is free, and which ports the kernel gives to clients (workspaces.md 6).

Asks this machine's kernel now; which ports other workspaces hold is in the registry, the choice is in ``spec``.
"""

from __future__ import annotations

import errno
import sys

_ADDRESSES_4 = ("127.0.0.1", "0.0.0.0")  # noqa: S104  # probed, never served
_ADDRESSES_6 = ("::1", "::")

# What bind(2), listen(2) and socket(2) say where an address family is missing or switched off.
_NO_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT, errno.EPFNOSUPPORT)


def is_free(port: int) -> bool:
    """Whether a server could listen on ``port`` on every local address: each is bound and listened on in turn.

    With SO_REUSEADDR, so that a port in TIME_WAIT is free; never SO_REUSEPORT, which would hide a listener. A family
    that the host lacks is not probed. A port that must not be bound (EACCES) is not free.
    """
    import _socket

    for family, addresses in ((_socket.AF_INET, _ADDRESSES_4), (_socket.AF_INET6, _ADDRESSES_6)):
        for address in addresses:
            if not _can_listen(family, address, port):
                return False
    return True


def _can_listen(family: int, address: str, port: int) -> bool:
    import _socket

    try:
        probe = _socket.socket(family, _socket.SOCK_STREAM)
    except OSError as error:
        return error.errno in _NO_FAMILY
    try:
        probe.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        if family == _socket.AF_INET6:
            probe.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 1)
        probe.bind((address, port))
        probe.listen(1)
    except OSError as error:
        return error.errno in _NO_FAMILY
    finally:
        probe.close()
    return True


def ephemeral_range() -> tuple[int, int]:
    """The first and the last port which the kernel gives to clients (ip(7), ip_local_port_range)."""
    if sys.platform == "darwin":
        return 49152, 65535
    from berth.tools.procfs import read

    words = read("/proc/sys/net/ipv4/ip_local_port_range").split()
    if len(words) != 2:
        return 32768, 60999  # the kernel's own default
    return int(words[0]), int(words[1])
