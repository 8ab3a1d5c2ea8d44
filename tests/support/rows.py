"""The attack table as data: attempts in an app, what each must give, and its positive control (attacks.md F, P, N).

Three apps' worth of capabilities, the places they find, and the rows. Used on the bare kernel (tests/kernel) and in
containers of real engines (tests/engine); standard library and ``berth.guest`` only.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
from pathlib import Path
from typing import Callable, Iterator  # noqa: UP035 — Python 3.9 reads this file

from support.world import PYTHON, Row, World, mount

# The capabilities of the app that makes the attempts; every sandbox has a sibling ``b`` besides.
FILES_APP = (
    "filesystem:read:/workspace/a",
    "filesystem:write:/workspace/a",
    "filesystem:read:/workspace/readable",
    "filesystem:write:/workspace/writable",
    "filesystem:read:/context",
    "filesystem:write:/context",
)
PROCESSES_APP = ("filesystem:read:/workspace", "filesystem:write:/workspace")

# Held by Landlock: everything these touch is open to every uid by mode, so that nothing else can be the reason.
FILES_LANDLOCK = [
    Row("F01 write outside", ["write", "/opt/open/new"], "EACCES", ["write", "/workspace/a/new"]),
    Row("F01 overwrite outside", ["overwrite", "/opt/open/file"], "EACCES", ["overwrite", "/workspace/a/file"]),
    Row("F01 write in a sibling's directory", ["write", "/workspace/b/new"], "EACCES", ["write", "/workspace/a/n2"]),
    Row("F01 write below /run/berth", ["write", "/run/berth/open/new"], "EACCES", ["write", "/tmp/a/new"]),
    Row(
        "F01 write where only reading is granted", ["write", "/workspace/readable/n"], "EACCES", ["write", "/context/n"]
    ),
    Row("read outside", ["read", "/opt/open/file"], "EACCES", ["read", "/workspace/readable/file"]),
    Row(
        "read where only writing is granted", ["read", "/workspace/writable/f"], "EACCES", ["read", "/workspace/a/file"]
    ),
    Row("list /", ["list", "/"], "EACCES", ["list", "/workspace/a"]),
    Row("list /opt", ["list", "/opt"], "EACCES", ["list", "/usr"]),
    Row("list /proc", ["list", "/proc"], "EACCES", ["@list", "/proc/self/fd"]),
    Row("list /run/berth", ["list", "/run/berth"], "EACCES", ["list", "/etc/python3"]),
    Row("F02 truncate outside", ["truncate", "/opt/open/file"], "EACCES", ["truncate", "/workspace/a/t"]),
    Row(
        "F02 truncate where only reading is granted",
        ["truncate", "/workspace/readable/file"],
        "EACCES",
        ["truncate", "/workspace/writable/f"],
    ),
    Row(
        "F02 open read-only and truncate",
        ["open_truncating", "/workspace/readable/file"],
        "EACCES",
        ["open_truncating", "/workspace/a/t"],
    ),
    Row(
        "F03 read through a planted link",
        ["through_symlink", "/opt/open/file", "/workspace/a/l1"],
        "EACCES",
        ["through_symlink", "/workspace/readable/file", "/workspace/a/l2"],
    ),
    Row(
        "F03 write through a planted link",
        ["through_symlink", "/opt/open/file", "/workspace/a/l3", "overwrite"],
        "EACCES",
        ["through_symlink", "/workspace/a/file", "/workspace/a/l4", "overwrite"],
    ),
    Row("F03 read ..", ["read", "/workspace/a/../../opt/open/file"], "EACCES", ["read", "/workspace/a/../a/file"]),
    Row(
        "F04 link a foreign file in",
        ["link", "/opt/open/file", "/workspace/a/stolen"],
        "EXDEV",
        ["link", "/workspace/a/file", "/workspace/a/linked"],
    ),
    Row(
        "F04 link a read-only file in",
        ["link", "/workspace/readable/own", "/workspace/a/s2"],
        "EXDEV",
        ["link", "/workspace/a/file", "/workspace/a/linked2"],
    ),
    Row(
        "F04 link /proc/self/fd/N",
        ["link_descriptor", "/workspace/readable/own", "/workspace/a/s3"],
        "EXDEV",
        ["link_descriptor", "/workspace/a/file", "/workspace/a/linked3"],
    ),
    Row(
        "F05 rename out",
        ["rename", "/workspace/a/moved", "/opt/open/moved"],
        "EXDEV|EACCES",
        ["rename", "/workspace/a/m1", "/workspace/a/d/m1"],
    ),
    Row(
        "F05 rename in",
        ["rename", "/opt/open/m", "/workspace/a/m"],
        "EXDEV|EACCES",
        ["rename", "/workspace/a/m2", "/workspace/a/d/m2"],
    ),
    Row(
        "F05 exchange",
        ["exchange", "/workspace/a/x1", "/opt/open/x2"],
        "EXDEV|EACCES",
        ["exchange", "/workspace/a/x3", "/workspace/a/x4"],
    ),
    Row(
        "F05 whiteout",
        ["exchange", "/workspace/a/w1", "/opt/open/w2", 4],
        "EXDEV|EACCES|EPERM",
        ["rename", "/workspace/a/w3", "/workspace/a/w4"],
    ),
    Row(
        "row 5 ftruncate a descriptor opened for reading",
        ["ftruncate_read_only", "/workspace/a/file"],
        "EINVAL",
        ["truncate", "/workspace/a/t"],
        removed="EINVAL",
    ),
    Row("remove outside", ["unlink", "/opt/open/gone"], "EACCES", ["unlink", "/workspace/a/gone"]),
    Row("make a directory outside", ["mkdir", "/opt/open/dir"], "EACCES", ["mkdir", "/workspace/a/dir"]),
    Row("remove a directory outside", ["rmdir", "/opt/open/empty"], "EACCES", ["rmdir", "/workspace/a/empty"]),
    Row("make a link outside", ["symlink", "x", "/opt/open/sym"], "EACCES", ["symlink", "x", "/workspace/a/sym"]),
    Row("F11 create in /dev/shm", ["write", "/dev/shm/x"], "EACCES", ["write", "/tmp/a/x"]),
    Row("F11 create in /dev/mqueue", ["write", "/dev/mqueue/x"], "EACCES", ["write", "/tmp/a/x"], removed="EINVAL"),
    Row("F11 create in /var/tmp", ["write", "/var/tmp/x"], "EACCES", ["write", "/tmp/a/x"]),
    Row("F11 create in /run/lock", ["write", "/run/lock/x"], "EACCES", ["write", "/tmp/a/x"]),
    Row("F12 fifo in /context", ["mkfifo", "/context/fifo"], "EACCES", ["mkfifo", "/tmp/a/fifo"]),
    Row(
        "F12 fifo in a shared grant", ["mkfifo", "/workspace/a/fifo"], "EACCES", ["mkfifo", "/var/lib/berth/state/a/f"]
    ),
    Row("F12 socket in /context", ["bind_unix", "/context/sock"], "EACCES", ["bind_unix", "/tmp/a/sock"]),
    Row(
        "F14 write through /proc/self/fd",
        ["reopen_for_write", "/workspace/readable/own"],
        "EACCES",
        ["reopen_for_write", "/workspace/a/file"],
    ),
    Row(
        "F14 read /proc/self/root",
        ["read", "/proc/self/root/opt/open/file"],
        "EACCES",
        ["read", "/proc/self/root/workspace/readable/file"],
    ),
    Row(
        "F14 list /proc/thread-self/cwd/..",
        ["list", "/proc/thread-self/cwd/.."],
        "EACCES",
        ["list", "/proc/thread-self/cwd"],
    ),
    Row(
        "F15 a neighbour with the same beginning",
        ["write", "/workspace/a-evil/x"],
        "EACCES",
        ["write", "/workspace/a/y"],
    ),
    Row("F15 through ..", ["write", "/workspace/a/../a-evil/x"], "EACCES", ["write", "/workspace/a/../a/y"]),
    Row("F15 doubled slashes", ["write", "/workspace//a-evil//x"], "EACCES", ["write", "/workspace//a//y"]),
    Row(
        "row 8 execute what it wrote",
        ["write_and_exec", "/workspace/a/program"],
        "EACCES",
        ["exec", "/usr/bin/true"],
        control_gives=0,
        removed=0,
    ),
    Row(
        "row 8 execute a script it wrote",
        ["script_and_exec", "/workspace/a/script"],
        "EACCES",
        ["exec", "/bin/sh", "-c", "exit 0"],
        control_gives=0,
        removed=0,
    ),
    Row("row 26 a pseudo-terminal without terminal:*", ["open_pty"], "EACCES"),
    Row(
        "row 32 list the secrets directory",
        ["list", "/run/berth/secrets"],
        "EACCES",
        ["list", "/run/berth/secrets/a"],
        removed="EACCES",
    ),
]

# Held by owners and modes: Landlock does not cover these calls, or would allow them.
FILES_MODES = [
    Row("F01 write in /etc", ["write", "/etc/new"], "EACCES", ["write", "/tmp/a/z"]),
    Row(
        "F03 /etc/shadow through a link",
        ["through_symlink", "/etc/shadow", "/tmp/a/s"],
        "EACCES",
        ["through_symlink", "/etc/passwd", "/tmp/a/s"],
    ),
    Row(
        "F03 /proc/1/root through a link",
        ["through_symlink", "/proc/1/root", "/tmp/a/s"],
        "EACCES",
        ["@through_symlink", "/proc/self/status", "/tmp/a/s"],
    ),
    Row("F08 chmod the own app directory", ["chmod", "/app/apps/a"], "EPERM", ["chmod", "/tmp/a/z"]),
    Row("F08 chown the policy file", ["chown", "/run/berth/policy/a.json"], "EPERM", ["chown", "/tmp/a/z"]),
    Row("F08 touch the own program", ["utime", "/app/apps/a/probe.py"], "EPERM", ["utime", "/tmp/a/z"]),
    Row(
        "F08 an attribute on the own program",
        ["setxattr", "/app/apps/a/probe.py"],
        "EACCES|EPERM",
        ["setxattr", "/tmp/a/z"],
    ),
    Row("F09 look into a sibling's home", ["stat", "/tmp/b/secret"], "EACCES", ["stat", "/tmp/a/z"]),
    Row("F09 O_PATH into a sibling's home", ["opath", "/tmp/b/secret"], "EACCES", ["opath", "/tmp/a/z"]),
    Row(
        "F09 walk through .. into a sibling's state",
        ["stat", "/var/lib/berth/state/a/../b/x"],
        "EACCES",
        ["stat", "/var/lib/berth/state/a/../a"],
    ),
    Row("F11 create in /tmp itself", ["write", "/tmp/x"], "EACCES", ["write", "/tmp/a/x"]),
    Row("F12 character device", ["mknod", "/tmp/a/null", "char"], "EPERM|EACCES", ["mkfifo", "/tmp/a/f2"]),
    Row("F12 block device in /context", ["mknod", "/context/disk", "block"], "EPERM|EACCES", ["write", "/context/n"]),
    Row(
        "row 32 a sibling's secret",
        ["read", "/run/berth/secrets/b/TOKEN"],
        "EACCES",
        ["read", "/run/berth/secrets/a/TOKEN"],
    ),
    Row(
        "row 32 a sibling's policy",
        ["read", "/run/berth/policy/b.json"],
        "EACCES",
        ["read", "/run/berth/policy/a.json"],
    ),
    Row(
        "row 37 remove a sibling's file in /context", ["unlink", "/context/of-b"], "EPERM", ["unlink", "/context/of-a"]
    ),
]


def lay_out_files(world: World) -> World:
    """The directories of both apps, and a world-writable place that no grant names."""
    os.umask(0)
    for path in ("/workspace/a/d", "/workspace/a/empty", "/workspace/b", "/workspace/a-evil", "/workspace/readable"):
        os.makedirs(path)
    for path in ("/workspace/writable", "/opt/open/empty", "/run/berth/open"):
        os.makedirs(path)
    names = ("file", "t", "moved", "m1", "m2", "x1", "x3", "x4", "w1", "w3", "gone")
    for path in [
        *(f"/workspace/a/{n}" for n in names),
        "/workspace/readable/own",
        "/context/of-a",
        "/workspace/writable/f",
    ]:
        Path(path).write_text("text")
        os.chmod(path, 0o666)
        os.chown(path, 10000, 10000)
    for path in ("/workspace/readable/file", *(f"/opt/open/{n}" for n in ("file", "m", "x2", "w2", "gone"))):
        Path(path).write_text("text")
        os.chmod(path, 0o666)
    Path("/context/of-b").write_text("text")
    os.chown("/context/of-b", 10001, 10001)
    Path("/tmp/b/secret").write_text("text")
    Path("/var/lib/berth/state/b/x").write_text("text")
    for path in ("/workspace/a", "/workspace/a/d", "/workspace/a/empty"):
        os.chown(path, 10000, 10000)
    return world


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
PROCESSES_SECCOMP = [
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
    Row("P10 int 0x80 getpid", ["int80", 20], "SIGSYS", ["syscall", 39], removed="*"),
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
PROCESSES_KERNEL = [
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
PROCESSES_VALUES = {"row 27 a setuid program": 3}


def lay_out_processes(world: World) -> World:
    """Two programs that would raise privileges."""
    mount("programs", "/usr/local/sbin", "tmpfs")
    os.chown("/workspace", 10000, 9999)
    shutil.copy(PYTHON, "/usr/local/sbin/setuid-python")
    os.chmod("/usr/local/sbin/setuid-python", 0o4755)
    shutil.copy("/usr/bin/true", "/usr/local/sbin/capable")
    effective_sys_admin = bytes.fromhex("0100000200002000000000000000000000000000")
    os.setxattr("/usr/local/sbin/capable", "security.capability", effective_sys_admin)
    return world


DECLARED, OTHER, BOUND = 8001, 8003, 8002
NETWORK_APP = (f"network:connect:{DECLARED}", f"network:bind:{BOUND}")

INET, INET6, STREAM, DGRAM, RAW = 2, 10, 1, 2, 3

PORTS = [
    Row("N01 connect to an undeclared port", ["tcp_connect", OTHER], "EACCES", ["tcp_connect", DECLARED]),
    Row("N01 connect by IPv6", ["tcp_connect", OTHER, "::1"], "EACCES", ["tcp_connect", DECLARED, "::1"]),
    Row(
        "N01 connect by v4-mapped IPv6",
        ["tcp_connect", OTHER, "::ffff:127.0.0.1"],
        "EACCES",
        ["tcp_connect", DECLARED, "::ffff:127.0.0.1"],
    ),
    Row("row 12 bind an undeclared port", ["tcp_bind", 8004], "EACCES", ["tcp_bind", BOUND]),
    Row("N06 bind any port", ["tcp_bind", 0], "EACCES", ["tcp_bind", BOUND]),
]

FAMILIES = [
    Row("N02 sendto with fast open", ["fast_open", "sendto", OTHER], "EPERM", ["tcp_connect", DECLARED], removed="*"),
    Row("N02 sendmsg with fast open", ["fast_open", "sendmsg", OTHER], "EPERM", ["tcp_connect", DECLARED], removed="*"),
    Row(
        "N02 sendmmsg with fast open", ["fast_open", "sendmmsg", OTHER], "EPERM", ["tcp_connect", DECLARED], removed="*"
    ),
    Row("N02 fast open by option", ["fast_open", "option", OTHER], "EPERM", ["tcp_connect", DECLARED], removed="*"),
    Row("N03 MPTCP", ["socket", INET, STREAM, 262], "EPERM", ["socket", INET, STREAM, 6]),
    Row("N03 SCTP", ["socket", INET, STREAM, 132], "EPERM", ["socket", INET, STREAM], removed="*"),
    Row("N03 SMC", ["socket", 43, STREAM], "EPERM", ["socket", INET6, STREAM], removed="*"),
    Row("N03 UDP-Lite", ["socket", INET, DGRAM, 136], "EPERM", ["socket", INET, STREAM], removed="*"),
    Row("N04 UDP", ["udp_send", 53], "EPERM", ["socket", 1, DGRAM]),
    Row("N04 UDP by IPv6", ["socket", INET6, DGRAM], "EPERM", ["socket", 1, DGRAM]),
    Row("N04 ping socket", ["socket", INET, DGRAM, 1], "EPERM", ["socket", INET, STREAM], removed="*"),
    Row("N04 raw socket", ["socket", INET, RAW, 1], "EPERM", ["socket", INET, STREAM], removed="EPERM"),
    Row("N04 AF_PACKET", ["socket", 17, RAW], "EPERM", ["socket", 1, STREAM], removed="EPERM"),
    Row("N04 AF_VSOCK", ["socket", 40, STREAM], "EPERM", ["socket", 1, STREAM], removed="*"),
    Row("N04 AF_ALG", ["socket", 38, 5], "EPERM", ["socket", 1, STREAM], removed="*"),
    Row("N04 AF_NETLINK", ["socket", 16, RAW], "EPERM", ["socket", 1, STREAM]),
    Row("row 14 a type with flags", ["socket", INET, DGRAM | 0x80000], "EPERM", ["socket", INET, STREAM | 0x80000]),
    Row("row 16 socketpair of another family", ["socketpair", INET], "EPERM", ["socketpair", 1], removed="ENOTSUP"),
]

WITHOUT_NETWORK = [
    Row("row 13 an IP socket without any capability", ["socket", INET, STREAM], "EPERM", ["socket", 1, STREAM]),
    Row("row 13 an IPv6 socket without any capability", ["socket", INET6, STREAM], "EPERM", ["socketpair", 1]),
    Row("row 13 UDP without any capability", ["socket", INET, DGRAM], "EPERM", ["socket", 1, DGRAM]),
    Row("row 16 listen on its own unix socket", ["listen_unix", "/tmp/none/s"], "EPERM", ["bind_unix", "/tmp/none/t"]),
]
LISTEN = [
    Row("N06 listen without bind", ["tcp_listen"], "EPERM", ["tcp_connect", DECLARED]),
]

ANYWHERE = [
    ("connect anywhere", ["tcp_connect", OTHER], "ok"),
    ("bind anywhere", ["tcp_bind", 8005], "ok"),
    ("listen on any port", ["tcp_listen"], "ok"),
    ("UDP", ["udp_send", 53], "ok"),
    ("UDP over IPv6", ["socket", INET6, DGRAM, 17], "ok"),
    ("routing messages", ["socket", 16, RAW, 0], "ok"),
    ("MPTCP stays refused", ["socket", INET, STREAM, 262], "EPERM"),
    ("raw stays refused", ["socket", INET, RAW, 1], "EPERM"),
    ("ping stays refused", ["socket", INET, DGRAM, 1], "EPERM"),
    ("vsock stays refused", ["socket", 40, STREAM], "EPERM"),
    ("other netlink protocols stay refused", ["socket", 16, RAW, 15], "EPERM"),
    ("fast open stays refused", ["fast_open", "sendto", OTHER], "EPERM"),
]


@contextlib.contextmanager
def listeners() -> Iterator[Callable[[], int]]:
    """Servers on the declared and on the other port; yields a function that counts what arrived at the other one."""
    held: list[socket.socket] = []
    others: list[socket.socket] = []
    for port in (DECLARED, OTHER):
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            sock = socket.socket(family)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((host, port))
            except OSError:  # a container without IPv6
                sock.close()
                continue
            sock.setsockopt(socket.IPPROTO_TCP, 23, 16)  # a server that would take fast open
            sock.listen(64)
            held.append(sock)
            others += [sock] if port == OTHER else []

    def arrived() -> int:
        ready, _w, _x = select.select(others, [], [], 0.2)
        return len(ready)

    try:
        yield arrived
    finally:
        for sock in held:
            sock.close()
