"""From a policy's words to Landlock rules: which path gets which rights, and which paths may be reached through links
(sandboxes.md 6.3).

Opens paths, adds them to a ruleset, pins the entries of procfs. Knows nothing of identities and of the filter.
"""

from __future__ import annotations

import errno
import glob
import os
import stat

from berth.guest.sandbox import grants, landlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, Iterator, List, Tuple

    from berth.guest.sandbox.policy import Policy

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = tuple(
    f"/etc/{name}"
    for name in (
        *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "passwd", "group", "nsswitch.conf", "hosts", "host.conf"),
        *("resolv.conf", "gai.conf", "localtime", "timezone", "ssl", "ca-certificates", "pki", "mime.types"),
        *("services", "protocols", "profile", "profile.d", "bash.bashrc", "inputrc", "terminfo", "gitconfig"),
    )
)
SETTINGS_GLOB = "/etc/python3*"
SOURCES = ("/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SYSTEM_STATE = (
    *(f"/proc/{n}" for n in ("cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "filesystems")),
    *(f"/proc/sys/kernel/{n}" for n in ("random", "osrelease", "ngroups_max", "cap_last_cap")),
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu",
)
OWN_STATE = (
    *("auxv", "cgroup", "cmdline", "comm", "environ", "fd", "fdinfo", "limits", "maps", "mountinfo", "mounts"),
    *("oom_score", "smaps", "smaps_rollup", "stat", "statm", "status"),
)


class Opened:
    """The descriptors behind a policy, with the rights each is to get, and what could not be opened.

    ``skipped`` holds (path, reason) of declared paths that got no rule: ``missing`` or ``symlink``.
    """

    __slots__ = ("rules", "skipped")

    def __init__(self) -> None:
        self.rules: List[Tuple[str, int, int]] = []
        self.skipped: List[Tuple[str, str]] = []

    def try_path(self, path: str, rights: int, opener: Callable[[str], int], *, declared: bool) -> None:
        """Open ``path`` and remember it. Absent paths are skipped; every other failure is an OSError for the caller."""
        try:
            descriptor = opener(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                error.filename = path
                raise
            if declared:
                self.skipped.append((path, "symlink" if error.errno == errno.ELOOP else "missing"))
            return
        self.rules.append((path, descriptor, rights))


def open_following(path: str) -> int:
    """O_PATH descriptor of a path of the image: links in it are the image's own."""
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def open_strictly(path: str) -> int:
    """O_PATH descriptor of a canonical path, opened component by component; ELOOP when one of them is a link.

    A sibling, or the app itself before a restart, may have planted it (sandboxes.md 6.2).
    """
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    here = os.open("/", flags)
    for component in path[1:].split("/"):
        try:
            below = os.open(component, flags, dir_fd=here)
        finally:
            os.close(here)
        here = below
        if stat.S_ISLNK(os.fstat(here).st_mode):
            os.close(here)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return here


def wanted(policy: Policy) -> Iterator[Tuple[str, int, bool, bool]]:
    """(path, rights, follow links?, named by the manifest?) for all that ``policy`` grants, baseline first."""
    for path in SYSTEM:
        if path == "/usr" or not os.path.islink(path):
            yield path, landlock.READ | landlock.EXEC, True, False
    for path in (*SETTINGS, *sorted(glob.glob(SETTINGS_GLOB)), *SOURCES, *SYSTEM_STATE):
        yield path, landlock.READ, True, False
    for name in OWN_STATE:
        yield f"/proc/self/{name}", landlock.READ, True, False
    yield "/dev/null", landlock.DEVICE, True, False
    prefix = grants.interpreter_prefix(policy.interpreter)
    for path in policy.exec:
        if path != "/usr":
            yield path, landlock.READ | landlock.EXEC, path == prefix, True
    for path in policy.devices:
        yield path, landlock.DEVICE, True, False
    if policy.proc_all:
        yield "/proc", landlock.READ, True, False
    for path in policy.read:
        yield path, landlock.READ, False, True
    for path in policy.write_private:
        yield path, landlock.READ | landlock.WRITE_PRIVATE, False, True
    for path in policy.write:
        if path != "/dev/null":
            yield path, landlock.WRITE_SHARED, False, True


def open_all(policy: Policy) -> Opened:
    """Everything ``policy`` grants, opened; OSError with ``filename`` for what is there and cannot be opened."""
    opened = Opened()
    for path, rights, follow, declared in wanted(policy):
        opened.try_path(path, rights, open_following if follow else open_strictly, declared=declared)
    return opened


def network_mask(policy: Policy) -> int:
    """The TCP rights to handle: none for an app that may connect and bind anywhere."""
    return 0 if policy.connect_any else landlock.NETWORK


def ruleset(policy: Policy, opened: Opened, *, abi: int) -> int:
    """The finished ruleset of ``policy`` as a descriptor; OSError names the path that the kernel did not take."""
    network = network_mask(policy)
    made = landlock.create(abi, network=network)
    for path, descriptor, rights in opened.rules:
        try:
            landlock.allow_path(made, descriptor, rights, abi=abi)
        except OSError as error:
            error.filename = path
            raise
    ports = [(port, landlock.CONNECT_TCP) for port in policy.connect]
    ports += [(port, landlock.BIND_TCP) for port in policy.bind]
    landlock.allow_ports(made, ports, network=network, abi=abi)
    return made


def pin(paths: Iterable[str]) -> List[int]:
    """O_PATH descriptors that keep the inodes behind ``paths`` alive; what is absent is left out.

    A rule follows an inode, and procfs makes a new one once the directory entry was reclaimed: without a holder the
    rule would silently stop granting.
    """
    held = []
    for path in paths:
        try:
            held.append(open_following(path))
        except FileNotFoundError:
            continue
    return held


def pin_system() -> List[int]:
    """The entries that all apps share; held by the supervisor for as long as any app lives."""
    return pin(SYSTEM_STATE)


def pin_process(pid: int) -> List[int]:
    """The entries of one app's main process; held for as long as it lives."""
    return pin(f"/proc/{pid}/{name}" for name in OWN_STATE)
