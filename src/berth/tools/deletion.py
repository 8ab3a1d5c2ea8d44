"""Deleting a whole tree whose identity is known: no link is followed, no mount is entered, no other tree is touched.

One open directory at a time; the way back up is ``..``, checked by device and inode, so neither depth nor somebody who
moves directories about leads out of the tree. Which tree may be deleted is decided in ``ops``.
"""

from __future__ import annotations

import errno
import os
import stat

from berth.errors import BerthError
from berth.tools import steps, trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_PASSES = 20  # over a directory in which somebody goes on creating files


def delete_tree(path: str, last: str | None = None, *, identity: tuple[int, int] | None = None) -> None:
    """Delete the directory ``path`` and all below it; nothing there is fine.

    ``identity`` is the device and inode it must have. Its entry ``last`` (a relative path) goes after all the rest, so
    that an interrupted deletion can still be recognised. Read-only directories of this user are opened first.
    Raises BerthError ``identity_mismatch``, ``path_busy`` (a mount point, somebody goes on writing) or ``io_error``.
    """
    folder, name = os.path.split(path.rstrip("/"))
    _refuse_mounts(path)
    try:
        parent = trees.open_directory(folder or ".")
        try:
            _delete_entry(parent, name, path, last=last, identity=identity)
        finally:
            os.close(parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _failed(path, error) from None


def delete_below(root: str, names: Sequence[str]) -> None:
    """Delete ``<root>/<names…>`` and all below it; all ``names`` are real directories, or absent.

    Raises BerthError ``io_error`` when one of them is a link or no directory, otherwise as ``delete_tree``.
    """
    path = os.path.join(root, *names)
    _refuse_mounts(path)
    try:
        parent = trees.open_directory(root, names[:-1])
        try:
            facts = os.stat(names[-1], dir_fd=parent, follow_symlinks=False)
            if not stat.S_ISDIR(facts.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "not a real directory", path)
            _delete_entry(parent, names[-1], path, last=None, identity=None)
        finally:
            os.close(parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _failed(path, error) from None


def _delete_entry(parent: int, name: str, path: str, *, last: str | None, identity: tuple[int, int] | None) -> None:
    descent = _Descent(parent, name, path)
    try:
        opened = descent.identity
        if identity is not None and opened != identity:
            raise BerthError(
                f"{path} is not the directory it was (device {opened[0]}, inode {opened[1]})",
                code="identity_mismatch",
                hint="move it away",
            )
        if last is not None:
            first, _, rest = last.partition("/")
            descent.empty(keep=first)
            descent.empty_below(first, keep=rest or None)
        descent.empty(keep=None)
        if _identity(os.stat(name, dir_fd=parent, follow_symlinks=False)) != opened:
            raise BerthError(f"{path} was replaced while it was being deleted", code="identity_mismatch")
        os.rmdir(name, dir_fd=parent)
    finally:
        descent.close()


class _Level:
    """One directory on the way down: its ``identity``, and the directories in it that are still to be deleted."""

    __slots__ = ("identity", "name", "passes", "pending")

    def __init__(self, name: str, identity: tuple[int, int]) -> None:
        self.name = name
        self.identity = identity
        self.pending: list[str] | None = None  # not looked at yet
        self.passes = 0


class _Descent:
    """Where a deletion stands: ``_fd`` is the one directory that is open, the last of ``_levels``."""

    def __init__(self, parent: int, name: str, path: str) -> None:
        self._path = path
        self._fd = _open(parent, name)
        self._levels = [_Level(name, _identity(os.fstat(self._fd)))]

    @property
    def identity(self) -> tuple[int, int]:
        return self._levels[-1].identity

    def close(self) -> None:
        os.close(self._fd)

    def empty(self, *, keep: str | None) -> None:
        """Delete all in the top directory but its entry ``keep``."""
        while True:
            level = self._levels[-1]
            kept = keep if len(self._levels) == 1 else None
            if level.pending is None:
                level.pending = _delete_files(self._fd, kept)
                level.passes += 1
            if level.pending:
                self._enter(level.pending.pop())
            elif len(self._levels) > 1:
                self._leave()
            else:
                level.pending = None
                if not _has_other(self._fd, kept):
                    return
                if level.passes > _PASSES:
                    raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))

    def empty_below(self, name: str, *, keep: str | None) -> None:
        """Delete all in the entry ``name`` of the top directory but its own entry ``keep``."""
        try:
            inner = _Descent(self._fd, name, os.path.join(self._path, name))
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            inner.empty(keep=keep)
        finally:
            inner.close()

    def _enter(self, name: str) -> None:
        try:
            fd = _open(self._fd, name)
        except (FileNotFoundError, NotADirectoryError):
            return  # gone, or something else by now: what is left is seen by the rmdir above
        os.close(self._fd)
        self._fd = fd
        self._levels.append(_Level(name, _identity(os.fstat(fd))))

    def _leave(self) -> None:
        """Go up, and remove the directory that was emptied; one that is not empty again is entered once more."""
        gone = self._levels.pop()
        level = self._levels[-1]
        fd = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._fd)
        os.close(self._fd)
        self._fd = fd
        if _identity(os.fstat(fd)) != level.identity:
            raise BerthError(f"directories in {self._path} were moved while it was being deleted", code="path_busy")
        steps.reach("before a directory is deleted")
        try:
            os.rmdir(gone.name, dir_fd=fd)
        except FileNotFoundError:
            return
        except NotADirectoryError:
            level.pending = None
        except OSError as error:
            level.passes += 1
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or level.passes > _PASSES:
                raise
            assert level.pending is not None
            level.pending.append(gone.name)


def _delete_files(fd: int, keep: str | None) -> list[str]:
    """Unlink everything in ``fd`` but ``keep`` that is no directory; the names of the directories."""
    with os.scandir(fd) as scan:
        entries = [(item.name, item.is_dir(follow_symlinks=False)) for item in scan if item.name != keep]
    directories = [name for name, is_directory in entries if is_directory]
    for name, is_directory in entries:
        if is_directory:
            continue
        steps.reach("before a file is deleted")
        try:
            os.unlink(name, dir_fd=fd)
        except FileNotFoundError:
            continue
        except IsADirectoryError:
            directories.append(name)
    return directories


def _has_other(fd: int, keep: str | None) -> bool:
    with os.scandir(fd) as scan:
        return any(item.name != keep for item in scan)


def _open(parent: int, name: str) -> int:
    """Open a directory to be emptied; one that its owner may not read or write is opened up first."""
    facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_IRWXU != stat.S_IRWXU and facts.st_uid == os.geteuid():
        trees.set_mode(parent, name, stat.S_IMODE(facts.st_mode) | stat.S_IRWXU)
    return trees.open_at(parent, name)


def _identity(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino


def _refuse_mounts(path: str) -> None:
    """Something mounted at or below ``path`` is not ours to delete (proc(5), mountinfo)."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            rows = file.read().splitlines()
    except OSError:  # no /proc: rmdir of a mount point fails anyway
        return
    top = os.path.realpath(path)
    for row in rows:
        place = _unescaped(row.split(" ", 5)[4])
        if place == top or place.startswith(top + "/"):
            raise BerthError(f"something is mounted at {place}", code="path_busy", hint=f"umount {place}")


def _unescaped(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def _failed(path: str, error: OSError) -> BerthError:
    where = path if error.filename is None else os.path.join(path, os.fsdecode(error.filename))
    if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
        return BerthError(
            f"cannot delete {path}: somebody goes on writing there", code="path_busy", hint="end the writer"
        )
    if error.errno == errno.EBUSY:
        return BerthError(f"cannot delete {where}: {error.strerror}", code="path_busy", hint=where)
    return BerthError(f"cannot delete {where}: {error.strerror}", code="io_error", hint=where)
