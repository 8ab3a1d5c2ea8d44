"""How what runs of one process is ended: the request, a signal or its shutdown command, and the ladder after it."""

from __future__ import annotations

from .ladder import Ladder
from .readiness import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .definition import Definition
    from .host import Host


class Ending:
    """At most one ladder at a time; ``done()`` once nothing of the process is left."""

    def __init__(self, definition: Definition, host: Host, *, done: Callable[[], None]) -> None:
        self._definition = definition
        self._host = host
        self._done = done
        self._ladder: Ladder | None = None

    @property
    def is_on(self) -> bool:
        return self._ladder is not None

    def begin(self, leader: int) -> None:
        """End what runs; ``leader`` is its unreaped leader's pid, or 0."""
        ladder = self._climb(leader)
        if not self._definition.shutdown_command:
            ladder.send()
            return
        try:
            self._shut_down(ladder)
        except OSError as error:
            self._host.log(f"{self._definition.name}: shutdown.command could not be run: {error.strerror}")
            ladder.send()

    def end_leftovers(self) -> bool:
        """End what earlier starts left behind; False when that is nothing."""
        name, kin = self._definition.name, self._host.kin
        if self._ladder is not None:
            return True
        if kin.of(name) or not kin.is_sure:
            self._climb(0).send()
            return self._ladder is not None
        kin.forget(name)
        return False

    def report_leftovers(self) -> None:
        """Say in the log what a leader left running."""
        left = " ".join(str(entry.pid) for entry in self._host.kin.of(self._definition.name))
        if left:
            name = self._definition.name
            self._host.log(f"{name}: what it left running ends with its stop or start, or with down: {left}")

    def leader_gone(self) -> None:
        if self._ladder is not None:
            self._ladder.leader_gone()

    def check(self) -> None:
        """Children were reaped: what is being ended may be gone."""
        if self._ladder is not None:
            self._ladder.check()

    def hurry(self, limit: float) -> None:
        """Kill at ``limit`` (monotonic) at the latest."""
        if self._ladder is not None:
            self._ladder.hurry(limit)

    def _climb(self, leader: int) -> Ladder:
        ladder = self._ladder = Ladder(
            self._definition.name,
            leader=leader,
            signum=self._definition.shutdown_signal,
            parent_only=self._definition.parent_only,
            timeout=self._definition.shutdown_timeout,
            host=self._host,
            done=self._finished,
        )
        return ladder

    def _finished(self) -> None:
        self._ladder = None
        self._done()

    def _shut_down(self, ladder: Ladder) -> None:
        definition = self._definition

        def done(passed: bool, complaint: str) -> None:
            if not passed:
                self._host.log(f"{definition.name}: shutdown.command: {complaint}")
            ladder.release()

        text, timeout = definition.shutdown_command, definition.shutdown_timeout
        command(definition, self._host, text, cwd=None, timeout=timeout, done=done)
        ladder.hold()
