"""The stop ladder of one process: ask, wait for the leader and every descendant, kill what is left at the limit.

Driven by exits, not by polling: ``check`` is called after each batch of reaped children. Orphans that the leader leaves
behind are asked too, once it is gone, because its group's signal never reached those in sessions of their own.
"""

from __future__ import annotations

from ..core.children import kill_all, signal_child, signal_entry, signal_group
from ..core.loop import now, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.loop import Timer
    from ..core.procfs import Entry
    from .host import Host

FIRST_LOOK_SECONDS = 0.01  # after KILL; then doubled, because what is in uninterruptible wait takes its time
LONGEST_LOOK_SECONDS = 0.5
UNSEEN_LOOK_SECONDS = 0.05  # without a subreaper the end of an orphan is no event


class Ladder:
    """Ends ``name``; calls ``done()`` once nothing of it is left.

    ``leader`` is its unreaped leader's pid, or 0. ``timeout`` in seconds from now. Nothing is asked before ``send``: a
    shutdown command may be the request.
    """

    def __init__(
        self,
        name: str,
        *,
        leader: int,
        signum: int,
        parent_only: bool,
        timeout: float,
        host: Host,
        done: Callable[[], None],
    ) -> None:
        self._name = name
        self._leader = leader
        self._signum = signum
        self._parent_only = parent_only
        self._kin = host.kin
        self._loop = loop = host.loop
        self._sees_orphans = host.is_subreaper
        self._done: Callable[[], None] | None = done
        self._asked: set[tuple[int, int]] = set()
        self._is_killing = False
        self._is_held = False
        self._pause = FIRST_LOOK_SECONDS
        self._deadline = now() + timeout
        self._timer: Timer = loop.call_later(timeout, self._kill)

    def hurry(self, limit: float) -> None:
        """Kill at ``limit`` (monotonic) if that is earlier."""
        if limit < self._deadline and not self._is_killing:
            self._deadline = limit
            self._timer.cancel()
            self._timer = self._loop.call_later(limit - now(), self._kill)

    def send(self) -> None:
        """The polite signal: to the leader's group or to the leader; to each descendant where there is no leader."""
        if self._done is None:
            return
        entries = self._kin.of(self._name)
        if not self._leader:
            self.check()
            return
        # Before exec there may be no group yet; the signal waits for the leader then.
        if self._parent_only or not signal_group(self._leader, self._signum):
            signal_child(self._leader, self._signum)
        for entry in entries:
            if self._parent_only or entry.pgid != self._leader:
                continue
            self._asked.add((entry.pid, entry.start))
            if entry.state in ("T", "t"):  # a stopped process would see the signal only when continued
                signal_entry(entry, signal.SIGCONT)
        if self._parent_only and any(entry.pid == self._leader and entry.state == "T" for entry in entries):
            signal_child(self._leader, signal.SIGCONT)

    def hold(self) -> None:
        """A shutdown command is the request; what it ends is not done before it is."""
        self._is_held = True

    def release(self) -> None:
        self._is_held = False
        self.check()

    def leader_gone(self) -> None:
        self._leader = 0

    def check(self) -> None:
        """Look whether everything is gone; called after exits."""
        if self._done is None or self._leader or self._is_held:
            return
        entries = self._kin.of(self._name)
        if not entries and not self._kin.is_sure:
            return  # an exit is about to be reaped, and this is called again after it
        if not entries:
            done, self._done = self._done, None
            self._timer.cancel()
            self._kin.forget(self._name)
            done()
        elif self._is_killing:
            kill_all(entries)
        else:
            self._ask(entries)
            if not self._sees_orphans:
                self._loop.call_later(UNSEEN_LOOK_SECONDS, self.check)

    def _ask(self, entries: list[Entry]) -> None:
        for entry in entries:
            key = (entry.pid, entry.start)
            if key not in self._asked:
                self._asked.add(key)
                signal_entry(entry, self._signum)
                if entry.state == "T":
                    signal_entry(entry, signal.SIGCONT)

    def _kill(self) -> None:
        if self._done is None:
            return
        self._is_killing, self._is_held = True, False
        if self._leader and not signal_group(self._leader, signal.SIGKILL):
            signal_child(self._leader, signal.SIGKILL)
        self._kin.stale()
        kill_all(self._kin.of(self._name))
        self._timer = self._loop.call_later(self._pause, self._look_again)
        self._pause = min(self._pause * 2, LONGEST_LOOK_SECONDS)

    def _look_again(self) -> None:
        self.check()
        if self._done is not None:
            self._kill()
