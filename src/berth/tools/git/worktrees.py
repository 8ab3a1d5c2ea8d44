"""The list of worktrees and what git says of one path: the target check of workspaces.md 7.3.

Facts only; what to do about a missing, locked or foreign worktree is decided above. Never ``git worktree prune``.
"""

from __future__ import annotations

import os
import stat

from berth.errors import BerthError
from berth.tools.git import checkout, command
from berth.tools.git.insistence import insist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.tools.git.repository import Repository


class Worktree:
    """One entry of ``git worktree list``: ``path`` as git knows it, ``head`` (None on a bare or unborn one), ``branch``
    the full reference or None, ``bare``, and ``lock_reason`` (None = not locked, "" = locked without a reason)."""

    __slots__ = ("bare", "branch", "head", "lock_reason", "path")

    def __init__(self, path: str, *, head: str | None, branch: str | None, bare: bool, lock_reason: str | None) -> None:
        self.path = path
        self.head = head
        self.branch = branch
        self.bare = bare
        self.lock_reason = lock_reason

    @property
    def missing(self) -> bool:
        """Whether nothing is at its path."""
        return not os.path.lexists(self.path)


def parse_list(data: bytes) -> list[Worktree]:
    """The worktrees in the output of ``git worktree list --porcelain -z``, the main one first."""
    found = []
    for record in data.split(b"\0\0"):
        facts: dict[bytes, bytes] = {}
        for line in record.split(b"\0"):
            key, _, value = line.partition(b" ")
            facts[key] = value
        if b"worktree" not in facts:
            continue
        head = facts.get(b"HEAD", b"").decode()
        found.append(
            Worktree(
                command.decoded(facts[b"worktree"]),
                head=head if head.strip("0") else None,
                branch=command.decoded(facts[b"branch"]) if b"branch" in facts else None,
                bare=b"bare" in facts,
                lock_reason=command.decoded(facts[b"locked"]) if b"locked" in facts else None,
            )
        )
    return found


def worktrees(common_dir: str, *, env: Mapping[str, str]) -> list[Worktree]:
    """All worktrees of the repository, the main one (or the bare entry) first. Raises BerthError git_failed."""
    result = insist(
        ["worktree", "list", "--porcelain", "-z"], env=env, common_dir=common_dir, git_dir=common_dir, cwd=common_dir
    )
    return parse_list(command.checked(result).stdout)


def worktree_at(entries: Sequence[Worktree], path: str) -> Worktree | None:
    """The linked worktree registered at ``path`` (canonical parent, last component as it is), present or missing."""
    for entry in entries[1:]:
        if checkout.same_path(entry.path, path):
            return entry
    return None


def holder_of(entries: Sequence[Worktree], ref: str) -> Worktree | None:
    """The worktree, the main one included, that has the branch ``ref`` checked out."""
    for entry in entries:
        if entry.branch == ref and not entry.bare:
            return entry
    return None


def admin_dirs(common_dir: str) -> dict[str, str]:
    """admin directory → the checkout it names, for every entry below ``<common>/worktrees``, from plain files.

    An entry whose ``gitdir`` cannot be read is left out. Nothing is started.
    """
    top = os.path.join(common_dir, "worktrees")
    try:
        names = sorted(os.listdir(top))
    except OSError:
        return {}
    found = {}
    for name in names:
        admin = os.path.join(top, name)
        back = checkout.read_plain(os.path.join(admin, "gitdir"))
        if back:
            found[admin] = os.path.dirname(os.path.normpath(os.path.join(admin, back)))
    return found


def admin_dir_of(common_dir: str, path: str) -> str | None:
    """The admin directory whose ``gitdir`` names the checkout at ``path``, whether or not anything is there."""
    for admin, named in admin_dirs(common_dir).items():
        if checkout.same_path(named, path):
            return admin
    return None


def lock_reason(git_dir: str) -> str | None:
    """Why a worktree is locked ("" without a reason), or None; ``git_dir`` is its admin directory.

    Nothing is started.
    """
    path = os.path.join(git_dir, "locked")
    if not os.path.lexists(path):
        return None
    return (checkout.read_plain(path) or "").strip()


def locked_error(path: str, reason: str) -> BerthError:
    """The refusal for a locked worktree, with the lock's reason."""
    because = f": {command.shown(reason)}" if reason else " (no reason was given)"
    return BerthError(
        f"the worktree {path} is locked{because}", code="worktree_locked", hint=f"git worktree unlock {path}"
    )


def target(path: str, *, repo: Repository, env: Mapping[str, str]) -> checkout.Checkout:
    """The target check: what git says of the checkout at ``path``, which must be a linked worktree of ``repo``.

    Raises BerthError checkout_missing, primary_checkout, identity_mismatch (saying what differs), repository_missing,
    git_failed.
    """
    if os.path.lexists(path):
        checkout.refuse_primary(path, primary=repo.path)
    git_dir = checkout.named_git_dir(path)
    facts = checkout.read_git_file(path)
    if facts is not None and facts.common_dir != repo.common_dir:
        raise _mismatch(f"{path} belongs to the repository {facts.common_dir}, not to {repo.common_dir}")
    checkout.verify_plain(
        path, git_dir=os.path.realpath(git_dir or path), common_dir=repo.common_dir, primary=repo.path
    )
    answer = command.run(
        ["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir"], env=env, cwd=path
    )
    if answer.code != 0:
        raise _mismatch(f"git does not take {path} for a checkout: {answer.complaint}")
    top, named, common, *_ = map(os.path.realpath, command.decoded(answer.stdout).split("\n"))
    if top != os.path.realpath(path):
        raise _mismatch(f"the git toplevel of {path} is {top}")
    if common != repo.common_dir:
        raise _mismatch(f"{path} belongs to the repository {common}, not to {repo.common_dir}")
    entry = worktree_at(worktrees(repo.common_dir, env=env), os.path.realpath(path))
    if entry is None or entry.bare:
        raise _mismatch(f"git does not list {path} as a worktree")
    return checkout.Checkout(top, named, common)


def _mismatch(what: str) -> BerthError:
    return BerthError(what, code="identity_mismatch", hint="move the right checkout back")


def refuse_line_breaks(path: str) -> None:
    """Raises BerthError unsupported_path when ``path`` holds CR or LF (workspaces.md 7.2 step 1)."""
    if "\n" in path or "\r" in path:
        raise BerthError(
            f"a path with a line break cannot be used: {path!r}",
            code="unsupported_path",
            hint="the characters CR and LF are not supported in paths",
        )


def is_directory(path: str) -> bool:
    """A real directory, not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
