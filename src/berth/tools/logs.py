"""Reading a process's log as keepers write it (supervisor.md 7): by lines, from the first data on, and as it grows.

A log may begin with a hole, where its oldest blocks were given back; reading starts at the first line after it. Bytes
that are not UTF-8 become U+FFFD. Nothing is written, and no link below the given root is followed.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHUNK = 1 << 18
FOLLOW_SECONDS = 0.05
GONE_QUIET_LOOKS = 2  # after the end of the supervisor keepers may still write what they have read


def open_below(root: str, relative: str) -> int:
    """A descriptor for reading the file ``relative`` below ``root``, no link below ``root`` followed.

    Raises FileNotFoundError, BerthError io_error for a link, a directory or what cannot be read.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC
    directory = os.open(root, flags | os.O_DIRECTORY)
    try:
        *parents, name = [part for part in relative.split("/") if part not in ("", ".")]
        for parent in parents:
            inner = os.open(parent, flags | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = inner
        # O_NONBLOCK: a pipe planted in its place must not hang the reader.
        fd = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = "is a link" if error.errno == errno.ELOOP else error.strerror
        raise BerthError(f"{os.path.join(root, relative)}: {reason}", code="io_error") from None
    finally:
        os.close(directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise BerthError(f"{os.path.join(root, relative)}: not a regular file", code="io_error")
    return fd


def first_data(fd: int) -> int:
    """Where a log's first whole line begins: 0, or after the line that a hole cut."""
    try:
        start = os.lseek(fd, 0, os.SEEK_DATA)
    except (OSError, AttributeError):
        return 0
    if start == 0:
        return 0
    while block := os.pread(fd, CHUNK, start):
        at = block.find(b"\n")
        if at >= 0:
            return start + at + 1
        start += len(block)
    return start


def lines(fd: int) -> Iterator[str]:
    """The lines of a log from its first data to its present end, a last one without a line break included."""
    rest = bytearray()
    offset = first_data(fd)
    while block := os.pread(fd, CHUNK, offset):
        offset += len(block)
        rest += block
        end = rest.rfind(b"\n")
        if end >= 0:
            yield from (line.decode("utf-8", "replace") for line in bytes(rest[:end]).split(b"\n"))
            del rest[: end + 1]
    if rest:
        yield rest.decode("utf-8", "replace")


def tail_offset(fd: int, count: int) -> int:
    """Where the last ``count`` lines of a log begin."""
    least = first_data(fd)
    size = os.fstat(fd).st_size
    if count <= 0:
        return size
    if size > least and os.pread(fd, 1, size - 1) != b"\n":
        count -= 1  # an unfinished last line is one of them
    offset, found = size, -1
    while offset > least:
        length = min(CHUNK, offset - least)
        offset -= length
        block = os.pread(fd, length, offset)
        breaks = block.count(b"\n")
        if found + breaks < count:
            found += breaks
            continue
        at = len(block)
        while found < count:
            at = block.rindex(b"\n", 0, at)
            found += 1
        return offset + at + 1
    return least


def last(path: str, count: int) -> list[str]:
    """The last ``count`` lines of the log at ``path``; none when it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        size = os.fstat(fd).st_size
        start = tail_offset(fd, count)
        data = os.pread(fd, min(size - start, 1 << 20), start)
    finally:
        os.close(fd)
    text = data.decode("utf-8", "replace")
    return text.removesuffix("\n").split("\n") if text else []


def follow(fd: int, *, offset: int, has_ended: Callable[[], bool]) -> Iterator[str]:
    """Lines from ``offset`` on as they are written, until ``has_ended()`` and nothing more comes.

    A log that was truncated by a new start is read from its beginning again.
    """
    rest = bytearray()
    quiet = 0
    while quiet < GONE_QUIET_LOOKS:
        size = os.fstat(fd).st_size
        if size < offset:
            offset = 0
            rest.clear()
        ended = has_ended()
        block = os.pread(fd, CHUNK, offset)
        offset += len(block)
        rest += block
        end = rest.rfind(b"\n")
        if end >= 0:
            yield from (line.decode("utf-8", "replace") for line in bytes(rest[:end]).split(b"\n"))
            del rest[: end + 1]
        if block:
            quiet = 0
        else:
            quiet = quiet + 1 if ended else 0
            time.sleep(FOLLOW_SECONDS)
    if rest:
        yield rest.decode("utf-8", "replace")
