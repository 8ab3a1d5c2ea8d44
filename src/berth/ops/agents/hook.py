"""``berth hook install``: have a harness hand the worktrees it makes over to berth (workspaces.md 11.3).

Only hooks that run when a worktree is made. ``berth hook run`` itself is in ``claude``.
"""

from __future__ import annotations

import os

from berth.ops.agents import harnesses, merge, scope
from berth.ops.agents.skill import Installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.ops.setup.context import Context

USER_SCOPE = (
    "hooks belong to a repository: they are read from files in it, and there is nothing to write into the home "
    "directory; run `berth hook install` inside the repository"
)
CLAUDE_WORKTREES = ".claude/worktrees"


def install(ctx: Context, names: Sequence[str] = (), *, every: bool = False) -> list[Installed]:
    """Add berth's entry to the hook files of the harnesses ``names``; without a name of all that are not opt-in.

    Every file is read and merged before the first is written. Raises unknown_agent, not_a_repository,
    file_unparsable, unsupported_path.
    """
    targets = harnesses.with_hook(names, every=every)
    where = scope.project(ctx)
    contents = [(harness, file, _merged(where, harness, file)) for harness in targets if (file := _file(harness))]
    installed = []
    for harness, file, content in contents:
        changed = content is not None and where.write(file, content)
        installed.append(Installed(where.name, harness.name, os.path.join(where.root, file), changed))
    if any(harness.name == "claude" for harness in targets):
        _advise_ignoring(ctx, where)
    return installed


def _file(harness: harnesses.Harness) -> str | None:
    return harness.hook.file if harness.hook else None


def _merged(where: scope.Scope, harness: harnesses.Harness, file: str) -> bytes | None:
    change, by_hand = merge.MERGES[harness.name]
    complaint = merge.Complaint(os.path.join(where.root, file), by_hand)
    return merge.merged(where.read(file), change, complaint)


def _advise_ignoring(ctx: Context, where: scope.Scope) -> None:
    from berth.tools.git import command

    probe = f"{CLAUDE_WORKTREES}/x"
    answer = command.run(["check-ignore", "-q", probe], env=ctx.environ, cwd=where.root)
    if answer.code == 1:
        ctx.say.note(
            f"git does not ignore {CLAUDE_WORKTREES}/: add that line to .gitignore, or the checkout looks dirty"
        )


def is_installed(content: bytes | None) -> bool:
    """Whether a hook file holds a command of berth's."""
    return content is not None and any(command.encode() in content for command in merge.OURS)
