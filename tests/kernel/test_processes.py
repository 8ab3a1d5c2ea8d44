"""Processes and the kernel's side doors (attacks.md P, sandboxes.md 15.1 rows 9, 17-31, 41)."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

from support.jail import PYTHON, Row, World, document_of, inside, manifest, mount, needs_kernel, run_rows, without

pytestmark = needs_kernel

A = manifest("a", "filesystem:read:/workspace", "filesystem:write:/workspace", pids=32)
B = manifest("b")

NAMESPACES = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "network": 0x40000000,
    "pid": 0x20000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
    "time": 0x80,
}
IOCTL_ON_NULL = "ENOTTY"

# Held by the filter: attempted without any capability, so ``removed`` is what the kernel itself says then. Where it
# would refuse as well, with the same errno, nothing can be seen by removing one mechanism; tests of the filter itself
# (tests/unit/test_seccomp_program.py) hold those.
SECCOMP = [
    Row("P06 unshare user", ["syscall", 272, NAMESPACES["user"]], "EPERM", ["syscall", 272, 0x400]),
    *(
        Row(f"P06 unshare {name}", ["syscall", 272, flag], "EPERM", ["syscall", 272, 0x200], removed="EPERM")
        for name, flag in NAMESPACES.items()
        if name != "user"
    ),
    Row("P06 clone with a user namespace", ["clone", NAMESPACES["user"]], "EPERM", ["clone", 0]),
    Row("P06 clone3", ["syscall", 435, 0, 0], "ENOSYS", removed="EINVAL"),
    Row("P07 mount", ["syscall", 165, "none", "/tmp/a", "tmpfs", 0, 0], "EPERM", removed="EPERM"),
    Row("P07 fsopen", ["syscall", 430, "tmpfs", 0], "EPERM", removed="EPERM"),
    Row("P07 open_tree", ["syscall", 428, -100, "/tmp/a", 0], "EPERM"),
    Row("P07 move_mount", ["syscall", 429, -100, "/tmp/a", -100, "/tmp/a", 0], "EPERM", removed="EPERM"),
    Row("P07 mount_setattr", ["syscall", 442, -100, "/tmp/a", 0, 0, 0], "EPERM", removed="EINVAL"),
    Row("P07 pivot_root", ["syscall", 155, "/tmp/a", "/tmp/a"], "EPERM", removed="EPERM"),
    Row("P07 chroot", ["syscall", 161, "/tmp/a"], "EPERM", removed="EPERM"),
    Row("P07 umount2", ["syscall", 166, "/tmp/a", 0], "EPERM", removed="EPERM"),
    Row("P08 setns", ["syscall", 308, 0, 0], "EPERM", removed="EINVAL"),
    Row("P09 io_uring_setup", ["syscall", 425, 0, 0], "ENOSYS", removed="EFAULT|EINVAL"),
    Row("P09 io_uring_enter", ["syscall", 426, -1, 0, 0, 0, 0], "ENOSYS", removed="EBADF"),
    Row("P10 int 0x80 getpid", ["int80", 20], "SIGSYS", ["identity"], removed="*"),
    Row("P10 int 0x80 socket", ["int80", 359], "SIGSYS", removed="*"),
    Row("P10 x32 getpid", ["syscall", 0x40000000 | 39], "ENOSYS", ["syscall", 39], removed="*"),
    Row("P10 a number nobody knows", ["syscall", 470], "ENOSYS", ["syscall", 39], removed="*"),
    Row("P12 TIOCSTI", ["ioctl", 0x5412], "EPERM", removed=IOCTL_ON_NULL),
    Row("P12 TIOCLINUX", ["ioctl", 0x541C], "EPERM", removed=IOCTL_ON_NULL),
    Row("P12 TIOCSETD", ["ioctl", 0x5423], "EPERM", removed=IOCTL_ON_NULL),
    Row("P13 keyctl", ["syscall", 250, 0, -3, 0], "EPERM"),
    Row("P13 add_key", ["syscall", 248, "user", "x", "y", 1, -3], "EPERM"),
    Row("P13 request_key", ["syscall", 249, "user", "nothing", 0, -3], "EPERM", removed="ENOKEY"),
    Row("P24 personality", ["syscall", 135, 0x0040000], "EPERM", ["syscall", 135, 0xFFFFFFFF]),
    Row("P24 userfaultfd", ["syscall", 323, 0], "EPERM", removed="*"),
    Row("P24 perf_event_open", ["syscall", 298, 0, 0, 0, 0, 0], "EPERM", removed="*"),
    Row("P24 bpf", ["syscall", 321, 0, 0, 0], "EPERM", removed="*"),
    Row("P24 modify_ldt", ["syscall", 154, 0, 0, 0], "EPERM"),
    Row(
        "P24 a seccomp listener",
        ["seccomp_listener", 8],
        "EPERM",
        ["seccomp_listener", 0],
        removed="EINVAL|EFAULT",
        control_gives="EINVAL",
    ),
    Row("P24 kcmp", ["syscall", 312, 1, 1, 0, 0, 0], "EPERM", removed="*"),
    Row("P24 process_madvise", ["syscall", 440, 0, 0, 0, 0, 0], "EPERM", removed="EBADF"),
    Row("P24 open_by_handle_at", ["syscall", 304, -100, 0, 0], "EPERM", removed="*"),
    Row("P24 syslog", ["syscall", 103, 10, 0, 0], "EPERM", removed="*"),
    Row("P25 shmget", ["syscall", 29, 0, 4096, 0o1666], "EPERM"),
    Row("P25 semget", ["syscall", 64, 0, 1, 0o1666], "EPERM"),
    Row("P25 msgget", ["syscall", 68, 0, 0o1666], "EPERM"),
    Row("P25 mq_open", ["syscall", 240, "berth", 0o102, 0o600, 0], "EPERM", removed="EACCES"),
    Row("row 9 memfd_create", ["memfd_exec", 0], "EPERM", ["memfd", 8], removed=0),
    Row("row 9 memfd_create with exec", ["memfd", 16], "EPERM", ["memfd", 8]),
    Row("row 9 memfd_secret", ["syscall", 447, 0], "EPERM", removed="*"),
    Row("ptrace", ["syscall", 101, 0, 0, 0, 0], "EPERM"),
]

WHO = "import os; raise SystemExit(4 if os.geteuid() == 0 else 3)"

# Held by the kernel's own rules about uids, capabilities and sealed descriptors.
KERNEL = [
    Row("row 9 execute a sealed memfd", ["memfd_exec", 8], "EACCES", ["exec", "/usr/bin/true"], control_gives=0),
    Row("row 9 execveat a sealed memfd", ["execveat_memfd", 8], "EACCES", ["exec", "/usr/bin/true"], control_gives=0),
    Row("row 28 setuid 0", ["setuid", 0], "EPERM", ["setuid", 10000]),
    Row("row 28 setgid 0", ["setgid", 0], "EPERM", ["setgid", 10000]),
    Row("row 28 setgroups", ["setgroups"], "EPERM"),
    Row("row 28 capset", ["capset"], "EPERM"),
    Row("row 27 a setuid program", ["exec", "/usr/local/sbin/setuid-python", "-I", "-S", "-c", WHO], "3"),
    Row(
        "row 27 a program with file capabilities",
        ["exec", "/usr/local/sbin/capable"],
        "EPERM",
        ["exec", "/usr/bin/true"],
        control_gives=0,
    ),
]
EXPECTED_VALUES = {"row 27 a setuid program": 3}


def lay_out() -> World:
    """Both apps, and two programs that would raise privileges."""
    world = World(document_of(A, B))
    mount("programs", "/usr/local/sbin", "tmpfs")
    os.chown("/workspace", 10000, 9999)
    shutil.copy(PYTHON, "/usr/local/sbin/setuid-python")
    os.chmod("/usr/local/sbin/setuid-python", 0o4755)
    shutil.copy("/usr/bin/true", "/usr/local/sbin/capable")
    effective_sys_admin = bytes.fromhex("0100000200002000000000000000000000000000")
    os.setxattr("/usr/local/sbin/capable", "security.capability", effective_sys_admin)
    return world


@pytest.fixture(scope="module")
def seen() -> Any:
    return inside(lambda: run_rows(lay_out(), "a", [*SECCOMP, *KERNEL]))


@pytest.fixture(scope="module")
def seen_without_seccomp() -> Any:
    return inside(lambda: run_rows(lay_out(), "a", SECCOMP, become=without("seccomp")))


@pytest.mark.parametrize("row", [*SECCOMP, *KERNEL], ids=lambda row: row.id)
def test_a_side_door_is_shut_and_the_front_door_is_open(row: Row, seen: Any, record_property: Any) -> None:
    record_property("row", [row.id, row.expected, seen[row.id], row.control and seen[row.id + "+"], row.held_by])
    if row.control is not None:
        value = seen[row.id + "+"]
        assert value == row.control_gives or row.control[0] == "identity", "positive control"
    assert seen[row.id] == EXPECTED_VALUES.get(row.id, row.expected)


@pytest.mark.parametrize("row", SECCOMP, ids=lambda row: row.id)
def test_without_the_filter_the_kernel_answers_itself(
    row: Row, seen_without_seccomp: Any, record_property: Any
) -> None:
    record_property("removed", [row.id, "seccomp", seen_without_seccomp[row.id]])
    assert (
        row.removed == "*"
        or seen_without_seccomp[row.id] in str(row.removed).split("|")
        or (seen_without_seccomp[row.id] == row.removed)
    )
