"""An interpreter for the classic BPF that seccomp accepts, written from the kernel's documentation alone
(Documentation/networking/filter.rst, userspace-api/seccomp_filter.rst). Knows nothing of the filter it runs."""

from __future__ import annotations

import struct
from collections.abc import Sequence

Instruction = tuple[int, int, int, int]
LIMIT = 4096


class Malformed(Exception):
    """The kernel would refuse this program."""


def verify(program: Sequence[Instruction]) -> None:
    """Raise Malformed for what seccomp_check_filter and bpf_check_classic refuse."""
    if not 0 < len(program) <= LIMIT:
        raise Malformed("length")
    for index, (code, jt, jf, k) in enumerate(program):
        if code == 0x20 and (k % 4 or k >= 64):
            raise Malformed(f"load outside the data at {index}")
        if code & 7 == 5:
            targets = [k] if code == 0x05 else [jt, jf]
            if any(index + 1 + target >= len(program) for target in targets):
                raise Malformed(f"jump out of the program at {index}")
    if program[-1][0] & 7 != 6:
        raise Malformed("does not end in a return")


def run(program: Sequence[Instruction], *, arch: int, number: int, arguments: Sequence[int] = ()) -> int:
    """The answer of ``program`` for one system call; arguments are 64 bit, missing ones are 0."""
    values = [*arguments, *([0] * (6 - len(arguments)))]
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, arch, 0, *(value & (2**64 - 1) for value in values))
    accumulator = 0
    position = 0
    while True:
        code, jt, jf, k = program[position]
        position += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, k)
        elif code == 0x54:
            accumulator &= k
        elif code == 0x06:
            return k
        elif code == 0x05:
            position += k
        elif code in _TESTS:
            position += jt if _TESTS[code](accumulator, k) else jf
        else:
            raise Malformed(f"instruction {code:#x}")


_TESTS = {
    0x15: lambda a, k: a == k,
    0x25: lambda a, k: a > k,
    0x35: lambda a, k: a >= k,
    0x45: lambda a, k: bool(a & k),
}


def decode(data: bytes) -> list[Instruction]:
    """The instructions of an exported filter."""
    return [struct.unpack_from("<HBBI", data, offset) for offset in range(0, len(data), 8)]
