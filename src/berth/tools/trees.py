"""Directories that may hold anything: made, opened, looked through without following a link.

Everything is done relative to open directories, so that a link planted between two steps leads nowhere. Deleting is in
``tools.deletion``.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_directory(root: str, names: Sequence[str] = ()) -> int:
    """A descriptor of ``<root>/<names…>``, each a real directory. Raises OSError whose ``filename`` is the path."""
    fd = os.open(root, _DIRECTORY)
    here = root
    for name in names:
        here = os.path.join(here, name)
        try:
            below = open_at(fd, name)
        except OSError as error:
            error.filename = here
            raise
        finally:
            os.close(fd)
        fd = below
    return fd


def open_at(parent: int, name: str) -> int:
    """A descriptor of the real directory ``name`` in ``parent``. Raises OSError (ENOTDIR for a link)."""
    return os.open(name, _DIRECTORY, dir_fd=parent)


def make_directories(root: str, names: Sequence[str], *, mode: int, keep_open: bool = False) -> int:
    """Make the chain of directories ``<root>/<names…>``; those that exist keep their mode.

    With ``keep_open`` the result is a descriptor of the last one, otherwise 0. Raises OSError whose ``filename`` is the
    path, NotADirectoryError when something there is a link or no directory.
    """
    fd = os.open(root, _DIRECTORY)
    here = root
    try:
        for name in names:
            here = os.path.join(here, name)
            try:
                os.mkdir(name, mode, dir_fd=fd)
                is_new = True
            except FileExistsError:
                is_new = False
            below = open_at(fd, name)
            if is_new:
                os.fchmod(below, mode)  # whatever the umask is
            fd, above = below, fd
            os.close(above)
    except OSError as error:
        error.filename = here
        os.close(fd)
        raise
    if keep_open:
        return fd
    os.close(fd)
    return 0


class Entry:
    """One entry met in ``walk``: ``path`` is relative to the root, ``facts`` its own stat, ``is_directory`` real."""

    __slots__ = ("facts", "is_directory", "path")

    def __init__(self, path: str, facts: os.stat_result) -> None:
        self.path = path
        self.facts = facts
        self.is_directory = stat.S_ISDIR(facts.st_mode)


def walk(root: str, *, enters: Callable[[Entry], bool] | None = None) -> Iterator[Entry]:
    """Every entry below ``root``, directories before what is in them, in no order otherwise; no link is followed.

    ``enters`` says which directories to look into. Directories of this user that are closed even to their owner are
    opened for the look and closed again. What vanishes meanwhile is left out.
    """
    pending = [""]
    while pending:
        relative = pending.pop()
        try:
            fd = open_directory(root, relative.split("/") if relative else ())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError:
            fd = _opened_by_force(root, relative)
            if fd < 0:
                continue
        for entry in _entries(fd, relative):
            yield entry
            if entry.is_directory and (enters is None or enters(entry)):
                pending.append(entry.path)


def _entries(fd: int, relative: str) -> list[Entry]:
    """The entries of an open directory, which is closed."""
    found = []
    try:
        with os.scandir(fd) as scan:
            for item in scan:
                try:
                    facts = item.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                found.append(Entry(f"{relative}/{item.name}" if relative else item.name, facts))
    finally:
        os.close(fd)
    return found


def _opened_by_force(root: str, relative: str) -> int:
    """A descriptor of a directory of ours that has no read or search permission; -1 when it cannot be had."""
    *above, name = relative.split("/")
    try:
        parent = open_directory(root, above)
    except OSError:
        return -1
    try:
        mode = stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        set_mode(parent, name, mode | stat.S_IRWXU)
        try:
            return open_at(parent, name)
        finally:
            set_mode(parent, name, mode)
    except OSError:
        return -1
    finally:
        os.close(parent)


def set_mode(parent: int, name: str, mode: int) -> None:
    """Change the mode of the real directory ``name``, also of one that cannot be opened. Raises OSError."""
    if not hasattr(os, "O_PATH"):
        os.chmod(name, mode, dir_fd=parent, follow_symlinks=False)
        return
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{fd}", mode)  # Linux has no chmod that follows no link; this is open(2)'s way
    finally:
        os.close(fd)


def size(root: str) -> int:
    """The bytes of disk that ``root`` and all below it take; a file with several names counts once."""
    seen: set[tuple[int, int]] = set()
    try:
        total = os.lstat(root).st_blocks * 512
    except OSError:
        return 0
    for entry in walk(root):
        facts = entry.facts
        if facts.st_nlink > 1 and not entry.is_directory:
            if (facts.st_dev, facts.st_ino) in seen:
                continue
            seen.add((facts.st_dev, facts.st_ino))
        total += facts.st_blocks * 512
    return total


def foreign_files(root: str, *, uid: int | None = None, limit: int = 10, besides: Sequence[str] = ()) -> list[str]:
    """The first ``limit`` paths below ``root``, relative to it, that do not belong to ``uid`` (default: this user).

    ``besides`` are relative paths of directories that are not looked into. Foreign directories are not entered:
    each counts for itself.
    """
    owner = os.getuid() if uid is None else uid
    found: list[str] = []
    for entry in walk(root, enters=lambda one: one.facts.st_uid == owner and one.path not in besides):
        if entry.facts.st_uid != owner:
            found.append(entry.path)
            if len(found) == limit:
                break
    return sorted(found)
