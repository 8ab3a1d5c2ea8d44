"""Submodules of a checkout: filling them without touching the shared configuration, and is their work kept?

A linked worktree keeps its own module repositories below its admin directory. They are nested repositories whose
configuration anyone may have written: no hook, no monitor and no transport of theirs is used by the questions here.
"""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.tools.git import checkout, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# An allow-list with nothing in it: a planted promisor remote makes no question start a transport.
_OFFLINE = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}


class Submodule:
    """An initialised submodule: ``path`` (absolute), ``git_dir`` (its module repository), ``name`` relative to the
    checkout's modules (``a``, nested ``a/modules/b``)."""

    __slots__ = ("git_dir", "name", "path")

    def __init__(self, path: str, git_dir: str, name: str) -> None:
        self.path = path
        self.git_dir = git_dir
        self.name = name


def initialised(path: str, *, env: Mapping[str, str]) -> Iterator[Submodule]:
    """Every initialised submodule of the checkout at ``path``, nested ones after the one that holds them.

    Raises BerthError git_failed.
    """
    if not os.path.lexists(os.path.join(path, ".gitmodules")) and not _has_links(path, env):
        return
    yield from _below(path, path, env)


def _has_links(path: str, env: Mapping[str, str]) -> bool:
    return bool(_links(path, env))


def _links(path: str, env: Mapping[str, str]) -> list[str]:
    """The paths of the gitlinks in the index of the checkout at ``path``."""
    told = command.output(["ls-files", "--stage", "-z"], env=env, cwd=path, variables=_OFFLINE)
    return [command.decoded(entry.partition(b"\t")[2]) for entry in told.split(b"\0") if entry.startswith(b"160000 ")]


def _below(top: str, path: str, env: Mapping[str, str]) -> Iterator[Submodule]:
    for link in _links(path, env):
        inner = os.path.join(path, link)
        facts = checkout.read_git_file(inner) if os.path.lexists(os.path.join(inner, ".git")) else None
        if facts is None or facts.path != os.path.realpath(inner):
            continue
        _, _, name = facts.git_dir.partition("/modules/")
        yield Submodule(inner, facts.git_dir, name)
        yield from _below(top, inner, env)


def check_pushed(path: str, *, common_dir: str, env: Mapping[str, str]) -> None:
    """Rule 2 of the preservation test: clean, no stash, HEAD and local branches kept elsewhere (workspaces.md 10.2).

    Raises BerthError submodule_unpushed naming the submodule and what it holds, git_failed.
    """
    for module in initialised(path, env=env):
        reason = _unpushed(module, os.path.join(common_dir, "modules", module.name), env)
        if reason is not None:
            raise BerthError(
                f"the submodule {module.path} {reason}",
                code="submodule_unpushed",
                hint="commit and push it inside the submodule; `--force` discards it",
            )


def _unpushed(module: Submodule, primary: str, env: Mapping[str, str]) -> str | None:
    told = command.output(
        ["for-each-ref", "--format=%(refname) %(objectname)", "refs/stash", "refs/heads/"],
        env=env,
        git_dir=module.git_dir,
        cwd=module.git_dir,
        variables=_OFFLINE,
    )
    tips = dict(line.split(" ") for line in command.decoded(told).split("\n") if line)
    if tips.pop("refs/stash", None) is not None:
        return "has a stash"
    head = command.run(
        ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"],
        env=env,
        git_dir=module.git_dir,
        cwd=module.git_dir,
        variables=_OFFLINE,
    )
    if head.code == 0:
        tips["HEAD"] = head.text.strip()
    for name, commit in tips.items():
        if not _is_kept(module.git_dir, commit, ["refs/remotes/"], env) and not _is_kept(primary, commit, [], env):
            return f"has commits on no remote: {name} is at {commit[:12]}"
    return None


def _is_kept(git_dir: str, commit: str, where: list[str], env: Mapping[str, str]) -> bool:
    """Whether a reference (of ``where``, or any, or HEAD) of the repository ``git_dir`` contains ``commit``."""
    if not os.path.isdir(git_dir):
        return False
    result = command.run(
        ["for-each-ref", "--count=1", "--format=x", f"--contains={commit}", *where],
        env=env,
        git_dir=git_dir,
        cwd=git_dir,
        variables=_OFFLINE,
    )
    if result.code == 0 and result.stdout.strip():
        return True
    if where:
        return False
    at_head = command.run(
        ["merge-base", "--is-ancestor", commit, "HEAD"], env=env, git_dir=git_dir, cwd=git_dir, variables=_OFFLINE
    )
    return at_head.code == 0
