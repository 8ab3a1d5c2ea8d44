"""Waiting for a lock: at once when it is free, told after a while, ended by a signal, never longer than a limit.

The wait itself is a blocking flock(2), so the lock is had the moment it is free and waiters are served in order.
A timer's signal ends that call ten times a second, which also bounds when a signal that came just before the call is
seen. Outside the main thread, where Python allows no signal handler, it is tried again every 20 ms.
"""

from __future__ import annotations

import fcntl
import time

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
else:
    try:
        import _signal as signal
    except ImportError:
        import signal

FIRST_WORD_SECONDS = 1.0
NEXT_WORD_SECONDS = 10.0
_TICK_SECONDS = 0.1
_PAUSE_SECONDS = 0.02
_UNNAMED_TRIES = 5  # a holder takes its lock a moment before it writes its name


class _Due(Exception):
    """The next thing to do while waiting is due."""


class Wait:
    """One command's waiting, over all the locks it takes one after the other.

    ``holders`` names who is waited for; each has a readable ``str``. ``say`` and ``limit``: see ``locks.exclusive``.
    """

    def __init__(
        self,
        holders: Callable[[], Sequence[object]],
        *,
        say: Callable[[str], None] | None,
        limit: float | None,
    ) -> None:
        self._holders = holders
        self._say = say
        self._limit = limit
        self._deadline: float | None = None
        self._next_word = 0.0

    def lock(self, fd: int, mode: int) -> None:
        """Take ``mode`` (LOCK_EX or LOCK_SH) on ``fd``. Raises BerthError ``busy`` when the limit has passed."""
        if _try(fd, mode):
            return
        if self._next_word == 0.0:
            begin = time.monotonic()
            self._next_word = begin + FIRST_WORD_SECONDS
            self._deadline = None if self._limit is None else begin + self._limit
        while True:
            now = time.monotonic()
            if self._deadline is not None and now >= self._deadline:
                raise self._busy()
            if now >= self._next_word:
                self._speak()
            due = self._next_word if self._deadline is None else min(self._next_word, self._deadline)
            if _lock_until(fd, mode, due):
                return

    def _speak(self) -> None:
        self._next_word += NEXT_WORD_SECONDS
        if self._say is not None:
            for holder in self._holders() or ("a process that cannot be named",):
                self._say(f"waiting for {holder}")

    def _busy(self) -> BerthError:
        named = self._holders()
        for _ in range(_UNNAMED_TRIES):
            if named:
                break
            time.sleep(_PAUSE_SECONDS)
            named = self._holders()
        names = ", ".join(map(str, named)) or "a process that cannot be named"
        return BerthError(f"the workspace is busy: {names}", code="busy", hint=f"held by {names}")


def _try(fd: int, mode: int) -> bool:
    try:
        fcntl.flock(fd, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_until(fd: int, mode: int, due: float) -> bool:
    """Block until the lock is ours (True) or the monotonic time is ``due`` (False)."""
    armed = [True]

    def tick(_number: int, _frame: object) -> None:
        if armed and time.monotonic() >= due:
            armed.clear()  # raises once: the code that puts things back below is never interrupted by it
            raise _Due

    try:
        previous = signal.signal(signal.SIGALRM, tick)
    except ValueError:  # not the main thread
        return _poll_until(fd, mode, due)
    try:
        try:
            first = min(max(due - time.monotonic(), 0.001), _TICK_SECONDS)
            signal.setitimer(signal.ITIMER_REAL, first, _TICK_SECONDS)
            fcntl.flock(fd, mode)
        finally:
            armed.clear()
    except _Due:
        return _try(fd, mode)  # it may have become ours in the very moment
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return True


def _poll_until(fd: int, mode: int, due: float) -> bool:
    while not _try(fd, mode):
        now = time.monotonic()
        if now >= due:
            return False
        time.sleep(min(_PAUSE_SECONDS, due - now))
    return True
