"""What a checkout's plain files say, without starting git: ``.git``, ``commondir``, ``gitdir``, ``HEAD``.

A linked worktree is three small files that name each other (gitrepository-layout(5)):

    <checkout>/.git                         gitdir: <common>/worktrees/<admin>
    <common>/worktrees/<admin>/commondir    ../..
    <common>/worktrees/<admin>/gitdir       <checkout>/.git

They are read as regular files, never through a link, and compared with the record before git runs in a checkout
(workspaces.md 7.1), because code in a checkout can write what git would believe. On hot paths: few imports.
"""

from __future__ import annotations

import os
import stat

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LIMIT = 65536
_HEX = frozenset("0123456789abcdef")


class Checkout:
    """Where a checkout's metadata is: canonical ``path``, ``git_dir``, ``common_dir``; ``linked`` = a worktree."""

    __slots__ = ("common_dir", "git_dir", "linked", "path")

    def __init__(self, path: str, git_dir: str, common_dir: str) -> None:
        self.path = path
        self.git_dir = git_dir
        self.common_dir = common_dir
        self.linked = git_dir != common_dir


def read_plain(path: str) -> str | None:
    """The text of a small regular file without its line end; None when it is absent, a link or anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        data = os.read(fd, _LIMIT)
    except OSError:
        return None
    finally:
        os.close(fd)
    return os.fsdecode(data).rstrip("\r\n")


def named_git_dir(checkout: str) -> str | None:
    """The absolute directory that ``<checkout>/.git`` names as a plain file; None when it is not such a file."""
    text = read_plain(os.path.join(checkout, ".git"))
    if text is None or not text.startswith("gitdir: "):
        return None
    named = text[len("gitdir: ") :]
    return os.path.normpath(os.path.join(checkout, named)) if named else None


def common_of(git_dir: str) -> str:
    """The canonical common directory of ``git_dir``: what its ``commondir`` names, else itself."""
    text = read_plain(os.path.join(git_dir, "commondir"))
    return os.path.realpath(os.path.join(git_dir, text)) if text else git_dir


def toplevel_of(path: str) -> str | None:
    """The nearest directory at or above ``path`` which has a ``.git``, canonical; None when there is none."""
    here = os.path.realpath(path)
    while True:
        if os.path.lexists(os.path.join(here, ".git")):
            return here
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def read_git_file(checkout: str) -> Checkout | None:
    """What the checkout at ``checkout`` (its toplevel) says of itself; None when nothing leads to a git directory."""
    path = os.path.realpath(checkout)
    dot_git = os.path.join(path, ".git")
    named = dot_git if os.path.isdir(dot_git) else named_git_dir(path)
    if named is None or not os.path.isdir(named):
        return None
    git_dir = os.path.realpath(named)
    return Checkout(path, git_dir, common_of(git_dir))


def verify_plain(checkout: str, *, git_dir: str, common_dir: str, primary: str | None = None) -> None:
    """Prove from plain files that ``checkout`` is the worktree on record, and that git would agree (7.3).

    ``git_dir`` and ``common_dir`` are the recorded canonical paths; ``primary`` is the primary checkout, when known.
    Raises BerthError checkout_missing, primary_checkout, repository_missing or identity_mismatch saying what differs.
    """
    _verify_directory(checkout, primary)
    if not os.path.isdir(common_dir):
        raise repository_missing(common_dir)
    named = named_git_dir(checkout)
    if named is None:
        raise _mismatch(f"{checkout}/.git is not the file of a git worktree")
    if not _leads_to(named, git_dir, outside=checkout):
        raise _mismatch(f"{checkout}/.git names {named}, not {git_dir}")
    verify_admin(git_dir, checkout=checkout, common_dir=common_dir)


def _verify_directory(checkout: str, primary: str | None) -> None:
    try:
        mode = os.lstat(checkout).st_mode
    except FileNotFoundError:
        raise BerthError(
            f"the checkout {checkout} is missing",
            code="checkout_missing",
            hint="move it back, or `berth done --force`, or `berth gc`",
        ) from None
    except OSError as error:
        raise BerthError(f"{checkout}: {os.strerror(error.errno or 0)}", code="io_error") from None
    if not stat.S_ISDIR(mode):
        raise _mismatch(
            f"{checkout} is not a directory" if not stat.S_ISLNK(mode) else f"{checkout} is a symbolic link"
        )
    if primary is not None:
        refuse_primary(checkout, primary=primary)


def verify_admin(git_dir: str, *, checkout: str, common_dir: str) -> None:
    """The other half: the admin directory belongs to ``common_dir`` and names ``checkout``.

    Raises BerthError identity_mismatch.
    """
    try:
        is_directory = stat.S_ISDIR(os.lstat(git_dir).st_mode)
    except OSError:
        is_directory = False
    if not is_directory:
        raise _mismatch(f"git no longer knows the worktree {checkout}: {git_dir} is missing")
    common = read_plain(os.path.join(git_dir, "commondir"))
    if common is None or os.path.realpath(os.path.join(git_dir, common)) != common_dir:
        raise _mismatch(f"{git_dir}/commondir does not name {common_dir}")
    back = read_plain(os.path.join(git_dir, "gitdir"))
    wanted = os.path.join(checkout, ".git")
    if back is None or not same_path(os.path.join(git_dir, back), wanted):
        raise _mismatch(f"{git_dir}/gitdir names {back or 'nothing'}, not {wanted}")
    if not os.path.lexists(os.path.join(git_dir, "HEAD")):
        raise _mismatch(f"{git_dir} has no HEAD")


def refuse_primary(checkout: str, *, primary: str) -> None:
    """Raises BerthError primary_checkout when ``checkout`` is ``primary`` or a directory above it."""
    target, main = os.path.realpath(checkout), os.path.realpath(primary)
    if target == main:
        raise BerthError(f"{checkout} is the primary checkout", code="primary_checkout")
    if main.startswith(target.rstrip("/") + "/"):
        raise BerthError(f"{checkout} contains the primary checkout {primary}", code="primary_checkout")


def repository_missing(common_dir: str) -> BerthError:
    """The error for a repository that is not at its recorded place."""
    return BerthError(
        f"the repository is missing: {common_dir} is not there",
        code="repository_missing",
        hint="restore or move the repository back",
    )


def same_path(path: str, wanted: str) -> bool:
    """Whether both name the same place, the last component taken as it is (it may be missing)."""
    if os.path.normpath(path) == wanted:
        return True
    parent, last = os.path.split(os.path.normpath(path))
    wanted_parent, wanted_last = os.path.split(wanted)
    return last == wanted_last and os.path.realpath(parent) == os.path.realpath(wanted_parent)


def _leads_to(named: str, git_dir: str, *, outside: str) -> bool:
    """Whether the path in a ``.git`` file is ``git_dir``, and not by a link which the checkout itself holds."""
    if named == git_dir:
        return True
    inside = named == outside or named.startswith(outside.rstrip("/") + "/")
    return not inside and os.path.realpath(named) == git_dir


def _mismatch(what: str) -> BerthError:
    return BerthError(what, code="identity_mismatch", hint="move the right checkout back")


def head_text(git_dir: str) -> str | None:
    """The content of HEAD: ``ref: refs/heads/x`` or a commit id; None when it cannot be read as a plain file."""
    return read_plain(os.path.join(git_dir, "HEAD"))


def is_commit_id(text: str) -> bool:
    """A full object id, SHA-1 or SHA-256, in lower case."""
    return len(text) in (40, 64) and _HEX.issuperset(text)


def head_ref(git_dir: str, *, env: Mapping[str, str]) -> str | None:
    """The full name of the reference that HEAD names, also while it has no commit; None when it is detached.

    Starts git only where HEAD is no plain text: reftable keeps a stub there, old repositories a link.
    Raises BerthError git_failed.
    """
    text = head_text(git_dir)
    if text is not None:
        if is_commit_id(text):
            return None
        if text.startswith("ref: refs/") and text != "ref: refs/heads/.invalid":
            return text[len("ref: ") :]
    from berth.tools.git import command

    result = command.run(["symbolic-ref", "--quiet", "HEAD"], env=env, cwd=git_dir, git_dir=git_dir)
    if result.code == 1:
        return None
    return command.decoded(command.checked(result).stdout).rstrip("\n")


def current_branch(git_dir: str, *, env: Mapping[str, str]) -> str | None:
    """The branch's short name, or None when HEAD is detached. Raises BerthError git_failed."""
    ref = head_ref(git_dir, env=env)
    prefix = "refs/heads/"
    return ref[len(prefix) :] if ref is not None and ref.startswith(prefix) else None


def head_commit(git_dir: str, *, common_dir: str, env: Mapping[str, str]) -> str | None:
    """The id of the commit at HEAD, or None on an unborn branch. Loose references are read, others asked for.

    Raises BerthError git_failed.
    """
    text = head_text(git_dir) or ""
    if is_commit_id(text):
        return text
    if text.startswith("ref: refs/heads/") and ".." not in text:
        loose = read_plain(os.path.join(common_dir, text[len("ref: ") :])) or ""
        if is_commit_id(loose):
            return loose
    from berth.tools.git import command

    # Not HEAD^{commit}: a commit that is not there must not look like a branch without commits.
    result = command.run(["rev-parse", "--verify", "--quiet", "HEAD"], env=env, cwd=git_dir, git_dir=git_dir)
    if result.code == 1 and not _is_broken(text, common_dir):
        return None
    return command.checked(result).text.strip()


def _is_broken(text: str, common_dir: str) -> bool:
    """Whether HEAD names a branch whose file is there and says nothing: damage, not a branch without commits."""
    ref = text.removeprefix("ref: ")
    return ref.startswith("refs/heads/") and os.path.isfile(os.path.join(common_dir, ref))
