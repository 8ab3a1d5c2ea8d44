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

    from berth.tools.git.repository import Repository

# An allow-list with nothing in it: a planted promisor remote makes no question start a transport.
_OFFLINE = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}


class Submodule:
    """An initialised submodule: ``path`` (absolute), ``git_dir`` (its module repository), and ``name``: where that is
    below the checkout's modules (``a``, nested ``a/modules/b``), "" when it is elsewhere."""

    __slots__ = ("git_dir", "name", "path")

    def __init__(self, path: str, git_dir: str, name: str) -> None:
        self.path = path
        self.git_dir = git_dir
        self.name = name


def initialised(path: str, *, env: Mapping[str, str]) -> Iterator[Submodule]:
    """Every initialised submodule of the checkout at ``path``, nested ones after the one that holds them.

    Raises BerthError git_failed.
    """
    top = checkout.read_git_file(path)
    if top is not None:
        yield from _below(path, os.path.join(top.git_dir, "modules") + os.sep, env)


def _below(path: str, modules: str, env: Mapping[str, str]) -> Iterator[Submodule]:
    for link in _links(path, env):
        inner = os.path.join(path, link)
        facts = checkout.read_git_file(inner)
        if facts is not None:
            name = facts.git_dir.removeprefix(modules) if facts.git_dir.startswith(modules) else ""
            yield Submodule(inner, facts.git_dir, name)
            yield from _below(inner, modules, env)


def _links(path: str, env: Mapping[str, str]) -> list[str]:
    """The paths of the submodules in the index of the checkout at ``path``, but those outside its sparse checkout."""
    told = command.output(["ls-files", "--stage", "-t", "-z"], env=env, cwd=path, variables=_OFFLINE)
    return [command.decoded(entry.partition(b"\t")[2]) for entry in told.split(b"\0") if entry.startswith(b"H 160000 ")]


def initialise(path: str, *, repo: Repository, env: Mapping[str, str]) -> list[str]:
    """Initialise the submodules of the new checkout at ``path`` recursively; a warning for each that failed.

    The primary checkout's module repositories lend their objects, which are copied, not referred to, afterwards. What
    ``git submodule init`` would write to the shared configuration is said on the command line instead; a submodule that
    the configuration declares inactive stays so. Raises BerthError git_failed.
    """
    if not os.path.lexists(os.path.join(path, ".gitmodules")):
        return []
    chosen = command.run(["config", "--get-all", "submodule.active"], env=env, cwd=path).code == 0
    active = () if chosen else ("-c", "submodule.active=.")
    warnings: list[str] = []
    _fill_level(path, "", os.path.join(repo.common_dir, "modules"), active, env, warnings)
    return warnings


def _fill_level(
    path: str, prefix: str, lenders: str, active: tuple[str, ...], env: Mapping[str, str], warnings: list[str]
) -> None:
    names = _names(path, env)
    for link in _links(path, env):
        shown = command.shown(os.path.join(prefix, link))
        if link not in names:
            warnings.append(f"submodule {shown} could not be initialised: .gitmodules has no entry for it")
            continue
        lender = os.path.join(lenders, names[link])
        reference = ("--reference", lender, "--dissociate") if os.path.isdir(os.path.join(lender, "objects")) else ()
        result = command.run(
            [*active, "submodule", "--quiet", "update", *reference, "--", link],
            env=env,
            cwd=path,
            variables={"GIT_LITERAL_PATHSPECS": "1"},
        )
        if result.code != 0:
            reason = " ".join(result.complaint.split()) or f"code {result.code}"
            warnings.append(f"submodule {shown} could not be initialised: {reason}")
        elif os.path.lexists(os.path.join(path, link, ".gitmodules")):
            inner = os.path.join(path, link)
            _fill_level(inner, os.path.join(prefix, link), os.path.join(lender, "modules"), active, env, warnings)


def _names(path: str, env: Mapping[str, str]) -> dict[str, str]:
    """path → name of the submodules in ``.gitmodules``."""
    told = command.output(
        ["config", "-z", "--file", os.path.join(path, ".gitmodules"), "--get-regexp", r"^submodule\..*\.path$"],
        env=env,
        cwd=path,
        expected=(0, 1),
    )
    found = {}
    for record in command.decoded(told).split("\0"):
        key, _, where = record.partition("\n")
        if where:
            found[where] = key[len("submodule.") : -len(".path")]
    return found


def check_pushed(path: str, *, common_dir: str, env: Mapping[str, str]) -> None:
    """Rule 2 of the preservation test: no stash, HEAD and local branches kept elsewhere (workspaces.md 10.2).

    That each is clean is told by ``git status`` of the checkout. Module repositories that no checkout shows any more
    (a submodule that was deinitialised, or is in another branch) are asked too: they would be deleted as well.
    Raises BerthError submodule_unpushed naming the submodule and what it holds, git_failed.
    """
    top = checkout.read_git_file(path)
    if top is None:
        return
    modules = os.path.join(top.git_dir, "modules")
    shown = {module.git_dir: module for module in initialised(path, env=env)}
    for git_dir in module_repositories(modules):
        shown.setdefault(git_dir, Submodule(git_dir, git_dir, os.path.relpath(git_dir, modules)))
    for module in shown.values():
        reason = _unpushed(module, os.path.join(common_dir, "modules", module.name) if module.name else None, env)
        if reason is not None:
            raise BerthError(
                f"the submodule {command.shown(module.path)} {reason}",
                code="submodule_unpushed",
                hint="commit and push it inside the submodule; `--force` discards it",
            )


def module_repositories(modules: str) -> list[str]:
    """The git directories below ``modules``, nested ones included; links are not followed. Nothing is started."""
    found = []
    for directory, names, files in os.walk(modules):
        if "HEAD" in files and "objects" in names:
            found.append(os.path.realpath(directory))
            names[:] = [name for name in names if name == "modules"]
    return found


def _unpushed(module: Submodule, primary: str | None, env: Mapping[str, str]) -> str | None:
    """What ``module`` holds that is nowhere else; ``primary`` is the primary checkout's repository of it, if any."""
    tips = _tips(module.git_dir, env)
    if tips.pop("refs/stash", None) is not None:
        return "has a stash"
    for name, commit in tips.items():
        at_primary = primary is not None and _is_kept(primary, commit, [], env)
        if not at_primary and not _is_kept(module.git_dir, commit, ["refs/remotes/"], env):
            return f"has commits on no remote: {command.shown(name)} is at {commit[:12]}"
    return None


def _tips(git_dir: str, env: Mapping[str, str]) -> dict[str, str]:
    """name → object id of the stash, every local branch and HEAD, whether or not the object is there."""
    told = command.output(
        ["for-each-ref", "--format=%(refname) %(objectname)", "refs/stash", "refs/heads/"],
        env=env,
        git_dir=git_dir,
        cwd=git_dir,
        variables=_OFFLINE,
    )
    tips = dict(line.split(" ") for line in command.decoded(told).split("\n") if line)
    head = command.run(
        ["rev-parse", "--verify", "--quiet", "HEAD"], env=env, git_dir=git_dir, cwd=git_dir, variables=_OFFLINE
    )
    if head.code == 0:
        tips["HEAD"] = head.text.strip()
    return tips


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
