"""Landlock by its three system calls: what this kernel can hold, a ruleset, the moment it counts (sandboxes.md 6.2).

Numbers are those of linux/landlock.h and https://docs.kernel.org/userspace-api/landlock.html. Which paths get which
rights is decided in ``rules``.
"""

from __future__ import annotations

import os
import stat
import struct

from berth.guest.sandbox.kernel import check, syscall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, List, Tuple

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_CHAR, MAKE_DIR = 1 << 4, 1 << 5, 1 << 6, 1 << 7
MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK = 1 << 8, 1 << 9, 1 << 10, 1 << 11
MAKE_SYM, REFER, TRUNCATE, IOCTL_DEV = 1 << 12, 1 << 13, 1 << 14, 1 << 15
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
ABSTRACT_UNIX_SOCKET, SIGNAL = 1 << 0, 1 << 1
LOG_NEW_EXEC_ON = 1 << 1

HANDLED = 0xFFFF
READ = READ_FILE | READ_DIR
EXEC = EXECUTE
WRITE_SHARED = (
    WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SYM | REFER | TRUNCATE
)  # no sockets, no fifos: what siblings share holds files; devices are made nowhere
WRITE_PRIVATE = WRITE_SHARED | MAKE_SOCK | MAKE_FIFO
DEVICE = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | IOCTL_DEV
ON_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # the kernel answers EINVAL to any other
NETWORK = BIND_TCP | CONNECT_TCP
SCOPED = ABSTRACT_UNIX_SOCKET | SIGNAL

# What each ABI added, under the kernel's own names; a right that the running one lacks is left out of the ruleset.
ADDED = (
    (2, "fs", REFER, "LANDLOCK_ACCESS_FS_REFER"),
    (3, "fs", TRUNCATE, "LANDLOCK_ACCESS_FS_TRUNCATE"),
    (4, "net", BIND_TCP, "LANDLOCK_ACCESS_NET_BIND_TCP"),
    (4, "net", CONNECT_TCP, "LANDLOCK_ACCESS_NET_CONNECT_TCP"),
    (5, "fs", IOCTL_DEV, "LANDLOCK_ACCESS_FS_IOCTL_DEV"),
    (6, "scope", ABSTRACT_UNIX_SOCKET, "LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET"),
    (6, "scope", SIGNAL, "LANDLOCK_SCOPE_SIGNAL"),
)
SCOPE_ABI, LOG_ABI = 6, 7
_RULE_PATH_BENEATH, _RULE_NET_PORT = 1, 2


def abi() -> int:
    """The Landlock ABI of the running kernel, 0 when it has none or a filter hides it."""
    result, _errno = syscall(CREATE_RULESET, None, 0, 1)
    return max(result, 0)


def supported(kind: str, mask: int, abi: int) -> int:
    """``mask`` of kind ``fs``, ``net`` or ``scope`` without the rights that ``abi`` lacks."""
    for since, added_kind, right, _name in ADDED:
        if added_kind == kind and abi < since:
            mask &= ~right
    return mask


def lacking(abi: int, *, network: int) -> List[str]:
    """Kernel names of the rights a full policy would use and ``abi`` lacks; ``network`` is the handled TCP mask."""
    return [name for since, kind, right, name in ADDED if abi < since and (kind != "net" or right & network)]


def create(abi: int, *, network: int) -> int:
    """A new ruleset that handles everything ``abi`` knows, of TCP only ``network``; returns its descriptor."""
    attributes = struct.pack(
        "=QQQ",
        supported("fs", HANDLED, abi),
        supported("net", network, abi),
        supported("scope", SCOPED, abi),
    )
    size = 8 if abi < 4 else 16 if abi < SCOPE_ABI else 24
    return check(CREATE_RULESET, attributes[:size], size, 0)


def allow_path(ruleset: int, descriptor: int, rights: int, *, abi: int) -> int:
    """Grant ``rights`` beneath the opened path; returns those granted, since a file can have no directory right."""
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= ON_A_FILE
    rights = supported("fs", rights, abi)
    if rights:
        check(ADD_RULE, ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    return rights


def allow_ports(ruleset: int, ports: Iterable[Tuple[int, int]], *, network: int, abi: int) -> None:
    """Grant (port, right) pairs, as far as the right is handled."""
    handled = supported("net", network, abi)
    for port, right in ports:
        if right & handled:
            check(ADD_RULE, ruleset, _RULE_NET_PORT, struct.pack("=QQ", right, port), 0)


def restrict(ruleset: int, *, abi: int) -> None:
    """Enforce the ruleset on this thread, for good. From ABI 7 on the kernel logs denials after the next exec."""
    check(RESTRICT_SELF, ruleset, LOG_NEW_EXEC_ON if abi >= LOG_ABI else 0)
