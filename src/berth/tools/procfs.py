"""What the kernel says about single processes: who one is, whether it lives, what it carries.

A process is named by pid, start time and boot id, so a recycled pid is never taken for it. Reads only; which
processes belong to a workspace is the matter of ``tools.processes``. Where there is no /proc, ``tools.ps`` answers.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

HAS_PROC = os.path.exists("/proc/self/stat")


class Identity:
    """One process of one boot: ``start`` is in clock ticks since boot (field 22 of /proc/<pid>/stat, proc(5))."""

    __slots__ = ("boot_id", "pid", "start")

    def __init__(self, pid: int, start: int, boot_id: str) -> None:
        self.pid = pid
        self.start = start
        self.boot_id = boot_id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity):
            return NotImplemented
        return (self.pid, self.start, self.boot_id) == (other.pid, other.start, other.boot_id)

    def __hash__(self) -> int:
        return hash((self.pid, self.start, self.boot_id))

    def __repr__(self) -> str:
        return f"Identity({self.pid}, {self.start}, {self.boot_id!r})"


class Stat:
    """What /proc/<pid>/stat says; ``is_dead`` is true of a zombie none of whose threads lives."""

    __slots__ = ("is_dead", "pgid", "pid", "ppid", "start")

    def __init__(self, pid: int, ppid: int, pgid: int, start: int, is_dead: bool) -> None:
        self.pid = pid
        self.ppid = ppid
        self.pgid = pgid
        self.start = start
        self.is_dead = is_dead


def read(path: str, size: int = 4096) -> bytes:
    """Up to ``size`` bytes of a file of /proc; empty when it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, size)
    except OSError:  # the process ended between the two calls, or it is not ours to look at
        return b""
    finally:
        os.close(fd)


def stat(pid: int) -> Stat | None:
    """The entry of ``pid``, a zombie included; None when there is no such process."""
    if not HAS_PROC:
        from berth.tools import ps

        return ps.stat(pid)
    data = read(f"/proc/{pid}/stat")
    if not data:
        return None
    fields = data[data.rindex(b")") + 2 :].split()
    # A leader that ended before its threads is shown as a zombie too (field 20 counts the threads).
    dead = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return Stat(pid, int(fields[1]), int(fields[2]), int(fields[19]), dead)


def pids() -> Iterator[int]:
    """The pid of every process that can be seen."""
    if not HAS_PROC:
        from berth.tools import ps

        yield from ps.pids()
        return
    for name in os.listdir("/proc"):
        if name.isdigit():
            yield int(name)


def boot_id() -> str:
    """The kernel's random name for this boot; ``-`` where it has none."""
    if not HAS_PROC:
        from berth.tools import ps

        return ps.boot_id()
    return read("/proc/sys/kernel/random/boot_id").decode().strip() or "-"


def start_time(pid: int) -> int | None:
    """Start of a living process in clock ticks since boot; None for a zombie or none."""
    entry = stat(pid)
    return None if entry is None or entry.is_dead else entry.start


def identity(pid: int | None = None) -> Identity | None:
    """The identity of a living process, by default of this one; None when there is none."""
    number = os.getpid() if pid is None else pid
    start = start_time(number)
    return None if start is None else Identity(number, start, boot_id())


def is_alive(process: Identity) -> bool:
    """Whether exactly this process, of this boot, still lives (a zombie does not)."""
    return start_time(process.pid) == process.start and boot_id() == process.boot_id


def command(pid: int) -> str:
    """The command line as one readable line, the short name in brackets when there is none."""
    if not HAS_PROC:
        from berth.tools import ps

        return ps.command(pid)
    words = read(f"/proc/{pid}/cmdline").rstrip(b"\0")
    if not words:
        name = read(f"/proc/{pid}/comm").strip()
        words = b"[%s]" % name if name else b""
    return one_line(words.replace(b"\0", b" ").decode("utf-8", "replace"))


def one_line(text: str) -> str:
    """``text`` fit for a message: no line breaks or control characters, at most 200 characters."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    return plain if len(plain) <= 200 else plain[:199] + "…"


def tag(pid: int) -> int | None:
    """The soft RLIMIT_LOCKS (supervisor.md 1) of ``pid``; None when unlimited or unreadable."""
    data = read(f"/proc/{pid}/limits")
    at = data.find(b"Max file locks")
    if at < 0:
        return None
    soft = data[at + 14 : data.find(b"\n", at)].split()[0]
    return int(soft) if soft.isdigit() else None


def variables(pid: int) -> bytes:
    """The environment that ``pid`` was started with: NUL before and after each entry; empty when unreadable."""
    if not HAS_PROC:
        from berth.tools import ps

        return ps.variables(pid)
    path = f"/proc/{pid}/environ"
    size = 1 << 17
    while len(data := read(path, size)) == size:  # a larger one is rare: read again, whole
        size <<= 3
    return b"\0" + data if data else b""


def variable(environment: bytes, name: bytes) -> str | None:
    """The value of ``name`` in an answer of ``variables``."""
    at = environment.find(b"\0" + name + b"=")
    if at < 0:
        return None
    start = at + len(name) + 2
    end = environment.find(b"\0", start)
    return os.fsdecode(environment[start : end if end >= 0 else len(environment)])


def is_of_user(pid: int, uid: int) -> bool:
    """Whether the real or effective uid of ``pid`` is ``uid``."""
    if not HAS_PROC:
        from berth.tools import ps

        return ps.uid(pid) == uid
    data = read(f"/proc/{pid}/status")
    at = data.find(b"\nUid:")
    if at < 0:
        return False
    real, effective = data[at + 5 :].split(None, 2)[:2]
    return uid in (int(real), int(effective))


def ancestors(pid: int | None = None) -> set[int]:
    """``pid`` (by default this process) and every process above it."""
    found: set[int] = set()
    number = os.getpid() if pid is None else pid
    while number > 0 and number not in found:
        found.add(number)
        entry = stat(number)
        number = entry.ppid if entry is not None else 0
    return found


def descendants(roots: set[int]) -> dict[int, Stat]:
    """Every living process below ``roots``, the roots themselves included, by pid."""
    entries = {entry.pid: entry for entry in map(stat, pids()) if entry is not None}
    children: dict[int, list[Stat]] = {}
    for entry in entries.values():
        children.setdefault(entry.ppid, []).append(entry)
    pending = [entries[pid] for pid in roots if pid in entries]
    found: dict[int, Stat] = {}
    while pending:
        entry = pending.pop()
        if entry.pid not in found:
            found[entry.pid] = entry
            pending.extend(children.get(entry.pid, ()))
    return {pid: entry for pid, entry in found.items() if not entry.is_dead}
