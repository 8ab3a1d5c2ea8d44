"""The guest's own log: one line an event, appended, never a reason to stop.

A full disk loses lines and says so once there is room again.
"""

from __future__ import annotations

import os
import sys
import time

LARGEST = 8 << 20  # bytes; then the file starts anew


class Log:
    """Lines of time and text in one file; ``path`` None means standard error."""

    def __init__(self, path: str | None) -> None:
        self._fd = 2
        self._lost = 0
        self._once: set[str] = set()
        self._size = 0
        if path is not None:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._size = os.fstat(self._fd).st_size

    def __call__(self, text: str) -> None:
        """Write one line; line breaks in ``text`` are kept readable on one line."""
        if self._lost:
            lost, self._lost = self._lost, 0
            self(f"{lost} lines of this log were lost: there was no room for them")
            if self._lost:
                self._lost += lost
                return
        moment = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment * 1000) % 1000:03}Z"
        line = f"{stamp} {text}".replace("\n", "\\n").encode("utf-8", "backslashreplace") + b"\n"
        try:
            if self._fd != 2 and self._size + len(line) > LARGEST:
                os.ftruncate(self._fd, 0)
                self._size = 0
            self._size += os.write(self._fd, line)
        except OSError:
            self._lost += 1

    def once(self, text: str) -> None:
        """Write ``text`` unless it was written before."""
        if text not in self._once:
            self._once.add(text)
            self(text)

    def again(self, text: str) -> None:
        """Let ``once`` write ``text`` again: what it said is over."""
        self._once.discard(text)

    def exception(self) -> None:
        """Write the exception that is being handled, with its traceback."""
        kind, value, trace = sys.exc_info()
        places = []
        while trace is not None:
            code = trace.tb_frame.f_code
            places.append(f"{os.path.basename(code.co_filename)}:{trace.tb_lineno} {code.co_name}")
            trace = trace.tb_next
        self(f"internal error: {kind.__name__ if kind else '?'}: {value} ({' > '.join(places)})")
