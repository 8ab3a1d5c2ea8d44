"""The few system calls that Python 3.9 lacks, through ctypes: subreaper, inotify, punching holes.

Where ctypes is missing (a minimal image) ``available`` is False and every function says no.
"""

from __future__ import annotations

import os

try:
    import ctypes

    _libc = ctypes.CDLL(None, use_errno=True)
    available = True
except (ImportError, OSError):  # no ctypes in the image
    available = False

PR_SET_CHILD_SUBREAPER = 36
IN_MODIFY = 0x2
IN_ONESHOT = 0x80000000
IN_CLOEXEC = 0o2000000
IN_NONBLOCK = 0o4000
FALLOC_FL_KEEP_SIZE = 1
FALLOC_FL_PUNCH_HOLE = 2


def become_subreaper() -> bool:
    """Orphans below this process become its children (prctl(2)); False where that cannot be had."""
    if not available or not hasattr(_libc, "prctl"):
        return False
    return bool(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def inotify_init() -> int:
    """A non-blocking inotify descriptor, or -1."""
    if not available or not hasattr(_libc, "inotify_init1"):
        return -1
    return int(_libc.inotify_init1(IN_CLOEXEC | IN_NONBLOCK))


def inotify_add_watch(fd: int, path: str, mask: int) -> int:
    """The watch's number, or -1."""
    return int(_libc.inotify_add_watch(fd, os.fsencode(path), ctypes.c_uint32(mask)))


def inotify_rm_watch(fd: int, watch: int) -> None:
    _libc.inotify_rm_watch(fd, watch)


def punch_hole(fd: int, offset: int, length: int) -> bool:
    """Give back the blocks of a range in place (fallocate(2)); False where the file system cannot."""
    if not available or not hasattr(_libc, "fallocate"):
        return False
    call = getattr(_libc, "fallocate64", _libc.fallocate)
    mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
    return bool(call(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(length)) == 0)
