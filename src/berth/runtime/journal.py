"""The log of one process, read below the workspace without following links, as it is and as it grows (8.7)."""

from __future__ import annotations

import os

from berth.tools import logs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def lines(path: str, location: str, *, tail: int | None) -> Iterator[str]:
    """The log ``location`` below the workspace at ``path``; only its last ``tail`` lines, when given."""
    descriptor = _open(path, location)
    if descriptor is None:
        return
    try:
        if tail is None:
            yield from logs.lines(descriptor)
        else:
            offset = logs.tail_offset(descriptor, tail)
            yield from logs.follow(descriptor, offset=offset, has_ended=lambda: True)
    finally:
        os.close(descriptor)


def follow(path: str, location: str, *, tail: int | None, has_ended: Callable[[], bool]) -> Iterator[str]:
    """The same, then what is written, until ``has_ended()`` and nothing more comes."""
    descriptor = _open(path, location)
    if descriptor is None:
        return
    try:
        offset = logs.first_data(descriptor) if tail is None else logs.tail_offset(descriptor, tail)
        yield from logs.follow(descriptor, offset=offset, has_ended=has_ended)
    finally:
        os.close(descriptor)


def _open(path: str, location: str) -> int | None:
    try:
        return logs.open_below(path, location)
    except FileNotFoundError:
        return None
