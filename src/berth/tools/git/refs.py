"""Starting points: which commit a base names, which branch a new workspace gets, and single-reference writes.

Names are looked up by their full reference, so no user string is a revision expression or an option
(workspaces.md 7.2 steps 3 and 4). A base that only a remote has is fetched, that one branch and nothing else.
"""

from __future__ import annotations

from berth.errors import BerthError
from berth.tools.git import checkout, command, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.tools.git.repository import Repository
    from berth.tools.git.worktrees import Worktree

HEADS = "refs/heads/"
TAGS = "refs/tags/"
REMOTES = "refs/remotes/"
_FORBIDDEN = frozenset(" ~^:?*[\\\x7f") | frozenset(map(chr, range(32)))
_SHORTEST_ID = 7


class Base:
    """What a base name means now: the full ``ref`` (None for a commit id), the ``commit``, and ``notes`` to print."""

    __slots__ = ("commit", "name", "notes", "ref")

    def __init__(self, name: str, *, ref: str | None, commit: str, notes: tuple[str, ...] = ()) -> None:
        self.name = name
        self.ref = ref
        self.commit = commit
        self.notes = notes


class Start:
    """How a workspace begins: ``branch`` (its full ``ref``), the ``commit`` to check out, the ``start_commit`` to
    record, whether the branch is created (``creates_branch``), and ``notes`` to print."""

    __slots__ = ("branch", "commit", "creates_branch", "notes", "ref", "start_commit")

    def __init__(
        self, branch: str, *, commit: str, start_commit: str, creates_branch: bool, notes: tuple[str, ...]
    ) -> None:
        self.branch = branch
        self.ref = HEADS + branch
        self.commit = commit
        self.start_commit = start_commit
        self.creates_branch = creates_branch
        self.notes = notes


def is_ref_name(name: str) -> bool:
    """Whether ``refs/heads/<name>`` is a well-formed reference (git-check-ref-format(1))."""
    if not name or name.endswith((".", "/")) or name.startswith("/") or "@{" in name or ".." in name:
        return False
    if not _FORBIDDEN.isdisjoint(name):
        return False
    return all(part and not part.startswith(".") and not part.endswith(".lock") for part in name.split("/"))


def read_refs(common_dir: str, names: Sequence[str], *, env: Mapping[str, str]) -> dict[str, tuple[str, str, str]]:
    """full name → (object id, object type, what it is a symbolic name for or "") of the references in ``names`` and
    those below them (``refs/heads/a`` also finds ``refs/heads/a/b``), in one process. Raises BerthError git_failed."""
    if not names:
        return {}
    listing = command.output(
        ["for-each-ref", "--format=%(refname)%00%(objectname)%00%(objecttype)%00%(symref)", *names],
        env=env,
        git_dir=common_dir,
        cwd=common_dir,
    )
    found = {}
    for line in command.decoded(listing).split("\n"):
        if line:
            name, object_id, kind, target = line.split("\0")
            found[name] = (object_id, kind, target)
    return found


def commit_named(common_dir: str, expression: str, *, env: Mapping[str, str]) -> str | None:
    """The commit behind an object id or an abbreviation of one; None when there is no such single commit."""
    result = command.run(
        ["rev-parse", "--verify", "--quiet", "--end-of-options", expression + "^{commit}"],
        env=env,
        git_dir=common_dir,
        cwd=common_dir,
    )
    return result.text.strip() if result.code == 0 else None


def find_base(common_dir: str, name: str, *, env: Mapping[str, str]) -> Base | None:
    """What ``name`` means without asking a remote: branch, tag, remote-tracking branch, commit id, in this order.

    None when it names no commit. Raises BerthError git_failed.
    """
    if is_ref_name(name):
        wanted = [HEADS + name, TAGS + name, REMOTES + name]
        known = read_refs(common_dir, wanted, env=env)
        for ref in wanted:
            if ref not in known:
                continue
            object_id, kind, _ = known[ref]
            commit = object_id if kind == "commit" else commit_named(common_dir, object_id, env=env)
            if commit is not None:
                return Base(name, ref=ref, commit=commit, notes=_shadowing(ref, wanted, known))
    return _base_by_id(common_dir, name, env)


def _shadowing(ref: str, wanted: Sequence[str], known: Mapping[str, object]) -> tuple[str, ...]:
    kinds = dict(zip(wanted, ("the local branch", "the tag", "the remote-tracking branch"), strict=True))
    others = [kinds[other] for other in wanted if other in known and other != ref]
    if not others:
        return ()
    name = wanted[0][len(HEADS) :]
    return (f"{name} is {kinds[ref]} of that name here, not {' or '.join(others)}",)


def _base_by_id(common_dir: str, name: str, env: Mapping[str, str]) -> Base | None:
    digits = name.lower()
    if not (_SHORTEST_ID <= len(digits) <= 64 and set(digits) <= set("0123456789abcdef")):
        return None
    commit = commit_named(common_dir, digits, env=env)
    # A tag object's id also leads to a commit, and a file in the git directory may be called like this: no match.
    if commit is None or not commit.startswith(digits):
        return None
    return Base(name, ref=None, commit=commit)


def resolve_base(repo: Repository, name: str, *, env: Mapping[str, str]) -> Base:
    """What ``name`` means; a branch that only a configured remote has is fetched first, and only that one.

    Raises BerthError base_not_found naming the base and the primary checkout's branch, git_failed.
    """
    found = find_base(repo.common_dir, name, env=env)
    if found is None and is_ref_name(name) and _fetch(repo, name, env):
        found = find_base(repo.common_dir, name, env=env)
    if found is not None:
        return found
    here = f"the primary checkout is on {repo.branch}" if repo.branch else "the primary checkout is on no branch"
    if repo.branch is not None and repo.branch != name and not find_base(repo.common_dir, repo.branch, env=env):
        here += ", which has no commit yet"
    usable = repo.branch if repo.branch is not None and repo.branch != name else "BRANCH"
    raise BerthError(
        f"base {command.shown(name)!r} is no branch, tag, remote-tracking branch or commit id here; {here}",
        code="base_not_found",
        hint=f"set `base` in berth.yaml, or use `--base {usable}`",
    )


def remotes(common_dir: str, *, env: Mapping[str, str]) -> list[str]:
    """The names of the configured remotes. Raises BerthError git_failed."""
    listing = command.output(["remote"], env=env, git_dir=common_dir, cwd=common_dir)
    return [line for line in command.decoded(listing).split("\n") if line]


def _fetch(repo: Repository, name: str, env: Mapping[str, str]) -> bool:
    """Fetch the branch that ``name`` = ``<remote>/<branch>`` means; a remote's name may itself hold a slash."""
    if "/" not in name:
        return False
    for remote in sorted(remotes(repo.common_dir, env=env), key=len, reverse=True):
        branch = name[len(remote) + 1 :]
        if name.startswith(remote + "/") and branch and fetch_branch(repo.common_dir, remote, branch, env=env):
            return True
    return False


def fetch_branch(common_dir: str, remote: str, branch: str, *, env: Mapping[str, str]) -> bool:
    """Fetch exactly ``refs/heads/<branch>`` into ``refs/remotes/<remote>/<branch>``; whether that worked.

    Whatever the configuration says: no tags, no pruning, no other reference, no submodule, no FETCH_HEAD, no upkeep.
    """
    spec = f"+{HEADS}{branch}:{REMOTES}{remote}/{branch}"
    result = command.run(
        [
            *("-c", "fetch.writeCommitGraph=false"),
            *("fetch", "--quiet", "--no-tags", "--no-prune", "--no-write-fetch-head", "--no-auto-maintenance"),
            *("--no-recurse-submodules", "--refmap=", "--", remote, spec),
        ],
        env=env,
        git_dir=common_dir,
        cwd=common_dir,
    )
    return result.code == 0


def merge_base(common_dir: str, one: str, other: str, *, env: Mapping[str, str]) -> str | None:
    """The best common ancestor of two commits, or None when their histories are unrelated. Raises git_failed."""
    result = command.run(["merge-base", one, other], env=env, git_dir=common_dir, cwd=common_dir)
    if result.code == 1:
        return None
    return command.checked(result).text.split()[0]


def starting_point(
    repo: Repository,
    slug: str,
    *,
    base: Base,
    base_given: bool,
    entries: Sequence[Worktree],
    env: Mapping[str, str],
) -> Start:
    """The branch ``berth/<slug>``: new at the base commit, or the present one as it is (workspaces.md 7.2 step 4).

    ``entries`` is the list of worktrees, ``base_given`` whether ``--base`` was. Nothing is written.
    Raises BerthError branch_exists, branch_checked_out, git_failed.
    """
    branch = f"berth/{slug}"
    ref = HEADS + branch
    known = read_refs(repo.common_dir, [ref, HEADS + "berth"], env=env)
    _refuse_conflict(known, ref)
    notes = base.notes + _stale_section(repo.common_dir, branch)
    if ref not in known:
        return Start(branch, commit=base.commit, start_commit=base.commit, creates_branch=True, notes=notes)
    holder = worktrees.holder_of(entries, ref)
    if holder is not None:
        raise branch_checked_out(branch, holder.path)
    if base_given:
        raise BerthError(
            f"the branch {branch} exists already, so --base has no meaning",
            code="branch_exists",
            hint="drop `--base`, or use another slug",
        )
    commit = known[ref][0]
    start = merge_base(repo.common_dir, commit, base.commit, env=env) or base.commit
    notes += (f"the branch {branch} exists already and is used as it is",)
    return Start(branch, commit=commit, start_commit=start, creates_branch=False, notes=notes)


def branch_checked_out(branch: str, path: str) -> BerthError:
    """The refusal for a branch that another worktree has checked out."""
    return BerthError(
        f"the branch {branch} is checked out in {command.shown(path)}",
        code="branch_checked_out",
        hint="switch that worktree to another branch, then repeat the command",
    )


def _refuse_conflict(known: Mapping[str, object], ref: str) -> None:
    """A file cannot be a directory: ``berth`` or ``berth/<slug>/x`` excludes ``berth/<slug>``."""
    for other in known:
        if other == HEADS + "berth" or other.startswith(ref + "/"):
            raise BerthError(
                f"the branch {ref[len(HEADS) :]} cannot exist beside {other}",
                code="branch_exists",
                hint="rename or delete that branch, or use another slug",
            )


def _stale_section(common_dir: str, branch: str) -> tuple[str, ...]:
    """A note when the configuration remembers an earlier branch of that name (workspaces.md 15). Nothing is started."""
    text = checkout.read_plain(f"{common_dir}/config") or ""
    if f'[branch "{branch}"]' not in text:
        return ()
    return (f'the git configuration still has a section [branch "{branch}"] from an earlier branch of that name',)


def create_branch(common_dir: str, ref: str, commit: str, *, env: Mapping[str, str]) -> None:
    """Create ``ref`` at ``commit`` unless it exists (compare and create). Raises BerthError git_failed."""
    absent = "0" * len(commit)
    command.output(
        ["update-ref", "--no-deref", "-m", "branch: Created by berth", ref, commit, absent],
        env=env,
        git_dir=common_dir,
        cwd=common_dir,
    )


def delete_branch(common_dir: str, ref: str, expected: str, *, env: Mapping[str, str]) -> None:
    """Delete ``ref`` if it still is at ``expected``; gone already is fine (workspaces.md 10.4 step 5).

    Raises BerthError branch_moved naming both commits, git_failed.
    """
    result = command.run(["update-ref", "--no-deref", "-d", ref, expected], env=env, git_dir=common_dir, cwd=common_dir)
    if result.code == 0:
        return
    found = read_refs(common_dir, [ref], env=env).get(ref)
    if found is None:
        return
    if found[0] != expected:
        raise BerthError(
            f"the branch {command.shown(ref[len(HEADS) :])} is at {found[0]}, no longer at {expected}",
            code="branch_moved",
            hint="keep or delete the branch by hand, then `berth done`",
        )
    raise command.failure(result)
