"""One event loop: descriptors, timers, signals, one thread. It sleeps without a timeout while nothing is due.

``select`` instead of ``selectors`` and ``_signal`` instead of ``signal``: those two would cost an interpreter start.
It knows no processes; children.py adds those.
"""

from __future__ import annotations

import heapq
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signal
    from collections.abc import Callable
else:
    try:
        import _signal as signal
    except ImportError:  # another implementation than CPython
        import signal

READ = select.POLLIN
WRITE = select.POLLOUT
HANGUP = select.POLLHUP | select.POLLERR

now = time.monotonic


class Timer:
    """A call that is due; ``cancel`` may be called at any time, also twice."""

    __slots__ = ("callback", "when")

    def __init__(self, when: float, callback: Callable[[], None] | None) -> None:
        self.when = when
        self.callback = callback

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """Runs callbacks until ``stop``. A callback that raises is reported to ``on_error`` and the loop goes on."""

    def __init__(self, on_error: Callable[[], None] | None = None) -> None:
        self.on_error = on_error or (lambda: sys.excepthook(*sys.exc_info()))
        self.turn = 0  # counts wake-ups, so that what was looked up in this turn can be kept for it
        self._poll = select.epoll() if hasattr(select, "epoll") else select.poll()
        self._scale = 1.0 if hasattr(select, "epoll") else 1000.0
        self._watched: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._soon: list[Callable[[], None]] = []
        self._count = 0
        self._running = False
        self._handlers: dict[int, Callable[[], None]] = {}
        self._wakeup = -1

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call ``callback`` after ``seconds`` of monotonic time."""
        timer = Timer(now() + seconds, callback)
        self._count += 1
        heapq.heappush(self._timers, (timer.when, self._count, timer))
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after what is running now, before anything is waited for."""
        self._soon.append(callback)

    def watch(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        """Call ``callback(events)`` whenever ``fd`` has any of ``events`` (or a hang-up); replaces an earlier watch."""
        known = fd in self._watched
        self._watched[fd] = callback
        (self._poll.modify if known else self._poll.register)(fd, events)

    def unwatch(self, fd: int) -> None:
        """Forget ``fd``; call it before the descriptor is closed. Unknown descriptors are fine."""
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def on_signal(self, signum: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` from the loop, never from a handler, after ``signum`` arrived."""
        if self._wakeup < 0:
            self._wakeup, writer = os.pipe()
            os.set_blocking(self._wakeup, False)
            os.set_blocking(writer, False)
            signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
            self.watch(self._wakeup, READ, self._signalled)
        self._handlers[signum] = callback
        signal.signal(signum, _nothing)

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        self._running = True
        while self._running:
            self.turn += 1
            self._due()
            if self._running:
                for fd, events in self._wait():
                    callback = self._watched.get(fd)
                    if callback is not None:
                        try:
                            callback(events)
                        except Exception:  # as in _guarded, without a closure for each event
                            self.on_error()

    def _due(self) -> None:
        """Run what is due now: timers first, then what was asked for soon, until nothing of that is left."""
        while self._timers and (self._timers[0][2].callback is None or self._timers[0][0] <= now()):
            timer = heapq.heappop(self._timers)[2]
            callback, timer.callback = timer.callback, None
            if callback is not None:
                self._guarded(callback)
        waiting, self._soon = self._soon, []
        for callback in waiting:
            self._guarded(callback)

    def _wait(self) -> list[tuple[int, int]]:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)  # cancelled: nobody is to wake up for it
        if self._soon:
            timeout: float | None = 0
        elif self._timers:
            timeout = max(0.0, self._timers[0][0] - now()) * self._scale  # rounded up to milliseconds by both
        else:
            timeout = None
        return self._poll.poll(timeout)

    def _signalled(self, events: int) -> None:
        try:
            arrived = set(os.read(self._wakeup, 4096))
        except BlockingIOError:
            return
        for signum in sorted(arrived):
            handler = self._handlers.get(signum)
            if handler is not None:
                self._guarded(handler)

    def _guarded(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:  # the supervisor outlives its own bugs: reported, never silent
            self.on_error()


def _nothing(signum: int, frame: object) -> None:
    """The handler of every signal; the wake-up descriptor carries the news."""
