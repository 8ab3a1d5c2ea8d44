"""What a forked child does before it is the program: its session, signals, streams, directory, tag, exec."""

from __future__ import annotations

import os
import resource

from .loop import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

RLIMIT_LOCKS = 10
SIGNALS = sorted(set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP})


def default_signals() -> None:
    """Give every signal its default disposition, but those that the interpreter ignores for good reason."""
    for signum in SIGNALS:
        if signum not in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", 0)) and signal.getsignal(signum) == signal.SIG_IGN:
            signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def become(work: Callable[[], None]) -> None:
    """In the child: never returns."""
    status = 127
    try:
        os.setsid()
        for signum in SIGNALS:
            if signal.getsignal(signum) != signal.SIG_DFL:
                signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        work()
        status = 0
    finally:
        os._exit(status)


def execute(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    streams: tuple[int, int, int],
    terminal: str | None,
    tag: int | None,
    report: int,
) -> None:
    """In the child: arrange the rest and exec; what prevents it goes to ``report``."""
    try:
        for number, fd in enumerate(streams):
            if terminal is not None and number > 0:
                # The first terminal that the leader of a session opens becomes its controlling one.
                fd = os.open(terminal, os.O_RDWR)
            elif fd < 0:
                fd = os.open(os.devnull, os.O_RDWR)
            os.dup2(fd, number)
        if cwd is not None:
            os.chdir(cwd)
        if tag is not None:
            resource.setrlimit(RLIMIT_LOCKS, (tag, resource.getrlimit(RLIMIT_LOCKS)[1]))
        os.execve(argv[0], list(argv), dict(env))  # noqa: S606  # no shell on purpose
    except OSError as error:
        os.write(report, b"%d" % (error.errno or 1))
        raise
