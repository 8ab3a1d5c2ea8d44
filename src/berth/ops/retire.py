"""The verbs that end something: ``reset`` the data, ``done`` with the workspace (10.1 to 10.4)."""

from __future__ import annotations

from berth.ops.setup.configuration import usable
from berth.ops.setup.describe import View, view
from berth.ops.setup.identity import check_identity
from berth.ops.setup.lifecycle import Held
from berth.ops.setup.locate import locate
from berth.ops.setup.planning import drop_plan
from berth.ops.setup.prepare import settle
from berth.ops.setup.removal import Done, begin_removal, finish_removal, forget, retire_creating

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.context import Context

__all__ = ["Done", "done", "reset"]


def reset(ctx: Context, argument: str | None) -> View:
    """Start over with an empty data directory: stop everything, wipe, prepare again; services stay stopped (10.1).

    An interrupted reset is finished by the next ``new``, ``up`` or ``run``.
    """
    from berth.ops.setup.back_end import runtime_of
    from berth.ops.setup.stopping import stop_all

    seen = locate(ctx, argument)
    with Held(ctx, "reset", seen.path, row=seen, words=f"berth reset {seen.slug}") as held:
        held.refuse_pending_removal()
        if held.row.phase == "creating":
            settle(held)
        check_identity(held.row)
        loaded = usable(ctx, held.row)
        held.used()
        runtime_of(ctx, held.row).require_known()
        drop_plan(ctx, held.row)
        held.update(setup_complete=False, reset_pending=True)
        ctx.say.step("stopping the processes")
        stop_all(ctx, held.row, loaded.config)
        settle(held)
        return view(ctx, held.row, env=False)


def done(ctx: Context, argument: str | None, *, force: bool = False) -> Done:
    """Put the workspace away: refuse while work would be lost, then stop, tear down, record the intent, remove (10.3).

    ``force`` skips the preservation test and the check for strangers inside, nothing else.
    """
    cwd = ctx.cwd
    seen = locate(ctx, argument)
    with Held(ctx, "done", seen.path, row=seen, words=f"berth done {seen.slug}") as held:
        if held.row.removing:
            return finish_removal(held)
        if not held.row.owned:
            check_identity(held.row)
            return forget(held)
        if held.row.phase == "creating":
            return retire_creating(held)
        begin_removal(held, force=force)
        result = finish_removal(held)
        if cwd is not None and (cwd + "/").startswith(seen.path + "/"):
            ctx.say.note(f"the current directory is gone; the primary checkout is {seen.repo}")
        return result
