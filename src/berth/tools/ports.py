"""Is a port free? Bind and listen on every loopback and wildcard address, as a server would (workspaces.md 6)."""

from __future__ import annotations

import errno

from berth.spec import ports as rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Collection, Mapping, Sequence
else:
    import _socket as socket

_ADDRESSES = (
    (socket.AF_INET, "127.0.0.1"),
    (socket.AF_INET, "0.0.0.0"),  # noqa: S104  # a probe that is closed at once
    (socket.AF_INET6, "::1"),
    (socket.AF_INET6, "::"),
)
_NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)
_LINUX_EPHEMERAL = "/proc/sys/net/ipv4/ip_local_port_range"
_EPHEMERAL_ELSEWHERE = 49152


def is_free(port: int) -> bool:
    """True when a server could bind and listen on ``port`` on every address; TIME_WAIT does not count as taken."""
    return all(_can_listen(family, address, port) for family, address in _ADDRESSES)


def _can_listen(family: int, address: str, port: int) -> bool:
    try:
        probe = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        return error.errno in _NO_SUCH_FAMILY
    try:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        probe.bind((address, port))
        probe.listen(1)
    except OSError as error:
        return error.errno in _NO_SUCH_FAMILY
    finally:
        probe.close()
    return True


def ephemeral_from() -> int:
    """The first port that the kernel hands out by itself."""
    try:
        with open(_LINUX_EPHEMERAL, "rb") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return _EPHEMERAL_ELSEWHERE


def choose(
    names: Sequence[str], *, taken: Collection[int], listen: Mapping[str, int], environ: Mapping[str, str]
) -> dict[str, int]:
    """A free port for each name, in declaration order; none of ``taken``, none of the ``listen`` values.

    Raises invalid_port_range, ports_exhausted.
    """
    limits = rules.port_range(environ)
    avoided = set(taken) | set(listen.values())
    free = (
        port
        for port in rules.candidates(limits, ephemeral_from=ephemeral_from())
        if port not in avoided and is_free(port)
    )
    chosen = {}
    for name in names:
        port = next(free, None)
        if port is None:
            raise rules.exhausted(limits, name)
        chosen[name] = port
    return chosen
