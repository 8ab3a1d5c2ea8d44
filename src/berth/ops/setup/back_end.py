"""The runtime of a workspace, with the right to record what it makes: the one place where verbs get theirs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.context import Context
    from berth.registry import Workspace
    from berth.runtime.base import Runtime


def runtime_of(ctx: Context, row: Workspace) -> Runtime:
    """The runtime that the row records."""
    from berth.runtime.select import runtime_for

    def record(**columns: object) -> Workspace:
        return ctx.registry.update(row.id, **columns)

    return runtime_for(ctx.home, row, environ=ctx.environ, say=ctx.say, record=record)
