"""Tell that berth is alive during long steps: a spinner on a terminal, a line every 10 s elsewhere.

Driven by SIGALRM, so there is no thread beside the forks of ``tools.proc``, and nothing runs when nothing is shown.
"""

from __future__ import annotations

import os
import signal
import time

from berth.cli.output import STDERR, encode, is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from berth.cli.output import Output

SPINNER_AFTER_SECONDS = 0.4
SPINNER_EVERY_SECONDS = 0.1
LINE_EVERY_SECONDS = 10.0
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Progress:
    """Shows the current step. ``with Progress(out): progress.step("creating the checkout")``."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._terminal = is_terminal(STDERR)
        self._step = ""
        self._since = 0.0
        self._shown = False

    def __enter__(self) -> Progress:
        if not self._out.quiet:
            signal.signal(signal.SIGALRM, self._tick)
            self._out.progress = self
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if not self._out.quiet:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self.clear()
        self._out.progress = None

    def step(self, name: str) -> None:
        """A new step begins; the clock starts again."""
        self.clear()
        self._step = name
        self._since = time.monotonic()
        if not self._out.quiet:
            first, pause = (
                (SPINNER_AFTER_SECONDS, SPINNER_EVERY_SECONDS)
                if self._terminal
                else (LINE_EVERY_SECONDS, LINE_EVERY_SECONDS)
            )
            signal.setitimer(signal.ITIMER_REAL, first, pause)

    def clear(self) -> None:
        """Take the spinner off the terminal, so that another line can be written."""
        if self._shown:
            self._shown = False
            _to_terminal("\r\x1b[K")

    def _tick(self, _number: int, _frame: FrameType | None) -> None:
        passed = time.monotonic() - self._since
        if not self._terminal:
            self._out.story(f"berth: still {self._step} ({passed:.0f} s)")
            return
        frame = _FRAMES[int(passed / SPINNER_EVERY_SECONDS) % len(_FRAMES)]
        self._shown = True
        _to_terminal(f"\r\x1b[K{frame} {self._step} ({passed:.1f} s)")


def _to_terminal(text: str) -> None:
    try:
        os.write(STDERR, encode(text))
    except OSError:
        return  # the terminal is gone; the action goes on
