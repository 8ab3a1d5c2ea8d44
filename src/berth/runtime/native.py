"""The native back end: ordinary processes on the host, held by berth's own supervisor (workspaces.md 8)."""

from __future__ import annotations

import os
import time

from berth.errors import BerthError
from berth.guest.core import wire
from berth.runtime import controls, journal
from berth.runtime.base import Stopped
from berth.runtime.state import LOST, RUNNING, SILENT, STOPPED, UNKNOWN, Found, look
from berth.tools import steps, supervisor
from berth.tools.control import Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from berth.registry import Workspace
    from berth.runtime.base import Launch, Observation, Say
    from berth.tools.supervisor import Verdict

READY_SECONDS = 60.0
STOP_GRACE_SECONDS = 1.5  # after T the supervisor has this long to end by itself (8.6)
DEFAULT_TIMEOUT_SECONDS = 15.0
LOOK_AGAIN_SECONDS = 0.1
LINES_OF_A_FAILURE = 10


class Native:
    """The runtime of one native workspace; the protocol is ``runtime.base.Runtime``."""

    def __init__(self, home: str, row: Workspace, *, environ: Mapping[str, str], say: Say) -> None:
        self._home = home
        self._row = row
        self._environ = environ
        self._say = say

    # -- state --------------------------------------------------------------------------------------------------

    def look(self) -> Found:
        """What is found of this workspace now."""
        return look(self._home, [self._row])[0]

    def require_known(self) -> Found:
        """The state, unless it cannot be told. Raises state_unknown."""
        found = self.look()
        if found.kind == UNKNOWN:
            detail = found.detail or ""
            if "process state unknown" not in detail:
                detail = f"process state unknown: {detail}"
            raise BerthError(
                detail,
                code="state_unknown",
                hint=f"look at what is in {found.directory}; berth changes nothing it does not know",
            )
        return found

    def ready(self) -> list[str]:
        """Nothing needs to exist before native processes run."""
        return []

    # -- ending -------------------------------------------------------------------------------------------------

    def sweep(self) -> list[dict[str, Any]]:
        """End survivors and what hooks left behind; a running supervisor's processes are none."""
        found = self.require_known()
        return [] if found.kind == RUNNING else self._sweep(found)

    def _sweep(self, found: Found) -> list[dict[str, Any]]:
        if found.kind == SILENT:
            self._end_supervisor(found, patience_seconds=0.0)
        ended = self._end_marked() if found.survivors or found.kind != STOPPED else []
        controls.clear_remains(found.directory)
        return ended

    def down(self, timeout_seconds: float) -> Stopped:
        """The three steps of 8.6. Raises state_unknown, stop_failed."""
        found = self.require_known()
        stopped = [process["name"] for process in found.processes if process["pid"] is not None]
        in_time = True
        steps.reach("before the supervisor is stopped")
        if found.kind in (RUNNING, SILENT):
            in_time = self._end_supervisor(found, patience_seconds=timeout_seconds)
        steps.reach("after the supervisor is stopped")
        terminated = self._end_marked(at_once=not in_time)
        controls.clear_remains(found.directory)
        return Stopped(was_running=found.kind == RUNNING, stopped=stopped, terminated=terminated)

    def _end_supervisor(self, found: Found, *, patience_seconds: float) -> bool:
        """Ask it to stop, and KILL it when that takes longer than T + 1.5 s; True when it ended by itself."""
        from berth.tools.termination import send_checked, wait_gone

        deadline = time.monotonic() + patience_seconds + STOP_GRACE_SECONDS
        if found.kind == RUNNING and found.control is not None:
            try:
                supervisor.stop_project(found.control, timeout_seconds=patience_seconds + STOP_GRACE_SECONDS)
            except (Unreachable, BerthError):
                pass  # whether it is gone is asked of the kernel next
        who = found.supervisor
        if who is None:
            return True
        if found.kind == RUNNING and wait_gone(who.pid, who.start, max(0.0, deadline - time.monotonic())):
            return True
        send_checked(who.pid, who.start, 9)
        wait_gone(who.pid, who.start, 2.0)
        return False

    def _end_marked(self, *, at_once: bool = False) -> list[dict[str, Any]]:
        from berth.tools.termination import end_marked

        times = self._timeouts()
        ended = end_marked(
            self._row.id,
            timeouts=times,
            default_timeout=max(times.values(), default=DEFAULT_TIMEOUT_SECONDS),
            at_once=at_once,
        )
        return [{"pid": one.pid, "name": one.name, "command": one.command, "signal": one.signal} for one in ended]

    def _timeouts(self) -> dict[str, float]:
        processes = self._definition()
        times = controls.timeouts(processes)
        return {
            name: times.get(name.rpartition("-")[0], times.get(name, DEFAULT_TIMEOUT_SECONDS))
            for name in controls.replica_names(processes)
        }

    def destroy(self) -> None:
        """Remove the control directory; nothing runs any more."""
        controls.remove_directory(controls.control_directory(self._home, self._row.path))

    # -- starting -----------------------------------------------------------------------------------------------

    def up(self, launch: Launch) -> None:
        """Exactly one supervisor afterwards, and every process settled. Raises what 8.3 and 8.4 name."""
        found = self.require_known()
        if found.kind == RUNNING:
            self._warn_of_another_definition(launch)
        else:
            self._sweep(found)
            self.refuse_foreign_listeners()
            self._start(launch)
        steps.reach("before waiting for readiness")
        self.wait(READY_SECONDS)

    def _warn_of_another_definition(self, launch: Launch) -> None:
        if self._definition_file() != launch.definition:
            self._say.warning(
                "the running processes were started from another configuration; "
                f"berth down {self._row.slug} and berth up {self._row.slug} apply the present one"
            )

    def _definition(self) -> dict[str, dict[str, object]]:
        """The processes that were last started."""
        return controls.read_definition(self._row.path)

    def _definition_file(self) -> bytes | None:
        return controls.read_definition_file(self._row.path)

    def _definition_path(self) -> str:
        return os.path.join(self._row.path, ".berth", controls.DEFINITION)

    def _start(self, launch: Launch) -> None:
        from berth.tools.files import replace_file

        directory = controls.make_directory(self._home, self._row)
        os.makedirs(os.path.join(self._row.path, ".berth", "logs"), mode=0o700, exist_ok=True)
        replace_file(self._definition_path(), launch.definition, mode=0o600)
        supervisor.start(
            directory,
            workspace=self._row.path,
            workspace_id=self._row.id,
            env=self._inherited(),
            config=self._definition_path(),
            log=os.path.join(self._row.path, ".berth", controls.SUPERVISOR_LOG),
        )

    def _inherited(self) -> dict[str, str]:
        """The caller's environment for supervisor and hooks: without another workspace's variables or a lease."""
        from berth.spec.environment import inherited

        dropped = ("BERTH_LEASE", wire.PROCESS_VARIABLE, wire.MARKER)
        return {key: value for key, value in inherited(self._environ).items() if key not in dropped}

    def refuse_foreign_listeners(self) -> None:
        """A socket on a reserved port that is no process of this workspace (6). Raises port_in_use."""
        from berth.tools.listeners import refuse_foreign

        refuse_foreign(self._row.ports, workspace_id=self._row.id)

    # -- readiness ----------------------------------------------------------------------------------------------

    def wait(self, timeout_seconds: float, process: str | None = None) -> None:
        """One waiting request; query errors are retried until the deadline, a dead supervisor fails at once."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            found = self.look()
            if found.kind == RUNNING and found.control is not None:
                try:
                    left = max(0.0, deadline - time.monotonic())
                    self._judge(supervisor.wait(found.control, process, timeout_seconds=left), timeout_seconds)
                    return
                except Unreachable:
                    if time.monotonic() < deadline:
                        continue  # the state is looked at again: gone, or only slow
            self._raise_not_running(found)

    def wait_patiently(self, timeout_seconds: float) -> None:
        """Wait for the socket, then by one waiting request. Raises process_failed at once, not_ready or state_unknown
        at the timeout; 0 looks once.
        """
        deadline = time.monotonic() + timeout_seconds
        while (found := self.look()).kind != RUNNING:
            left = deadline - time.monotonic()
            if left <= 0:
                if found.kind in (UNKNOWN, SILENT):
                    self._raise_not_running(found)
                raise BerthError(
                    f"{self._row.slug} is not running" + (f" ({found.detail})" if found.detail else ""),
                    code="not_ready",
                    hint=f"berth up {self._row.slug}",
                )
            time.sleep(min(LOOK_AGAIN_SECONDS, left))  # nobody can tell that a socket will appear
        self.wait(max(0.0, deadline - time.monotonic()))

    def _raise_not_running(self, found: Found) -> None:
        if found.kind in (UNKNOWN, SILENT):
            raise BerthError(
                f"process state unknown: {found.detail}", code="state_unknown", hint=f"berth status {self._row.slug}"
            )
        if found.kind == LOST:
            raise BerthError(
                found.detail or "supervisor lost",
                code="supervisor_failed",
                hint=f"see {os.path.join(self._row.path, '.berth', controls.SUPERVISOR_LOG)}; berth up starts it again",
            )
        raise BerthError(f"{self._row.slug} is not running", code="not_running", hint=f"berth up {self._row.slug}")

    def _judge(self, verdict: Verdict, timeout_seconds: float) -> None:
        if verdict.word == "settled":
            return
        if verdict.word == "stopping":
            raise BerthError(f"{self._row.slug} is being stopped", code="not_running", hint="berth up")
        failed = [one for one in verdict.processes if one["verdict"] == "failed"]
        if failed:
            raise self._process_failed(failed[0])
        waiting = [one for one in verdict.processes if one["verdict"] == "wait"]
        named = "; ".join(_waiting(one) for one in waiting)
        first = str(waiting[0]["name"]) if waiting else ""
        raise BerthError(
            f"not ready within {timeout_seconds:g} s: {named}",
            code="not_ready",
            hint=f"berth logs {first} {self._row.slug}; berth wait --timeout S waits longer",
        )

    def _process_failed(self, process: dict[str, Any]) -> BerthError:
        name = str(process["name"])
        lines = self._last_lines(name)
        said = "".join(f"\n  {line}" for line in lines) if lines else " (it printed nothing)"
        why = str(process.get("verdict_reason") or process.get("error") or "")
        code = process["exit_code"]
        return BerthError(
            f"process {name} failed: {why or process['status']}, exit code {code}; its last lines:{said}",
            code="process_failed",
            hint=f"berth logs {name} {self._row.slug}",
        )

    # -- one process --------------------------------------------------------------------------------------------

    def steer(self, deed: str, process: str) -> dict[str, Any]:
        """``start``, ``stop`` or ``restart`` it; returns its Process object."""
        found = self.require_known()
        if found.kind != RUNNING or found.control is None:
            raise BerthError(
                f"{self._row.slug} is not running" + (f" ({found.detail})" if found.detail else ""),
                code="not_running",
                hint=f"berth up {self._row.slug}",
            )
        known = [one["name"] for one in found.processes]
        if process not in known:
            raise BerthError(
                f"{self._row.slug} has no process {process}",
                code="process_not_found",
                hint=f"known processes: {', '.join(known)}",
            )
        limit = self._timeouts().get(process, DEFAULT_TIMEOUT_SECONDS) + 2.0
        try:
            self._deed(found, deed, process, limit)
        except Unreachable as failure:
            raise BerthError(
                f"process state unknown: {failure}", code="state_unknown", hint=f"berth status {self._row.slug}"
            ) from None
        return self._document(process)

    def _deed(self, found: Found, deed: str, process: str, limit: float) -> None:
        assert found.control is not None
        if deed == "stop":
            supervisor.stop_process(found.control, process, timeout_seconds=limit)
            self._end_named(process)
            return
        self.refuse_foreign_listeners()
        if deed == "start":
            supervisor.start_process(found.control, process)
        else:
            supervisor.restart_process(found.control, process, timeout_seconds=limit)
        self.wait(READY_SECONDS, process)

    def _end_named(self, process: str) -> None:
        """Every marked process of that name is gone afterwards, also one that escaped the supervisor."""
        from berth.tools.termination import end_marked

        times = self._timeouts()
        names = sorted(times)
        end_marked(
            self._row.id,
            timeouts=times,
            only=lambda one: not one.is_keeper and one.name_among(names) == process,
            keepers=False,
        )

    def _document(self, process: str) -> dict[str, Any]:
        (observation,) = self._observe()
        return next(one for one in observation.processes if one["name"] == process)

    def _observe(self) -> list[Observation]:
        from berth.runtime.state import observe_native

        return observe_native(self._home, [self._row])

    # -- hooks and logs -----------------------------------------------------------------------------------------

    def hook(self, script: str, *, kind: str, env: Mapping[str, str], timeout_seconds: float | None) -> None:
        """Run one setup or teardown script to its end. Raises setup_failed, teardown_failed, hook_timeout."""
        from berth.runtime.hooks import run_hook

        run_hook(
            self._row,
            script,
            kind=kind,
            env={**self._inherited(), **env},
            timeout_seconds=timeout_seconds,
            sink=self._say.raw_story,
            besides=lambda: self.look().supervisor,
        )

    def known_processes(self) -> list[str]:
        """The names in the definition that was last rendered."""
        return controls.replica_names(self._definition())

    def lines(self, process: str, *, tail: int | None) -> Iterator[str]:
        """What it wrote since it was last started, line by line."""
        return journal.lines(self._row.path, self._log_location(process), tail=tail)

    def follow(self, process: str, *, tail: int | None) -> Iterator[str]:
        """The same, then what it writes, until the supervisor is gone."""
        return journal.follow(self._row.path, self._log_location(process), tail=tail, has_ended=self._ended())

    def _ended(self) -> Callable[[], bool]:
        """Whether the supervisor is gone."""
        from berth.tools.procfs import is_alive

        who = controls.recorded_supervisor(controls.control_directory(self._home, self._row.path))
        return lambda: who is None or not is_alive(who)

    def _log_location(self, process: str) -> str:
        return controls.log_location(self._definition(), process)

    def _last_lines(self, process: str) -> list[str]:
        return list(self.lines(process, tail=LINES_OF_A_FAILURE))


def _waiting(process: Mapping[str, Any]) -> str:
    why = f" ({process['verdict_reason']})" if process.get("verdict_reason") else ""
    return f"{process['name']} is {process['status']}, {process['is_ready']}{why}"
