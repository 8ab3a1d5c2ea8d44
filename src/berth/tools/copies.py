"""Bringing ignored files and dependency trees into a workspace (workspaces.md 7.6).

Copies share blocks with their source where the file system can and are never links to it. Both sides are walked through
open directories and no link is followed, so nothing outside the two roots is read or written. What is copied, and what
git tracks, is decided by the caller; how one file's content moves is in ``tools.content``.
"""

from __future__ import annotations

import errno
import os
import stat

from berth.errors import BerthError
from berth.tools import trees
from berth.tools.content import Copier
from berth.tools.files import DRAFT_PREFIX
from berth.tools.links import Links

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_NEVER = (".git", ".berth")
_MOST_WARNINGS = 20
_SPECIAL = {stat.S_IFSOCK: "socket", stat.S_IFIFO: "FIFO", stat.S_IFBLK: "block device", stat.S_IFCHR: "device"}


def copy_into(
    source: str,
    destination: str,
    name: str,
    *,
    exclude: Iterable[str] = (),
    replace: bool | Callable[[str], bool] = False,
) -> list[str]:
    """Copy the file or directory ``<source>/<name>`` to ``<destination>/<name>``; the warnings about what was skipped.

    ``source`` and ``destination`` are canonical; ``name`` is a relative path (3.3), and one that does not exist is no
    error. ``exclude`` are absolute paths of directories left out, beside every ``.git`` and ``.berth`` and the
    destination itself. A destination that exists is kept, or replaced where ``replace`` (called with a path relative to
    the roots) says so; nothing extra is deleted. Raises BerthError ``copy_failed`` naming the path.
    """
    walk = _Walk(source, destination, _identities((*exclude, destination)), replace)
    try:
        walk.copy_name(name.split("/"))
    except OSError as error:
        raise BerthError(
            f"cannot copy {os.path.join(source, walk.at)} to {os.path.join(destination, walk.at)}: {error.strerror}",
            code="copy_failed",
            hint=os.path.join(source, walk.at),
        ) from None
    return walk.warnings.lines(name)


def _identities(paths: Iterable[str]) -> set[tuple[int, int]]:
    found = set()
    for path in paths:
        try:
            facts = os.stat(path)
        except OSError:  # registered, but gone
            continue
        found.add((facts.st_dev, facts.st_ino))
    return found


class _Warnings:
    """What was left out and why; the first twenty in words."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._more = 0

    def add(self, path: str, reason: str) -> None:
        if len(self._first) < _MOST_WARNINGS:
            self._first.append(f"{path} was not copied: {reason}")
        else:
            self._more += 1

    def lines(self, name: str) -> list[str]:
        return [*self._first, *([f"{self._more} more entries of {name} were not copied"] if self._more else [])]


class _Walk:
    """One copy: both roots, and ``at``, the relative path that is being worked on, for messages."""

    def __init__(
        self, source: str, destination: str, excluded: set[tuple[int, int]], replace: bool | Callable[[str], bool]
    ) -> None:
        self.at = ""
        self.warnings = _Warnings()
        self._source = source
        self._destination = destination
        self._excluded = excluded
        self._replace = replace
        self._links = Links(source)
        self._copier = Copier()

    def copy_name(self, parts: Sequence[str]) -> None:
        *parents, last = parts
        source = self._open_parents(parents)
        if source is None:
            return
        try:
            self.at = "/".join(parts)
            try:
                facts = os.stat(last, dir_fd=source, follow_symlinks=False)
            except FileNotFoundError:
                return
            destination = self._make_parents(parents)
            try:
                present = _kind(destination, last)
                self._copy_entry(source, destination, last, "/".join(parents), facts.st_mode, present)
            finally:
                os.close(destination)
        finally:
            os.close(source)

    def _open_parents(self, parents: Sequence[str]) -> int | None:
        """The source's parent directory; None when there is none or it is left out."""
        fd = trees.open_directory(self._source)
        here: list[str] = []
        for part in parents:
            here.append(part)
            self.at = "/".join(here)
            try:
                mode = os.stat(part, dir_fd=fd, follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    raise self._link_above(self._source)
                below = trees.open_at(fd, part) if stat.S_ISDIR(mode) else -1
            except FileNotFoundError:
                below = -1
            finally:
                os.close(fd)
            if below < 0:
                return None
            if _identity(below) in self._excluded:
                os.close(below)
                return None
            fd = below
        return fd

    def _make_parents(self, parents: Sequence[str]) -> int:
        """The destination's parent directory; what is missing is made with the source's modes."""
        fd = trees.open_directory(self._destination)
        for number, part in enumerate(parents):
            self.at = "/".join(parents[: number + 1])
            kind = _kind(fd, part)
            try:
                if kind is not None and kind != stat.S_IFDIR:
                    raise self._link_above(self._destination)
                if kind is None:
                    os.mkdir(part, 0o700, dir_fd=fd)
                below = trees.open_at(fd, part)
            finally:
                os.close(fd)
            fd = below
            if kind is None:
                os.fchmod(fd, stat.S_IMODE(os.lstat(os.path.join(self._source, self.at)).st_mode) | stat.S_IRWXU)
        return fd

    def _link_above(self, root: str) -> BerthError:
        path = os.path.join(root, self.at)
        return BerthError(
            f"{path} is not a real directory, so nothing below it is copied", code="copy_failed", hint=path
        )

    def _copy_entry(
        self, source: int, destination: int, name: str, folder: str, mode: int, present: int | None
    ) -> None:
        """Copy one entry of a directory; ``present`` is the kind of what the destination has at its name."""
        self.at = f"{folder}/{name}" if folder else name
        kind = stat.S_IFMT(mode)
        if kind == stat.S_IFDIR:
            self._copy_directory(source, destination, name, self.at, present)
        elif kind == stat.S_IFREG:
            if present is None or self._may_replace(present, name):
                self._copy_file(source, destination, name)
        elif kind == stat.S_IFLNK:
            if present is None or self._may_replace(present, name):
                self._copy_link(source, destination, name, folder)
        else:
            self.warnings.add(self.at, f"it is a {_SPECIAL.get(kind, 'special file')}")

    def _may_replace(self, present: int, name: str) -> bool:
        allowed = self._replace if isinstance(self._replace, bool) else self._replace(self.at)
        if allowed and present == stat.S_IFDIR:
            self.warnings.add(self.at, "the workspace has a directory there")
            return False
        return allowed

    def _copy_directory(self, source: int, destination: int, name: str, path: str, present: int | None) -> None:
        if name in _NEVER:
            return
        try:
            from_fd = trees.open_at(source, name)
        except (FileNotFoundError, NotADirectoryError):  # vanished, or replaced, meanwhile
            return
        try:
            facts = os.fstat(from_fd)
            if (facts.st_dev, facts.st_ino) in self._excluded:
                return
            if present is not None and present != stat.S_IFDIR:
                if not self._may_replace(present, name):
                    return
                os.unlink(name, dir_fd=destination)
                present = None
            mode = stat.S_IMODE(facts.st_mode)
            if present is None:
                os.mkdir(name, mode | stat.S_IRWXU, dir_fd=destination)
            to_fd = trees.open_at(destination, name)
            try:
                is_unfinished = present is not None and stat.S_IMODE(os.fstat(to_fd).st_mode) == mode | stat.S_IRWXU
                self._copy_entries(from_fd, to_fd, path, _kinds(to_fd) if present is not None else {})
                self.at = path
                if present is None or is_unfinished:
                    os.fchmod(to_fd, mode)
                    os.utime(to_fd, ns=(facts.st_atime_ns, facts.st_mtime_ns))
            finally:
                os.close(to_fd)
        finally:
            os.close(from_fd)

    def _copy_entries(self, source: int, destination: int, path: str, present: dict[str, int]) -> None:
        with os.scandir(source) as scan:
            entries = list(scan)
        copy_file = self._copy_file
        for item in entries:
            name = item.name
            if name.startswith(DRAFT_PREFIX):
                continue
            if name not in present and item.is_file(follow_symlinks=False):  # nearly all of them
                self.at = f"{path}/{name}"
                copy_file(source, destination, name)
                continue
            try:
                mode = item.stat(follow_symlinks=False).st_mode
            except FileNotFoundError:
                continue
            self._copy_entry(source, destination, name, path, mode, present.get(name))

    def _copy_file(self, source: int, destination: int, name: str) -> None:
        reason = self._copier.copy(source, destination, name)
        if reason is not None:
            self.warnings.add(self.at, reason)

    def _copy_link(self, source: int, destination: int, name: str, folder: str) -> None:
        try:
            target = os.readlink(name, dir_fd=source)
        except (FileNotFoundError, OSError) as error:
            if error.errno in (errno.ENOENT, errno.EINVAL):
                return
            raise
        if target.startswith("/"):
            self.warnings.add(self.at, f"it is a link to the absolute path {target}")
        elif not self._links.stays_inside(folder, target):
            self.warnings.add(self.at, f"it is a link out of the repository, to {target}")
        else:
            draft = f"{DRAFT_PREFIX}{os.getpid()}"
            os.symlink(target, draft, dir_fd=destination)
            try:
                os.rename(draft, name, src_dir_fd=destination, dst_dir_fd=destination)
            except BaseException:
                os.unlink(draft, dir_fd=destination)
                raise


def _identity(fd: int) -> tuple[int, int]:
    facts = os.fstat(fd)
    return facts.st_dev, facts.st_ino


def _kind(folder: int, name: str) -> int | None:
    """The kind (S_IFDIR, …) of what is at ``name`` in an open directory; None for nothing."""
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None


def _kinds(folder: int) -> dict[str, int]:
    """The kinds of all entries of an open directory; drafts that a killed copy left are deleted."""
    found: dict[str, int] = {}
    with os.scandir(folder) as scan:
        entries = list(scan)
    for item in entries:
        if item.name.startswith(DRAFT_PREFIX) and not item.is_dir(follow_symlinks=False):
            os.unlink(item.name, dir_fd=folder)
            continue
        found[item.name] = stat.S_IFMT(item.stat(follow_symlinks=False).st_mode)
    return found
