"""Make the checkout of a registered workspace, or finish making it: worktree, submodules, marker (7.2 steps 7 to 9)."""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.ops.setup.identity import write_marker
from berth.ops.setup.prepare import make_data, remember_warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.lifecycle import Held


def complete_creation(held: Held) -> None:
    """From phase ``creating`` to ``preparing``: whatever is there already is kept."""
    raise BerthError("x", code="internal")


_ = (os, write_marker, make_data, remember_warnings)
