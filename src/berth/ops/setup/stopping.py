"""Leave nothing of a workspace running, whatever its configuration says by now (8.6)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.context import Context
    from berth.registry import Workspace
    from berth.runtime.base import Stopped
    from berth.spec.config import Config

DEFAULT_TIMEOUT_SECONDS = 15.0


def stop_all(ctx: Context, row: Workspace, config: Config | None = None) -> Stopped:
    """Stop the supervisor and end whatever escaped it. Raises state_unknown, stop_failed.

    T comes from the running definition, which the supervisor holds; ``config`` only where nothing was rendered yet.
    """
    from berth.runtime.select import runtime_for

    runtime = runtime_for(ctx.home, row, environ=ctx.environ, say=ctx.say)
    runtime.require_known()
    return runtime.down(rendered_timeout(row, config))


def rendered_timeout(row: Workspace, config: Config | None) -> float:
    """The largest T of the workspace in seconds, from the definition that was last rendered (``.berth/pc.yaml``)."""
    from berth.runtime.controls import read_definition, timeouts

    times = timeouts(read_definition(row.path))
    if times:
        return max(times.values())
    return float(config.shutdown_timeout_seconds) if config is not None else DEFAULT_TIMEOUT_SECONDS


def phase_stopped(ctx: Context, row: Workspace) -> None:
    """Record that nothing runs, unless a setup or removal is pending, whose phase says more."""
    if row.setup_complete and not row.removing:
        ctx.registry.update(row.id, phase="stopped", last_error=None)
