"""Where a process's output goes: a pipe (or terminal) that a keeper empties into the log file.

    process --pipe--> keeper (cat, session of its own) --O_APPEND--> .berth/logs/<name>.log

The supervisor holds the reading end and never reads it, so that no death, its own included, breaks the pipe: a keeper
that ended before end of file gets a successor after a second. Reading, trimming and searching the file is growth.py.
"""

from __future__ import annotations

import errno
import os
import select

from ..core import wire
from ..core.loop import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.loop import Timer
    from .definition import Definition
    from .host import Host

SUCCESSOR_SECONDS = 1.0
LAST_LINES_SECONDS = 1.0  # how long the keeper of an earlier start may take before a new start truncates
ROWS_AND_COLUMNS = (24, 80)


class Keeper:
    """One pipe and the ``cat`` that empties it, and that one's successors."""

    __slots__ = ("pid", "source")

    def __init__(self, source: int) -> None:
        self.source = source
        self.pid = 0


class Output:
    """The output of one process through all its starts. ``on_end()`` is called when a pipe was read to its end."""

    def __init__(self, definition: Definition, host: Host) -> None:
        self.path = definition.log_location
        self.on_end: Callable[[], None] = lambda: None
        self._name = definition.name
        self._loop = host.loop
        self._children = host.children
        self._log = host.log
        self._tag = host.tag(wire.KEEPER_NUMBER)
        self._pids = host.kin.keepers
        self._keepers: list[Keeper] = []
        self._timer: Timer | None = None

    @property
    def is_open(self) -> bool:
        """Whether a keeper still reads, or waits to."""
        return bool(self._keepers)

    def truncate(self) -> None:
        """Empty the log for a new start. Raises OSError."""
        os.close(self._open_log(os.O_TRUNC))

    def open(self, *, terminal: bool) -> tuple[int, str | None]:
        """A new pipe (or terminal) with a keeper at its end: (descriptor for the process, the terminal's path).

        The caller closes the descriptor once the process has it. Raises OSError.
        """
        source, sink, path = _open_terminal() if terminal else (*os.pipe(), None)
        keeper = Keeper(source)
        try:
            self._keep(keeper)
        except OSError:
            os.close(source)
            os.close(sink)
            raise
        self._keepers.append(keeper)
        return sink, path

    def say(self, text: str) -> None:
        """A line of the supervisor's own in the log, as far as that can be written."""
        try:
            target = self._open_log()
            try:
                os.write(target, f"berth: {text}\n".encode("utf-8", "replace"))
            finally:
                os.close(target)
        except OSError as error:
            self._log(f"{self.path}: {error.strerror}")

    def give_up_soon(self) -> None:
        """Give keepers of earlier starts a second to come to the end, then let go of them and say ``on_end``."""
        if self._keepers and self._timer is None:
            self._timer = self._loop.call_later(LAST_LINES_SECONDS, self._give_up)

    def _give_up(self) -> None:
        """Kill the keepers and let go of their pipes; what still writes there gets SIGPIPE."""
        self._timer = None
        for keeper in self._keepers:
            if keeper.pid:
                os.kill(keeper.pid, signal.SIGKILL)
            os.close(keeper.source)
            keeper.source = -1
        self._keepers.clear()
        self.on_end()

    def _open_log(self, flags: int = 0) -> int:
        directory = os.path.dirname(self.path)
        flags |= os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            os.makedirs(directory, 0o700, exist_ok=True)
            return os.open(self.path, flags, 0o600)

    def _keep(self, keeper: Keeper) -> None:
        target = self._open_log()
        try:
            keeper.pid = self._children.spawn(
                (_cat(),),
                env={},
                cwd="/",
                stdin=keeper.source,
                stdout=target,
                tag=self._tag,
                on_exit=lambda status: self._keeper_ended(keeper, status),
            )
            self._pids.add(keeper.pid)
        finally:
            os.close(target)

    def _keeper_ended(self, keeper: Keeper, status: int) -> None:
        self._pids.discard(keeper.pid)
        keeper.pid = 0
        if keeper.source < 0:
            return
        if _at_end(keeper.source):
            os.close(keeper.source)
            keeper.source = -1
            self._keepers.remove(keeper)
            if not self._keepers and self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._log.again(self._trouble)
            self.on_end()
            return
        self._log.once(self._trouble)
        self._loop.call_later(SUCCESSOR_SECONDS, lambda: self._succeed(keeper))

    @property
    def _trouble(self) -> str:
        return f"{self._name}: its keeper ended early, output is being lost; is the disk full? ({self.path})"

    def _succeed(self, keeper: Keeper) -> None:
        if keeper.source < 0:
            return
        try:
            self._keep(keeper)
        except OSError:
            self._loop.call_later(SUCCESSOR_SECONDS, lambda: self._succeed(keeper))


def _at_end(source: int) -> bool:
    """Whether nothing is left to read and nobody is left to write."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    events = poll.poll(0)
    return bool(events) and bool(events[0][1] & (select.POLLHUP | select.POLLERR)) and not events[0][1] & select.POLLIN


def _cat() -> str:
    for path in ("/bin/cat", "/usr/bin/cat"):
        if os.path.exists(path):
            return path
    for directory in os.environ.get("PATH", os.defpath).split(":"):
        path = os.path.join(directory or "/", "cat")
        if os.access(path, os.X_OK):
            return path
    raise OSError(errno.ENOENT, "no cat on PATH")


def _open_terminal() -> tuple[int, int, str]:
    """(controlling side, the process's side, its path): 80 x 24, line ends as the process writes them."""
    import fcntl
    import struct
    import termios

    controller, terminal = os.openpty()
    os.set_inheritable(controller, False)
    os.set_inheritable(terminal, False)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *ROWS_AND_COLUMNS, 0, 0))
    settings = termios.tcgetattr(terminal)
    settings[1] &= ~termios.ONLCR
    termios.tcsetattr(terminal, termios.TCSANOW, settings)
    return controller, terminal, os.ttyname(terminal)
