"""``berth run`` on a real terminal whose other end is a shell inside the container."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager

from support.boxed import Boxed
from support.cli import PROGRAM
from support.terminal import Terminal

KEY_INTERRUPT, KEY_STOP = "\x03", "\x1a"


@contextmanager
def on_terminal(boxed: Boxed, *words: str) -> Iterator[Terminal]:
    """berth as the only program of a terminal of 40 lines and 123 columns."""
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 123, 0, 0))
        os.chdir(boxed.repo)
        os.execve(PROGRAM[0], [*PROGRAM, *words], boxed.environment({"TERM": "xterm"}))
    terminal = Terminal(fd, pid)
    try:
        yield terminal
    finally:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.close(fd)
        os.waitpid(pid, 0)


def test_a_shell_inside_has_the_terminals_size_its_job_control_and_its_interrupt(boxed: Boxed) -> None:
    boxed.ok("new", "a")
    with on_terminal(boxed, "run", "-w", "a", "--", "env", "PS1=ready> ", "bash", "--norc", "-i") as terminal:
        terminal.expect("ready> ", seconds=60)
        terminal.type("stty size; tty; echo $TERM\n")
        terminal.expect("40 123", seconds=20)
        terminal.expect("xterm")
        terminal.expect("ready> ")
        # A key drops what was typed and not read yet, so it waits until the command says that it runs.
        terminal.type("sh -c 'echo go\"ing\"; exec sleep 1000'\n")
        terminal.expect("going", seconds=20)
        terminal.type(KEY_INTERRUPT)
        terminal.expect("ready> ", seconds=20)
        terminal.type("sh -c 'echo go\"ing\"; exec sleep 1000'\n")
        terminal.expect("going", seconds=20)
        terminal.type(KEY_STOP)
        terminal.expect("Stopped", seconds=20)
        terminal.type("kill %1; wait; printf 'col''our: \\033[31mred\\033[0m\\n'\n")
        terminal.expect("colour: \x1b[31mred\x1b[0m", seconds=20)
        terminal.type("exit 7\n")
        ended = os.waitid(os.P_PID, terminal.pid, os.WEXITED | os.WNOWAIT)  # left for the end of the block to reap
        assert ended is not None
        assert ended.si_status == 7
    assert boxed.inspect("a").running
