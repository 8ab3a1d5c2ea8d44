"""Whether one incarnation of a process is ready: its probes and the search for its ready line, taken together."""

from __future__ import annotations

import time

from . import graph
from .checks import Command
from .growth import LineSearch
from .host import environment_of
from .httpcheck import HttpCheck
from .probes import Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.loop import Timer
    from .definition import Definition, ProbeSpec
    from .host import Host

REST_OF_OUTPUT_SECONDS = 1.0  # after its end, so long may the ready line still be on its way to the log


class Readiness:
    """``changed()`` after each change, ``failed(reason)`` when a probe reached its failure threshold."""

    def __init__(
        self, definition: Definition, host: Host, *, changed: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        self._definition = definition
        self._host = host
        self._changed = changed
        self._failed = failed
        self._probes: list[Probe] = []
        self._search: LineSearch | None = None
        self._timer: Timer | None = None
        self._passed = False
        self._complaint = ""
        self.reset()

    def reset(self) -> None:
        """Before an explicit start: it was never ready."""
        self.was_ready = False
        self.ready_at = 0.0
        self.line_seen = False
        self._complaint = ""

    @property
    def is_ready(self) -> bool:
        definition = self._definition
        probe = definition.readiness is None or self._passed
        return probe and (definition.ready_pattern is None or self.line_seen)

    @property
    def line_pending(self) -> bool:
        """Whether the ready line may still turn up in what was printed."""
        return self._search is not None

    @property
    def complaint(self) -> str:
        """The reason of the last failed check."""
        return next((probe.complaint for probe in self._probes if probe.complaint), self._complaint)

    def launched(self, offset: int) -> None:
        """A program was started; its output follows at ``offset`` of the log."""
        self._passed = self.line_seen = False
        self._complaint = ""
        self.close()
        pattern = self._definition.ready_pattern
        if pattern is not None:
            self._search = LineSearch(
                self._definition.log_location,
                offset,
                pattern,
                self._line_found,
                loop=self._host.loop,
                growth=self._host.searches,
            )

    def up(self) -> None:
        """It runs: probe it."""
        readiness, liveness = self._definition.readiness, self._definition.liveness
        if readiness is not None:
            self._probes.append(self._probe(readiness, reason=graph.BY_READINESS))
        if liveness is not None:
            self._probes.append(self._probe(liveness, reason=graph.BY_LIVENESS))

    def down(self) -> None:
        """It is being stopped or has ended: no more checks, and no answer of a running one counts."""
        self._complaint = self.complaint
        for probe in self._probes:
            probe.close()
        self._probes.clear()
        self._passed = False

    def ended(self, *, output_is_open: bool) -> None:
        """Its last process is gone; what it printed may still be on its way to the log."""
        self.down()
        if self._search is None:
            return
        if output_is_open:
            self._timer = self._host.loop.call_later(REST_OF_OUTPUT_SECONDS, self.output_ended)
        else:
            self.output_ended()

    def output_ended(self) -> None:
        """All that was printed is in the log: search the rest of it and be done."""
        if self._search is not None:
            self._search.finish()
            self.close()
            self._changed()

    def close(self) -> None:
        """Forget the search."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._search is not None:
            self._search.close()
            self._search = None

    def _line_found(self) -> None:
        self._search = None
        self.line_seen = True
        self._update()

    def _probe_changed(self, passed: bool) -> None:
        self._passed = passed
        self._update()

    def _update(self) -> None:
        if self.is_ready:
            self.was_ready = True
            self.ready_at = self.ready_at or time.time()
        self._changed()

    def _probe(self, spec: ProbeSpec, *, reason: str) -> Probe:
        early = reason == graph.BY_READINESS

        def check(done: Callable[[bool, str], None]) -> Command | HttpCheck:
            if spec.command is None:
                host = self._host
                return HttpCheck(spec, done=done, loop=host.loop, children=host.children, pids=host.kin.commands)
            return command(
                self._definition, self._host, spec.command, cwd=spec.working_dir, timeout=spec.timeout, done=done
            )

        return Probe(
            spec,
            loop=self._host.loop,
            early=early,
            check=check,
            on_change=self._probe_changed if early else lambda passed: None,
            on_failure=lambda: self._failed(reason),
        )


def command(
    definition: Definition,
    host: Host,
    text: str,
    *,
    cwd: str | None,
    timeout: float,
    done: Callable[[bool, str], None],
) -> Command:
    """Run a shell command for a process, in its environment and directory. Raises OSError."""
    return Command(
        text,
        env=environment_of(definition, host.environment),
        cwd=cwd or definition.working_dir,
        tag=host.tag(definition.number),
        timeout=timeout,
        done=done,
        loop=host.loop,
        children=host.children,
        pids=host.kin.commands,
    )
