"""The few system calls that Python 3.9 lacks: subreaper, inotify, punching holes.

Through ``_ctypes``, the C half of ctypes, because the other half costs a third of an interpreter start. Where it is
missing (a minimal image) ``available`` is False and every function says no.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    available: bool

    def _function(name: str) -> Callable[..., int] | None: ...
    def _wide(value: int) -> object: ...
else:
    try:
        import _ctypes

        class _Int(_ctypes._SimpleCData):
            _type_ = "i"

        class _wide(_ctypes._SimpleCData):  # noqa: N801  # a number of 64 bits, called like a function
            _type_ = "q"

        class _Call(_ctypes.CFuncPtr):
            _flags_ = _ctypes.FUNCFLAG_CDECL
            _restype_ = _Int

        _handle = _ctypes.dlopen(None, 0)
        available = True
    except (ImportError, OSError, AttributeError):
        available = False

    def _function(name):
        """The C library's function ``name`` with whole numbers as arguments, None where it has none."""
        try:
            return _Call(_ctypes.dlsym(_handle, name)) if available else None
        except OSError:
            return None


PR_SET_CHILD_SUBREAPER = 36
IN_MODIFY = 0x2
IN_ONESHOT = 0x80000000
IN_CLOEXEC = 0o2000000
IN_NONBLOCK = 0o4000
FALLOC_FL_KEEP_SIZE = 1
FALLOC_FL_PUNCH_HOLE = 2

_prctl = _function("prctl")
_inotify_init1 = _function("inotify_init1")
_inotify_add_watch = _function("inotify_add_watch")
_inotify_rm_watch = _function("inotify_rm_watch")
_fallocate = _function("fallocate64") or _function("fallocate")


def become_subreaper() -> bool:
    """Orphans below this process become its children (prctl(2)); False where that cannot be had."""
    return _prctl is not None and _prctl(PR_SET_CHILD_SUBREAPER, _wide(1), _wide(0), _wide(0), _wide(0)) == 0


def inotify_init() -> int:
    """A non-blocking inotify descriptor, or -1."""
    return _inotify_init1(IN_CLOEXEC | IN_NONBLOCK) if _inotify_init1 is not None else -1


def inotify_add_watch(fd: int, path: str, mask: int) -> int:
    """The watch's number, or -1."""
    return _inotify_add_watch(fd, os.fsencode(path), _wide(mask)) if _inotify_add_watch is not None else -1


def inotify_rm_watch(fd: int, watch: int) -> None:
    if _inotify_rm_watch is not None:
        _inotify_rm_watch(fd, watch)


def punch_hole(fd: int, offset: int, length: int) -> bool:
    """Give back the blocks of a range in place (fallocate(2)); False where the file system cannot."""
    if _fallocate is None:
        return False
    return _fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, _wide(offset), _wide(length)) == 0
