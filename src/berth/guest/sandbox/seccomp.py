"""The system call filter of one app as classic BPF (sandboxes.md 6.4), and the moment it is installed.

Allow by default: what the filter names is what Landlock and file modes cannot hold. The table is data; ``program``
turns it into instructions for one architecture, ``install`` hands them to the kernel. Arguments are compared on
their low 32 bits, which is all that the kernel looks at for every call named here.
"""

from __future__ import annotations

import ctypes
import struct

from berth.guest.sandbox.kernel import prctl
from berth.guest.sandbox.syscalls import AUDIT_ARCH, HIGHEST, NUMBERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple, Union

    from berth.guest.sandbox.policy import Policy

    Instruction = Tuple[int, int, int, int]
    Clause = Tuple[Union["Among", "AnyBit"], ...]

EPERM, ENOSYS = 1, 38
ALLOW, KILL_PROCESS, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_STREAM, SOCK_DGRAM, SOCK_TYPE = 1, 2, 0xF
TCP, UDP, TCP_FASTOPEN_CONNECT = 6, 17, 30
MSG_FASTOPEN = 0x20000000
CLONE_NAMESPACES, CLONE_NEWTIME = 0x7E020000, 0x80  # in clone's flags 0x80 is part of the exit signal
MFD_NOEXEC_SEAL = 0x8
SECCOMP_SET_MODE_FILTER, SECCOMP_NEW_LISTENER = 1, 0x8
TIOCSTI, TIOCLINUX, TIOCSETD = 0x5412, 0x541C, 0x5423


class Among:
    """True when an argument, masked, is one of ``values``."""

    __slots__ = ("argument", "mask", "values")

    def __init__(self, argument: int, *values: int, mask: int = 0xFFFFFFFF) -> None:
        self.argument = argument
        self.values = values
        self.mask = mask


class AnyBit:
    """True when an argument has at least one of ``bits``."""

    __slots__ = ("argument", "bits")

    def __init__(self, argument: int, bits: int) -> None:
        self.argument = argument
        self.bits = bits


HIDDEN = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3")  # row 3: ENOSYS, so that libc falls back
REFUSED = (
    *("setns", "chroot", "pivot_root", "mount", "umount2", "move_mount", "open_tree", "open_tree_attr"),  # row 6
    *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd"),  # row 7
    *("perf_event_open", "userfaultfd", "bpf", "modify_ldt"),
    *("add_key", "request_key", "keyctl"),  # row 8
    *("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl"),  # row 9
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load"),  # row 10
    *("open_by_handle_at", "fanotify_init", "acct", "swapon", "swapoff", "reboot", "quotactl", "quotactl_fd"),
    *("iopl", "ioperm", "syslog", "vhangup", "settimeofday", "clock_settime"),
    "memfd_secret",  # row 13
)
# Refused when one clause holds; a clause holds when all its tests do.
REFUSED_WHEN: Dict[str, Tuple[Clause, ...]] = {
    "unshare": ((AnyBit(0, CLONE_NAMESPACES | CLONE_NEWTIME),),),
    "clone": ((AnyBit(0, CLONE_NAMESPACES),),),
    "seccomp": ((Among(0, SECCOMP_SET_MODE_FILTER), AnyBit(1, SECCOMP_NEW_LISTENER)),),
    "ioctl": ((Among(1, TIOCSTI, TIOCLINUX, TIOCSETD),),),
    "sendto": ((AnyBit(3, MSG_FASTOPEN),),),
    "sendmsg": ((AnyBit(2, MSG_FASTOPEN),),),
    "sendmmsg": ((AnyBit(3, MSG_FASTOPEN),),),
    "setsockopt": ((Among(1, TCP), Among(2, TCP_FASTOPEN_CONNECT)),),
}
# Allowed only when one clause holds.
ALLOWED_WHEN: Dict[str, Tuple[Clause, ...]] = {
    "personality": ((Among(0, 0, 0xFFFFFFFF),),),
    "memfd_create": ((AnyBit(1, MFD_NOEXEC_SEAL),),),
    "socketpair": ((Among(0, AF_UNIX),),),
}


def sockets(policy: Policy) -> Tuple[Clause, ...]:
    """What ``socket`` may make for this app, row 15: the families of its grants, TCP without its look-alikes."""
    inet = Among(0, AF_INET, AF_INET6)
    clauses: List[Clause] = [(Among(0, AF_UNIX),)]
    if policy.connect_any or policy.connect or policy.bind:
        clauses.append((inet, Among(1, SOCK_STREAM, mask=SOCK_TYPE), Among(2, 0, TCP)))
    if policy.connect_any:
        clauses.append((inet, Among(1, SOCK_DGRAM, mask=SOCK_TYPE), Among(2, 0, UDP)))
        clauses.append((Among(0, AF_NETLINK), Among(2, 0)))
    return tuple(clauses)


def families(policy: Policy) -> List[str]:
    """The same in words, for the log."""
    names = ["unix"]
    if policy.connect_any or policy.connect or policy.bind:
        names.append("tcp")
    return names + (["udp", "netlink"] if policy.connect_any else [])


# Instructions are (code, jump if true, jump if false, k) of linux/bpf_common.h; jumps are relative and only forward.
_LOAD, _AND, _JEQ, _JGT, _JSET, _JUMP, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x05, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data; both architectures are little-endian


def program(policy: Policy, machine: str) -> List[Instruction]:
    """The filter of ``policy`` for ``machine`` (``x86_64`` or ``aarch64``; KeyError for any other)."""
    numbers = NUMBERS[machine]
    refused = REFUSED if policy.listen else (*REFUSED, "listen")
    allowed_when = {**ALLOWED_WHEN, "socket": sockets(policy)}
    code: List[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_JEQ, 1, 0, AUDIT_ARCH[machine]),
        _answer(KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        (_JGT, 0, 1, HIGHEST),  # x32 numbers are above it, too
        _answer(ERRNO | ENOSYS),
    ]
    code += _always([numbers[name] for name in HIDDEN], ENOSYS)
    for name, clauses in REFUSED_WHEN.items():
        code += _block(numbers[name], clauses, holds=ERRNO | EPERM, fails=ALLOW)
    for name, clauses in allowed_when.items():
        code += _block(numbers[name], clauses, holds=ALLOW, fails=ERRNO | EPERM)
    code += _always([numbers[name] for name in refused if name in numbers], EPERM)
    return [*code, _answer(ALLOW)]


def _answer(value: int) -> Instruction:
    return (_RETURN, 0, 0, value)


def _always(numbers: List[int], errno: int) -> List[Instruction]:
    """Answer ``errno`` for each of ``numbers``, fall through for others."""
    last = len(numbers) - 1
    checks = [(_JEQ, last - i, 0 if i < last else 1, number) for i, number in enumerate(numbers)]
    return [*checks, _answer(ERRNO | errno)]


def _block(number: int, clauses: Tuple[Clause, ...], *, holds: int, fails: int) -> List[Instruction]:
    """Answer for one call: ``holds`` when a clause does, else ``fails``; fall through for every other call."""
    body = [instruction for clause in clauses for instruction in _clause(clause, holds)]
    body.append(_answer(fails))
    return [(_JEQ, 0, len(body), number), *body]


def _clause(tests: Clause, answer: int) -> List[Instruction]:
    """Answer when all tests hold, fall through otherwise. Built from its end, where the distances are known."""
    code = [_answer(answer)]
    for test in reversed(tests):
        left = len(code)
        load = (_LOAD, 0, 0, _ARGUMENTS + 8 * test.argument)
        if isinstance(test, AnyBit):
            code = [load, (_JSET, 0, left, test.bits), *code]
            continue
        last = len(test.values) - 1
        equal = [(_JEQ, last - i, left if i == last else 0, value) for i, value in enumerate(test.values)]
        mask = [(_AND, 0, 0, test.mask)] if test.mask != 0xFFFFFFFF else []
        code = [load, *mask, *equal, *code]
    return code


def install(code: List[Instruction]) -> None:
    """Put the filter on the calling thread and what it starts, for good. OSError when the kernel refuses."""
    instructions = b"".join(struct.pack("=HBBI", *instruction) for instruction in code)
    held = ctypes.create_string_buffer(instructions, len(instructions))
    header = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(held))
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header)


PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
