"""Giving root up: bounding set, groups, ids, and the proof that there is no way back (sandboxes.md 6.5, steps 5 and 6).

Every function acts on the calling thread, which must be the only one.
"""

from __future__ import annotations

import os

from berth.guest.sandbox import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4
PR_SET_NO_NEW_PRIVS = 38
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


class StillPrivileged(Exception):
    """Root was to be given up and was not. ``str()`` says what is left."""


def drop_bounding() -> None:
    """Clear the ambient set, then drop every capability the kernel knows from the bounding set."""
    kernel.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        last = int(file.read())
    for capability in range(last + 1):
        kernel.prctl(PR_CAPBSET_DROP, capability)


def assume(*, uid: int, gid: int, groups: List[int]) -> None:
    """Become ``uid``, ``gid`` with exactly ``groups``, real, effective and saved; the inheritable set is emptied."""
    os.setgroups(groups)
    effective, permitted, _inheritable = kernel.capabilities()
    kernel.set_capabilities(effective, permitted, 0)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def verify(*, uid: int, gid: int, groups: List[int]) -> None:
    """Raise StillPrivileged unless ids, groups and all five capability sets are as they should be and stay so."""
    if os.getresuid() != (uid,) * 3 or os.getresgid() != (gid,) * 3:
        raise StillPrivileged(f"ids are {os.getresuid()} and {os.getresgid()}, not {uid} and {gid}")
    if sorted(os.getgroups()) != sorted(groups):
        raise StillPrivileged(f"groups are {os.getgroups()}, not {groups}")
    for name, regain in (("uid", os.setuid), ("gid", os.setgid)):
        try:
            regain(0)
        except PermissionError:
            continue
        raise StillPrivileged(f"{name} 0 can be had again")
    fields = status()
    left = [name for name in SETS if int(fields[name], 16) != 0]
    if left:
        raise StillPrivileged(f"capabilities left in {', '.join(left)}")


def status() -> Dict[str, str]:
    """The fields of ``/proc/self/status``; KeyError is the caller's when the kernel lacks one."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return {key: value.strip() for key, _colon, value in (line.partition(":") for line in file)}


def no_new_privileges() -> None:
    """From here on no execve gives more rights than there are now."""
    kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
