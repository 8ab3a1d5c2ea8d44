"""The single steps by which a worktree ends, each safe to repeat (workspaces.md 10.4).

Order, identity and intent are decided above; nothing here deletes a checkout. Never ``git worktree prune``: that would
take the entries of others.
"""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.tools.git import checkout, refs, worktrees
from berth.tools.git.insistence import insist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def drop_admin_entry(common_dir: str, path: str, *, git_dir: str, env: Mapping[str, str]) -> None:
    """Drop the one entry of a worktree whose checkout has been moved away from ``path``; gone already is fine.

    ``git_dir`` is the recorded admin directory. Raises BerthError repository_missing, path_exists (something is at
    ``path``), worktree_locked, checkout_remains (the entry is still there, or names another place).
    """
    if not os.path.isdir(common_dir):
        raise checkout.repository_missing(common_dir)
    if not os.path.lexists(git_dir):
        return
    if os.path.lexists(path):
        raise BerthError(f"something is at {path}", code="path_exists", hint="move it away, then `berth done`")
    reason = worktrees.lock_reason(git_dir)
    if reason is not None:
        raise worktrees.locked_error(path, reason)
    back = checkout.read_plain(os.path.join(git_dir, "gitdir"))
    if back is None or not checkout.same_path(os.path.join(git_dir, back), os.path.join(path, ".git")):
        raise _remains(f"the git entry {git_dir} names {back or 'nothing'}, not {path}/.git")
    result = insist(
        ["worktree", "remove", "--force", "--", path],
        env=env,
        common_dir=common_dir,
        git_dir=common_dir,
        cwd=common_dir,
    )
    if os.path.lexists(git_dir):
        raise _remains(f"git kept its entry {git_dir} for {path}: {result.complaint or f'code {result.code}'}")


def _remains(what: str) -> BerthError:
    return BerthError(what, code="checkout_remains", hint="remove that entry by hand, then `berth done`")


def delete_workspace_branch(common_dir: str, branch: str, *, expected: str, env: Mapping[str, str]) -> None:
    """Delete ``branch`` (short name) if it is at ``expected`` and nowhere checked out; gone already is fine.

    Raises BerthError branch_checked_out, branch_moved, git_failed.
    """
    ref = refs.HEADS + branch
    known = refs.read_refs(common_dir, [ref], env=env)
    if ref not in known:
        return
    holder = worktrees.holder_of(worktrees.worktrees(common_dir, env=env), ref)
    if holder is not None:
        raise refs.branch_checked_out(branch, holder.path)
    refs.delete_branch(common_dir, ref, expected, env=env)
