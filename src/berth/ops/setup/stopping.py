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
    from berth.ops.setup.back_end import runtime_of

    runtime = runtime_of(ctx, row)
    runtime.require_known()
    return runtime.down(rendered_timeout(ctx.home, row, config))


def rendered_timeout(home: str, row: Workspace, config: Config | None) -> float:
    """The largest T of the workspace in seconds, from the definition that was last rendered.

    Of a container workspace that is berth's own copy: what lies in the workspace, code inside can write.
    """
    from berth.runtime.controls import control_directory, definition_in, read_definition, timeouts
    from berth.runtime.select import backend_of

    in_container = backend_of(row) == "container"
    times = timeouts(definition_in(control_directory(home, row.path)) if in_container else read_definition(row.path))
    if times:
        return max(times.values())
    return config.longest_timeout_seconds if config is not None else DEFAULT_TIMEOUT_SECONDS


def phase_stopped(ctx: Context, row: Workspace) -> None:
    """Record that nothing runs, unless a setup or removal is pending, whose phase says more."""
    if row.setup_complete and not row.removing:
        ctx.registry.update(row.id, phase="stopped", last_error=None)
