"""Removing a workspace (10.3, 10.4): what refuses, the intent, and the one function that finishes what was begun."""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.ops.setup.identity import MARKER, METADATA, check_identity
from berth.ops.setup.planning import drop_plan, runtime_environment
from berth.ops.setup.stopping import stop_all
from berth.tools import steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from berth.ops.setup.lifecycle import Held
    from berth.registry import Workspace
    from berth.runtime.base import Runtime
    from berth.runtime.box import Box
    from berth.spec.config import Config
    from berth.tools.git.preservation import Work

MOVED_PREFIX = ".berth-removing-"


class Done:
    """What became of a workspace; the attributes are the keys of the JSON object of ``done``."""

    __slots__ = (
        "branch",
        "branch_commit",
        "branch_deleted",
        "branches_kept",
        "checkout_removed",
        "ownership",
        "path",
        "slug",
        "warnings",
    )

    def __init__(self, row: Workspace) -> None:
        self.slug = row.slug
        self.path = row.path
        self.ownership = row.ownership
        self.checkout_removed = False
        self.branch: str | None = row.removal_branch or row.branch
        self.branch_commit: str | None = row.removal_head
        self.branch_deleted = False
        self.branches_kept: list[str] = []
        self.warnings: list[str] = []

    def document(self) -> dict[str, Any]:
        """The JSON object."""
        names = ("slug", "path", "ownership", "checkout_removed", "branch", "branch_commit", "branch_deleted")
        return {name: getattr(self, name) for name in (*names, "branches_kept", "warnings")}


def begin_removal(held: Held, *, force: bool) -> None:
    """Steps 2 to 8 of 10.3: every refusal, down, teardown, every refusal again, and then the recorded intent.

    ``force`` skips the preservation test and the check for strangers inside. Nothing is changed by a refusal.
    """
    ctx = held.ctx
    if not os.path.lexists(held.row.path):
        record_missing(held, force=force)
        return
    check_identity(held.row)
    runtime = _runtime(held)
    runtime.require_known()
    ctx.say.step("checking that the work is kept elsewhere")
    refuse_loss(held, force=force)
    refuse_foreign_files(held)
    ctx.say.step("stopping the processes")
    stop_all(ctx, held.row)
    tear_down(held, runtime)
    runtime.destroy()
    refuse_loss(held, force=force)
    record_intent(held)


def refuse_loss(held: Held, *, force: bool) -> None:
    """Raise what speaks against removing the checkout now: lock, branch elsewhere, strangers inside, unkept work."""
    from berth.tools.git.checkout import current_branch
    from berth.tools.git.preservation import check_preserved
    from berth.tools.git.refs import branch_checked_out
    from berth.tools.git.worktrees import lock_reason, locked_error, worktrees

    row, env = held.row, held.ctx.environ
    check_identity(row)
    reason = lock_reason(row.git_dir)
    if reason is not None:
        raise locked_error(row.path, reason)
    branch = current_branch(row.git_dir, env=env)
    if branch == own_branch(row):
        for entry in worktrees(row.common_dir, env=env):
            if entry.branch == f"refs/heads/{branch}" and entry.path != row.path:
                raise branch_checked_out(branch, entry.path)
    if not force:
        refuse_processes_inside(row)
        check_preserved(row.path, common_dir=row.common_dir, work=work_of(held), env=env)


def work_of(held: Held) -> Work:
    """The work in the held workspace, for the preservation test."""
    from berth.tools.git.preservation import work_in

    row = held.row
    return work_in(
        row.path,
        git_dir=row.git_dir,
        common_dir=row.common_dir,
        base=row.base,
        start_commit=row.start_commit or "",
        own_branch=own_branch(row),
        env=held.ctx.environ,
    )


def own_branch(row: Workspace) -> str:
    """The one branch that may go with the workspace."""
    return f"berth/{row.slug}"


def refuse_processes_inside(row: Workspace) -> None:
    """Processes with their cwd inside that berth did not start; berth itself and its ancestors are exempt."""
    from berth.tools.processes import inside, marked

    strangers = inside(row.path, besides=[one.pid for one in marked(row.id)])
    if strangers:
        named = ", ".join(map(str, strangers[:10]))
        raise BerthError(
            f"processes work inside {row.path}: {named}",
            code="processes_inside",
            hint="end them; --force removes the workspace all the same",
        )


def refuse_foreign_files(held: Held) -> None:
    """Files of another uid could not be deleted by berth; where a container made them, one must be able to (10.3)."""
    from berth.runtime.select import backend_of
    from berth.tools.trees import foreign_files

    found = foreign_files(held.row.path)
    if found and backend_of(held.row) == "container":
        from berth.runtime.foreign import require_remover

        require_remover(_box(held))
    elif found:
        raise BerthError(
            f"files in {held.row.path} belong to another user: {', '.join(found)}",
            code="foreign_files",
            hint="change their owner back (chown), then berth done again",
        )


def _box(held: Held) -> Box:
    from berth.runtime.box import Box

    return Box(held.ctx.home, held.row, environ=held.ctx.environ)


def remove_foreign_files(held: Held) -> None:
    """Step 2 of 10.4: what other uids left is deleted by a container of the same image."""
    from berth.runtime.select import backend_of
    from berth.tools.trees import foreign_files

    if backend_of(held.row) == "container" and foreign_files(held.row.path, limit=1):
        from berth.runtime.foreign import remove_foreign

        held.ctx.say.step("removing files of other users")
        remove_foreign(_box(held))


def tear_down(held: Held, runtime: Runtime) -> None:
    """Run the teardown hooks; a failure aborts. An unusable configuration is a warning: the stored contract is used."""
    ctx, row = held.ctx, held.row
    config = _usable_config(held)
    if config is None or not config.hooks.teardown:
        return
    env = runtime_environment(ctx, row, config)
    try:
        for number, script in enumerate(config.hooks.teardown, start=1):
            ctx.say.step(f"running teardown hook {number} of {len(config.hooks.teardown)}")
            runtime.hook(script, kind="teardown", env=env, timeout_seconds=config.hooks.timeout_seconds)
    finally:
        stop_all(ctx, row)


def _usable_config(held: Held) -> Config | None:
    from berth.ops.setup.configuration import usable

    try:
        return usable(held.ctx, held.row).config
    except BerthError as error:
        if error.code not in ("config_invalid", "contract_changed"):
            raise
        first = error.message.splitlines()[0]
        held.ctx.say.warning(f"teardown hooks are skipped, because the configuration cannot be used: {first}")
        return None


def record_intent(held: Held) -> None:
    """Step 8: what is about to be done, written down before it is done."""
    from berth.tools.git.checkout import current_branch, head_commit

    row, env = held.row, held.ctx.environ
    branch = current_branch(row.git_dir, env=env)
    facts = os.lstat(row.path)
    drop_plan(held.ctx, row)
    held.update(
        phase="removing",
        removal_head=head_commit(row.git_dir, common_dir=row.common_dir, env=env),
        removal_branch=branch if branch == own_branch(row) else None,
        removal_dir=f"{facts.st_dev}:{facts.st_ino}",
        branch=branch,
    )


def record_missing(held: Held, *, force: bool) -> None:
    """The checkout is missing: only with ``--force``, from what git's admin entry still says (10.3 step 2)."""
    from berth.tools.git.checkout import current_branch, head_commit, repository_missing
    from berth.tools.git.worktrees import lock_reason, locked_error

    row, env = held.row, held.ctx.environ
    if not os.path.isdir(row.common_dir):
        raise repository_missing(row.common_dir)
    reason = lock_reason(row.git_dir)
    if reason is not None:
        raise locked_error(row.path, reason)
    if not force:
        raise BerthError(
            f"the checkout {row.path} is missing",
            code="checkout_missing",
            hint="move it back, or berth done --force, or berth gc",
        )
    head = branch = None
    if os.path.isdir(row.git_dir):
        head = head_commit(row.git_dir, common_dir=row.common_dir, env=env)
        branch = current_branch(row.git_dir, env=env)
    own = branch == own_branch(row)
    kept = own and head is not None and _is_kept(row, head, branch, env)
    stop_all(held.ctx, row)
    held.update(
        phase="removing",
        removal_head=head,
        removal_branch=branch if kept else None,
        removal_dir=None,
        branch=branch,
    )


def _is_kept(row: Workspace, head: str, branch: str | None, env: Mapping[str, str]) -> bool:
    from berth.tools.git.preservation import Work, is_preserved

    work = Work(head, branch=branch, base=row.base, start_commit=row.start_commit or "", doomed=own_branch(row))
    return is_preserved(row.common_dir, work, env=env)


def finish_removal(held: Held) -> Done:
    """Carry out the recorded intent; every step is safe to repeat (10.4)."""
    from berth.tools.git.removal import delete_workspace_branch, drop_admin_entry

    ctx, row, env = held.ctx, held.row, held.ctx.environ
    result = Done(row)
    ctx.say.step("removing the checkout")
    stop_all(ctx, row)
    moved = move_away(row, env=env, clear=lambda: remove_foreign_files(held))
    drop_admin_entry(row.common_dir, row.path, git_dir=row.git_dir, env=env)
    if row.removal_branch is not None and row.removal_head is not None:
        delete_workspace_branch(row.common_dir, row.removal_branch, expected=row.removal_head, env=env)
        result.branch_deleted = True
    else:
        result.branches_kept += _branches_that_stay(row, env)
    delete_moved(row, moved)
    result.checkout_removed = row.removal_dir is not None  # a checkout that was missing already is not our deed
    forget_record(held)
    return result


def _branches_that_stay(row: Workspace, env: Mapping[str, str]) -> list[str]:
    """The branch that was current and the workspace's own, as far as they exist, each once."""
    from berth.tools.git.refs import HEADS, read_refs

    names = list(dict.fromkeys(name for name in (row.branch, own_branch(row)) if name is not None))
    known = read_refs(row.common_dir, [HEADS + name for name in names], env=env)
    return [name for name in names if HEADS + name in known]


def move_away(row: Workspace, *, env: Mapping[str, str], clear: Callable[[], None]) -> str:
    """Steps 1 to 3: prove that it is the recorded checkout, ``clear`` it, rename it; returns where it then is."""
    moved = os.path.join(os.path.dirname(row.path), MOVED_PREFIX + row.id)
    if not os.path.lexists(row.path):
        return moved
    if row.removal_dir is None or identity_of(row.path) != row.removal_dir:
        raise BerthError(
            f"{row.path} is not the directory whose removal was begun",
            code="identity_mismatch",
            hint="move what is there away, then berth done",
        )
    check_unmoved(row, env=env)
    clear()
    steps.reach("before the checkout is moved")
    try:
        os.rename(row.path, moved)
    except OSError as error:
        raise BerthError(
            f"{row.path} cannot be moved away: {error.strerror}",
            code="path_busy",
            hint="end what keeps it busy (a mount, a container), then berth done",
        ) from error
    steps.reach("after the checkout is moved")
    return moved


def check_unmoved(row: Workspace, *, env: Mapping[str, str]) -> None:
    """Step 1: the checkout still at its path is the recorded one, unlocked, and its HEAD has not moved."""
    from berth.tools.git.checkout import head_commit
    from berth.tools.git.worktrees import lock_reason, locked_error

    check_identity(row)
    reason = lock_reason(row.git_dir)
    if reason is not None:
        raise locked_error(row.path, reason)
    head = head_commit(row.git_dir, common_dir=row.common_dir, env=env)
    if head != row.removal_head:
        raise BerthError(
            f"HEAD of {row.path} is {head}, and was {row.removal_head} when its removal was begun",
            code="head_moved",
            hint="undo that by hand, then berth done",
        )


def delete_moved(row: Workspace, moved: str) -> None:
    """Step 6: delete the moved directory, only while it is the recorded one; the marker goes last."""
    from berth.tools.deletion import delete_tree

    if os.path.lexists(moved):
        if row.removal_dir is None or identity_of(moved) != row.removal_dir:
            raise BerthError(
                f"{moved} is not the directory whose removal was begun",
                code="identity_mismatch",
                hint="move it away, then berth done",
            )
        facts = os.lstat(moved)
        delete_tree(moved, last=os.path.join(METADATA, MARKER), identity=(facts.st_dev, facts.st_ino))


def identity_of(path: str) -> str:
    """Device and inode of a directory, as the row records them."""
    facts = os.lstat(path)
    return f"{facts.st_dev}:{facts.st_ino}"


def forget(held: Held) -> Done:
    """An adopted workspace: stopped and unregistered; checkout, data and branch stay (10.3 step 3)."""
    runtime = _runtime(held)
    runtime.require_known()
    stop_all(held.ctx, held.row)
    runtime.destroy()
    drop_plan(held.ctx, held.row)
    result = Done(held.row)
    if held.row.branch is not None:
        result.branches_kept.append(held.row.branch)
    forget_record(held)
    return result


def forget_record(held: Held) -> None:
    """The control directory and then the row with its ports: the last thing that is known of the workspace."""
    _runtime(held).destroy()
    held.ctx.registry.delete(held.row.id)


def _runtime(held: Held) -> Runtime:
    from berth.ops.setup.back_end import runtime_of

    return runtime_of(held.ctx, held.row)


def retire_creating(held: Held) -> Done:
    """Take back a creation that was killed before its marker was written (10.3 step 2)."""
    from berth.ops.setup.creation import take_back

    stop_all(held.ctx, held.row)
    result = take_back(held)
    forget_record(held)
    return result
