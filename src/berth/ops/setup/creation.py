"""Make the checkout of a registered workspace, or finish making it, or take it back (7.2 steps 7 to 9, 10.3 step 2)."""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.ops.setup.identity import MARKER, METADATA, read_marker, write_marker
from berth.ops.setup.prepare import make_data, remember_warnings
from berth.ops.setup.removal import MOVED_PREFIX, Done, identity_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.lifecycle import Held
    from berth.tools.git.refs import Start
    from berth.tools.git.repository import Repository


def create_checkout(held: Held, repo: Repository, start: Start) -> None:
    """A fresh checkout at a path where nothing is; a failure takes it all back, the row and its ports included."""
    from berth.tools.git.creation import worktree_add

    ctx = held.ctx
    if start.creates_branch:
        # While phase is ``creating``: the branch that this creation makes, and may take back.
        held.update(removal_branch=start.branch)
    ctx.say.step("creating the checkout")
    try:
        added = worktree_add(repo, held.row.path, start=start, env=ctx.environ)
    except BaseException:
        ctx.registry.delete(held.row.id)
        raise
    ctx.say.raw_story(added.output)
    held.update(git_dir=added.git_dir)
    after_checkout(held, repo, list(added.warnings))


def after_checkout(held: Held, repo: Repository, warnings: list[str]) -> None:
    """Submodules, ``.berth`` and its marker; then the workspace exists and only needs preparing."""
    from berth.tools.git.submodules import initialise

    ctx = held.ctx
    ctx.say.step("initialising submodules")
    warnings = warnings + initialise(held.row.path, repo=repo, env=ctx.environ)
    write_marker(held.row.path, workspace_id=held.row.id, repo=held.row.repo, git_dir=held.row.git_dir)
    make_data(held.row)
    held.update(phase="preparing", removal_branch=None)
    remember_warnings(held, warnings)


def complete_creation(held: Held) -> None:
    """From phase ``creating``, left by a kill, to ``preparing``: same id, same ports; files of others are kept."""
    from berth.ops.setup.back_end import runtime_of
    from berth.tools.git import completion

    ctx, row = held.ctx, held.row
    runtime_of(ctx, row).sweep()
    repo = repository_of(held)
    start = recorded_start(held)
    admin = completion.settled(repo, row.path, env=ctx.environ)
    if admin is not None:
        if read_marker(row.path) is None:
            ctx.say.step("completing the checkout")
            completion.complete(repo, row.path, admin=admin, start=start, env=ctx.environ)
        held.update(git_dir=os.path.realpath(admin))
        after_checkout(held, repo, [])
        return
    if os.path.lexists(row.path):
        raise BerthError(
            f"{row.path} is there, but git does not know it as a worktree",
            code="path_exists",
            hint=f"move it away, then berth new {row.slug}",
        )
    create_checkout(held, repo, start)


def recorded_start(held: Held) -> Start:
    """Where the workspace begins: its branch as it is, or made anew at the recorded commit."""
    from berth.tools.git.refs import HEADS, Start, read_refs

    row = held.row
    branch = f"berth/{row.slug}"
    known = read_refs(row.common_dir, [HEADS + branch], env=held.ctx.environ).get(HEADS + branch)
    start_commit = row.start_commit or ""
    return Start(
        branch,
        commit=known[0] if known is not None else start_commit,
        start_commit=start_commit,
        creates_branch=known is None,
        notes=(),
    )


def repository_of(held: Held) -> Repository:
    """The recorded repository. Raises repository_missing."""
    from berth.tools.git.checkout import repository_missing
    from berth.tools.git.repository import repository

    row = held.row
    if not os.path.isdir(row.common_dir):
        raise repository_missing(row.common_dir)
    return repository(row.repo, env=held.ctx.environ, recorded=lambda _common: row.repo)


def take_back(held: Held) -> Done:
    """Undo a creation that has no marker yet: admin entry, a branch it made that has not moved, a checkout that holds
    only files equal to the commit's. Anything else is somebody's work. Raises dirty.
    """
    from berth.tools.deletion import delete_tree
    from berth.tools.git import completion
    from berth.tools.git.refs import HEADS, delete_branch, read_refs

    row, env = held.row, held.ctx.environ
    repo = repository_of(held)
    result = Done(row)
    admin = completion.settled(repo, row.path, env=env)
    if os.path.lexists(row.path):
        completion.refuse_others_files(repo, row.path, admin=admin, start=recorded_start(held), env=env)
        moved = os.path.join(os.path.dirname(row.path), MOVED_PREFIX + row.id)
        identity = identity_of(row.path)
        os.rename(row.path, moved)
        if identity_of(moved) == identity:
            delete_tree(moved, last=f"{METADATA}/{MARKER}")
    if admin is not None:
        completion.forget_entry(repo, row.path, env=env)
    result.checkout_removed = True
    branch = row.removal_branch
    known = read_refs(repo.common_dir, [HEADS + branch], env=env).get(HEADS + branch) if branch else None
    if branch and known is not None and known[0] == row.start_commit:
        delete_branch(repo.common_dir, HEADS + branch, known[0], env=env)
        result.branch, result.branch_commit, result.branch_deleted = branch, known[0], True
    elif row.branch is not None and read_refs(repo.common_dir, [HEADS + row.branch], env=env):
        result.branches_kept.append(row.branch)
    return result
