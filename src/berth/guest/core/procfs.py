"""What /proc says: who exists, below whom, since when, and which tag or variable it carries.

Reads only. Where there is no /proc every answer is empty, and callers fall back to groups.
"""

from __future__ import annotations

import os

from . import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# A soft limit below this was set by somebody who meant a limit; a tag is below it once in 16 million workspaces.
_LEAST_PART = 1 << 24


class Entry:
    """One process: ``start`` is in clock ticks since boot (field 22 of stat), ``state`` the letter of field 3."""

    __slots__ = ("pgid", "pid", "ppid", "sid", "start", "state", "threads")

    def __init__(self, pid: int, state: str, ppid: int, pgid: int, sid: int, threads: int, start: int) -> None:
        self.pid = pid
        self.state = state
        self.ppid = ppid
        self.pgid = pgid
        self.sid = sid
        self.threads = threads
        self.start = start

    def __repr__(self) -> str:
        return f"<{self.pid} {self.state} below {self.ppid} group {self.pgid} session {self.sid}>"


def _read(path: str, size: int = 4096) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, size)
    except OSError:
        return b""
    finally:
        os.close(fd)


def read(pid: int) -> Entry | None:
    """The entry of ``pid``, a zombie included; None when there is none."""
    data = _read(f"/proc/{pid}/stat")
    if not data:
        return None
    fields = data[data.rindex(b")") + 2 :].split()
    return Entry(
        pid, fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[17]), int(fields[19])
    )


def snapshot() -> dict[int, Entry]:
    """Every process that can be seen, zombies included."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    entries = {}
    for name in names:
        if name.isdigit():
            entry = read(int(name))
            if entry is not None:
                entries[entry.pid] = entry
    return entries


def below(root: int) -> dict[int, Entry]:
    """Every process below ``root``, zombies included: by the kernel's lists of children, whose price is that of the
    processes below and not of all that there are; by a look at all where the kernel keeps none.

    The list of ``root`` itself is exact while it is the caller, who alone can reap from it.
    """
    if not os.path.exists(f"/proc/{root}/task/{root}/children"):
        return snapshot()
    entries: dict[int, Entry] = {}
    pending = [(root, 1)]
    while pending:
        pid, threads = pending.pop()
        for child in children_of(pid, threads):
            entry = read(child)
            if entry is not None and child not in entries:
                entries[child] = entry
                if entry.state not in ("Z", "X"):
                    pending.append((child, entry.threads))
    return entries


def children_of(pid: int, threads: int) -> list[int]:
    """The kernel's list of the children of ``pid``, exact for the caller itself; empty where the kernel keeps none."""
    try:
        tasks = [str(pid)] if threads == 1 else os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(word) for task in tasks for word in _read_all(f"/proc/{pid}/task/{task}/children").split()]


def _read_all(path: str) -> bytes:
    """All of a file that the kernel gives in pages."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def children(entries: dict[int, Entry]) -> dict[int, list[Entry]]:
    """The entries by their parent's pid."""
    tree: dict[int, list[Entry]] = {}
    for entry in entries.values():
        tree.setdefault(entry.ppid, []).append(entry)
    return tree


def subtree(root: Entry, tree: dict[int, list[Entry]]) -> Iterator[Entry]:
    """``root`` and everything below it."""
    pending = [root]
    while pending:
        entry = pending.pop()
        yield entry
        pending.extend(tree.get(entry.pid, ()))


def tag(pid: int) -> int | None:
    """The soft RLIMIT_LOCKS of ``pid``; None when it has none or cannot be read."""
    data = _read(f"/proc/{pid}/limits")
    at = data.find(b"Max file locks")
    if at < 0:
        return None
    soft = data[at + 14 : data.find(b"\n", at)].split()[0]
    return int(soft) if soft.isdigit() else None


def variable(pid: int, name: str) -> str | None:
    """The value of an environment variable that ``pid`` was started with, None when it has none."""
    data = b"\0" + _read(f"/proc/{pid}/environ", 1 << 22)
    at = data.find(b"\0" + name.encode() + b"=")
    if at < 0:
        return None
    start = at + len(name) + 2
    end = data.find(b"\0", start)
    return os.fsdecode(data[start : end if end >= 0 else len(data)])


def command(pid: int) -> str:
    """The command line of ``pid`` as one readable text, its short name when it has none."""
    words = _read(f"/proc/{pid}/cmdline").rstrip(b"\0") or _read(f"/proc/{pid}/comm").strip()
    return words.replace(b"\0", b" ").decode("utf-8", "replace")


def start_time(pid: int) -> int:
    """Start time in clock ticks since boot; 0 where there is no /proc or no such process."""
    entry = read(pid)
    return entry.start if entry is not None else 0


def boot_id() -> str:
    """The kernel's boot id; ``-`` where there is none."""
    return _read("/proc/sys/kernel/random/boot_id").decode().strip() or "-"


def is_other_workspace(pid: int, workspace: str, own_part: int) -> bool:
    """Whether ``pid`` carries another workspace's tag or, having no tag, another workspace's marker."""
    limit = tag(pid)
    if limit is not None:
        part = wire.split_tag(limit)[0]
        if part == own_part:
            return False
        if part >= _LEAST_PART:
            return True
    marker = variable(pid, wire.MARKER)
    return marker is not None and marker != workspace


def alive(entries: Iterable[Entry]) -> list[Entry]:
    """Those that are not zombies."""
    return [entry for entry in entries if entry.state not in ("Z", "X")]
