"""Is this work kept elsewhere? The preservation test of workspaces.md 10.2, rules 1 to 5.

"Clean" is not "preserved": before a checkout and its branch go, its commits must be in the base or on a remote. Where
git cannot tell, the answer is no. Nothing is fetched, nothing is written.
"""

from __future__ import annotations

from berth.errors import BerthError
from berth.tools.git import checkout, command, refs, status, submodules
from berth.tools.git.patches import History

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.tools import proc

LISTED = 10
_HINT = "commit, push or merge it; `--force` discards it"


class Work:
    """What is asked about: the commit ``head`` (None on an unborn branch), on ``branch`` (short name, None when
    detached), begun from ``base`` (the recorded name) at ``start_commit``; ``doomed`` is the branch that would be
    deleted, or None, and never counts as a place where work is kept."""

    __slots__ = ("base", "branch", "doomed", "head", "start_commit")

    def __init__(
        self, head: str | None, *, branch: str | None, base: str, start_commit: str, doomed: str | None
    ) -> None:
        self.head = head
        self.branch = branch
        self.base = base
        self.start_commit = start_commit
        self.doomed = doomed


def work_in(
    path: str,
    *,
    git_dir: str,
    common_dir: str,
    base: str,
    start_commit: str,
    own_branch: str,
    env: Mapping[str, str],
) -> Work:
    """The work in the checkout at ``path``; ``own_branch`` (``berth/<slug>``) is doomed when it is the current one."""
    branch = checkout.current_branch(git_dir, env=env)
    head = checkout.head_commit(git_dir, common_dir=common_dir, env=env)
    doomed = own_branch if branch == own_branch else None
    return Work(head, branch=branch, base=base, start_commit=start_commit, doomed=doomed)


def check_preserved(
    path: str, *, common_dir: str, work: Work, env: Mapping[str, str], started: proc.Child | None = None
) -> None:
    """The whole test, rules 1 to 5, for the checkout at ``path``. ``started`` is a ``status_start`` of it, if any.

    Raises BerthError dirty, submodule_unpushed, not_preserved (each says what is nowhere else), git_failed.
    """
    found = status.status_finish(started if started is not None else status.status_start(path, env=env))
    if found.dirty:
        raise status.dirty_error(path, found)
    submodules.check_pushed(path, common_dir=common_dir, env=env)
    if not is_preserved(common_dir, work, env=env):
        raise not_preserved(path, common_dir=common_dir, work=work, env=env)


def is_preserved(common_dir: str, work: Work, *, env: Mapping[str, str]) -> bool:
    """Rules 3 to 5: the commits alone. Raises BerthError git_failed."""
    if work.head is None:
        return True
    if work.branch is None:
        return is_reachable(common_dir, work.head, env=env)
    return is_merged(common_dir, work, env=env) or is_published(common_dir, work, env=env)


def is_reachable(common_dir: str, commit: str, *, env: Mapping[str, str]) -> bool:
    """Rule 5: whether any local branch or remote-tracking reference contains ``commit``. Raises git_failed."""
    told = command.output(
        ["for-each-ref", "--count=1", "--format=x", f"--contains={commit}", refs.HEADS, refs.REMOTES],
        env=env,
        git_dir=common_dir,
        cwd=common_dir,
    )
    return bool(told.strip())


def candidates(common_dir: str, work: Work, *, env: Mapping[str, str]) -> list[str]:
    """The commits in which work may be kept: the base and, if that is a branch, each remote's branch of that name.

    The doomed branch is none, also under another name (a symbolic reference). Raises BerthError git_failed.
    """
    names = [refs.HEADS + work.base, refs.TAGS + work.base, refs.REMOTES + work.base]
    remote_names: list[str] = []
    known: Mapping[str, tuple[str, str, str]] = {}
    if refs.is_ref_name(work.base):
        remotes = refs.remotes(common_dir, env=env)
        remote_names = [f"{refs.REMOTES}{remote}/{work.base}" for remote in remotes]
        known = refs.read_refs(common_dir, [*names, *remote_names], env=env)
    doomed = refs.HEADS + work.doomed if work.doomed is not None else None
    base = next((name for name in names if name in known), None)
    found = []
    if base is not None and doomed not in (base, known[base][2]):
        object_id, kind, _ = known[base]
        found.append(object_id if kind == "commit" else refs.commit_named(common_dir, object_id, env=env))
    elif base is None:
        by_id = refs.find_base(common_dir, work.base, env=env)
        found.append(by_id.commit if by_id is not None else None)
    if base in (None, names[0]):  # a branch, or one that is gone here by now
        found += [known[name][0] for name in remote_names if name in known and known[name][1] == "commit"]
    return list(dict.fromkeys(commit for commit in found if commit is not None))


def is_merged(common_dir: str, work: Work, *, env: Mapping[str, str]) -> bool:
    """Rule 3: whether one candidate keeps ``work.head``. Raises BerthError git_failed."""
    head = work.head
    if head is None:
        return True
    tips = candidates(common_dir, work, env=env)
    history = History(common_dir, env)
    if any(history.is_ancestor(head, tip) for tip in tips):
        return True
    return any(
        _has_the_tree(history, work, head, tip)
        or _has_every_change(history, head, tip)
        or _has_the_whole(history, common_dir, head, tip, env)
        for tip in tips
    )


def _has_the_tree(history: History, work: Work, head: str, tip: str) -> bool:
    """3c: the same files, in a base that has moved on since the start."""
    if not work.start_commit or history.tree(tip) != history.tree(head):
        return False
    return not history.is_ancestor(tip, work.start_commit)


def _has_every_change(history: History, head: str, tip: str) -> bool:
    """3b: every commit was picked, and no merge among them holds changes of its own."""
    lacking, had = history.unmatched(tip, head)
    return bool(had) and not lacking and not history.has_merge_of_its_own(tip, head)


def _has_the_whole(history: History, common_dir: str, head: str, tip: str, env: Mapping[str, str]) -> bool:
    """3d: one commit of the base is the squash of all."""
    merge_base = refs.merge_base(common_dir, tip, head, env=env)
    return merge_base is not None and history.has_squash(merge_base, head, tip)


def is_published(common_dir: str, work: Work, *, env: Mapping[str, str]) -> bool:
    """Rule 4: zero commits ahead of the tracking branch, else of the first remote's branch of the same name.

    Raises BerthError git_failed.
    """
    if work.head is None or work.branch is None:
        return False
    told = command.output(
        ["for-each-ref", "--format=%(refname)%00%(upstream)", refs.HEADS + work.branch],
        env=env,
        git_dir=common_dir,
        cwd=common_dir,
    )
    upstreams = dict(line.split("\0") for line in command.decoded(told).split("\n") if line)
    names = [f"{refs.REMOTES}{remote}/{work.branch}" for remote in refs.remotes(common_dir, env=env)]
    upstream = upstreams.get(refs.HEADS + work.branch, "")
    if upstream.startswith(refs.REMOTES):
        names.insert(0, upstream)
    known = refs.read_refs(common_dir, names, env=env)
    first = next((known[name][0] for name in names if name in known), None)
    return first is not None and History(common_dir, env).is_ancestor(work.head, first)


def not_preserved(path: str, *, common_dir: str, work: Work, env: Mapping[str, str]) -> BerthError:
    """The refusal that lists the commits which are nowhere else, newest first, up to 10."""
    assert work.head is not None
    kept = candidates(common_dir, work, env=env)
    others = ["--branches"] if work.branch is None else []
    lost = _log(common_dir, [work.head, "--not", *kept, *others, "--remotes"], env)
    if not lost:
        lost = _log(common_dir, [work.head, "--not", *kept], env)
    listed = "; ".join(lost[:LISTED])
    more = f"; and {len(lost) - LISTED} more" if len(lost) > LISTED else ""
    where = "on no branch and no remote" if work.branch is None else f"not in {work.base} and on no remote"
    return BerthError(
        f"{path} has {_counted(len(lost))} {where}: {command.shown(listed)}{more}", code="not_preserved", hint=_HINT
    )


def _counted(number: int) -> str:
    return "1 commit that is" if number == 1 else f"{number} commits that are"


def _log(common_dir: str, revisions: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """``<short id> <subject>`` of each commit, newest first."""
    told = command.output(
        ["rev-list", "--encoding=UTF-8", "--no-commit-header", "--format=%h %s", *revisions, "--"],
        env=env,
        git_dir=common_dir,
        cwd=common_dir,
    )
    return command.decoded(told).splitlines()
