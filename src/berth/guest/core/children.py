"""Start, reap and signal child processes. Signals to processes that are not our children go through a pidfd.

It knows pids, not what they are for. Every child leads a session of its own and starts with default signal
dispositions, an empty mask, the caller's umask and limits; nothing but 0, 1 and 2 is inherited.
"""

from __future__ import annotations

import os
import resource

from . import procfs
from .forked import RLIMIT_LOCKS, SIGNALS, become, default_signals, execute
from .loop import READ, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .loop import Loop


def set_tag(tag: int) -> bool:
    """Set this process's own tag (supervisor.md 1); False where the hard limit is lower."""
    try:
        hard = resource.getrlimit(RLIMIT_LOCKS)[1]
        resource.setrlimit(RLIMIT_LOCKS, (tag, hard))
    except (ValueError, OSError):
        return False
    return True


class Children:
    """Spawns and reaps. ``on_orphan(pid, status)`` hears of reaped processes that were not spawned here;
    every callable in ``after_reap`` is called once per batch of exits."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.on_orphan: Callable[[int, int], None] = lambda pid, status: None
        self.after_reap: list[Callable[[], None]] = []
        self._exits: dict[int, Callable[[int], None]] = {}
        self._execs: dict[int, tuple[int, Callable[[int], None] | None]] = {}
        self._sweep: set[int] = set()
        loop.on_signal(signal.SIGCHLD, self.reap)
        default_signals()

    def __contains__(self, pid: int) -> bool:
        return pid in self._exits

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        on_exit: Callable[[int], None],
        on_exec: Callable[[int], None] | None = None,
        cwd: str | None = None,
        stdin: int = -1,
        stdout: int = -1,
        stderr: int = -1,
        terminal: str | None = None,
        tag: int | None = None,
        sweep_group: bool = False,
    ) -> int:
        """Start ``argv`` (its first word a path) and return the pid at once. Raises OSError when there is no process.

        ``on_exec(0)`` once it is executed, ``on_exec(errno)`` when it cannot be; then ``on_exit(status)`` once it is
        reaped, with exit code 127 where it was not executed. -1 stands for /dev/null. ``terminal`` is the path of a
        terminal that becomes its controlling one and its output. ``sweep_group``: what is left of its group is killed
        when it ends.
        """
        reader, writer = os.pipe()
        streams = stdin, stdout, stderr
        try:
            pid = self.fork(lambda: execute(argv, env, cwd, streams, terminal, tag, writer), on_exit=on_exit)
        except OSError:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self._execs[pid] = reader, on_exec
        self.loop.watch(reader, READ, lambda events: self._executed(pid))
        if sweep_group:
            self._sweep.add(pid)
        return pid

    def fork(self, work: Callable[[], None], *, on_exit: Callable[[int], None]) -> int:
        """The pid of a child that leads a session, does ``work`` and exits 0, or 127 if that raised. Raises OSError.

        Its signals have their default dispositions and none is blocked when it begins.
        """
        # Blocked across the fork: a signal in the child before its dispositions are set would wake our loop.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                become(work)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._exits[pid] = on_exit
        return pid

    def _executed(self, pid: int) -> None:
        """The child's report came: end of file, or why it could not be executed."""
        reader, on_exec = self._execs.pop(pid)
        report = os.read(reader, 16)
        self.loop.unwatch(reader)
        os.close(reader)
        if on_exec is not None:
            on_exec(int(report or 0))

    def disown(self, pid: int) -> None:
        """Reap it, but tell nobody."""
        if pid in self._exits:
            self._exits[pid] = lambda status: None

    def has_exits(self) -> bool:
        """Whether a child has ended that was not reaped yet."""
        try:
            return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return False

    def adopt(self, pid: int, on_exit: Callable[[int], None]) -> None:
        """Hear of the exit of a process that became a child by reparenting."""
        self._exits[pid] = on_exit

    def reap(self) -> None:
        """Reap everything that has ended."""
        reaped = False
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if ended is None:
                break
            pid = ended.si_pid
            if pid in self._sweep:  # still a zombie: its group's number cannot be anyone else's
                self._sweep.discard(pid)
                signal_group(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
            reaped = True
            try:
                if pid in self._execs:
                    self._executed(pid)  # first: it may disown the pid
                on_exit = self._exits.pop(pid, None)
                if on_exit is not None:
                    on_exit(status)
                else:
                    self.on_orphan(pid, status)
            except Exception:  # the others must be reaped all the same
                self.loop.on_error()
        if reaped:
            for callback in list(self.after_reap):
                callback()


def exit_code(status: int) -> int:
    """0-255, or 128 + n after signal n, from a wait status."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def signal_group(pgid: int, signum: int) -> bool:
    """Signal a group whose leader is an unreaped child, or which was just seen to have members; False for none."""
    try:
        os.killpg(pgid, signum)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # changed its uid; what is left is looked up anew by whoever asks for the end of it
    return True


def signal_child(pid: int, signum: int) -> None:
    """Signal a child that was not reaped, so that its pid is its own."""
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return


def signal_entry(entry: procfs.Entry, signum: int) -> bool:
    """Signal exactly the process of ``entry``: opened by pidfd, its start time compared, then signalled through that.

    False when it is gone or may not be signalled.
    """
    try:
        fd = os.pidfd_open(entry.pid)
    except (AttributeError, OSError):
        return _signal_checked(entry, signum)
    try:
        found = procfs.read(entry.pid)
        if found is None or found.start != entry.start:
            return False
        signal.pidfd_send_signal(fd, signum)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def kill_all(entries: Sequence[procfs.Entry]) -> None:
    """KILL processes that were just seen below this one, and the groups they are in.

    A group as a whole, so that who forks meanwhile does not get away. It is ours: a group lies in one session, and
    every session below this process was begun below it.
    """
    for group in {entry.pgid for entry in entries} - {os.getpgrp(), 0}:
        signal_group(group, signal.SIGKILL)
    for entry in entries:
        signal_entry(entry, signal.SIGKILL)


def _signal_checked(entry: procfs.Entry, signum: int) -> bool:
    """Where there is no pidfd, or none left: checked right before."""
    found = procfs.read(entry.pid)
    if found is None or found.start != entry.start:
        return False
    try:
        os.kill(entry.pid, signum)
    except OSError:
        return False
    return True
