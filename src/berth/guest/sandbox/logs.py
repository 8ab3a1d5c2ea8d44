"""The container's log: one stream of whole lines, of berth's own in column 0, of an app's behind ``[<app>] ``.

An app writes into a pipe and nowhere else, so a line that it prints is never mistaken for one of berth's
(sandboxes.md 13). Nothing here waits for a reader: what does not fit the app's queue is dropped and counted.
"""

from __future__ import annotations

import json
import os
import re
import select
import time
from collections import deque

from berth.guest.core.loop import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Deque, Dict, Tuple

    from berth.guest.core.loop import Loop

LINE_CAP = 16 * 1024
QUEUE_BYTES = 1024 * 1024
CHUNK = 4096  # PIPE_BUF: a pipe that polls writable takes that much without blocking
BLOCK = 65536
OWN = ""  # the queue of berth's own lines
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]")


def escape(text: str) -> str:
    """``text`` on one line and harmless to a terminal: control characters and undecodable bytes as ``\\x1b``."""
    return _CONTROL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    number = ord(match.group())
    return "\\x%02x" % (number - 0xDC00 if 0xDC80 <= number <= 0xDCFF else number)


def event_line(source: str, name: str, *, boot_id: str, **fields: Any) -> str:
    """One JSON event on one line (sandboxes.md 13); ``app`` and the rest come from ``fields``."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + ".%03dZ" % (int(now * 1000) % 1000)
    return json.dumps({"source": source, "event": name, "time": stamp, "bootId": boot_id, **fields})


class Output:
    """The container's standard output. Lines of each owner queue up to 1 MiB, then are dropped and counted."""

    def __init__(self, loop: Loop, descriptor: int = 1) -> None:
        self._loop = loop
        self._fd = descriptor
        self._queue: Deque[Tuple[str, bytes]] = deque()
        self._held: Dict[str, int] = {}
        self._dropped: Dict[str, int] = {}
        self._watching = False
        self._gone = False

    def line(self, text: str, owner: str = OWN) -> None:
        """Write a line: berth's own in column 0, an app's behind its name. ``text`` has no line feed."""
        data = (f"[{owner}] {text}\n" if owner else text + "\n").encode("utf-8", "backslashreplace")
        held = self._held.get(owner, 0)
        if self._gone or held + len(data) > QUEUE_BYTES:
            self._dropped[owner] = self._dropped.get(owner, 0) + 1
            return
        self._held[owner] = held + len(data)
        self._queue.append((owner, data))
        self._flush()

    def entrypoint(self, text: str) -> None:
        """A line of the supervisor."""
        self.line("[berth:entrypoint] " + escape(text))

    def drain(self, seconds: float) -> None:
        """Write what is queued, waiting for a slow reader at most ``seconds``: the last thing before the end."""
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        while self._queue and not self._gone:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                return
            self._flush()

    def _flush(self, _events: int = 0) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        while self._queue and not self._gone and poll.poll(0):
            owner, data = self._queue[0]
            try:
                written = os.write(self._fd, data[:CHUNK])
            except OSError:
                self._gone = True  # nobody will ever read it
                break
            self._held[owner] -= written
            if written < len(data):
                self._queue[0] = (owner, data[written:])
            else:
                self._queue.popleft()
        if self._gone:
            self._queue.clear()
        self._watch(bool(self._queue))
        if not self._queue and self._dropped:
            self._tell_dropped()

    def _watch(self, wanted: bool) -> None:
        if wanted == self._watching:
            return
        self._watching = wanted
        if wanted:
            self._loop.watch(self._fd, WRITE, self._flush)
        else:
            self._loop.unwatch(self._fd)

    def _tell_dropped(self) -> None:
        dropped, self._dropped = self._dropped, {}
        for owner, count in dropped.items():
            self.entrypoint(f'dropped {count} lines of "{owner or "berth"}"')


class LinePump:
    """Reads a pipe and hands over whole lines, cut at 16 KiB; ``ended`` is called once at its end."""

    def __init__(self, loop: Loop, descriptor: int, line: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._loop = loop
        self._fd = descriptor
        self._line = line
        self._ended = ended
        self._rest = b""
        os.set_blocking(descriptor, False)
        loop.watch(descriptor, READ, self._read)

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def _read(self, _events: int) -> None:
        try:
            block = os.read(self._fd, BLOCK)
        except BlockingIOError:
            return
        if block:
            self._feed(block)
        else:
            self.close()

    def _feed(self, block: bytes) -> None:
        lines = (self._rest + block).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            for start in range(0, len(line) or 1, LINE_CAP):
                self._line(line[start : start + LINE_CAP])
        while len(self._rest) >= LINE_CAP:
            self._line(self._rest[:LINE_CAP])
            self._rest = self._rest[LINE_CAP:]

    def finish(self) -> None:
        """Read what is there now, without waiting for the end: a grandchild may hold the pipe for ever."""
        for _block in range(64):
            if self._fd < 0:
                return
            if not select.select([self._fd], [], [], 0)[0]:
                break
            self._read(0)
        self.close()

    def close(self) -> None:
        """Stop reading; an unfinished line is handed over."""
        if self._fd < 0:
            return
        self._loop.unwatch(self._fd)
        os.close(self._fd)
        self._fd = -1
        if self._rest:
            self._line(self._rest)
        self._ended()
