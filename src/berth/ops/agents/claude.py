"""``berth hook run claude``: make the worktree that Claude Code asks for (workspaces.md 11.3).

In this harness the WorktreeCreate hook *replaces* worktree creation: one JSON object comes on standard input, the last
line of standard output must be the new directory, which must lie inside the repository. Setting the worktree up is
``adopt``'s work.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from berth.errors import BerthError
from berth.ops.agents.hook import CLAUDE_WORKTREES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.context import Context
    from berth.tools.git.repository import Repository

LONGEST_REQUEST = 1 << 20


class Request(NamedTuple):
    """What the harness asks for: a worktree called ``name``, for the repository around ``cwd`` (None = here)."""

    name: str
    cwd: str | None


def read_request(descriptor: int) -> Request:
    """Read one JSON object from ``descriptor`` without waiting for its end of file.

    ``name``, or in older versions ``worktree_name``; ``cwd``. Raises usage when it is not such an object.
    """
    data = b""
    scanner = _Braces()
    while not scanner.complete and len(data) <= LONGEST_REQUEST:
        block = os.read(descriptor, 65536)
        if not block:
            break
        data += block
        scanner.feed(block)
    try:
        document = json.JSONDecoder().raw_decode(data.decode("utf-8").lstrip())[0]
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _not_a_request("standard input holds no JSON object")
    name = document.get("name", document.get("worktree_name"))
    if not isinstance(name, str) or not _is_usable(name):
        raise _not_a_request(f"name is {json.dumps(name, ensure_ascii=False)}, which is no name of a worktree")
    cwd = document.get("cwd")
    return Request(name, cwd if isinstance(cwd, str) and os.path.isabs(cwd) else None)


def _not_a_request(problem: str) -> BerthError:
    return BerthError(
        f"berth hook run claude: {problem}",
        code="usage",
        hint='the harness calls it with {"name": "…", "cwd": "/…"} on standard input',
    )


class _Braces:
    """Sees where the first JSON value ends; ``complete`` also for what can never become an object."""

    def __init__(self) -> None:
        self.complete = False
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, block: bytes) -> None:
        for char in block:
            if self._escaped:
                self._escaped = False
            elif self._in_string:
                self._escaped = char == 0x5C
                self._in_string = char != 0x22
            elif char == 0x22:
                self._in_string = True
            elif char in b"{[":
                self._depth += 1
            elif char in b"}]":
                self._depth -= 1
                self.complete = self.complete or self._depth <= 0
            if self._depth == 0 and char not in b" \t\r\n}":
                self.complete = True  # not an object
            if self.complete:
                return


def _is_usable(name: str) -> bool:
    from berth.tools.git.refs import is_ref_name

    parts = name.split("/")
    return is_ref_name(f"worktree-{name}") and all(part and not part.startswith((".", "-")) for part in parts)


def make_worktree(ctx: Context, request: Request) -> str:
    """Make, or find again, the worktree ``<repo>/.claude/worktrees/<name>`` on branch ``worktree-<name>``; its path.

    It starts at the configured base, and where that names nothing at the primary checkout's HEAD, with a warning: the
    harness is never blocked. Raises not_a_repository, unsupported_path, path_exists, git_failed and its kin.
    """
    repo = _repository(ctx, request)
    path = _place(repo, request.name)
    from berth.tools.git import refs, worktrees
    from berth.tools.git.creation import worktree_add

    entries = worktrees.worktrees(repo.common_dir, env=ctx.environ)
    known = worktrees.worktree_at(entries, path)
    if known is not None and not known.missing:
        return path
    branch = f"worktree-{request.name}"
    ref = refs.HEADS + branch
    existing = refs.read_refs(repo.common_dir, [ref], env=ctx.environ).get(ref)
    if existing is not None:
        start = refs.Start(branch, commit=existing[0], start_commit=existing[0], creates_branch=False, notes=())
    else:
        commit = _base_commit(ctx, repo)
        start = refs.Start(branch, commit=commit, start_commit=commit, creates_branch=True, notes=())
    added = worktree_add(repo, path, start=start, env=ctx.environ)
    for warning in added.warnings:
        ctx.say.warning(warning)
    return path


def _repository(ctx: Context, request: Request) -> Repository:
    from berth.ops.agents.scope import repository_around, repository_at

    repo = repository_at(ctx, request.cwd) if request.cwd else repository_around(ctx)
    if repo.bare:
        raise BerthError(
            f"{repo.path} is a bare repository: there is no {CLAUDE_WORKTREES} in it",
            code="unsupported_repository",
            hint="berth new",
        )
    return repo


def _place(repo: Repository, name: str) -> str:
    """Where the worktree goes: inside the repository, whatever links are on the way. Raises unsupported_path."""
    root = os.path.realpath(repo.path)
    path = os.path.join(root, CLAUDE_WORKTREES, name)
    real = os.path.realpath(path)
    if real != path:
        raise BerthError(
            f"{path} leads through a symbolic link to {real}; the harness wants a directory inside the repository",
            code="unsupported_path",
            hint=f"replace the link below {root}/.claude by a directory",
        )
    return path


def _base_commit(ctx: Context, repo: Repository) -> str:
    from berth.ops.setup.configuration import load
    from berth.tools.git import refs, repository

    try:
        return refs.resolve_base(repo, load(repo.path).config.base, env=ctx.environ).commit
    except BerthError as error:
        head = repository.head_of(repo, env=ctx.environ)
        if head is None:
            raise
        ctx.say.warning(f"{error.message}; the worktree starts at the primary checkout's HEAD")
        return head


def reply(path: str, workspace: Any) -> dict[str, Any]:
    """The JSON document of ``hook run claude``: ``workspace`` is None when it could not be adopted."""
    return {"path": path, "workspace": workspace}
