"""One supervised process: its state and every move of it (supervisor.md 3), each through ``_move``.

Here is what happens to one process; when it may start and what the project does is project.py, the rules are graph.py.
"""

from __future__ import annotations

import os
import time

from ..core.children import exit_code
from ..core.loop import now
from . import graph
from .ending import Ending
from .launch import LaunchFailed, adopt_daemon, launch, not_executed
from .output import Output
from .readiness import Readiness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.loop import Timer
    from .definition import Definition
    from .host import Host


class Process:
    """The life of one definition. ``changed()`` is called after each move or change of readiness."""

    def __init__(self, definition: Definition, host: Host, changed: Callable[[], None]) -> None:
        self.definition = definition
        self.name = definition.name
        self.state = graph.DISABLED if definition.disabled else graph.PENDING
        self._host = host
        self._changed = changed
        self.output = Output(definition, host)
        self.output.on_end = self._output_ended
        self.readiness = Readiness(definition, host, changed=self._readiness_changed, failed=self._probe_failed)
        self.ending = Ending(definition, host, done=self._nothing_is_left)
        self._timer: Timer | None = None  # back-off, or the launch of a daemon
        self._stopped: list[Callable[[], None]] = []
        self._leader = 0  # pid of the unreaped leader of its group
        self._has_run = False
        self._reset()

    def _reset(self) -> None:
        """As before a first start; also what an explicit start or restart begins with."""
        self.pid = 0
        self.exit_code = 0
        self.reason = ""
        self.error = ""
        self.restarts = 0
        self.started = 0.0  # monotonic
        self.started_at = 0.0
        self.ended_at = 0.0
        self.skip_reason = ""
        self.skipped_without_failure = False
        self.waiting_for = ""
        self._is_fresh = True
        self.is_again = False
        self.readiness.reset()

    @property
    def ready(self) -> str:
        if not self.definition.declares_readiness:
            return graph.UNKNOWN
        return graph.READY if self.state in graph.UP and self.readiness.is_ready else graph.NOT_READY

    @property
    def failed(self) -> bool:
        """Whether its end was a failure: a bad exit code, or a probe ended it."""
        return self.reason in graph.PROBES or self.exit_code not in self.definition.success_codes

    @property
    def is_live(self) -> bool:
        """Whether something of it runs, or is being ended."""
        return self.ending.is_on or self.state in (*graph.UP, graph.LAUNCHING, graph.TERMINATING)

    @property
    def is_clean(self) -> bool:
        """Whether nothing of an earlier start is in the way of the next."""
        return not self.ending.is_on and not (self._is_fresh and self.output.is_open)

    def _move(self, state: str, reason: str) -> None:
        """The one place where a state changes."""
        assert state in graph.MOVES[self.state], (self.name, self.state, state)
        self._host.log(f"{self.name}: {self.state} -> {state} ({reason})")
        self.state = state
        self.waiting_for = ""
        if state in graph.ENDED:
            self.ended_at = time.time()
        self._changed()

    # What requests.py asks for.

    def begin_again(self) -> None:
        """An explicit start of what has ended, or waits for its restart."""
        self._cancel_timer()
        self._reset()
        self._move(graph.PENDING, "start")
        self._clean()

    def wait_for_end(self, done: Callable[[], None]) -> None:
        """``done`` once nothing of it is left, or nothing was."""
        self._stopped.append(done)

    def give_up(self) -> None:
        """Stopped on request while it waited, for a condition or for its restart."""
        self._cancel_timer()
        self.reason = graph.BY_STOP
        self._move(
            graph.TERMINATING if self.state == graph.RESTARTING and self.ending.is_on else graph.COMPLETED, "stop"
        )
        self.end_leftovers()

    def skip(self, reason: str, *, without_failure: bool) -> None:
        """A condition can no longer hold."""
        self.skip_reason = reason
        self.skipped_without_failure = without_failure
        self._move(graph.SKIPPED, reason)

    def launch(self, *, shares_log: bool) -> None:
        """Start its program now: every condition holds. ``shares_log``: another live process writes to its log."""
        self._cancel_timer()
        self._has_run = True
        self._move(graph.LAUNCHING, f"restart {self.restarts}" if self.restarts else "start")
        self.started, self.started_at = now(), time.time()
        self.reason = self.error = ""
        self.exit_code = 0
        truncate, self._is_fresh = self._is_fresh and not shares_log, False
        try:
            self.pid, offset = launch(
                self.definition,
                self._host,
                self.output,
                truncate=truncate,
                on_exec=self._executed,
                on_exit=self._leader_exited,
            )
        except LaunchFailed as failure:
            self._not_launched(failure)
            return
        self._leader = self.pid
        self.readiness.launched(offset)
        if self.definition.is_daemon:
            self._timer = self._host.loop.call_later(self.definition.launch_timeout, self._launch_took_too_long)

    def _executed(self, number: int) -> None:
        """The program took over from the fork, or could not."""
        if number:
            self._not_launched(not_executed(self.definition, OSError(number, os.strerror(number))))
        elif self.state == graph.LAUNCHING and not self.definition.is_daemon:
            self._is_up(graph.RUNNING)

    def _not_launched(self, failure: LaunchFailed) -> None:
        self._cancel_timer()
        self._host.kin.leaders.pop(self.pid, None)
        self._host.children.disown(self.pid)
        self.pid, self._leader, self.exit_code, self.error = 0, 0, failure.code, str(failure)
        self.output.say(self.error)
        self.readiness.ended(output_is_open=False)
        if self.ending.is_on:
            self.ending.leader_gone()
        else:
            self._move(graph.ERROR, self.error)

    def _is_up(self, state: str) -> None:
        self._move(state, f"pid {self.pid}")
        self.readiness.up()

    # Daemons: the command returns, and what it left below the supervisor is the process.

    def _launch_took_too_long(self) -> None:
        self._timer = None
        self.error = f"its command did not return within {self.definition.launch_timeout:g} s"
        self.take_down(graph.RESTARTING if self._restart_is_due(failed=True) else graph.TERMINATING, graph.BY_EXIT)

    def _daemon_launched(self) -> None:
        self._cancel_timer()
        self.pid = adopt_daemon(self.definition, self._host, self._leader_exited)
        if not self.pid and not self.definition.shutdown_command:  # with one, it may live elsewhere (``docker run -d``)
            self.error = "its command returned, but no daemon of it is running"
            self.exit_code = 1
            self._ended_by_itself()
            return
        self._is_up(graph.LAUNCHED)

    def _was_between_forks(self) -> bool:
        """Whether what was taken for the daemon was the middle of its double fork; then the next one is."""
        is_early = now() - self.started < self.definition.launch_timeout
        if self.state != graph.LAUNCHED or self.exit_code or not is_early:
            return False
        self.pid = adopt_daemon(self.definition, self._host, self._leader_exited)
        return bool(self.pid)

    # Ending.

    def _leader_exited(self, status: int) -> None:
        self._host.kin.stale()
        self._host.kin.leaders.pop(self.pid, None)
        self._leader = 0
        self.exit_code = exit_code(status)
        if self.ending.is_on:
            self.ending.leader_gone()
        elif self.state == graph.LAUNCHING and self.exit_code == 0:
            self._daemon_launched()
        elif not self._was_between_forks():
            self._cancel_timer()
            self._ended_by_itself()

    def _ended_by_itself(self) -> None:
        self.pid = 0
        self.reason = graph.BY_EXIT
        self.readiness.ended(output_is_open=self.output.is_open)
        if self._restart_is_due(failed=self.failed):
            self._move(graph.RESTARTING, self._how_it_ended)
            self._back_off()
            self.end_leftovers()
        else:
            self._move(graph.COMPLETED, self._how_it_ended)
            self.ending.report_leftovers()

    @property
    def _how_it_ended(self) -> str:
        return self.error or f"exit code {self.exit_code}"

    def _probe_failed(self, reason: str) -> None:
        if self.state in graph.UP:
            state = graph.RESTARTING if self._restart_is_due(failed=True) else graph.TERMINATING
            self.take_down(state, reason)

    def take_down(self, state: str, reason: str) -> None:
        """Begin the ladder for what runs; ``state`` is what it is in meanwhile."""
        self.reason = reason
        self._cancel_timer()
        self.readiness.down()
        self._move(state, f"{reason}: {self.readiness.complaint}" if reason in graph.PROBES else reason)
        self.ending.begin(self._leader)

    def end_leftovers(self) -> None:
        """End what earlier starts left behind, then answer who waits for that."""
        if not (self._has_run and self.ending.end_leftovers()):
            self._answer()

    def _clean(self) -> None:
        """Before an explicit start: one copy, and no old line in the new log."""
        self.end_leftovers()
        if not self.ending.is_on and self._is_fresh:
            self.output.give_up_soon()

    def _nothing_is_left(self) -> None:
        self.pid = 0
        if self.state == graph.TERMINATING:
            self.readiness.ended(output_is_open=self.output.is_open)
            self._move(graph.COMPLETED, f"{self.reason}, {self._how_it_ended}")
            is_again, self.is_again = self.is_again, False
            self._answer()
            if is_again:
                self.begin_again()
            return
        if self.state == graph.RESTARTING and self._timer is None:
            self.readiness.ended(output_is_open=self.output.is_open)
            self._back_off()
        elif self.state == graph.PENDING:
            self._clean()
        self._answer()
        self._changed()

    def _answer(self) -> None:
        waiting, self._stopped = self._stopped, []
        for done in waiting:
            done()

    def _restart_is_due(self, *, failed: bool) -> bool:
        return self.definition.wants_restart(failed=failed, restarts=self.restarts)

    def _back_off(self) -> None:
        self._timer = self._host.loop.call_later(self.definition.backoff, self._restart)

    def _restart(self) -> None:
        self._timer = None
        self.restarts += 1
        self._move(graph.PENDING, f"restart {self.restarts}")

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _readiness_changed(self) -> None:
        if self.state in graph.UP:
            self._host.log(f"{self.name}: {self.ready}")
        self._changed()

    def _output_ended(self) -> None:
        if self.state not in (*graph.UP, graph.LAUNCHING):
            self.readiness.output_ended()
        self._changed()
