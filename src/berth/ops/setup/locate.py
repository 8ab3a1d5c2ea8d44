"""Which workspace an argument means (workspaces.md 2.2). Reads the registry; starts no process."""

from __future__ import annotations

import os

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.context import Context
    from berth.registry import Workspace
    from berth.tools.git.checkout import Checkout


def locate(ctx: Context, argument: str | None) -> Workspace:
    """The workspace that ``argument`` names, or the one around the current directory.

    Raises workspace_not_found, workspace_ambiguous (listing the paths), cwd_missing.
    """
    if argument is None:
        return _around_cwd(ctx)
    word = argument[:-1] if len(argument) > 1 and argument.endswith("/") else argument
    found = _by_path(ctx, word)
    if found is None and not is_path(word):
        found = _by_name(ctx, word)
    if found is None:
        raise BerthError(f"no workspace {argument}", code="workspace_not_found", hint="berth ls --json lists them")
    return found


def is_path(word: str) -> bool:
    """True for what is read as a path whatever is registered: absolute, or starting with ``.``, ``..`` or ``~``."""
    return word.startswith(("/", ".", "~"))


def canonical(path: str) -> str:
    """``path`` with every parent resolved and its last component as it stands: the key of locks and rows."""
    parent, last = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(parent), last) if last else os.path.realpath(path)


def current_directory(ctx: Context) -> str:
    """The canonical current directory. Raises cwd_missing when it was removed."""
    if ctx.cwd is None:
        raise BerthError("the current directory was removed", code="cwd_missing", hint="cd somewhere, or give a path")
    return ctx.cwd


def relocate(ctx: Context, seen: Workspace) -> Workspace:
    """Read the row again, under the lock. Raises workspace_not_found or identity_mismatch when it was replaced."""
    row = ctx.registry.by_path(seen.path)
    if row is None:
        raise BerthError(
            f"workspace {seen.slug} at {seen.path} is gone", code="workspace_not_found", hint="berth ls lists them"
        )
    if row.id != seen.id:
        raise BerthError(
            f"workspace replaced during operation: {seen.path} now has id {row.id}",
            code="identity_mismatch",
            hint="run the command again",
        )
    return row


def checkout_around(path: str) -> Checkout | None:
    """The git checkout that ``path`` is in, from its plain files; None outside of any."""
    from berth.tools.git.checkout import read_git_file, toplevel_of

    top = toplevel_of(path)
    return read_git_file(top) if top is not None else None


def _around_cwd(ctx: Context) -> Workspace:
    cwd = current_directory(ctx)
    found = ctx.registry.containing(cwd)
    if found is not None:
        return found
    hint = "berth ls lists the workspaces; name one, or cd into it"
    checkout = checkout_around(cwd)
    if checkout is not None and checkout.linked:
        hint = "berth adopt registers this worktree"
    raise BerthError(f"no workspace around {cwd}", code="workspace_not_found", hint=hint)


def _by_path(ctx: Context, word: str) -> Workspace | None:
    if not is_path(word):
        # A plain relative word is a path only when it is exactly a workspace's root.
        return ctx.registry.by_path(canonical(os.path.join(ctx.cwd, word))) if ctx.cwd is not None else None
    path = os.path.expanduser(word)
    if not os.path.isabs(path):
        path = os.path.join(current_directory(ctx), path)
    return ctx.registry.containing(canonical(path)) or ctx.registry.containing(os.path.realpath(path))


def _by_name(ctx: Context, word: str) -> Workspace | None:
    repo_name, slash, slug = word.partition("/")
    if slash:
        rows = [row for row in ctx.registry.by_slug(slug) if os.path.basename(row.repo) == repo_name]
        return _only(word, rows)
    rows = ctx.registry.by_slug(word)
    if len(rows) > 1 and ctx.cwd is not None:
        checkout = checkout_around(ctx.cwd)
        if checkout is not None:
            own = [row for row in rows if row.common_dir == checkout.common_dir]
            rows = own or rows
    return _only(word, rows)


def _only(word: str, rows: list[Workspace]) -> Workspace | None:
    if len(rows) > 1:
        paths = ", ".join(row.path for row in rows)
        raise BerthError(f"{word} names several workspaces: {paths}", code="workspace_ambiguous", hint="give the path")
    return rows[0] if rows else None
