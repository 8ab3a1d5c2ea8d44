"""Log files as they grow: searching them for the ready line, and giving back their oldest blocks.

Both sleep on inotify. Trimming punches holes at the front, in place: writers never notice, no line is torn or lost.
"""

from __future__ import annotations

import os
import sys

from ..core import libc
from ..core.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from ..core.log import Log
    from ..core.loop import Loop, Timer

LARGEST = 64 << 20  # bytes on disk
KEPT = 32 << 20
REARM_SECONDS = 1.0
POLL_SECONDS = 0.05  # where there is no inotify, and only until the line is found
BLOCK = 1 << 16  # holes begin and end at multiples of this: any file system's block
LINE_LIMIT = 1 << 16  # of an unfinished line, so much is kept for the search
READ_SIZE = 1 << 18


class Growth:
    """One inotify descriptor: calls back when a watched file is written to."""

    def __init__(self, loop: Loop) -> None:
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._fd = libc.inotify_init()
        if self._fd >= 0:
            loop.watch(self._fd, READ, self._readable)

    def watch(self, path: str, callback: Callable[[], None], *, once: bool) -> int:
        """Call back at each write (``once``: at the next one). The watch's number, -1 where it cannot be had."""
        if self._fd < 0:
            return -1
        watch = libc.inotify_add_watch(self._fd, path, libc.IN_MODIFY | (libc.IN_ONESHOT if once else 0))
        if watch >= 0:
            self._callbacks[watch] = callback
        return watch

    def unwatch(self, watch: int) -> None:
        if self._callbacks.pop(watch, None) is not None:
            libc.inotify_rm_watch(self._fd, watch)

    def _readable(self, events: int) -> None:
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return
        at, written = 0, []
        while at + 16 <= len(data):
            watch, mask, _, length = (int.from_bytes(data[i : i + 4], sys.byteorder) for i in range(at, at + 16, 4))
            at += 16 + length
            if mask & libc.IN_MODIFY and watch not in written:
                written.append(watch)
        for watch in written:
            callback = self._callbacks.get(watch)
            if callback is not None:
                callback()


class Trimmer:
    """Keeps every watched log within its share of the disk (supervisor.md 7)."""

    def __init__(self, loop: Loop, growth: Growth, log: Log) -> None:
        self._loop = loop
        self._growth = growth
        self._log = log
        self._armed: set[str] = set()

    def follow(self, path: str) -> None:
        """From now on trim ``path`` when it has grown; it must exist."""
        if path not in self._armed:
            self._armed.add(path)
            self._arm(path)

    def _arm(self, path: str) -> None:
        if self._growth.watch(path, lambda: self._grown(path), once=True) < 0:
            self._armed.discard(path)

    def _grown(self, path: str) -> None:
        self._trim(path)
        self._loop.call_later(REARM_SECONDS, lambda: self._again(path))

    def _again(self, path: str) -> None:
        self._arm(path)  # first, so that nothing is written unseen between the two
        self._trim(path)

    def _trim(self, path: str) -> None:
        try:
            if not trim(path):
                self._log.once(f"{path}: this file system cannot punch holes, the log will grow")
        except OSError as error:
            self._log.once(f"{path}: cannot be trimmed: {os.strerror(error.errno or 0)}")


def trim(path: str) -> bool:
    """Punch out the oldest blocks once the file uses more than LARGEST; False where the file system cannot."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if status.st_blocks * 512 <= LARGEST:
            return True
        end = (status.st_size - KEPT) // BLOCK * BLOCK
        return end <= 0 or libc.punch_hole(fd, 0, end)
    finally:
        os.close(fd)


class LineSearch:
    """Reads a log from ``offset`` on until ``pattern`` is found in a line, then calls ``found()`` once."""

    def __init__(
        self,
        path: str,
        offset: int,
        pattern: re.Pattern[bytes],
        found: Callable[[], None],
        *,
        loop: Loop,
        growth: Growth,
    ) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._offset = offset
        self._pattern = pattern
        self._found = found
        self._loop = loop
        self._growth = growth
        self._line = b""
        self._timer: Timer | None = None
        self._watch = growth.watch(path, self.look, once=False)
        loop.call_soon(self.look)  # what was written before the watch was there

    def look(self) -> None:
        """Search what was written since, some of it now and the rest in the loop's next turns."""
        if self._fd < 0:
            return
        block = os.pread(self._fd, READ_SIZE, self._offset)
        self._offset += len(block)
        if self._search(block):
            self.close()
            self._found()
        elif len(block) == READ_SIZE:
            self._loop.call_soon(self.look)
        else:
            self._wait()

    def finish(self) -> None:
        """Search all that is there, now: nothing more will be written."""
        while self._fd >= 0:
            before = self._offset
            self.look()
            if self._offset == before:
                self.close()

    def close(self) -> None:
        if self._fd >= 0:
            self._growth.unwatch(self._watch)
            if self._timer is not None:
                self._timer.cancel()
            os.close(self._fd)
            self._fd = -1

    def _wait(self) -> None:
        if self._watch < 0 and self._fd >= 0:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(POLL_SECONDS, self.look)

    def _search(self, block: bytes) -> bool:
        """Whether a line matches, an unfinished last one (a prompt) included."""
        if not block:
            return False
        text = self._line + block
        end = text.rfind(b"\n") + 1
        self._line = text[end:][-LINE_LIMIT:]
        return any(self._pattern.search(line) for line in text.split(b"\n"))
