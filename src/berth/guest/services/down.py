"""Bringing everything down within T (supervisor.md 6): dependents first, then what is left below the supervisor.

T is the largest shutdown timeout. A dependency is asked when its dependents are gone, at the latest at T/2; each is
killed at its own limit or at T. Then strays get TERM, KILL after half a second; keepers left at T + 1 s get KILL.
"""

from __future__ import annotations

import os

from ..core import procfs
from ..core.children import kill_all, signal_entry
from ..core.loop import now, signal
from . import graph, requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.loop import Timer
    from .process import Process
    from .project import Project

KILL_AFTER_SECONDS = 0.5
LOOK_SECONDS = 0.02
KEEPERS_AFTER_SECONDS = 1.0


class Down:
    """One way down; ``advance`` is called after every change, ``finished()`` once at its end."""

    def __init__(self, project: Project, *, finished: Callable[[], None]) -> None:
        self._project = project
        self._host = project.host
        self._finished = finished
        self._limit = now() + max(process.definition.shutdown_timeout for process in project.processes.values())
        self._is_sweeping = False
        self._signum = signal.SIGTERM
        self._sent: set[tuple[int, int, int]] = set()
        self._timer: Timer | None = None
        self._is_waiting_for_keepers = False

    def begin(self) -> None:
        loop, left = self._host.loop, self._limit - now()
        loop.call_later(left / 2, lambda: self._ask_all(lambda process: True))
        loop.call_later(left, self._sweep)
        loop.call_later(left + KEEPERS_AFTER_SECONDS, self._end)
        for process in self._project.processes.values():
            # At once: what waits, what already ends (for good now), and what an ended one left behind.
            if process.state not in (*graph.UP, graph.LAUNCHING):
                requests.stop(process, self._project.changed)
        self.advance()

    def advance(self) -> None:
        """Ask those whose dependents are gone; sweep when all are."""
        if self._is_sweeping:
            self._look()
            return
        self._ask_all(
            lambda process: (
                not any(self._project.processes[name].is_live for name in self._project.dependents[process.name])
            )
        )
        if not any(process.is_live for process in self._project.processes.values()):
            self._sweep()

    def _ask_all(self, is_due: Callable[[Process], bool]) -> None:
        if self._is_sweeping:
            return
        for process in list(self._project.processes.values()):
            if process.is_live and process.state != graph.TERMINATING and is_due(process):
                requests.stop(process, self._project.changed)
            process.ending.hurry(self._limit)

    def _sweep(self) -> None:
        """Whatever is still below the supervisor, by no matter whom it was started."""
        if not self._is_sweeping:
            self._is_sweeping = True
            self._host.loop.call_later(KILL_AFTER_SECONDS, self._escalate)
            self._look()

    def _escalate(self) -> None:
        self._signum = signal.SIGKILL
        self._look()

    def _look(self) -> None:
        if self._is_waiting_for_keepers:
            if not self._host.kin.keepers:
                self._end()
            return
        self._host.kin.stale()
        left = self._host.kin.all()
        for entry in left:
            key = (entry.pid, entry.start, self._signum)
            if key not in self._sent:
                self._sent.add(key)
                self._host.log(
                    f"left below the supervisor: {entry.pid} ({procfs.command(entry.pid)}), signal {self._signum}"
                )
                signal_entry(entry, self._signum)
        if self._signum == signal.SIGKILL:
            kill_all(left)
        if left or not self._host.kin.is_sure:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._host.loop.call_later(LOOK_SECONDS, self._look)
            return
        self._is_waiting_for_keepers = True
        self._host.loop.call_later(KEEPERS_AFTER_SECONDS, self._end)
        self._look()

    def _end(self) -> None:
        finished, self._finished = self._finished, _done
        for pid in list(self._host.kin.keepers):
            os.kill(pid, signal.SIGKILL)
        finished()


def _done() -> None:
    """It was finished before."""
