"""The log of one process of a workspace: found by its definition, read below ``.berth`` without following links."""

from __future__ import annotations

import os

from berth.guest.core import wire
from berth.tools import logs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Definition = Mapping[str, Mapping[str, object]]


def lines(path: str, process: str, definition: Definition, *, tail: int | None) -> Iterator[str]:
    """What ``process`` of the workspace at ``path`` wrote since it was last started; the last ``tail`` lines of it.

    ``definition`` holds the processes that were last started.
    """
    descriptor = _open(path, process, definition)
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


def follow(
    path: str, process: str, definition: Definition, *, tail: int | None, has_ended: Callable[[], bool]
) -> Iterator[str]:
    """The same, then what it writes, until the supervisor ``has_ended()``."""
    descriptor = _open(path, process, definition)
    if descriptor is None:
        return
    try:
        offset = logs.first_data(descriptor) if tail is None else logs.tail_offset(descriptor, tail)
        yield from logs.follow(descriptor, offset=offset, has_ended=has_ended)
    finally:
        os.close(descriptor)


def _open(path: str, process: str, definition: Definition) -> int | None:
    try:
        return logs.open_below(path, _location(process, definition))
    except FileNotFoundError:
        return None


def _location(process: str, definition: Definition) -> str:
    """Where the log of ``process`` lies below the workspace; of a replica beside those of its siblings."""
    body = definition.get(process) or definition.get(process.rpartition("-")[0]) or {}
    location = body.get("log_location")
    return location if isinstance(location, str) and location else f"{wire.LOGS_DIRECTORY}/{process}.log"
