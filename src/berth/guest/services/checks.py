"""A command with a time limit: a check of a probe, or a shutdown command. It never blocks the loop.

It calls ``done(passed, complaint)`` exactly once, unless it is cancelled first.
"""

from __future__ import annotations

import os

from ..core.children import exit_code, signal_group
from ..core.loop import READ, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..core.children import Children
    from ..core.loop import Loop

KEPT_OUTPUT = 4096


class Command:
    """``sh -c`` in its own session with a time limit; what is left of its group when it ends is killed.

    ``pids`` holds its pid while it is unreaped.
    """

    def __init__(
        self,
        command: str,
        *,
        env: Mapping[str, str],
        cwd: str | None,
        tag: int | None,
        timeout: float,
        done: Callable[[bool, str], None],
        loop: Loop,
        children: Children,
        pids: set[int],
    ) -> None:
        self.pid = 0
        self._pids = pids
        self._done: Callable[[bool, str], None] | None = done
        self._loop = loop
        self._timeout = timeout
        self._output = b""
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        try:
            self.pid = children.spawn(
                ("/bin/sh", "-c", command),
                env=env,
                cwd=cwd,
                stdout=writer,
                stderr=writer,
                tag=tag,
                on_exec=self._executed,
                on_exit=self._ended,
                sweep_group=True,
            )
        except OSError:
            os.close(self._reader)
            raise
        finally:
            os.close(writer)
        pids.add(self.pid)
        loop.watch(self._reader, READ, self._readable)
        self._timer = loop.call_later(timeout, self._expired)

    @property
    def is_over(self) -> bool:
        return self._done is None

    def cancel(self) -> None:
        """End it without an answer."""
        if self._done is not None:
            self._done = None
            signal_group(self.pid, signal.SIGKILL)
            self._close()

    def _readable(self, events: int) -> None:
        try:
            block = os.read(self._reader, 65536)
        except BlockingIOError:
            return
        self._output = (self._output + block)[-KEPT_OUTPUT:]
        if not block:
            self._loop.unwatch(self._reader)

    def _executed(self, number: int) -> None:
        if number:
            self._finish(False, f"could not be run: {os.strerror(number)}")

    def _expired(self) -> None:
        signal_group(self.pid, signal.SIGKILL)
        self._finish(False, f"no answer within {self._timeout:g} s")

    def _ended(self, status: int) -> None:
        self._pids.discard(self.pid)
        if self._done is not None:
            self._readable(0)
            code = exit_code(status)
            self._finish(code == 0, "" if code == 0 else f"exit code {code}")

    def _finish(self, passed: bool, complaint: str) -> None:
        done, self._done = self._done, None
        self._close()
        said = self._output.decode("utf-8", "replace").strip()
        if done is not None:
            done(passed, f"{complaint}: {said}" if complaint and said else complaint)

    def _close(self) -> None:
        self._timer.cancel()
        if self._reader >= 0:
            self._loop.unwatch(self._reader)
            os.close(self._reader)
            self._reader = -1
