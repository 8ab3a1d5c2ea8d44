"""Finishing or taking back a checkout whose creation was killed (workspaces.md 14): whatever berth did not write is kept.

git writes files in place, so a kill leaves some whole, one perhaps cut short, and the rest absent; index and locks may be
missing or left over. Nothing here decides; it completes, or says whose the files are.
"""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.tools.git import checkout, command, status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.tools.git.refs import Start
    from berth.tools.git.repository import Repository

_LOCKS = ("index.lock", "HEAD.lock", "config.worktree.lock")


def complete(repo: Repository, path: str, *, admin: str, start: Start, env: Mapping[str, str]) -> None:
    """Bring the partial checkout at ``path`` to ``start``: absent and cut files are written, others stay as they are.

    The git that was killed is dead, so its lock files are remains. Raises BerthError git_failed, identity_mismatch.
    """
    git_dir = os.path.realpath(admin)
    for name in (*_LOCKS, "locked"):
        try:
            os.unlink(os.path.join(git_dir, name))
        except FileNotFoundError:
            continue
    if not os.path.lexists(os.path.join(path, ".git")):
        with open(os.path.join(path, ".git"), "x", encoding="utf-8") as file:
            file.write(f"gitdir: {git_dir}\n")
    checkout.verify_plain(path, git_dir=git_dir, common_dir=repo.common_dir)
    command.output(["symbolic-ref", "HEAD", start.ref], env=env, cwd=path)
    command.output(["read-tree", start.commit], env=env, cwd=path)
    for name in _cut_short(path, start.commit, env):
        os.unlink(os.path.join(path, name))
    command.run(["checkout-index", "--all", "--quiet"], env=env, cwd=path)
    command.run(["update-index", "-q", "--refresh"], env=env, cwd=path)


def _cut_short(path: str, commit: str, env: Mapping[str, str]) -> list[str]:
    """The files that hold a strict beginning of what the commit has: git was writing them."""
    changed = command.output(["diff-files", "--name-only", "-z", "--diff-filter=M"], env=env, cwd=path)
    found = []
    for raw in changed.split(b"\0"):
        name = os.fsdecode(raw)
        full = os.path.join(path, name)
        if not name or os.path.islink(full) or not os.path.isfile(full):
            continue
        # --filters: what a checkout would write, line ends and filters included.
        whole = command.run(["cat-file", "--filters", f"{commit}:{name}"], env=env, cwd=path)
        with open(full, "rb") as file:
            there = file.read()
        if whole.code == 0 and len(there) < len(whole.stdout) and whole.stdout.startswith(there):
            found.append(name)
    return found


def forget_entry(repo: Repository, path: str, *, env: Mapping[str, str]) -> None:
    """Drop git's entry for a checkout that is not there; git locks an entry while it is being initialised."""
    command.checked(
        command.run(
            ["worktree", "remove", "--force", "--force", "--", path],
            env=env,
            git_dir=repo.common_dir,
            cwd=repo.common_dir,
        )
    )


def refuse_others_files(
    repo: Repository, path: str, *, admin: str | None, start: Start, env: Mapping[str, str]
) -> None:
    """Raise dirty unless the partial checkout at ``path`` holds nothing but (parts of) files equal to the commit's."""
    if admin is None:
        if os.path.isdir(path) and not os.listdir(path):
            return
        raise BerthError(
            f"{path} is no checkout that berth made", code="dirty", hint="move it away, then berth done again"
        )
    complete(repo, path, admin=admin, start=start, env=env)
    found = status.status(path, env=env)
    if found.dirty:
        raise status.dirty_error(path, found)
