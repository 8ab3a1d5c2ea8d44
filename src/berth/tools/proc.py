"""The one door to processes: every program that berth starts passes through ``spawn``.

The environment is handed in whole, never inherited by accident; stdin is /dev/null unless bytes or a descriptor
are given; a child leads a group of its own, so that a Ctrl-C reaches berth alone and berth decides what ends.
Imports are few on purpose: ``berth run`` and ``berth status`` pass here (performance.md, what an import costs).
"""

from __future__ import annotations

import errno
import os

from berth.errors import BerthError
from berth.spec.environment import GIT_LOCATION
from berth.tools import steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable, Mapping, Sequence
else:
    try:
        import _signal as signal  # the C half: a fifth of the price of ``signal``
    except ImportError:  # another implementation than CPython
        import signal

DEVNULL = -3
PIPE = -1
MOST_DESCRIPTORS = 65536
RLIMIT_LOCKS = 10  # ignored by Linux since 2.4.25, inherited by every child: the tag (supervisor.md 1)

# Called with the words of each command before it starts; set by the command line for ``-v``.
observer: Callable[[Sequence[str]], None] | None = None


class ExecFailed(BerthError):
    """A program could not be executed; ``errno`` is the kernel's reason."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message, code="exec_failed")
        self.errno = number


class Result:
    """What a finished program left: ``code`` (0-255, or 128 + n after signal n), ``stdout`` and ``stderr`` bytes.

    ``timed_out`` is true when the time limit ended it.
    """

    __slots__ = ("argv", "code", "signal", "stderr", "stdout", "timed_out")

    def __init__(self, argv: Sequence[str], status: int, stdout: bytes, stderr: bytes, timed_out: bool) -> None:
        self.argv = argv
        self.signal: int | None = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        self.code: int = 128 + self.signal if self.signal is not None else os.WEXITSTATUS(status)
        self.stdout = stdout
        self.stderr = stderr
        self.timed_out = timed_out

    @property
    def text(self) -> str:
        """stdout as text; bytes that are not UTF-8 survive a round trip (surrogateescape)."""
        return self.stdout.decode("utf-8", "surrogateescape")

    @property
    def complaint(self) -> str:
        """stderr as one readable text, for a message."""
        return self.stderr.decode("utf-8", "replace").strip()


def inherited_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` without the variables that would point git elsewhere (workspaces.md 4.4)."""
    return {key: value for key, value in environ.items() if key not in GIT_LOCATION}


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    descriptors: tuple[int, int, int] = (DEVNULL, DEVNULL, DEVNULL),
    group: bool = True,
    session: bool = False,
    foreground: int | None = None,
    tag: int | None = None,
) -> int:
    """Start ``argv`` and return its pid, once exec has succeeded.

    ``descriptors`` become 0, 1 and 2; nothing else is inherited. ``group`` makes it the leader of a process group,
    ``session`` of a session; ``foreground`` is a terminal's descriptor whose foreground group it becomes.
    ``tag`` is set as its soft RLIMIT_LOCKS. Signals start with default dispositions and an empty mask.
    Raises ExecFailed.
    """
    if observer is not None:
        observer(argv)
    if steps.listener is not None:
        steps.reach(f"start {_short(argv)}")
    reader, writer = os.pipe()
    limit = _tag_limit(tag)
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            _become(argv, env, cwd, descriptors, group, session, foreground, limit, writer)
        except OSError as error:
            os.write(writer, b"%d %d" % (error.errno or 0, 1 if error.filename == cwd and cwd is not None else 0))
        except BaseException:
            os.write(writer, b"0 0")
        finally:
            os._exit(127)
    os.close(writer)
    try:
        report = b""
        while block := os.read(reader, 64):
            report += block
    finally:
        os.close(reader)
    if report:
        os.waitpid(pid, 0)
        number, in_directory = map(int, report.split())
        raise _exec_failure(argv, env, cwd if in_directory else None, number)
    if steps.listener is not None:
        steps.reach(f"started {_short(argv)}")
    return pid


def _short(argv: Sequence[str]) -> str:
    """The words of a command that name it: of git its subcommand, else the program."""
    program = os.path.basename(argv[0])
    known = ("worktree", "status", "update-ref", "for-each-ref", "rev-parse", "supervise", "ls-tree", "cat-file")
    return " ".join([program, *[word for word in argv[1:] if word in known or word in ("add", "remove", "list")]])


def _tag_limit(tag: int | None) -> tuple[int, int] | None:
    """The limit that carries ``tag``, or None where there is no tag (macOS, a lower hard limit)."""
    if tag is None:
        return None
    import resource

    try:
        hard = resource.getrlimit(RLIMIT_LOCKS)[1]
    except (ValueError, OSError):
        return None
    if hard != resource.RLIM_INFINITY and hard < tag:
        return None
    return tag, hard


def _become(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    descriptors: tuple[int, int, int],
    group: bool,
    session: bool,
    foreground: int | None,
    limit: tuple[int, int] | None,
    report: int,
) -> None:
    """In the child: arrange everything, then exec. Raises OSError. ``report`` is the pipe for its errno."""
    if session:
        os.setsid()
    elif group:
        os.setpgid(0, 0)
    if foreground is not None:
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(foreground, os.getpgrp())
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            continue  # KILL, STOP and the C library's own signals have no disposition to set
    null = os.open(os.devnull, os.O_RDWR) if DEVNULL in descriptors else -1
    # First to numbers above 2, so that no descriptor is overwritten before it was duplicated.
    import fcntl

    wanted = [fcntl.fcntl(null if fd == DEVNULL else fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in descriptors]
    for number, fd in enumerate(wanted):
        os.dup2(fd, number, inheritable=True)
    os.closerange(3, report)  # what berth's own caller left open is no business of the child
    os.closerange(report + 1, MOST_DESCRIPTORS)
    if cwd is not None:
        os.chdir(cwd)
    if limit is not None:
        import resource

        resource.setrlimit(RLIMIT_LOCKS, limit)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606  # this is the door


def _exec_failure(argv: Sequence[str], env: Mapping[str, str], directory: str | None, number: int) -> ExecFailed:
    if directory is not None:
        return ExecFailed(f"cannot run {argv[0]} in {directory}: {os.strerror(number)}", number)
    if number == errno.E2BIG:
        largest = max(env, key=lambda key: len(env[key]), default="")
        size = len(env.get(largest, ""))
        return ExecFailed(
            f"cannot run {argv[0]}: the environment is too large for the kernel; "
            f"the largest variable is {largest} ({size} bytes)",
            number,
        )
    return ExecFailed(f"cannot run {argv[0]}: {os.strerror(number) if number else 'internal failure'}", number)


class Child:
    """A started program whose output is being collected."""

    def __init__(
        self,
        argv: Sequence[str],
        pid: int,
        streams: dict[int, bytearray],
        feed: int,
        data: bytes,
        sink: Callable[[bytes], None] | None = None,
    ) -> None:
        self.argv = argv
        self.pid = pid
        self._streams = streams
        self._feed = feed
        self._data = data
        self._sink = sink

    def finish(self, timeout: float | None = None) -> Result:
        """Wait until the program has ended and its output is read; at most ``timeout`` seconds, then it is killed.

        Its whole group is killed then, and berth does not wait for pipes that a grandchild holds.
        Any exception that arrives meanwhile (a signal) ends the group too.
        """
        try:
            timed_out = not self._collect(timeout)
            status = self._reap(kill=timed_out)
        except BaseException:
            self._reap(kill=True)
            raise
        finally:
            for fd in (*self._streams, self._feed):
                if fd >= 0:
                    os.close(fd)
        out, err = (bytes(data) for data in self._buffers)
        return Result(self.argv, status, out, err, timed_out)

    @property
    def _buffers(self) -> Iterable[bytearray]:
        buffers = list(self._streams.values())
        return (*buffers, *(bytearray() for _ in range(2 - len(buffers))))

    def _collect(self, timeout: float | None) -> bool:
        """Read until the program has ended; False when the time is up first."""
        import select
        import time

        deadline = None if timeout is None else time.monotonic() + timeout
        poll = select.poll()
        open_streams = set(self._streams)
        for fd in open_streams:
            poll.register(fd, select.POLLIN)
        if self._feed >= 0:
            poll.register(self._feed, select.POLLOUT)
            os.set_blocking(self._feed, False)
        ended = _exit_descriptor(self.pid)
        if ended >= 0:
            poll.register(ended, select.POLLIN)
        try:
            while open_streams or ended >= 0:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                events = poll.poll(None if left is None else left * 1000 + 1)
                for fd, _ in events:
                    if fd == ended:
                        continue
                    if fd == self._feed:
                        self._write(poll)
                    elif block := os.read(fd, 65536):
                        if self._sink is not None:
                            self._sink(block)
                        else:
                            self._streams[fd] += block
                    else:
                        poll.unregister(fd)
                        open_streams.discard(fd)
                if events and all(fd == ended for fd, _ in events):
                    return True  # ended, and nothing is left to read now: a grandchild may hold the pipe for ever
            if ended < 0:
                return _wait_until(self.pid, deadline)
            return True
        finally:
            if ended >= 0:
                os.close(ended)

    def _write(self, poll: object) -> None:
        try:
            written = os.write(self._feed, self._data[:65536])
        except BrokenPipeError:
            written = len(self._data)
        except BlockingIOError:
            return
        self._data = self._data[written:]
        if not self._data:
            poll.unregister(self._feed)  # type: ignore[attr-defined]  # select.poll has no public type
            os.close(self._feed)
            self._feed = -1

    def _reap(self, *, kill: bool) -> int:
        if kill:
            kill_group(self.pid)
        return os.waitpid(self.pid, 0)[1]


def kill_group(pid: int) -> None:
    """KILL the process group that ``pid`` leads and ``pid`` itself. Only for a child that was not reaped yet."""
    for deed in (os.killpg, os.kill):
        try:
            deed(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue  # gone already, or a program that changed its uid: its leader is signalled in any case


def ended_badly(pid: int, *, within_seconds: float) -> bool:
    """Whether our child ``pid`` ends with a failure in that time; one that goes on is left to itself."""
    import select

    descriptor = _exit_descriptor(pid)
    if descriptor >= 0:
        try:
            if not select.select([descriptor], [], [], within_seconds)[0]:
                return False
        finally:
            os.close(descriptor)
    return os.waitpid(pid, os.WNOHANG)[1] != 0


def _exit_descriptor(pid: int) -> int:
    """A descriptor that becomes readable when ``pid`` ends, or -1 where the kernel has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _wait_until(pid: int, deadline: float | None) -> bool:
    """Wait for the end of ``pid`` without reaping it, where there is no pidfd; False when the time is up."""
    import time

    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if deadline is not None and time.monotonic() >= deadline:
            return False
        time.sleep(0.005)
    return True


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    stdin: bytes | int = DEVNULL,
    stderr: int = PIPE,
    session: bool = False,
    tag: int | None = None,
    sink: Callable[[bytes], None] | None = None,
) -> Child:
    """Start ``argv`` with its output collected; ``stdin`` is bytes to feed or a descriptor. Raises ExecFailed.

    ``stderr`` may be a descriptor that it goes to instead of being collected. With ``sink`` stdout and stderr are one
    pipe, and each block goes there as it arrives.
    """
    mine: list[int] = []
    theirs: list[int] = []
    feed = -1
    try:
        source = stdin if isinstance(stdin, int) else DEVNULL
        if isinstance(stdin, bytes):
            source, feed = os.pipe()
            theirs.append(source)
        targets = []
        for wanted in (PIPE,) if sink is not None else (PIPE, stderr):
            if wanted == PIPE:
                reader, writer = os.pipe()
                mine.append(reader)
                theirs.append(writer)
                targets.append(writer)
            else:
                targets.append(wanted)
        pid = spawn(argv, env=env, cwd=cwd, descriptors=(source, targets[0], targets[-1]), session=session, tag=tag)
    except BaseException:
        for fd in (*mine, feed):
            if fd >= 0:
                os.close(fd)
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    data = stdin if isinstance(stdin, bytes) else b""
    return Child(argv, pid, {fd: bytearray() for fd in mine}, feed, data, sink)


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    stdin: bytes | int = DEVNULL,
    stderr: int = PIPE,
    session: bool = False,
    tag: int | None = None,
    timeout: float | None = None,
) -> Result:
    """Run ``argv`` to its end; ``timeout`` in seconds. Raises ExecFailed; a bad exit code is the caller's matter."""
    return start(argv, env=env, cwd=cwd, stdin=stdin, stderr=stderr, session=session, tag=tag).finish(timeout)
