"""The verbs on running processes: ``up down start stop restart wait logs``."""

from __future__ import annotations

from berth.errors import BerthError
from berth.ops.setup.describe import View, view
from berth.ops.setup.lifecycle import STEERS, Held
from berth.ops.setup.locate import locate
from berth.ops.setup.planning import runtime_environment, write_plan
from berth.ops.setup.prepare import settle, write_env_file
from berth.ops.setup.rendering import launch_of
from berth.ops.setup.stopping import phase_stopped, stop_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from berth.ops.setup.context import Context
    from berth.registry import Workspace
    from berth.runtime.base import Runtime


def up(ctx: Context, argument: str | None) -> View:
    """Start every process and wait until all are settled; on a running workspace only wait (8.3, 8.4).

    Raises process_failed, not_ready, port_in_use, supervisor_failed, state_unknown, and what preparing raises.
    """
    seen = locate(ctx, argument)
    with Held(ctx, "up", seen.path, row=seen, words=f"berth up {seen.slug}") as held:
        held.refuse_pending_removal()
        held.used()
        loaded = settle(held)
        env = runtime_environment(ctx, held.row, loaded.config)
        write_env_file(ctx, held.row, loaded.config, env)
        write_plan(ctx, held.row, loaded)
        launch = launch_of(ctx, held.row, loaded.config, env)
        runtime = _runtime(ctx, held.row)
        ctx.say.step("starting the processes")
        runtime.up(launch)
        held.update(phase="running", last_error=None, last_used_at=ctx.timestamp())
        return view(ctx, held.row)


class Downed:
    """What ``down`` did, for its JSON object."""

    __slots__ = ("path", "slug", "stopped", "terminated", "was_running")

    def __init__(
        self, row: Workspace, *, was_running: bool, stopped: list[str], terminated: list[dict[str, Any]]
    ) -> None:
        self.slug = row.slug
        self.path = row.path
        self.was_running = was_running
        self.stopped = stopped
        self.terminated = terminated

    def document(self) -> dict[str, Any]:
        """The JSON object of ``down``."""
        return {name: getattr(self, name) for name in ("slug", "path", "was_running", "stopped", "terminated")}


def down(ctx: Context, argument: str | None) -> Downed:
    """Leave nothing of the workspace running; succeeds on a stopped one. Needs no valid configuration (8.6)."""
    seen = locate(ctx, argument)
    with Held(ctx, "down", seen.path, row=seen, words=f"berth down {seen.slug}") as held:
        held.used()
        ctx.say.step("stopping the processes")
        result = stop_all(ctx, held.row)
        phase_stopped(ctx, held.row)
        return Downed(held.row, was_running=result.was_running, stopped=result.stopped, terminated=result.terminated)


class Steered:
    """One process after ``start``, ``stop`` or ``restart``."""

    __slots__ = ("path", "process", "slug")

    def __init__(self, row: Workspace, process: dict[str, Any]) -> None:
        self.slug = row.slug
        self.path = row.path
        self.process = process

    def document(self) -> dict[str, Any]:
        """The JSON object of ``start stop restart``."""
        return {"slug": self.slug, "path": self.path, "process": self.process}


def steer(ctx: Context, deed: str, process: str, argument: str | None) -> Steered:
    """``start``, ``stop`` or ``restart`` (``deed``) one process of a running workspace.

    From a supervised process of the same workspace it takes no lock: the supervisor serialises (5.3).
    Raises not_running, process_not_found, process_failed, not_ready.
    """
    assert deed in STEERS
    seen = locate(ctx, argument)
    environ = ctx.environ
    if environ.get("BERTH_SUPERVISED") == seen.id and environ.get("BERTH_PROCESS") not in (None, process):
        return Steered(seen, _runtime(ctx, seen).steer(deed, process))
    with Held(ctx, deed, seen.path, row=seen, words=f"berth {deed} {process} {seen.slug}") as held:
        held.refuse_pending_removal()
        held.used()
        runtime = _runtime(ctx, held.row)
        if deed == "restart":
            _check_contract(held.row)
        ctx.say.step(f"{deed}: {process}")
        return Steered(held.row, runtime.steer(deed, process))


def wait(ctx: Context, argument: str | None, *, timeout_seconds: float) -> View:
    """Wait, without a lock, until every process is settled. Raises process_failed, not_ready, state_unknown."""
    row = locate(ctx, argument)
    ctx.say.step("waiting for the processes")
    _runtime(ctx, row).wait_patiently(timeout_seconds)
    return view(ctx, row)


class Log:
    """The log of one process, line by line: ``lines`` gives what is there, ``follow`` goes on."""

    __slots__ = ("_process", "_runtime", "_tail")

    def __init__(self, runtime: Runtime, process: str, tail: int | None) -> None:
        self._runtime = runtime
        self._process = process
        self._tail = tail

    def lines(self) -> Iterator[str]:
        """What is there now."""
        return self._runtime.lines(self._process, tail=self._tail)

    def follow(self) -> Iterator[str]:
        """What is there, then what is written, until the supervisor stops."""
        return self._runtime.follow(self._process, tail=self._tail)


def logs(ctx: Context, process: str, argument: str | None, *, tail: int | None) -> Log:
    """What ``process`` printed since it was last started (8.7). Raises process_not_found listing the known ones."""
    row = locate(ctx, argument)
    runtime = _runtime(ctx, row)
    known = runtime.known_processes() or declared_processes(ctx, row)
    if process not in known:
        raise BerthError(
            f"{row.slug} has no process {process}",
            code="process_not_found",
            hint="known processes: " + (", ".join(known) or "none"),
        )
    return Log(runtime, process, tail)


def declared_processes(ctx: Context, row: Workspace) -> list[str]:
    """The processes of a workspace that was never up: from the prepared plan, else from a valid berth.yaml."""
    from berth.ops.setup.configuration import load
    from berth.tools import plans

    plan = plans.load(ctx.home, row.path)
    if plan is not None and plan.workspace_id == row.id:
        return plan.processes
    try:
        return sorted(load(row.path).config.processes)
    except BerthError:
        return []  # logs needs no valid configuration; nothing is known then


def _check_contract(row: Workspace) -> None:
    from berth.ops.setup.configuration import check_contract, load
    from berth.ops.setup.identity import check_identity

    check_identity(row)
    check_contract(row, load(row.path).config)


def _runtime(ctx: Context, row: Workspace) -> Runtime:
    from berth.ops.setup.back_end import runtime_of

    return runtime_of(ctx, row)
