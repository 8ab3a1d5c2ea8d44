"""Ending what belongs to a workspace and outlived its supervisor (workspaces.md 8.6 step 2).

TERM, then KILL after the process's own timeout; keepers end with their last writer. A process is opened (pidfd),
checked (start time, tag or marker), then signalled through the descriptor, so a recycled pid is never hit. /proc is
swept until nothing new turns up, because processes fork while they are being ended. Strangers are never touched.
"""

from __future__ import annotations

import os
import time

from berth.errors import BerthError
from berth.tools import processes, procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping, Sequence

    from berth.tools.processes import Marked
else:
    try:
        import _signal as signal
    except ImportError:
        import signal

KILL_SECONDS = 2.0  # still alive so long after KILL: stop_failed
KEEPER_SECONDS = 1.0  # what keepers get after the rest is gone
SWEEP_SECONDS = 0.2  # between two looks at /proc while processes are given time
_PAUSE_SECONDS = 0.02  # where there is no pidfd to wait on


class Terminated:
    """One process that was ended: ``signal`` is the last one it needed, ``TERM`` or ``KILL`` (workspaces.md 2.4)."""

    __slots__ = ("command", "name", "pid", "signal")

    def __init__(self, pid: int, *, name: str | None, command: str, signal: str) -> None:
        self.pid = pid
        self.name = name
        self.command = command
        self.signal = signal


class _Victim:
    """A process on its way out: opened, and known to be the one that was found."""

    def __init__(self, process: Marked, names: Sequence[str]) -> None:
        self.process = process
        self.command = process.command
        self.name = process.name_among(names)
        self.signals: list[str] = []
        self.kill_at = 0.0
        self.descriptor = _open(process.pid)
        self.is_ours = processes.is_still(process)

    def send(self, number: int, word: str) -> None:
        """Signal it through its descriptor; one that has ended or changed its user meanwhile is left alone."""
        try:
            if self.descriptor >= 0:
                signal.pidfd_send_signal(self.descriptor, number)
            elif processes.is_still(self.process):
                os.kill(self.process.pid, number)
        except ProcessLookupError:
            return
        except PermissionError:
            self.is_ours = False
            return
        self.signals.append(word)

    @property
    def is_alive(self) -> bool:
        return procfs.start_time(self.process.pid) == self.process.start

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def end_marked(
    workspace_id: str,
    *,
    timeouts: Mapping[str, float] | None = None,
    default_timeout: float = 10.0,
    at_once: bool = False,
    only: Callable[[Marked], bool] | None = None,
    keepers: bool = True,
) -> list[Terminated]:
    """End every process that belongs to the workspace, and return those that were ended, in the order found.

    ``timeouts`` gives T in seconds by process name (all names, so that a tag's number has its name);
    ``default_timeout`` is T of the rest. ``at_once`` sends KILL without a TERM before it. ``only`` narrows to some,
    e.g. to what a hook started. ``keepers`` also ends the keepers, which are never in the result.
    Raises BerthError ``stop_failed`` naming those that live 2 s after KILL.
    """
    ladder = _Ladder(workspace_id, timeouts or {}, 0.0 if at_once else default_timeout, at_once, only)
    try:
        ladder.run()
        if keepers:
            ladder.end_keepers()
    finally:
        ladder.close()
    return ladder.result()


def send_checked(pid: int, start: int, number: int) -> bool:
    """Send a signal to exactly the process ``pid`` that began at ``start`` ticks; False when that one is gone."""
    descriptor = _open(pid)
    try:
        if procfs.start_time(pid) != start:
            return False
        if descriptor >= 0:
            signal.pidfd_send_signal(descriptor, number)
        else:
            os.kill(pid, number)
        return True
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def wait_gone(pid: int, start: int, seconds: float) -> bool:
    """Wait until the process ``pid`` that began at ``start`` ticks is gone; False when it is not within ``seconds``."""
    descriptor = _open(pid)
    deadline = time.monotonic() + seconds
    try:
        while procfs.start_time(pid) == start:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            _await([descriptor], left)
        return True
    finally:
        if descriptor >= 0:
            os.close(descriptor)


class _Ladder:
    def __init__(
        self,
        workspace_id: str,
        timeouts: Mapping[str, float],
        default_timeout: float,
        at_once: bool,
        only: Callable[[Marked], bool] | None,
    ) -> None:
        self._workspace_id = workspace_id
        self._timeouts = timeouts
        self._default = default_timeout
        self._at_once = at_once
        self._only = only
        self._victims: dict[tuple[int, int], _Victim] = {}
        longest = 0.0 if at_once else max((default_timeout, *timeouts.values()))
        # Whatever is first seen after this gets no time of its own: a process that forks for ever ends too.
        self._no_more_time = time.monotonic() + longest

    def run(self) -> None:
        """Sweep, signal, wait; until a sweep finds nothing."""
        while True:
            had_living = bool(self._living())  # they may fork during the sweep and be gone after it
            found = self._sweep()
            if not found and not had_living:
                return
            alive = self._living()
            now = time.monotonic()
            for victim in alive:
                if victim.kill_at <= now and "KILL" not in victim.signals:
                    victim.send(signal.SIGKILL, "KILL")
                    victim.kill_at = now
            self._give_up(alive, now)
            if alive and not found:  # after news look again at once: a fork bomb is overtaken only by haste
                _await([victim.descriptor for victim in alive], self._pause(alive, now))

    def _living(self) -> list[_Victim]:
        return [victim for victim in self._victims.values() if victim.is_ours and victim.is_alive]

    def _sweep(self) -> int:
        """Take on what has not been seen before; the number of those."""
        news = 0
        for process in processes.marked(self._workspace_id):
            key = (process.pid, process.start)
            if process.is_keeper or key in self._victims or (self._only is not None and not self._only(process)):
                continue
            victim = _Victim(process, tuple(self._timeouts))
            if not victim.is_ours:  # gone, or changing its image right now: the next sweep sees
                victim.close()
                continue
            self._victims[key] = victim
            news += 1
            self._begin(victim)
        return news

    def _begin(self, victim: _Victim) -> None:
        now = time.monotonic()
        limit = self._default if victim.name is None else self._timeouts.get(victim.name, self._default)
        victim.kill_at = min(now + limit, max(now, self._no_more_time))
        if not self._at_once and victim.kill_at > now:
            victim.send(signal.SIGTERM, "TERM")

    def _pause(self, alive: Sequence[_Victim], now: float) -> float:
        """Seconds until the next KILL or the next sweep, whichever is first."""
        due = [victim.kill_at - now for victim in alive if victim.kill_at > now]
        return max(0.0, min([SWEEP_SECONDS, *due]))

    def _give_up(self, alive: Sequence[_Victim], now: float) -> None:
        stuck = [one for one in alive if "KILL" in one.signals and now - one.kill_at >= KILL_SECONDS]
        endless = now - self._no_more_time > 2 * KILL_SECONDS
        if stuck or (endless and alive):
            raise _stop_failed(stuck or alive)

    def end_keepers(self) -> None:
        """Give keepers the time to write what is left, then KILL them."""
        victims = [_Victim(process, ()) for process in processes.marked(self._workspace_id) if process.is_keeper]
        try:
            alive = _wait_all([victim for victim in victims if victim.is_ours], KEEPER_SECONDS)
            for victim in alive:
                victim.send(signal.SIGKILL, "KILL")
            stuck = _wait_all(alive, KILL_SECONDS)
        finally:
            for victim in victims:
                victim.close()
        if stuck:
            raise _stop_failed(stuck)

    def result(self) -> list[Terminated]:
        return [
            Terminated(one.process.pid, name=one.name, command=one.command, signal=one.signals[-1])
            for one in self._victims.values()
            if one.signals
        ]

    def close(self) -> None:
        for victim in self._victims.values():
            victim.close()


def _stop_failed(stuck: Sequence[_Victim]) -> BerthError:
    named = ", ".join(f"pid {one.process.pid} ({one.command})" for one in stuck)
    pids = " ".join(str(one.process.pid) for one in stuck)
    return BerthError(
        f"still alive {KILL_SECONDS:g} s after KILL: {named}", code="stop_failed", hint=f"look at the processes {pids}"
    )


def _wait_all(victims: Sequence[_Victim], seconds: float) -> list[_Victim]:
    """Wait at most ``seconds`` for all of them; those that are left."""
    deadline = time.monotonic() + seconds
    while alive := [victim for victim in victims if victim.is_alive]:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        _await([victim.descriptor for victim in alive], left)
    return alive


def _open(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # no such call, no such process, or no descriptor left: checked by pid then
        return -1


def _await(descriptors: Sequence[int], seconds: float) -> None:
    """Wait until one of the processes has ended, at most ``seconds``."""
    if any(descriptor < 0 for descriptor in descriptors):
        time.sleep(min(seconds, _PAUSE_SECONDS))
        return
    import select

    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    poll.poll(seconds * 1000 + 1)
