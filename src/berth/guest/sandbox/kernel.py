"""System calls that Python has no name for: one door, each failure an OSError with its errno."""

from __future__ import annotations

import ctypes
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple, Union

    Argument = Union[int, bytes, ctypes.Array[ctypes.c_char], None]

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def syscall(number: int, *arguments: Argument) -> Tuple[int, int]:
    """(result, errno) of a system call; ints travel as unsigned longs, bytes as pointers to them, None as NULL."""
    return _invoke(_libc.syscall, number, *arguments)


def check(number: int, *arguments: Argument) -> int:
    """The result of a system call; OSError with its errno when it failed."""
    return _result(*syscall(number, *arguments))


def prctl(option: int, *arguments: Argument) -> int:
    """prctl(2); the arguments left out are zero, which most options insist on. OSError when it failed."""
    return _result(*_invoke(_libc.prctl, option, *(*arguments, 0, 0, 0, 0)[:4]))


def capabilities() -> Tuple[int, int, int]:
    """(effective, permitted, inheritable) of the calling thread as masks, by capget(2)."""
    sets = ctypes.create_string_buffer(24)
    _result(*_invoke(_libc.capget, _CAPABILITY_HEADER, sets))
    words = struct.unpack("=6I", sets.raw)
    return words[0] | words[3] << 32, words[1] | words[4] << 32, words[2] | words[5] << 32


def set_capabilities(effective: int, permitted: int, inheritable: int) -> None:
    """capset(2) on the calling thread; OSError when it failed."""
    masks = (effective, permitted, inheritable)
    sets = struct.pack("=6I", *(m & 0xFFFFFFFF for m in masks), *(m >> 32 for m in masks))
    _result(*_invoke(_libc.capset, _CAPABILITY_HEADER, sets))


_CAPABILITY_HEADER = struct.pack("=Ii", 0x20080522, 0)  # version 3, this thread


def _invoke(function: Any, *arguments: Argument) -> Tuple[int, int]:
    ctypes.set_errno(0)
    result = function(*(ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments))
    return int(result), ctypes.get_errno()


def _result(result: int, errno: int) -> int:
    if result < 0:
        raise OSError(errno, os.strerror(errno))
    return result
