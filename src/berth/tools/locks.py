"""Workspace locks: who may work on a workspace now, who holds it, and when it was last used (workspaces.md 5.3).

    <home>/locks/<key>.lock               flock: exclusive = a lifecycle command, shared = runs; mtime = last run
    <home>/locks/<key>.op                 flock: exclusive; content "<pid> <start> <boot id> <command>\n"
    <home>/locks/<key>.runs/<pid>-<start> one per run that holds the shared lock; content: its command

The lock files are never deleted. A lock is a close-on-exec descriptor, so it ends with the process that took it,
however that ends. What is locked when, and what holds inside a run, is decided in ``ops``.
"""

from __future__ import annotations

import fcntl
import os

from berth.tools import procfs
from berth.tools.waiting import Wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from berth.tools.procfs import Identity

LEASE_VARIABLE = "BERTH_LEASE"


class Holder:
    """A living process that holds a lock: its pid and what it is doing (``command``)."""

    __slots__ = ("command", "pid")

    def __init__(self, pid: int, command: str) -> None:
        self.pid = pid
        self.command = command

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.command})" if self.command else f"pid {self.pid}"


class Lease:
    """A reference to a run's shared lock, as it is passed on in BERTH_LEASE: ``<key>:<pid>-<start time>``."""

    __slots__ = ("key", "pid", "start")

    def __init__(self, key: str, pid: int, start: int) -> None:
        self.key = key
        self.pid = pid
        self.start = start

    def __str__(self) -> str:
        return f"{self.key}:{self.pid}-{self.start}"


class Held:
    """Locks that this process holds until ``release``; a context manager.

    After a fork the child's copy releases nothing: the locks stay the parent's. ``lease`` is set by ``shared`` alone.
    """

    __slots__ = ("_descriptors", "_owner", "_run_file", "key", "lease")

    def __init__(self, key: str) -> None:
        self.key = key
        self.lease: Lease | None = None
        self._owner = os.getpid()
        self._descriptors: list[tuple[int, bool]] = []  # with whether its content is ours to empty
        self._run_file: str | None = None

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Give all locks up, the last one taken first; calling it again does nothing."""
        is_owner = os.getpid() == self._owner
        run_file, self._run_file = self._run_file, None
        if is_owner and run_file is not None:
            _unlink(run_file)
        while self._descriptors:
            fd, has_content = self._descriptors.pop()
            try:
                if is_owner and self.lease is not None:
                    os.utime(fd)  # last use: the end of a run
                if is_owner and has_content:
                    os.ftruncate(fd, 0)
                if is_owner:  # a descriptor that a child inherited just now must not keep the lock
                    fcntl.flock(fd, fcntl.LOCK_UN)
            finally:
                os.close(fd)


def lock_key(path: str) -> str:
    """The 64 hex digits that name the lock of the workspace at ``path``, which need not exist.

    sha256 of ``<canonical parent directory>/<last component>`` (workspaces.md 5.3).
    """
    stripped = path.rstrip("/") or "/"
    parent, last = os.path.split(stripped)
    if last in ("", ".", ".."):
        canonical = os.path.realpath(stripped)
    else:
        canonical = os.path.join(os.path.realpath(parent or "."), last)
    return _sha256_hex(os.fsencode(canonical))


def exclusive(
    directory: str,
    key: str,
    *,
    command: str,
    say: Callable[[str], None] | None = None,
    limit: float | None = None,
) -> Held:
    """Take ``.lock`` exclusively, then ``.op``: the right to change the workspace.

    ``directory`` is ``<home>/locks``. ``command`` tells others what is going on. ``limit`` is the longest wait in
    seconds, 0 for none, None for any; ``say`` gets ``waiting for pid <p> (<command>)`` after 1 s and then every 10 s,
    once per holder. Raises BerthError ``busy`` naming the holders, or whatever a signal handler raises while waiting.
    """
    held = Held(key)
    wait = Wait(lambda: holders(directory, key), say=say, limit=limit)
    try:
        _add(held, directory, key, ".lock", fcntl.LOCK_EX, wait)
        _add(held, directory, key, ".op", fcntl.LOCK_EX, wait)
        _declare(held, command)
    except BaseException:
        held.release()
        raise
    return held


def operation(
    directory: str,
    key: str,
    *,
    command: str,
    say: Callable[[str], None] | None = None,
    limit: float | None = None,
) -> Held:
    """Take ``.op`` alone: one step at a time under a lease that is held already. Otherwise as ``exclusive``."""
    held = Held(key)
    wait = Wait(lambda: _op_holder(directory, key), say=say, limit=limit)
    try:
        _add(held, directory, key, ".op", fcntl.LOCK_EX, wait)
        _declare(held, command)
    except BaseException:
        held.release()
        raise
    return held


def shared(
    directory: str,
    key: str,
    *,
    command: str,
    say: Callable[[str], None] | None = None,
    limit: float | None = None,
) -> Held:
    """Take ``.lock`` shared, as a run does, and record the use; ``lease`` of the result goes into BERTH_LEASE.

    Otherwise as ``exclusive``.
    """
    held = Held(key)
    wait = Wait(lambda: _op_holder(directory, key), say=say, limit=limit)
    try:
        fd = _add(held, directory, key, ".lock", fcntl.LOCK_SH, wait)
        os.utime(fd)
        pid = os.getpid()
        held.lease = Lease(key, pid, procfs.start_time(pid) or 0)
        held._run_file = _write_run_file(directory, held.lease, command)
    except BaseException:
        held.release()
        raise
    return held


def holders(directory: str, key: str) -> list[Holder]:
    """The living processes, other than this one, that hold a lock of ``key``, as far as they can be known."""
    return [*_op_holder(directory, key), *_runs(directory, key)]


def last_use(directory: str, key: str) -> float:
    """When a run last began or ended here, in seconds since the epoch; 0.0 when none ever did."""
    try:
        return os.stat(os.path.join(directory, key + ".lock")).st_mtime
    except OSError:
        return 0.0


def parse_lease(text: str) -> Lease | None:
    """The lease in a BERTH_LEASE variable; None for anything that is none."""
    key, colon, process = text.partition(":")
    pid, dash, start = process.partition("-")
    digits = set("0123456789")
    is_whole = bool(colon and dash and pid and start) and set(pid) <= digits and set(start) <= digits
    if not is_whole or len(key) != 64 or not set(key) <= digits | set("abcdef"):
        return None
    return Lease(key, int(pid), int(start))


def is_valid(directory: str, lease: Lease) -> bool:
    """Whether the run of ``lease`` still holds its lock: its file exists and its process lives (workspaces.md 4.3)."""
    if not os.path.exists(_run_path(directory, lease)):
        return False
    return procfs.start_time(lease.pid) == lease.start


def remove_dead_runs(directory: str) -> list[str]:
    """Delete the lease files of dead processes below ``directory`` (doctor --fix) and return their paths."""
    removed: list[str] = []
    for name in sorted(os.listdir(directory)):
        if name.endswith(".runs"):
            folder = os.path.join(directory, name)
            before = set(os.listdir(folder))
            for _ in _runs(directory, name[: -len(".runs")]):
                continue  # reading removes
            removed.extend(os.path.join(folder, gone) for gone in sorted(before - set(os.listdir(folder))))
    return removed


def _sha256_hex(data: bytes) -> str:
    for name in ("_sha2", "_sha256"):  # 3.12 and later, 3.11: hashlib costs a quarter of an interpreter start
        try:
            return str(__import__(name).sha256(data).hexdigest())
        except (ImportError, AttributeError):
            continue
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _add(held: Held, directory: str, key: str, suffix: str, mode: int, wait: Wait) -> int:
    fd = _open(directory, key + suffix)
    held._descriptors.append((fd, False))
    wait.lock(fd, mode)
    return fd


def _open(directory: str, name: str) -> int:
    path = os.path.join(directory, name)
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            pass
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        except FileNotFoundError:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            continue
        os.utime(fd, (0, 0))  # a lock that merely came to exist is no use of the workspace
        return fd


def _declare(held: Held, command: str) -> None:
    """Write who we are into ``.op``, the lock taken last."""
    fd, _ = held._descriptors[-1]
    me = procfs.identity()
    assert me is not None
    content = f"{me.pid} {me.start} {me.boot_id} {_line(command)}\n".encode("utf-8", "surrogateescape")
    held._descriptors[-1] = (fd, True)
    try:
        os.pwrite(fd, content, 0)
        os.ftruncate(fd, len(content))
    except OSError:  # a full disk must not keep anybody from cleaning up: others then see a holder without a name
        os.ftruncate(fd, 0)


def _op_holder(directory: str, key: str) -> list[Holder]:
    data = procfs.read(os.path.join(directory, key + ".op"), 8192)
    words = data.partition(b"\n")[0].decode("utf-8", "replace").split(" ", 3)
    if len(words) < 4 or not (words[0].isdigit() and words[1].isdigit()):
        return []
    process: Identity = procfs.Identity(int(words[0]), int(words[1]), words[2])
    if process.pid == os.getpid() or not procfs.is_alive(process):
        return []
    return [Holder(process.pid, procfs.one_line(words[3]))]


def _runs(directory: str, key: str) -> Iterator[Holder]:
    """The runs that live; the files of the others are removed."""
    folder = os.path.join(directory, key + ".runs")
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        lease = parse_lease(f"{key}:{name}")
        if lease is None:
            continue
        path = os.path.join(folder, name)
        if procfs.start_time(lease.pid) != lease.start:
            _unlink(path)
        elif lease.pid != os.getpid():
            command = procfs.read(path, 8192).decode("utf-8", "replace").strip()
            yield Holder(lease.pid, procfs.one_line(command))


def _run_path(directory: str, lease: Lease) -> str:
    return os.path.join(directory, lease.key + ".runs", f"{lease.pid}-{lease.start}")


def _write_run_file(directory: str, lease: Lease, command: str) -> str:
    path = _run_path(directory, lease)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(path, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(path, flags, 0o600)
    try:
        os.write(fd, (_line(command) + "\n").encode("utf-8", "surrogateescape"))
    except OSError:  # a full disk: the lease counts, its command is only shown
        pass
    finally:
        os.close(fd)
    return path


def _line(command: str) -> str:
    return command.replace("\n", " ").replace("\0", " ")[:2000]


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # another reader was first
