"""One command in front of the user: its terminal, its job control, its signals (workspaces.md 8.8, ``run``).

With the whole terminal to itself the command leads a foreground group, as a shell would make it; otherwise it stays in
berth's group and the terminal reaches both. berth waits for signals in one place (sigtimedwait), handles none
asynchronously, and puts everything back. Imports are few: this is the whole way of ``berth run``.
"""

from __future__ import annotations

import errno
import os
import time

from berth.errors import BerthError
from berth.tools import proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable, Mapping, Sequence
else:
    try:
        import _signal as signal
    except ImportError:
        import signal

KILL_SECONDS = 5.0  # between the signal that was forwarded and KILL
_LOOK_SECONDS = 0.02  # between two looks at a group that is on its way out
_LONG_SECONDS = 3600.0
_FROM_KERNEL = 0x80  # si_code SI_KERNEL (sigaction(2)): typed at the terminal, which told the whole group

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PASSED_ON = (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)  # by kill alone: they say nothing to berth


class Outcome:
    """How a command ended: ``code`` (0-255, 128 + n after signal n), ``signal`` n or None, ``duration_seconds``.

    ``told`` is the INT, TERM or HUP that told berth itself to end, or None; berth then exits with 128 + ``told``.
    """

    __slots__ = ("code", "duration_seconds", "signal", "told")

    def __init__(self, code: int, *, signal: int | None, told: int | None, duration_seconds: float) -> None:
        self.code = code
        self.signal = signal
        self.told = told
        self.duration_seconds = duration_seconds

    @property
    def exit_status(self) -> int:
        """What berth exits with."""
        return self.code if self.told is None else 128 + self.told


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    stdout: int = 1,
) -> Outcome:
    """Run ``argv`` in ``cwd`` with this process's streams until it ends; ``stdout`` is the descriptor it prints to.

    Must be called in the main thread. Raises BerthError ``command_not_found``, ``command_not_executable`` or
    ``exec_failed``.
    """
    terminal = _own_terminal()
    waited = _waited(has_group=terminal is not None)
    old_child = signal.signal(signal.SIGCHLD, _nothing)  # an inherited SIG_IGN would hide how the command ended
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    begin = time.monotonic()
    try:
        job = _start(argv, env, cwd, (0, stdout, 2), terminal)
        job.attend(waited)
        status = job.reap()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        if old_child is not None:
            signal.signal(signal.SIGCHLD, old_child)
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = os.WEXITSTATUS(status) if number is None else 128 + number
    return Outcome(code, signal=number, told=job.told, duration_seconds=time.monotonic() - begin)


def _nothing(_number: int, _frame: object) -> None:
    """A handler, so that a blocked SIGCHLD is queued on every system."""


def _own_terminal() -> int | None:
    """0 when stdin, stdout and stderr are the controlling terminal and berth's group is its foreground, else None."""
    try:
        if os.tcgetpgrp(0) != os.getpgrp():
            return None
        devices = {os.fstat(fd).st_rdev for fd in (0, 1, 2) if os.isatty(fd)}
        return 0 if len(devices) == 1 and all(map(os.isatty, (0, 1, 2))) else None
    except OSError:  # closed, or no controlling terminal
        return None


def _waited(*, has_group: bool) -> set[int]:
    """The signals to wait for; those that were ignored when berth began (nohup) stay ignored.

    In a group of its own the command does not get what the terminal tells berth's, so a stop is passed on too.
    """
    asked = (*_ENDING, *_PASSED_ON, *((signal.SIGTSTP,) if has_group else ()))
    return {signal.SIGCHLD, signal.SIGCONT, *(one for one in asked if signal.getsignal(one) != signal.SIG_IGN)}


def _start(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, wanted: tuple[int, int, int], terminal: int | None
) -> _Job:
    descriptors = tuple(fd if _is_open(fd) else proc.DEVNULL for fd in wanted)
    has_group = terminal is not None
    try:
        pid = proc.spawn(
            argv,
            env=env,
            cwd=cwd,
            descriptors=(descriptors[0], descriptors[1], descriptors[2]),
            group=has_group,
            foreground=terminal,
        )
    except BaseException as error:
        if terminal is not None:
            _set_foreground(terminal, os.getpgrp())  # the child may have taken it before it failed
        if isinstance(error, proc.ExecFailed) and os.path.isdir(cwd):
            raise _named(argv[0], error) from None
        raise
    return _Job(pid, terminal)


def _named(program: str, error: proc.ExecFailed) -> BerthError:
    """The shell's two words for a command that cannot be executed (workspaces.md 2.1)."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return BerthError(f"{program}: command not found", code="command_not_found")
    if error.errno in (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.EISDIR, errno.ELOOP, errno.ETXTBSY):
        return BerthError(f"{program}: cannot be executed: {os.strerror(error.errno)}", code="command_not_executable")
    return error


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _set_foreground(terminal: int, group: int) -> None:
    """Make ``group`` the terminal's foreground. From the background this needs SIGTTOU blocked (tcsetpgrp(3))."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        os.tcsetpgrp(terminal, group)
    except OSError:
        pass  # the terminal is gone, or the group is
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class _Job:
    """The running command; ``terminal`` is set when it leads a group of its own."""

    def __init__(self, pid: int, terminal: int | None) -> None:
        self.told: int | None = None
        self._pid = pid
        self._terminal = terminal
        self._has_terminal = terminal is not None
        self._kill_at: float | None = None
        self._kin: dict[int, int] = {}  # the command's descendants when a signal was forwarded: pid -> start

    def attend(self, waited: Iterable[int]) -> None:
        """Pass signals on until the command has ended; when berth was told to end, until all it told has."""
        try:
            while not self._has_ended():
                number, is_typed = _next_signal(waited, self._patience())
                if number is not None:
                    self._take(number, is_typed)
                if self._kill_at is not None and time.monotonic() >= self._kill_at:
                    self._kill()
            while self.told is not None and self._kill_at is not None and self._is_anyone_left():
                number, _ = _next_signal(waited, min(_LOOK_SECONDS, self._patience()))
                if number in _ENDING or time.monotonic() >= self._kill_at:
                    self._kill()
        finally:
            self._take_terminal_back()

    def reap(self) -> int:
        """The command's wait status."""
        return os.waitpid(self._pid, 0)[1]

    def _patience(self) -> float:
        return _LONG_SECONDS if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())

    def _has_ended(self) -> bool:
        """Look at the command without reaping it, so that its pid and group stay its own; deal with stops."""
        options = os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        while (state := os.waitid(os.P_PID, self._pid, options)) is not None:
            if state.si_code != os.CLD_STOPPED:
                return True
            os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WNOHANG)
            if self._terminal is not None:
                self._stop_with(state.si_status)
        return False

    def _take(self, number: int, is_typed: bool) -> None:
        if number == signal.SIGCHLD:
            return
        if number == signal.SIGCONT:
            self._continue()
        elif number not in _ENDING:
            if self._terminal is not None or not is_typed:
                self._send(number)
        elif self.told is not None:
            self._kill()
        else:
            self.told = number
            self._kill_at = time.monotonic() + KILL_SECONDS
            # Without a group of its own the command was told by the terminal already.
            if self._terminal is not None or not is_typed:
                self._send(number)
                self._continue()
            else:
                self._remember_kin()

    def _stop_with(self, number: int) -> None:
        """The command stopped: stop too, so that the user's shell has its terminal, and go on together."""
        assert self._terminal is not None
        is_background_access = number in (signal.SIGTTIN, signal.SIGTTOU)
        if not (is_background_access and not self._has_terminal and _foreground(self._terminal) == os.getpgrp()):
            self._take_terminal_back()
            mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, {number} - {signal.SIGSTOP})
            os.killpg(os.getpgrp(), number)  # berth stops here, and goes on after the shell's SIGCONT
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            if is_background_access:  # without a shell nothing stops an orphaned group: do not ask in a hot loop
                time.sleep(_LOOK_SECONDS)
        # Otherwise the shell brought berth to the foreground without a SIGCONT: hand the terminal over now.
        self._continue()

    def _continue(self) -> None:
        if self._terminal is None:
            return
        if not self._has_terminal and _foreground(self._terminal) == os.getpgrp():
            _set_foreground(self._terminal, self._pid)
            self._has_terminal = True
        self._send(signal.SIGCONT)

    def _take_terminal_back(self) -> None:
        if self._terminal is not None and self._has_terminal:
            self._has_terminal = False
            _set_foreground(self._terminal, os.getpgrp())

    def _send(self, number: int) -> None:
        """Signal the command's group; without one, the command and its descendants."""
        if self._terminal is not None:
            try:
                os.killpg(self._pid, number)
            except (ProcessLookupError, PermissionError):
                pass  # all gone, or of another user
            return
        self._remember_kin()
        from berth.tools.termination import send_checked

        for pid, start in self._kin.items():
            send_checked(pid, start, number)

    def _kill(self) -> None:
        self._kill_at = None
        self._send(signal.SIGKILL)

    def _remember_kin(self) -> None:
        from berth.tools.procfs import descendants, start_time

        alive = {pid for pid, start in self._kin.items() if start_time(pid) == start}
        self._kin.update({pid: entry.start for pid, entry in descendants({self._pid, *alive}).items()})

    def _is_anyone_left(self) -> bool:
        """Whether somebody that was told to end, besides the command itself, still lives."""
        from berth.tools.procfs import pids, start_time, stat

        if self._terminal is None:
            return any(start_time(pid) == start for pid, start in self._kin.items())
        entries = filter(None, map(stat, pids()))
        return any(entry.pgid == self._pid and not entry.is_dead for entry in entries)


def _foreground(terminal: int) -> int:
    try:
        return os.tcgetpgrp(terminal)
    except OSError:
        return -1


def _next_signal(waited: Iterable[int], seconds: float) -> tuple[int | None, bool]:
    """The next of the blocked signals ``waited``, and whether it was typed at the terminal; (None, False) when late."""
    try:
        wait = signal.sigtimedwait
    except AttributeError:  # macOS: sigwait knows neither a limit nor a sender
        signal.signal(signal.SIGALRM, _nothing)
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
        try:
            number = signal.sigwait({*waited, signal.SIGALRM})
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return (None if number == signal.SIGALRM else int(number)), False
    received = wait(tuple(waited), seconds)
    if received is None:
        return None, False
    return received.si_signo, received.si_code == _FROM_KERNEL
