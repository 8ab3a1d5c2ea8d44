"""All processes together: who may start now, who waits for news, and how everything is brought down.

``changed`` only notes that something moved; ``_settle`` looks at everything once per loop turn, so that a stop followed
by a start within one turn is seen as neither an end nor a second copy.
"""

from __future__ import annotations

import time

from ..core import codec
from . import graph
from .down import Down
from .process import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .definition import Definition
    from .host import Host


class Waiter:
    """Somebody who waits until ``names`` are settled or one of them failed; ``answer(verdict)`` is called once."""

    __slots__ = ("answer", "names")

    def __init__(self, names: list[str], answer: Callable[[str], None]) -> None:
        self.names = names
        self.answer = answer


class Project:
    """The processes of one workspace. ``finished()`` is called when everything was brought down."""

    def __init__(
        self, definitions: list[Definition], host: Host, *, exit_file: str, finished: Callable[[], None]
    ) -> None:
        self.host = host
        self.started = time.time()
        self.processes = {definition.name: Process(definition, host, self.changed) for definition in definitions}
        for definition in definitions:
            host.kin.numbers.setdefault(definition.number, []).append(definition.name)
        self.dependents: dict[str, list[str]] = {definition.name: [] for definition in definitions}
        for definition in definitions:
            for name in definition.depends_on:
                self.dependents[name].append(definition.name)
        self._exit_file = exit_file
        self._finished = finished
        self._waiters: list[Waiter] = []
        self._is_noted = False
        self._down: Down | None = None
        host.children.after_reap.append(self._reaped)

    @property
    def is_stopping(self) -> bool:
        return self._down is not None

    def changed(self) -> None:
        """Something moved; everything is looked at once what is running now has returned."""
        if not self._is_noted:
            self._is_noted = True
            self.host.loop.call_soon(self._settle)

    def wait(self, waiter: Waiter) -> None:
        """Tell ``waiter`` as soon as it can be told, which may be now."""
        self._waiters.append(waiter)
        self._tell()

    def forget(self, waiter: Waiter) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)

    def stop(self, reason: str) -> None:
        """Bring everything down; once begun there is no way back."""
        if self._down is None:
            self.host.log(f"stopping everything: {reason}")
            self._down = Down(self, finished=self._finished)
            self._down.begin()

    # One turn.

    def _settle(self) -> None:
        self._is_noted = False
        if self._down is not None:
            self._down.advance()
        else:
            for process in self.processes.values():
                if process.state == graph.PENDING:
                    self._start_if_due(process)
            self._look_for_ends()
        self._tell()

    def _start_if_due(self, process: Process) -> None:
        waiting_for = ""
        for name, word in process.definition.depends_on.items():
            dependency = self.processes[name]
            answer = graph.condition(word, dependency)
            if answer == graph.WAIT:
                waiting_for = waiting_for or f"waits for {name} ({word})"
            elif answer != graph.HOLDS:
                process.skip(answer, without_failure=graph.excuse(dependency))
                return
        process.waiting_for = waiting_for
        if not waiting_for and process.is_clean:
            process.launch(shares_log=self._shares_log(process))

    def _shares_log(self, process: Process) -> bool:
        path = process.definition.log_location
        return any(
            other is not process and other.definition.log_location == path and other.output.is_open
            for other in self.processes.values()
        )

    def _look_for_ends(self) -> None:
        """Whether the end of one process is declared to be the end of all (supervisor.md 4)."""
        for process in self.processes.values():
            definition = process.definition
            if process.state == graph.SKIPPED and definition.exit_on_skipped:
                self._exit("exit_on_skipped", process)
            elif process.state in (graph.COMPLETED, graph.ERROR) and process.reason != graph.BY_STOP:
                if definition.exit_on_end:
                    self._exit("exit_on_end", process)
                elif definition.policy == "exit_on_failure" and (process.failed or process.state == graph.ERROR):
                    self._exit("exit_on_failure", process)

    def _exit(self, reason: str, process: Process) -> None:
        if self._down is not None:
            return
        record = {
            "reason": reason,
            "process": process.name,
            "code": process.exit_code,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        try:
            with open(self._exit_file, "w", encoding="utf-8") as file:
                file.write(codec.dumps(record) + "\n")
        except OSError as error:
            self.host.log(f"{self._exit_file} could not be written: {error.strerror}")
        self.stop(f"{reason} of {process.name}, exit code {process.exit_code}")

    def _tell(self) -> None:
        for waiter in list(self._waiters):
            verdict = self.verdict(waiter.names)
            if verdict != graph.WAIT or self._down is not None:
                self._waiters.remove(waiter)
                waiter.answer(verdict)

    def verdict(self, names: list[str]) -> str:
        """SETTLED when all are, FAILED when one is, else WAIT."""
        found = {graph.verdict(self.processes[name])[0] for name in names}
        return graph.FAILED if graph.FAILED in found else graph.WAIT if graph.WAIT in found else graph.SETTLED

    def _reaped(self) -> None:
        self.host.loop.call_soon(self._check_ladders)

    def _check_ladders(self) -> None:
        for process in self.processes.values():
            process.ending.check()
        if self._down is not None:
            self._down.advance()
