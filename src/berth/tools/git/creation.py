"""Making a checkout: branch, parents, ``git worktree add``, and the way back when any of it fails.

What it makes it takes back (workspaces.md 7.2 step 7): after a failure or an interruption the checkout, git's entry,
the branch which it created and the parents which it made are gone. It leaves alone whatever was there before.
"""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.tools.git import checkout, command, filters, refs, status, worktrees
from berth.tools.git.insistence import insist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.tools import proc
    from berth.tools.git.refs import Start
    from berth.tools.git.repository import Repository


class Added:
    """A complete checkout: its ``git_dir`` (canonical admin directory), ``warnings``, and the ``output`` (bytes) of
    hooks, filters and git, for stderr."""

    __slots__ = ("git_dir", "output", "warnings")

    def __init__(self, git_dir: str, *, warnings: tuple[str, ...], output: bytes) -> None:
        self.git_dir = git_dir
        self.warnings = warnings
        self.output = output


def worktree_add(repo: Repository, path: str, *, start: Start, env: Mapping[str, str]) -> Added:
    """Make the checkout at ``path`` (canonical parent) on ``start``'s branch, creating the branch if it is new.

    It runs where the primary checkout is, so that its sparse checkout and partial clone are inherited. Waits up to 5 s
    for locks of others. Raises BerthError path_exists, unsupported_path, io_error, filter_missing, git_failed; then and
    when interrupted everything it made is gone.
    """
    worktrees.refuse_line_breaks(path)
    if os.path.lexists(path):
        raise BerthError(f"{path} exists already", code="path_exists", hint="`berth adopt` it, or use another slug")
    parents = _make_parents(os.path.dirname(path))
    absent = start.creates_branch and start.ref not in refs.read_refs(repo.common_dir, [start.ref], env=env)
    try:
        if absent:
            refs.create_branch(repo.common_dir, start.ref, start.commit, env=env)
        return _checked_out(repo, path, start, env)
    except BaseException:
        _roll_back(repo, path, start if absent else None, parents, env)
        raise


def _make_parents(directory: str) -> list[str]:
    """Make ``directory`` and what is missing above it, 0755 whatever the umask; the ones made, deepest first."""
    missing = []
    here = directory
    while not os.path.lexists(here):
        missing.append(here)
        here = os.path.dirname(here)
    made: list[str] = []
    try:
        for name in reversed(missing):
            try:
                os.mkdir(name)
            except FileExistsError:
                continue  # another berth made it just now, and it is that one's to take back
            made.insert(0, name)
            os.chmod(name, 0o755)  # noqa: S103 - the mode is the contract's
        if not os.path.isdir(directory):
            raise NotADirectoryError(20, os.strerror(20), directory)
    except OSError as error:
        _remove_parents(made)
        raise BerthError(
            f"cannot make the directory {directory}: {os.strerror(error.errno or 0)}", code="io_error"
        ) from None
    return made


def _remove_parents(made: list[str]) -> None:
    for name in made:
        try:
            os.rmdir(name)
        except OSError:
            return  # somebody uses it by now


def _checked_out(repo: Repository, path: str, start: Start, env: Mapping[str, str]) -> Added:
    where = repo.common_dir if repo.bare else repo.path
    result = insist(
        ["worktree", "add", "--quiet", "--", path, start.branch],
        env=env,
        common_dir=repo.common_dir,
        cwd=where,
        git_dir=repo.common_dir if repo.bare else None,
        hooks=True,
        until=path,
        locks=_locks(repo.common_dir, start.ref),
    )
    admin = worktrees.admin_dir_of(repo.common_dir, path)
    if admin is not None and result.code == 0:
        return Added(os.path.realpath(admin), warnings=(), output=result.stderr)
    if admin is not None and is_complete(path, admin=admin, repo=repo, start=start, env=env):
        warning = f"the post-checkout hook of {repo.path} ended with code {result.code}; the checkout is complete"
        return Added(os.path.realpath(admin), warnings=(warning,), output=result.stderr)
    raise _why(repo, start, result, env)


def _locks(common_dir: str, ref: str) -> list[str]:
    return [os.path.join(common_dir, name) for name in ("config.lock", "packed-refs.lock", f"{ref}.lock", "HEAD.lock")]


def is_complete(path: str, *, admin: str, repo: Repository, start: Start, env: Mapping[str, str]) -> bool:
    """Whether the checkout at ``path`` is ``start``: HEAD on its branch at its commit, and clean."""
    try:
        git_dir = os.path.realpath(admin)
        checkout.verify_plain(path, git_dir=git_dir, common_dir=repo.common_dir)
        return (
            checkout.head_ref(git_dir, env=env) == start.ref
            and checkout.head_commit(git_dir, common_dir=repo.common_dir, env=env) == start.commit
            and not status.status(path, env=env).dirty
        )
    except BerthError:
        return False


def _why(repo: Repository, start: Start, result: proc.Result, env: Mapping[str, str]) -> BerthError:
    missing = filters.missing_filter(repo.common_dir, commit=start.commit, env=env)
    if missing is None:
        return command.failure(result)
    name, program = missing
    return BerthError(
        f"the checkout needs the filter {name!r}, and its program {program!r} is not there",
        code="filter_missing",
        hint=f"install {program}, or set GIT_LFS_SKIP_SMUDGE=1",
    )


def _roll_back(repo: Repository, path: str, made: Start | None, parents: list[str], env: Mapping[str, str]) -> None:
    """Take back a creation of which nothing was there before: ``path`` was absent, ``made`` is the created branch."""
    _delete(path)
    if worktrees.admin_dir_of(repo.common_dir, path) is not None:
        # Twice: git locks an entry while it is being initialised.
        insist(
            ["worktree", "remove", "--force", "--force", "--", path],
            env=env,
            common_dir=repo.common_dir,
            git_dir=repo.common_dir,
            cwd=repo.common_dir,
        )
    if made is not None:
        command.run(
            ["update-ref", "--no-deref", "-d", made.ref, made.commit],
            env=env,
            git_dir=repo.common_dir,
            cwd=repo.common_dir,
        )
    _remove_parents(parents)


def _delete(path: str) -> None:
    """Delete the directory that this creation made; a hook may have left directories in it that nobody can write."""
    import shutil

    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        for directory, _, _ in os.walk(path):
            os.chmod(directory, 0o700)
        shutil.rmtree(path, ignore_errors=True)


def refresh_index(path: str, *, env: Mapping[str, str]) -> None:
    """Refresh the index once (workspaces.md 7.2 step 9): git takes entries as old as their index for doubtful.

    Only an acceleration: a lock that somebody holds, or changed files, are no failure.
    """
    command.run(["update-index", "-q", "--refresh"], env=env, cwd=path)


def refresh_is_due(git_dir: str, *, marker: str, now: float) -> bool:
    """Whether the index is still the one that the checkout wrote, and older than a second at ``now`` (seconds).

    ``marker`` is a file written right after the checkout: an index younger than it has been refreshed or used since.
    Nothing is started.
    """
    try:
        written = os.stat(os.path.join(git_dir, "index")).st_mtime
        return written <= os.stat(marker).st_mtime and now - written > 1.0
    except OSError:
        return False
