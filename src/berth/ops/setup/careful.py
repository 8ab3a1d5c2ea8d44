"""What ``run`` does when no prepared plan holds: finish the setup, make every check, decide the plan anew."""

from __future__ import annotations

from berth.ops.setup.configuration import usable
from berth.ops.setup.identity import check_identity
from berth.ops.setup.lifecycle import Held, refuse_pending_removal
from berth.ops.setup.planning import make_plan, write_plan
from berth.ops.setup.prepare import is_incomplete, settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.context import Context
    from berth.registry import Workspace
    from berth.tools.plans import PreparedPlan


def needs_preparing(row: Workspace) -> bool:
    """True while a creation, setup or reset is incomplete. Raises removal_pending."""
    refuse_pending_removal(row)
    return is_incomplete(row)


def prepare_first(ctx: Context, row: Workspace) -> None:
    """Finish the setup under the exclusive lock (inside a run: under the operation lock alone)."""
    with Held(ctx, "new", row.path, row=row, words="berth run (preparing)") as held:
        settle(held)


def checked_plan(ctx: Context, row: Workspace, *, write: bool) -> PreparedPlan:
    """Every check of the contract, then the plan; ``write`` it down only under the workspace lock.

    Raises checkout_missing, identity_mismatch, config_invalid, contract_changed.
    """
    check_identity(row)
    loaded = usable(ctx, row)
    return write_plan(ctx, row, loaded) if write else make_plan(ctx, row, loaded)
