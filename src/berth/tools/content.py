"""Copying one regular file: blocks shared where the file system can, else copied in the kernel, else by bytes.

The copy has the source's permission bits and modification time, appears under its name whole or not at all, and is
never a hard link. What a file system cannot do is found out once and not tried again.
"""

from __future__ import annotations

import errno
import os
import stat

from berth.tools.files import DRAFT_PREFIX, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FICLONE = 0x40049409  # ioctl_ficlone(2)
_CANNOT = (
    errno.EOPNOTSUPP,
    errno.ENOTTY,
    errno.EXDEV,
    errno.EINVAL,
    errno.ENOSYS,
    errno.EPERM,
    errno.EBADF,
    errno.ETXTBSY,
)
_BLOCK = 1 << 20
_SMALL = 64 << 10  # one read and one write are cheaper than a pipe in the kernel
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Copier:
    """Copies files between two trees, and remembers which ways work there."""

    def __init__(self) -> None:
        self._draft = f"{DRAFT_PREFIX}{os.getpid()}"
        self._umask = _umask()
        self._uid = os.geteuid()
        self._clones = _ficlone()
        self._can_range = hasattr(os, "copy_file_range")

    def copy(self, source: int, destination: int, name: str) -> str | None:
        """Copy ``name`` from one open directory into another, replacing what is there.

        None, also when the file vanished meanwhile; otherwise why it was left out. Raises OSError.
        """
        try:
            reader = os.open(name, _READ, dir_fd=source)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                return "it was replaced meanwhile"
            raise
        try:
            facts = os.fstat(reader)
            if not stat.S_ISREG(facts.st_mode):
                return "it was replaced meanwhile"
            # Ownership is not kept, so neither are bits that would lend somebody else's rights.
            mode = facts.st_mode & (0o7777 if facts.st_uid == self._uid else 0o777)
            writer = os.open(self._draft, _WRITE, mode & 0o777, dir_fd=destination)
            try:
                try:
                    self._content(reader, writer, facts)
                    if mode & (self._umask | 0o7000):
                        os.fchmod(writer, mode)
                    os.utime(writer, ns=(facts.st_atime_ns, facts.st_mtime_ns))
                finally:
                    os.close(writer)
                os.rename(self._draft, name, src_dir_fd=destination, dst_dir_fd=destination)
            except BaseException:
                os.unlink(self._draft, dir_fd=destination)
                raise
        finally:
            os.close(reader)
        return None

    def _content(self, reader: int, writer: int, facts: os.stat_result) -> None:
        size = facts.st_size
        if size == 0:
            return
        if self._clones is not None:
            try:
                self._clones(writer, reader)
                return
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
                self._clones = None
        if facts.st_blocks * 512 < size and _copy_sparse(reader, writer, size):
            return
        if size <= _SMALL:
            write_all(writer, os.read(reader, size))
        elif not (self._can_range and self._copy_range(reader, writer, size)):
            _copy_bytes(reader, writer)

    def _copy_range(self, reader: int, writer: int, size: int) -> bool:
        """copy_file_range(2) up to ``size``; False, with nothing written, when it does not work here."""
        done = 0
        while done < size:
            try:
                count = os.copy_file_range(reader, writer, size - done)
            except OSError as error:
                if done or error.errno not in _CANNOT:
                    raise
                self._can_range = False
                return False
            if count == 0:  # the file shrank; or, at the very beginning, a file system that only pretends
                return done > 0
            done += count
        return True


def _copy_sparse(reader: int, writer: int, size: int) -> bool:
    """Copy the data between holes (lseek(2), SEEK_DATA); False, with nothing written, where holes are unknown."""
    at = 0
    os.ftruncate(writer, size)
    while at < size:
        try:
            begin = os.lseek(reader, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                break
            os.lseek(reader, 0, os.SEEK_SET)
            return False
        end = os.lseek(reader, begin, os.SEEK_HOLE)
        os.lseek(reader, begin, os.SEEK_SET)
        os.lseek(writer, begin, os.SEEK_SET)
        _copy_bytes(reader, writer, end - begin)
        at = end
    return True


def _copy_bytes(reader: int, writer: int, limit: int | None = None) -> None:
    left = limit
    while left is None or left > 0:
        block = os.read(reader, _BLOCK if left is None else min(_BLOCK, left))
        if not block:
            return
        write_all(writer, block)
        if left is not None:
            left -= len(block)


def _ficlone() -> Callable[[int, int], object] | None:
    """Share the blocks of the second descriptor with the first; None where there is no such call."""
    import sys

    if not sys.platform.startswith("linux"):
        return None
    import fcntl

    return lambda writer, reader: fcntl.ioctl(writer, _FICLONE, reader)


def _umask() -> int:
    from berth.tools.procfs import read

    data = read("/proc/self/status")
    at = data.find(b"\nUmask:")
    if at >= 0:
        return int(data[at + 7 :].split(None, 1)[0], 8)
    mask = os.umask(0o077)  # nowhere else to ask; berth has one thread that makes files
    os.umask(mask)
    return mask
