"""The filter of 6.4, run through an interpreter of its own and compared with libseccomp's (T54), on both tables."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import itertools
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from berth.guest.sandbox import seccomp
from berth.guest.sandbox.policy import Policy
from berth.guest.sandbox.syscalls import AUDIT_ARCH, HIGHEST, NUMBERS
from support import bpf
from support.jail import document_of, manifest

MACHINES = sorted(NUMBERS)
EPERM, ENOSYS = 0x00050000 | 1, 0x00050000 | 38
ALLOW, KILL = 0x7FFF0000, 0x80000000

APPS = {
    "nothing": manifest("nothing"),
    "connect": manifest("connect", "network:connect:443"),
    "bind": manifest("bind", "network:bind:9000"),
    "anywhere": manifest("anywhere", "network:connect:*"),
    "terminal": manifest("terminal", "terminal:attach:*"),
}
POLICIES = {name: document_of(app).apps[0] for name, app in APPS.items()}


def answer(policy: Policy, machine: str, name: str | int, *arguments: int) -> int:
    number = NUMBERS[machine][name] if isinstance(name, str) else name
    return bpf.run(seccomp.program(policy, machine), arch=AUDIT_ARCH[machine], number=number, arguments=arguments)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", sorted(POLICIES))
def test_the_kernel_would_take_the_program(name: str, machine: str) -> None:
    program = seccomp.program(POLICIES[name], machine)
    bpf.verify(program)
    assert len(program) < 200


@pytest.mark.parametrize("machine", MACHINES)
def test_row_1_a_foreign_architecture_is_killed_whatever_it_calls(machine: str) -> None:
    program = seccomp.program(POLICIES["nothing"], machine)
    for arch, number in itertools.product((0x40000003, 0xC000003E, 0xC00000B7, 0x40000028, 0), (0, 39, 359, 2**32 - 1)):
        if arch != AUDIT_ARCH[machine]:
            assert bpf.run(program, arch=arch, number=number) == KILL


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("number", [HIGHEST + 1, 512, 0x3FFFFFFF, 0x40000000, 0x40000000 | 41, 0x7FFFFFFF, 2**32 - 1])
def test_row_2_numbers_nobody_knows_are_hidden(machine: str, number: int) -> None:
    assert answer(POLICIES["anywhere"], machine, number) == ENOSYS
    assert answer(POLICIES["anywhere"], machine, HIGHEST) == ALLOW


ALWAYS = {
    ENOSYS: "io_uring_setup io_uring_enter io_uring_register clone3",
    EPERM: """setns chroot pivot_root mount umount2 move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick
        mount_setattr ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd perf_event_open
        userfaultfd bpf modify_ldt add_key request_key keyctl shmget shmat shmctl semget semop semtimedop semctl msgget
        msgsnd msgrcv msgctl mq_open mq_unlink init_module finit_module delete_module kexec_load kexec_file_load
        open_by_handle_at fanotify_init acct swapon swapoff reboot quotactl quotactl_fd iopl ioperm syslog vhangup
        settimeofday clock_settime memfd_secret""",
}
X86_ONLY = {"modify_ldt", "iopl", "ioperm"}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "expected"), [(name, code) for code, names in ALWAYS.items() for name in names.split()]
)
def test_rows_3_to_10_what_is_never_allowed(machine: str, name: str, expected: int) -> None:
    if name in X86_ONLY and machine != "x86_64":
        assert name not in NUMBERS[machine]
        return
    for arguments in ((), (1, 2, 3, 4, 5, 6), (2**64 - 1,) * 6):
        assert answer(POLICIES["anywhere"], machine, name, *arguments) == expected


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_else_is_refused(machine: str) -> None:
    """Every number without a row passes, with any arguments."""
    named = set(NUMBERS[machine].values())
    for number in set(range(HIGHEST + 1)) - named:
        assert answer(POLICIES["nothing"], machine, number, 2**64 - 1) == ALLOW, number


NAMESPACE_BITS = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)

# call, arguments, expected: the conditional rows, for an app with connect ports and no listen grant
CONDITIONAL: list[tuple[str, tuple[int, ...], int]] = [
    *(("unshare", (bit,), EPERM) for bit in (*NAMESPACE_BITS, 0x80)),
    ("unshare", (0x200 | 0x400 | 0x40000,), ALLOW),
    ("unshare", (1 << 60 | 0x200,), ALLOW),
    *(("clone", (bit | 17,), EPERM) for bit in NAMESPACE_BITS),
    ("clone", (0x80 | 17,), ALLOW),
    ("clone", (0x003D0F00,), ALLOW),
    ("personality", (0,), ALLOW),
    ("personality", (0xFFFFFFFF,), ALLOW),
    ("personality", (2**64 - 1,), ALLOW),
    ("personality", (0x0040000,), EPERM),
    ("seccomp", (1, 0x8), EPERM),
    ("seccomp", (1, 0x8 | 0x1), EPERM),
    ("seccomp", (1, 0x1), ALLOW),
    ("seccomp", (2, 0x8), ALLOW),
    ("memfd_create", (0, 0), EPERM),
    ("memfd_create", (0, 0x10), EPERM),
    ("memfd_create", (0, 0x8), ALLOW),
    ("memfd_create", (0, 0xA), ALLOW),
    *(("ioctl", (0, request), EPERM) for request in (0x5412, 0x541C, 0x5423)),
    ("ioctl", (0, 0xDEAD00005412), EPERM),
    *(("ioctl", (0, request), ALLOW) for request in (0x5401, 0x5413, 0x5411, 0)),
    ("ioctl", (0x5412, 0x5401), ALLOW),
    ("socketpair", (1, 1), ALLOW),
    *(("socketpair", (family, 1), EPERM) for family in (0, 2, 10, 16)),
    ("sendto", (3, 0, 5, 0x20000000), EPERM),
    ("sendto", (3, 0, 5, 0x20004000), EPERM),
    ("sendto", (3, 0, 0x20000000, 0x4000), ALLOW),
    ("sendmsg", (3, 0, 0x20000000), EPERM),
    ("sendmsg", (3, 0, 0x40, 0x20000000), ALLOW),
    ("sendmmsg", (3, 0, 1, 0x20000000), EPERM),
    ("sendmmsg", (3, 0, 0x20000000, 0), ALLOW),
    ("setsockopt", (3, 6, 30), EPERM),
    ("setsockopt", (3, 6, 23), ALLOW),
    ("setsockopt", (3, 1, 30), ALLOW),
    ("listen", (3, 10), EPERM),
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("name", "arguments", "expected"), CONDITIONAL)
def test_rows_4_to_18_conditions(machine: str, name: str, arguments: tuple[int, ...], expected: int) -> None:
    assert answer(POLICIES["connect"], machine, name, *arguments) == expected


SOCKETS = [
    ((1, 1, 0), {"nothing", "connect", "bind", "anywhere", "terminal"}),
    ((1, 2 | 0x80000, 0), {"nothing", "connect", "bind", "anywhere", "terminal"}),
    ((2, 1, 0), {"connect", "bind", "anywhere", "terminal"}),
    ((2, 1, 6), {"connect", "bind", "anywhere", "terminal"}),
    ((10, 1 | 0x80800, 6), {"connect", "bind", "anywhere", "terminal"}),
    ((2, 2, 0), {"anywhere"}),
    ((10, 2, 17), {"anywhere"}),
    ((16, 3, 0), {"anywhere"}),
    *(((2, 1, protocol), set()) for protocol in (262, 132, 17, 1, 136)),
    *(((2, 2, protocol), set()) for protocol in (1, 6, 136, 58)),
    *(((family, kind, 0), set()) for family in (2, 10) for kind in (3, 5, 6, 10)),
    *(((16, 3, protocol), set()) for protocol in (1, 9, 12, 15, 16)),
    *(((family, 1, 0), set()) for family in (0, 3, 17, 21, 29, 31, 38, 40, 43, 44)),
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("arguments", "allowed"), SOCKETS)
def test_row_15_families(machine: str, arguments: tuple[int, ...], allowed: set[str]) -> None:
    for name, policy in POLICIES.items():
        expected = ALLOW if name in allowed else EPERM
        assert answer(policy, machine, "socket", *arguments) == expected, name


def test_row_18_listen_follows_the_grant() -> None:
    answers = {name: answer(policy, "x86_64", "listen", 3, 1) for name, policy in POLICIES.items()}
    assert answers == {"nothing": EPERM, "connect": EPERM, "bind": ALLOW, "anywhere": ALLOW, "terminal": ALLOW}


# ── libseccomp ──────────────────────────────────────────────────────────────────────────────────────────────────────


def load_libseccomp() -> ModuleType | None:
    """Debian's python3-seccomp, which belongs to Debian's Python, loaded when this one has the same ABI."""
    for path in Path("/usr/lib/python3/dist-packages").glob("seccomp*.so"):
        if f"cpython-{sys.version_info[0]}{sys.version_info[1]}-" in path.name:
            loader = importlib.machinery.ExtensionFileLoader("seccomp", str(path))
            spec = importlib.util.spec_from_loader("seccomp", loader)
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            return module
    return None


LIBSECCOMP = load_libseccomp()
needs_libseccomp = pytest.mark.skipif(LIBSECCOMP is None, reason="not compared here: python3-seccomp for this Python")


def exported(machine: str, default: Any, rules: list[tuple[Any, str, list[tuple[Any, ...]]]]) -> list[bpf.Instruction]:
    """libseccomp's program for ``machine``: ``default``, and (action, call, [(argument, operator, value, mask?)])."""
    library: Any = LIBSECCOMP
    made = library.SyscallFilter(default)
    made.set_attr(library.Attr.ACT_BADARCH, library.KILL_PROCESS)
    if machine != "x86_64":
        made.remove_arch(library.Arch(library.Arch.NATIVE))
        made.add_arch(library.Arch(machine))
    for action, name, conditions in rules:
        made.add_rule(action, name, *(library.Arg(*condition) for condition in conditions))
    with tempfile.TemporaryFile() as file:
        made.export_bpf(file)
        file.seek(0)
        return bpf.decode(file.read())


UNKNOWN_TO_IT = {"open_tree_attr"}


@needs_libseccomp
@pytest.mark.parametrize("machine", MACHINES)
def test_libseccomp_refuses_the_same_calls(machine: str) -> None:
    library: Any = LIBSECCOMP
    rules: list[Any] = []
    for code, names in ALWAYS.items():
        known = [name for name in names.split() if name in NUMBERS[machine] and name not in UNKNOWN_TO_IT]
        rules += [(library.ERRNO(code & 0xFFFF), name, []) for name in known]
    theirs = exported(machine, library.ALLOW, rules)
    ours = seccomp.program(POLICIES["anywhere"], machine)
    arch = AUDIT_ARCH[machine]
    skipped = {
        NUMBERS[machine][name] for name in (*seccomp.REFUSED_WHEN, *seccomp.ALLOWED_WHEN, "socket", *UNKNOWN_TO_IT)
    }
    compared = [number for number in range(HIGHEST + 1) if number not in skipped]
    assert len(compared) > 400
    for number in compared:
        assert bpf.run(ours, arch=arch, number=number) == bpf.run(theirs, arch=arch, number=number), number


def samples() -> list[int]:
    """32-bit values around everything a condition looks at."""
    bits = [1 << n for n in range(32)]
    constants = [0x5412, 0x541C, 0x5423, 6, 17, 23, 30, 262, 132, 0x7E020000, 0x7E020080, 0x3D0F00, 2**32 - 1, 0]
    return [*bits, *constants, *(c + 1 for c in constants[:-2]), *(c - 1 for c in constants[:-1])]


def refused_rules() -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """(call, conditions) of the rows that refuse on a condition, as libseccomp says them: one rule a bit."""
    library: Any = LIBSECCOMP
    masked, equal = library.MASKED_EQ, library.EQ
    for bit in (*NAMESPACE_BITS, 0x80):
        yield "unshare", [(0, masked, bit, bit)]
    for bit in NAMESPACE_BITS:
        yield "clone", [(0, masked, bit, bit)]
    yield "seccomp", [(0, masked, 0xFFFFFFFF, 1), (1, masked, 8, 8)]
    for request in (0x5412, 0x541C, 0x5423):
        yield "ioctl", [(1, masked, 0xFFFFFFFF, request)]
    for name, argument in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        yield name, [(argument, masked, 0x20000000, 0x20000000)]
    yield "setsockopt", [(1, equal, 6), (2, equal, 30)]


def argument_sets(count: int) -> Iterator[tuple[int, ...]]:
    values = samples()
    for argument in range(count):
        for value in values:
            for other in (0, 1, 2, 6, 8, 10, 16):
                yield tuple(value if index == argument else other for index in range(count))


@needs_libseccomp
@pytest.mark.parametrize("machine", MACHINES)
def test_libseccomp_refuses_under_the_same_conditions(machine: str) -> None:
    library: Any = LIBSECCOMP
    theirs = exported(
        machine, library.ALLOW, [(library.ERRNO(1), name, conditions) for name, conditions in refused_rules()]
    )
    ours = seccomp.program(POLICIES["connect"], machine)
    arch = AUDIT_ARCH[machine]
    for name in sorted({name for name, _conditions in refused_rules()}):
        number = NUMBERS[machine][name]
        for arguments in argument_sets(4):
            one = bpf.run(ours, arch=arch, number=number, arguments=arguments)
            assert one == bpf.run(theirs, arch=arch, number=number, arguments=arguments), (name, arguments)


def allowed_rules(name: str, policy: Policy) -> list[list[tuple[Any, ...]]]:
    """The conditions under which ``name`` is allowed, one rule per combination."""
    library: Any = LIBSECCOMP
    masked, equal = library.MASKED_EQ, library.EQ
    if name == "personality":
        return [[(0, equal, 0)], [(0, equal, 0xFFFFFFFF)]]
    if name == "memfd_create":
        return [[(1, masked, 8, 8)]]
    if name == "socketpair":
        return [[(0, equal, 1)]]
    rules: list[list[tuple[Any, ...]]] = [[(0, equal, 1)]]
    kinds = [(1, 6)] if policy.connect or policy.bind or policy.connect_any else []
    kinds += [(2, 17)] if policy.connect_any else []
    for family, (kind, protocol) in itertools.product((2, 10), kinds):
        rules += [[(0, equal, family), (1, masked, 0xF, kind), (2, equal, p)] for p in (0, protocol)]
    if policy.connect_any:
        rules.append([(0, equal, 16), (2, equal, 0)])
    return rules


@needs_libseccomp
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["personality", "memfd_create", "socketpair", "socket"])
def test_libseccomp_allows_under_the_same_conditions(machine: str, name: str) -> None:
    library: Any = LIBSECCOMP
    arch, number = AUDIT_ARCH[machine], NUMBERS[machine][name]
    for policy in POLICIES.values():
        rules = [(library.ALLOW, name, conditions) for conditions in allowed_rules(name, policy)]
        theirs = exported(machine, library.ERRNO(1), rules)
        ours = seccomp.program(policy, machine)
        for arguments in argument_sets(3):
            one = bpf.run(ours, arch=arch, number=number, arguments=arguments)
            assert one == bpf.run(theirs, arch=arch, number=number, arguments=arguments), arguments


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────

HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_tables_agree_with_the_kernel_s_headers(machine: str) -> None:
    header = Path(HEADERS[machine])
    if not header.exists():
        pytest.skip("not compared here: no kernel headers (linux-libc-dev)")
    known = {
        name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    }
    compared = {name: number for name, number in NUMBERS[machine].items() if name in known}
    assert {name: known[name] for name in compared} == compared
    assert set(NUMBERS[machine]) - set(known) <= {"open_tree_attr", "open_by_handle_at"}
    assert max(known.values()) <= HIGHEST


def test_both_tables_name_the_same_calls_but_for_those_of_one_processor() -> None:
    assert set(NUMBERS["x86_64"]) - set(NUMBERS["aarch64"]) == X86_ONLY
    assert set(NUMBERS["aarch64"]) <= set(NUMBERS["x86_64"])
    for table in NUMBERS.values():
        assert len(set(table.values())) == len(table)


def test_an_unknown_machine_has_no_program() -> None:
    with pytest.raises(KeyError):
        seccomp.program(POLICIES["nothing"], "riscv64")
