"""The recorded process 1 of a container, and whether its protections still hold. HOT: ``run`` asks before each exec.

::

    <home>/run/<16 hex>/ct.init    pid on this machine, start time and boot id of process 1, after each start

A read-only mount over a file ends when the host replaces that very name (every ``git config`` replaces ``config``):
then /proc/<pid>/mountinfo lacks it, and code inside could write what runs on the host (workspaces.md 9.2).
"""

from __future__ import annotations

import os

from berth.spec import container as spec
from berth.tools.procfs import Identity, is_alive, read

LARGEST_TABLE = 1 << 20
INIT_FILE = "ct.init"
_WATCHED_IN_ADMIN = ("commondir", "gitdir", "modules")  # config.worktree: only where the extension is on


def recorded_init(control_directory: str) -> int | None:
    """The pid of the recorded process 1, if exactly that process still lives."""
    words = read(os.path.join(control_directory, INIT_FILE)).split()
    if len(words) != 3 or not (words[0].isdigit() and words[1].isdigit()):
        return None
    one = Identity(int(words[0]), int(words[1]), words[2].decode("ascii", "replace"))
    return one.pid if is_alive(one) else None


def has_record(control_directory: str) -> bool:
    """Whether a start was recorded that no stop of berth's has ended."""
    return os.path.lexists(os.path.join(control_directory, INIT_FILE))


def lost(pid: int, *, path: str, git_dir: str, slug: str) -> list[str]:
    """A warning for each protection that has ended, by the name on the host; none where that cannot be seen."""
    present = mount_points(pid)
    if not present:
        return []
    common = os.path.dirname(os.path.dirname(git_dir))
    watched = {f"{spec.COMMON}/{name}": f"{common}/{name}" for name in spec.READ_ONLY_IN_COMMON}
    watched[f"{spec.ROOT}/.git"] = f"{path}/.git"
    inside = f"{spec.COMMON}/worktrees/{os.path.basename(git_dir)}"
    watched.update({f"{inside}/{name}": f"{git_dir}/{name}" for name in _WATCHED_IN_ADMIN})
    return [
        f"{name} was replaced on the host, so code in the container can write it now; "
        f"berth down {slug} and berth up {slug} protect it again"
        for target, name in watched.items()
        if target not in present
    ]


def mount_points(pid: int) -> set[str]:
    """The mount points of a process as it sees them (proc(5), mountinfo field 5); empty when they cannot be read."""
    lines = _whole(f"/proc/{pid}/mountinfo").split(b"\n")
    return {_unescaped(words[4]) for words in (line.split(b" ") for line in lines) if len(words) > 4}


def _whole(path: str) -> bytes:
    """A table of /proc, which comes a page at a time; empty when it cannot be read."""
    table = b""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        while block := os.read(descriptor, LARGEST_TABLE):
            table += block
    except OSError:
        return b""  # the process ended meanwhile
    finally:
        os.close(descriptor)
    return table


def _unescaped(word: bytes) -> str:
    first, *rest = word.split(b"\\")
    return (first + b"".join(bytes((int(part[:3], 8),)) + part[3:] for part in rest)).decode("utf-8", "surrogateescape")
