"""Repeating a ``git worktree`` command that met another git at work (workspaces.md 7.2, parallel ``new``).

Two things pass by themselves: a lock file which another process holds, and an entry below ``<common>/worktrees``
which another git is just writing or deleting: every git that lists worktrees dies on one whose ``commondir`` is still
empty, or is gone between two looks. Both are seen in the files; no message is read. References need none of this: git
itself waits for their locks.
"""

from __future__ import annotations

import os
import time

from berth.tools.git import checkout, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.tools import proc

PATIENCE_SECONDS = 5.0
_YOUNG_SECONDS = 1.0
INITIALISING = "initializing"  # what git writes into ``locked`` while it makes an entry


def insist(
    args: Sequence[str],
    *,
    env: Mapping[str, str],
    common_dir: str,
    cwd: str | None = None,
    git_dir: str | None = None,
    hooks: bool = False,
    locks: Sequence[str] = (),
    until: str | None = None,
) -> proc.Result:
    """Run ``git <args>``, again for up to 5 s while it fails and another git is in the way; the last result.

    ``locks`` are the lock files (absolute paths) that the command may find taken; once ``until`` exists it has done its
    work and is not repeated. Raises BerthError exec_failed.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        held, known = any(map(os.path.lexists, locks)), _entries(common_dir)
        result = command.run(args, env=env, cwd=cwd, git_dir=git_dir, hooks=hooks)
        if result.code == 0 or time.monotonic() >= deadline or (until is not None and os.path.lexists(until)):
            return result
        now = _entries(common_dir)
        if not (held or known != now or any(map(os.path.lexists, locks)) or any(map(_is_in_the_making, now))):
            return result
        time.sleep(0.01 + os.urandom(1)[0] / 255 * 0.05)  # jitter: many who wait do not all come back at once


def _entries(common_dir: str) -> frozenset[str]:
    """The admin directories of the linked worktrees, as paths."""
    top = os.path.join(common_dir, "worktrees")
    try:
        return frozenset(os.path.join(top, name) for name in os.listdir(top))
    except OSError:
        return frozenset()


def _is_in_the_making(admin: str) -> bool:
    """Whether the entry is locked for its making, or so young that it was a moment ago."""
    if (checkout.read_plain(os.path.join(admin, "locked")) or "").strip() == INITIALISING:
        return True
    try:
        return time.time() - os.stat(os.path.join(admin, "commondir")).st_mtime < _YOUNG_SECONDS
    except OSError:
        return True  # not written yet, or gone just now
