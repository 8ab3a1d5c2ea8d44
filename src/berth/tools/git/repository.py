"""Which repository are we in, and which of its directories stands for it (workspaces.md 7.1).

It answers from any place inside a repository: primary checkout, worktree, bare layout. It changes nothing.
"""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.tools.git import checkout, command, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_HERE = ("rev-parse", "--path-format=absolute", "--is-inside-work-tree", "--git-dir", "--git-common-dir")
_SUPERPROJECT = "--show-superproject-working-tree"


class Repository:
    """One object store with its worktrees.

    ``path`` is the primary checkout, or the directory that stands for a bare repository; ``common_dir`` its canonical
    git common directory; ``name`` what ``<name>.berths`` begins with; ``branch`` the branch at the primary checkout's
    (or bare repository's) HEAD, None when detached.
    """

    __slots__ = ("bare", "branch", "common_dir", "name", "path")

    def __init__(self, path: str, *, common_dir: str, bare: bool, branch: str | None) -> None:
        self.path = path
        self.common_dir = common_dir
        self.bare = bare
        self.branch = branch
        base = os.path.basename(path)
        self.name = base[:-4] if bare and base.endswith(".git") and base != ".git" else base


def repository(
    cwd: str, *, env: Mapping[str, str], recorded: Callable[[str], str | None] = lambda _common: None
) -> Repository:
    """The repository that ``cwd`` is in.

    ``recorded`` tells the primary checkout on record for a common directory, or None: a main worktree with a separate
    git directory cannot be found from its other worktrees. Raises BerthError not_a_repository, unsupported_repository
    (a submodule, or that case without a record), repository_missing, git_too_old, git_failed, exec_failed.
    """
    worktrees.refuse_line_breaks(os.path.realpath(cwd))
    version = command.version_start(env=env)
    question = command.start([*_HERE, _SUPERPROJECT], env=env, cwd=cwd)
    command.version_finish(version)
    answer = question.finish()
    if answer.code != 0:
        raise _not_found(cwd) or command.failure(answer)
    lines = command.decoded(answer.stdout).split("\n")
    in_work_tree, git_dir, common_dir = lines[0] == "true", os.path.realpath(lines[1]), os.path.realpath(lines[2])
    if lines[3]:
        raise BerthError(
            f"{cwd} is inside a submodule of {lines[3]}",
            code="unsupported_repository",
            hint="run berth in the repository that holds the submodule, or in a clone of its own",
        )
    return _described(cwd, env, recorded, common_dir, is_main=in_work_tree and git_dir == common_dir)


def _not_found(cwd: str) -> BerthError | None:
    """Why git found nothing, as far as the files tell; None when there is a repository that git refuses."""
    top = checkout.toplevel_of(cwd)
    if top is None:
        if _is_git_dir(os.path.realpath(cwd)):
            return None
        return BerthError(
            f"{cwd} is not in a git repository", code="not_a_repository", hint="run berth inside a git repository"
        )
    named = checkout.named_git_dir(top)
    if named is not None and not os.path.isdir(named):
        return checkout.repository_missing(named)
    return None


def _is_git_dir(path: str) -> bool:
    return all(os.path.lexists(os.path.join(path, name)) for name in ("HEAD", "objects", "refs"))


def _described(
    cwd: str,
    env: Mapping[str, str],
    recorded: Callable[[str], str | None],
    common_dir: str,
    *,
    is_main: bool,
) -> Repository:
    """Ask in the common directory itself: a worktree does not see a ``core.bare`` in the main config.worktree."""
    bare = (
        command.output(["rev-parse", "--is-bare-repository"], env=env, cwd=common_dir, git_dir=common_dir).strip()
        == b"true"
    )
    if bare:
        path = _bare_root(common_dir)
    elif os.path.basename(common_dir) == ".git":
        path = os.path.dirname(common_dir)
    else:
        path = _separate_root(cwd, recorded, common_dir, is_main=is_main)
    branch = checkout.current_branch(common_dir, env=env)
    return Repository(path, common_dir=common_dir, bare=bare, branch=branch)


def _bare_root(common_dir: str) -> str:
    """The directory holding it when it is called ``.git`` or ``.bare``, else the bare directory itself."""
    return os.path.dirname(common_dir) if os.path.basename(common_dir) in (".git", ".bare") else common_dir


def _separate_root(cwd: str, recorded: Callable[[str], str | None], common_dir: str, *, is_main: bool) -> str:
    top = checkout.toplevel_of(cwd) if is_main else recorded(common_dir)
    if top is None:
        raise BerthError(
            f"the main worktree of {common_dir} is known only from inside it",
            code="unsupported_repository",
            hint="run berth in the main worktree of this repository once",
        )
    return top


def show_file(repo: Repository, *, commit: str, path: str, env: Mapping[str, str]) -> bytes | None:
    """The content of ``path`` (relative, ``/`` between components) at ``commit`` (a full id).

    None when there is no such regular file (a link or a directory is none). Raises BerthError git_failed.
    """
    listing = command.output(
        ["ls-tree", "-z", "--full-tree", commit, "--", path],
        env=env,
        git_dir=repo.common_dir,
        cwd=repo.common_dir,
        variables={"GIT_LITERAL_PATHSPECS": "1"},
    )
    for entry in listing.split(b"\0"):
        facts, _, name = entry.partition(b"\t")
        words = facts.split()
        if name == os.fsencode(path) and words[0] in (b"100644", b"100755"):
            return command.output(
                ["cat-file", "blob", words[2].decode()], env=env, git_dir=repo.common_dir, cwd=repo.common_dir
            )
    return None


def head_of(repo: Repository, *, env: Mapping[str, str]) -> str | None:
    """The commit at the primary checkout's (or bare repository's) HEAD; None without commits. Raises git_failed."""
    return checkout.head_commit(repo.common_dir, common_dir=repo.common_dir, env=env)
