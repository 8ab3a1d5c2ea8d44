"""Finishing or taking back a checkout whose creation was killed (workspaces.md 14); what berth did not write is kept.

The git that berth started may outlive it and still be at work, so it is waited for first. What a killed git leaves:
its entry, a lock on it, files whole or (one) cut short, and no index, which it writes last. Nothing here decides; it
completes, or says whose the files are.
"""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.tools.git import checkout, command, refs, status, worktrees
from berth.tools.git.insistence import INITIALISING, insist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from berth.tools.git.refs import Start
    from berth.tools.git.repository import Repository

PATIENCE_SECONDS = 60.0
_LOCKS = ("index.lock", "HEAD.lock", "config.worktree.lock")


def settled(repo: Repository, path: str, *, env: Mapping[str, str], patience: float = PATIENCE_SECONDS) -> str | None:
    """The admin directory of a checkout at ``path`` which has files to complete; None when there is none.

    Waits up to ``patience`` seconds for a git that is still making it. Where no file was written yet, git's entry and
    its empty directory are cleared; anything else at ``path`` stays. Raises BerthError busy, worktree_locked,
    git_failed.
    """
    _await_creation(path, patience)
    admin = worktrees.admin_dir_of(repo.common_dir, path)
    if os.path.lexists(path) and not _is_bare_of_files(path):
        return admin
    if worktrees.is_directory(path):
        _clear_empty(path)
    if admin is not None:
        _refuse_users_lock(path, admin)
        forget_entry(repo, path, env=env)
    return None


def _await_creation(path: str, patience: float) -> None:
    import time

    from berth.tools import procfs, termination

    deadline = time.monotonic() + patience
    for pid, start in _creators(path):
        if not termination.wait_gone(pid, start, max(0.0, deadline - time.monotonic())):
            raise BerthError(
                f"git (pid {pid}) is still making the checkout {path}",
                code="busy",
                hint=f"wait for it, or end it: kill {pid}" if procfs.HAS_PROC else "wait for it",
            )


def _creators(path: str) -> Iterator[tuple[int, int]]:
    """(pid, start time) of each ``git worktree add`` that berth began for ``path``."""
    from berth.tools import procfs, ps

    wanted = b"\0worktree\0add\0--quiet\0--\0" + os.fsencode(path) + b"\0"
    for pid in procfs.pids():
        if procfs.HAS_PROC:
            words = procfs.read(f"/proc/{pid}/cmdline", 65536)
        else:
            words = os.fsencode(ps.command(pid)).replace(b" ", b"\0") + b"\0"
        start = procfs.start_time(pid) if wanted in words else None
        if start is not None:
            yield pid, start


def _is_bare_of_files(path: str) -> bool:
    return worktrees.is_directory(path) and set(os.listdir(path)) <= {".git"} and _may_be_cut(path)


def _may_be_cut(path: str) -> bool:
    """No ``.git``, or the plain file of a worktree, whole or not: never a repository of somebody's."""
    dot_git = os.path.join(path, ".git")
    return not os.path.lexists(dot_git) or checkout.read_plain(dot_git) is not None


def _clear_empty(path: str) -> None:
    if os.path.lexists(os.path.join(path, ".git")):
        os.unlink(os.path.join(path, ".git"))
    os.rmdir(path)


def _refuse_users_lock(path: str, admin: str) -> None:
    reason = worktrees.lock_reason(admin)
    if reason is not None and reason != INITIALISING:
        raise worktrees.locked_error(path, reason)


def complete(repo: Repository, path: str, *, admin: str, start: Start, env: Mapping[str, str]) -> None:
    """Bring the partial checkout at ``path`` to ``start``: absent and cut files are written, others stay as they are.

    Called after ``settled``, so the locks that are left belong to nobody. Raises BerthError git_failed,
    identity_mismatch, worktree_locked.
    """
    git_dir = os.path.realpath(admin)
    _refuse_users_lock(path, git_dir)
    for name in (*_LOCKS, "locked"):
        try:
            os.unlink(os.path.join(git_dir, name))
        except FileNotFoundError:
            continue
    _write_if_absent(os.path.join(path, ".git"), f"gitdir: {git_dir}\n")
    _write_if_absent(os.path.join(git_dir, "commondir"), "../..\n")
    _write_if_absent(os.path.join(git_dir, "HEAD"), f"ref: {start.ref}\n")
    checkout.verify_plain(path, git_dir=git_dir, common_dir=repo.common_dir)
    if start.creates_branch and start.ref not in refs.read_refs(repo.common_dir, [start.ref], env=env):
        refs.create_branch(repo.common_dir, start.ref, start.commit, env=env)
    if not (checkout.head_text(git_dir) or "").strip("0"):
        command.output(["symbolic-ref", "HEAD", start.ref], env=env, cwd=path)
    if not os.path.lexists(os.path.join(git_dir, "index")):
        command.output(["read-tree", start.commit], env=env, cwd=path)
        if command.run(["config", "--type=bool", "core.sparseCheckout"], env=env, cwd=path).stdout.strip() == b"true":
            command.output(["sparse-checkout", "reapply"], env=env, cwd=path)
    for name in _cut_short(path, start.commit, env):
        os.unlink(os.path.join(path, name))
    command.run(["checkout-index", "--all", "--quiet"], env=env, cwd=path)  # its code counts the files that are kept
    command.run(["update-index", "-q", "--refresh"], env=env, cwd=path)


def _write_if_absent(path: str, text: str) -> None:
    """Write a small file of git's that is not there, or was cut short before its line ended."""
    there = checkout.read_plain(path)
    if there is None and not os.path.lexists(path):
        flags = os.O_CREAT | os.O_EXCL
    elif there is not None and there != text.rstrip("\n") and text.startswith(there):
        flags = os.O_TRUNC | os.O_NOFOLLOW
    else:
        return
    with open(os.open(path, os.O_WRONLY | flags, 0o644), "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _cut_short(path: str, commit: str, env: Mapping[str, str]) -> list[str]:
    """The files that hold a strict beginning of what the commit has: git was writing them."""
    changed = command.output(["diff-files", "--name-only", "-z", "--diff-filter=M"], env=env, cwd=path)
    names = [os.fsdecode(name) for name in changed.split(b"\0") if name]
    return [name for name in names if _is_cut(path, commit, name, env=env)]


def _is_cut(
    path: str,
    commit: str,
    name: str,
    *,
    env: Mapping[str, str],
    git_dir: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> bool:
    full = os.path.join(path, name)
    if os.path.islink(full) or not os.path.isfile(full):
        return False
    # --filters: what a checkout would write, line ends and filters included.
    args = ["cat-file", "--filters", f"{commit}:{name}"]
    whole = command.run(args, env=env, git_dir=git_dir, cwd=path, variables=variables)
    if whole.code != 0:
        return False
    with open(full, "rb") as file:
        there = file.read()
    return len(there) < len(whole.stdout) and whole.stdout.startswith(there)


def forget_entry(repo: Repository, path: str, *, env: Mapping[str, str]) -> None:
    """Drop git's entry for a checkout that is not there; git locks an entry while it is being initialised.

    Raises BerthError git_failed.
    """
    command.checked(
        insist(
            ["worktree", "remove", "--force", "--force", "--", path],
            env=env,
            common_dir=repo.common_dir,
            git_dir=repo.common_dir,
            cwd=repo.common_dir,
        )
    )


def refuse_others_files(
    repo: Repository, path: str, *, admin: str | None, start: Start, env: Mapping[str, str]
) -> None:
    """Raise dirty unless the partial checkout at ``path`` holds nothing but (parts of) files equal to the commit's.

    Ignored files do not count, as in a whole checkout. Nothing in the checkout is written.
    """
    if admin is None:
        if worktrees.is_directory(path) and not os.listdir(path):
            return
        raise BerthError(
            f"{path} is no checkout that berth made", code="dirty", hint="move it away, then berth done again"
        )
    others = _others(repo, path, start.commit, env)
    if others:
        found = status.Status(tuple(map(command.shown, others[: status.LISTED])), len(others))
        raise status.dirty_error(path, found)


def _others(repo: Repository, path: str, commit: str, env: Mapping[str, str]) -> list[str]:
    """The files at ``path`` that are neither (parts of) the commit's nor ignored, told by an index of our own."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="berth-index-") as scratch:
        variables = {"GIT_INDEX_FILE": os.path.join(scratch, "index"), "GIT_WORK_TREE": path}
        common = repo.common_dir
        command.output(["read-tree", commit], env=env, git_dir=common, cwd=path, variables=variables)
        told = command.output(
            ["ls-files", "-z", "--modified", "--others", "--exclude-standard"],
            env=env,
            git_dir=common,
            cwd=path,
            variables=variables,
        )
        names = list(dict.fromkeys(os.fsdecode(name) for name in told.split(b"\0") if name))
        return [
            name
            for name in names
            if os.path.lexists(os.path.join(path, name))
            and not _is_cut(path, commit, name, env=env, git_dir=common, variables=variables)
        ]
