"""One connection to an app's RPC socket: lines in, lines out, and the limits of both (sandboxes.md 7.3).

Lives on the loop's thread; ``answer`` alone may be called from any thread. Knows bytes, not requests.
"""

from __future__ import annotations

import threading

from berth.guest.core.loop import HANGUP, READ, WRITE
from berth.guest.sandbox.protocol import MAX_LINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Optional

    from berth.guest.core.loop import Loop, Timer

BLOCK = 256 * 1024
LINE_SECONDS = 30.0
MAX_OUTPUT = 16 * 1024 * 1024
MAX_IN_FLIGHT = 64


class Connection:
    """``caller`` is who the kernel says it is. ``on_line`` gets each line; ``on_long`` is told of one over 8 MiB."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        *,
        caller: str,
        wake: Callable[[Callable[[], None]], None],
        on_line: Callable[[Connection, bytes], None],
        on_long: Callable[[Connection], None],
        on_close: Callable[[Connection], None],
    ) -> None:
        sock.setblocking(False)
        self.caller = caller
        self.in_flight = 0
        self.is_closed = False
        self._loop = loop
        self._sock = sock
        self._fd = sock.fileno()
        self._wake = wake
        self._on_line = on_line
        self._on_long = on_long
        self._on_close = on_close
        self._buffer = bytearray()
        self._searched = 0
        self._deadline: Optional[Timer] = None
        self._output = bytearray()
        self._lock = threading.Lock()
        self._at_end = False
        self._closing = False
        loop.watch(self._fd, READ, self._event)

    # -- input --------------------------------------------------------------------------------------------------

    def _event(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if not self.is_closed and events & (READ | HANGUP):
            self._read()

    def _read(self) -> None:
        try:
            block = self._sock.recv(BLOCK)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not block:
            self._at_end = True
            self._buffer.clear()
            self.finished()
            return
        if self._closing:
            return  # an oversized line goes on: read and forgotten until the answer was taken
        if not self._buffer and block[-1] == 10 and block.count(b"\n") == 1 and len(block) <= MAX_LINE:
            self._on_line(self, block[:-1])  # the usual case: one whole line
            return
        self._buffer += block
        self._split()

    def _split(self) -> None:
        while not self._closing and not self.is_closed:
            end = self._buffer.find(b"\n", self._searched)
            if end < 0:
                self._searched = len(self._buffer)
                break
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            self._stop_clock()
            if len(line) >= MAX_LINE:
                self._too_long()
                return
            self._on_line(self, line)
        if len(self._buffer) > MAX_LINE:
            self._too_long()
        elif self._buffer and self._deadline is None:
            self._deadline = self._loop.call_later(LINE_SECONDS, self.close)

    def _too_long(self) -> None:
        self._buffer = bytearray()
        self._stop_clock()
        self._closing = True
        self._on_long(self)
        self._loop.call_later(1.0, self.close)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # -- output -------------------------------------------------------------------------------------------------

    def answer(self, line: bytes) -> None:
        """Send a line from any thread: at once as far as the socket takes it, the rest from the loop."""
        with self._lock:
            if self.is_closed:
                return
            rest = memoryview(line)
            if not self._output:
                try:
                    rest = rest[self._sock.send(rest) :]
                except BlockingIOError:
                    pass  # a slow reader: queued below
                except OSError:
                    self._wake(self.close)
                    return
                if not rest:
                    return
            self._output += rest
            is_over = len(self._output) > MAX_OUTPUT
        self._wake(self.close if is_over else self._flush)

    def _flush(self) -> None:
        with self._lock:
            if self.is_closed:
                return
            try:
                while self._output:
                    del self._output[: self._sock.send(self._output[:BLOCK])]
            except BlockingIOError:
                pass  # the loop calls again when there is room
            except OSError:
                self._wake(self.close)
                return
            waiting = bool(self._output)
        if not self._at_end:
            self._loop.watch(self._fd, READ | (WRITE if waiting else 0), self._event)
        self.finished()

    def begin(self) -> bool:
        """Count a request in; False when 64 are in flight already."""
        with self._lock:
            if self.in_flight >= MAX_IN_FLIGHT:
                return False
            self.in_flight += 1
            return True

    def done(self, line: bytes) -> None:
        """Send the answer of a request that ``begin`` counted; from any thread."""
        self.answer(line)
        with self._lock:
            self.in_flight -= 1
            is_last = self._at_end and self.in_flight == 0
        if is_last:
            self._wake(self.finished)

    def finished(self) -> None:
        """Close once the other side has ended and every answer is out; called on the loop's thread."""
        if self._at_end and not self.is_closed:
            if self._output:
                self._loop.watch(self._fd, WRITE, self._event)
            elif self.in_flight == 0:
                self.close()
            else:
                self._loop.unwatch(self._fd)  # a hang-up would be reported again and again

    def close(self) -> None:
        """End the connection; answers still on their way are lost."""
        with self._lock:
            if self.is_closed:
                return
            self.is_closed = True
            self._output.clear()
        self._stop_clock()
        self._loop.unwatch(self._fd)
        self._sock.close()
        self._on_close(self)
