"""A real pseudo-terminal with a real interactive shell on it."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.processes import environment, eventually

PROMPT = "ready> "

# What `berth run` does with the terminal, and nothing else of it.
RUNNER = """import os, sys
from berth.errors import BerthError
from berth.tools import foreground
try:
    outcome = foreground.run(sys.argv[1:], env=os.environ, cwd=os.getcwd())
except BerthError as error:
    print(error.message, file=sys.stderr)
    sys.exit(error.exit_status)
sys.exit(outcome.exit_status)
"""


class Terminal:
    """The typist's side: ``type`` sends keys, ``expect`` awaits text on the screen."""

    def __init__(self, fd: int, pid: int) -> None:
        self.fd = fd
        self.pid = pid
        self.screen = ""
        self._seen = 0

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def expect(self, text: str, *, seconds: float = 10.0) -> str:
        """Await ``text`` after what was expected before, and return what stood before it."""
        deadline = time.monotonic() + seconds
        while (at := self.screen.find(text, self._seen)) < 0:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f"no {text!r} within {seconds} s in:\n{self.screen[self._seen :]}")
            try:
                block = os.read(self.fd, 4096)
            except OSError as error:
                raise AssertionError(f"the terminal closed before {text!r}:\n{self.screen}") from error
            self.screen += block.decode("utf-8", "replace").replace("\r\n", "\n")
        before = self.screen[self._seen : at]
        self._seen = at + len(text)
        return before

    def command(self, text: str) -> None:
        """Type a line at the prompt and see it echoed."""
        self.type(text + "\n")
        self.expect(text + "\n")

    def press(self, key: str) -> None:
        """Press a key that ends or stops the command, and await that the shell has its terminal.

        Its prompt cannot be awaited: the key also drops output that was not read yet (termios(3), NOFLSH).
        """
        self.type(key)
        eventually(lambda: self.foreground == self.pid)

    @property
    def foreground(self) -> int:
        return os.tcgetpgrp(self.fd)


@contextmanager
def shell(directory: Path, program: str = "bash") -> Iterator[Terminal]:
    """An interactive shell with job control; ``$RUN`` runs a command as ``berth run`` does."""
    script = directory / "runner.py"
    script.write_text(RUNNER)
    env = environment({"PS1": PROMPT, "TERM": "dumb", "RUN": f"{sys.executable} -S {script}", "HOME": str(directory)})
    argv = [program, "--norc", "--noprofile", "--noediting", "-i"] if program == "bash" else [program, "-i"]
    pid, fd = pty.fork()
    if pid == 0:
        for number in (signal.SIGINT, signal.SIGQUIT):  # ignored where the test run itself is a background job
            signal.signal(number, signal.SIG_DFL)
        os.chdir(directory)
        os.execvpe(argv[0], argv, env)
    terminal = Terminal(fd, pid)
    try:
        terminal.expect(PROMPT)
        yield terminal
    finally:
        for group in {pid, _foreground(fd)} - {-1, 0}:  # 0 would be our own
            try:
                os.killpg(group, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        os.close(fd)
        os.waitpid(pid, 0)


def _foreground(fd: int) -> int:
    try:
        return os.tcgetpgrp(fd)
    except OSError:
        return -1
