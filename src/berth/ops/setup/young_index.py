"""The one refresh of a fresh checkout's index (workspaces.md 7.2 step 9).

git takes entries that are as old as their index for doubtful, and would hash every file again at each status. Only an
acceleration: whatever stands in the way, the command goes on.
"""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.ops.setup.identity import MARKER, METADATA, check_identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.context import Context
    from berth.registry import Workspace


def refresh_young_index(ctx: Context, row: Workspace) -> None:
    """Refresh the index once, by the first lifecycle command more than a second after the checkout."""
    from berth.tools.git.creation import refresh_index, refresh_is_due

    if row.removing or row.phase == "creating":
        return
    if refresh_is_due(row.git_dir, marker=os.path.join(row.path, METADATA, MARKER), now=ctx.now()):
        try:
            check_identity(row)  # git runs only in a checkout whose plain files agree with the record
        except BerthError:
            return
        refresh_index(row.path, env=ctx.environ)
