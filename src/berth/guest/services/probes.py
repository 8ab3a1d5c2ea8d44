"""When a probe's checks are due and what their answers mean (supervisor.md 5). The checks themselves are checks.py.

A Probe lives as long as one incarnation of its process; ``close`` drops an answer that is still on its way.
"""

from __future__ import annotations

from ..core.loop import now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.loop import Loop, Timer
    from .checks import Command
    from .definition import ProbeSpec
    from .httpcheck import HttpCheck

    Done = Callable[[bool, str], None]
    Check = Command | HttpCheck

FIRST_PAUSE = 0.025
GROWTH = 1.5
LONGEST_PAUSE_EXEC = 0.2
LONGEST_PAUSE_HTTP = 0.1
SUCCESS_PAUSE = 0.1  # between the successes that success_threshold asks before it is ready for the first time


class Probe:
    """Runs ``check(done)`` when it is due.

    ``on_change(ready)`` is called when the answer changes, ``on_failure()`` at the failure threshold. ``early``: also
    try from the start of the process until it first passes, which counts as no failure (readiness). ``complaint`` is
    the reason of the last failed check, empty after a passed one.
    """

    def __init__(
        self,
        spec: ProbeSpec,
        *,
        loop: Loop,
        early: bool,
        check: Callable[[Done], Check],
        on_change: Callable[[bool], None],
        on_failure: Callable[[], None],
    ) -> None:
        self.complaint = ""
        self._spec = spec
        self._loop = loop
        self._check = check
        self._on_change = on_change
        self._on_failure = on_failure
        self._ready = False
        self._successes = 0
        self._failures = 0
        self._running: Check | None = None
        self._started = 0.0
        self._is_counted = False
        self._pause = FIRST_PAUSE
        # Early checks stand for the first period; without an initial delay counting begins after it.
        self._next_counted = now() + (spec.initial_delay or spec.period)
        self._next_early: float | None = now() + FIRST_PAUSE if early else None
        self._timer: Timer | None = None
        self._schedule()

    def close(self) -> None:
        """The incarnation is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._running is not None:
            self._running.cancel()
            self._running = None
        self._on_change = _ignore
        self._on_failure = _ignore_failure

    def _schedule(self) -> None:
        due = self._next_counted if self._next_early is None else min(self._next_counted, self._next_early)
        self._timer = self._loop.call_later(due - now(), self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._started = now()
        self._is_counted = self._started >= self._next_counted
        if self._is_counted:
            self._next_counted = self._started + self._spec.period
        try:
            running = self._check(self._answered)
        except OSError as error:  # no process, no descriptor to be had: a failed check, not a dead supervisor
            self._answered(False, f"the check could not be run: {error.strerror}")
            return
        if self._timer is None and not running.is_over:
            self._running = running

    def _answered(self, passed: bool, complaint: str) -> None:
        self._running = None
        took = now() - self._started
        self.complaint = complaint
        if passed:
            self._passed()
        else:
            self._failed()
        if self._next_early is not None:
            pause = SUCCESS_PAUSE if self._successes else max(self._pause, took)
            self._pause = min(self._pause * GROWTH, self._longest())
            self._next_early = now() + pause
        if self._on_change is not _ignore:
            self._schedule()

    def _passed(self) -> None:
        self._failures = 0
        self._successes += 1
        if self._successes >= self._spec.success_threshold and not self._ready:
            self._ready = True
            if self._next_early is not None:
                self._next_early = None
                self._next_counted = max(self._next_counted, now() + self._spec.period)
            self._on_change(True)

    def _failed(self) -> None:
        self._successes = 0
        if not self._is_counted:
            return
        self._failures += 1
        if self._ready:
            self._ready = False
            self._on_change(False)
        if self._failures >= self._spec.failure_threshold:
            self._on_failure()

    def _longest(self) -> float:
        return LONGEST_PAUSE_HTTP if self._spec.command is None else LONGEST_PAUSE_EXEC


def _ignore(ready: bool) -> None:
    """Nobody listens any more."""


def _ignore_failure() -> None:
    """Nobody listens any more."""
