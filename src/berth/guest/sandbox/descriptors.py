"""What an app inherits, and nothing else: standard streams, the ready pipe, its own listeners, limits
(sandboxes.md 6.5, steps 1 and 3)."""

from __future__ import annotations

import fcntl
import os
import resource
import signal

from berth.guest.sandbox import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

FIRST = 3  # the first descriptor after the standard streams
CLOSE_RANGE = 436
_LIMITS = {"nproc": resource.RLIMIT_NPROC, "nofile": resource.RLIMIT_NOFILE, "core": resource.RLIMIT_CORE}


def default_signals() -> None:
    """Undo what the supervisor did to signals. SIGPIPE stays ignored until the exec, so that a lost reader of the
    report is an error like any other."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def arrange(*, log: int, inherited: List[int], kept: int) -> int:
    """Lay out the descriptors: 0 ``/dev/null``, 1 and 2 ``log``, from 3 on ``inherited``; close every other one.

    ``kept`` moves behind them, close-on-exec, and its new number is returned. The originals may be any numbers, also
    those that are about to be overwritten, hence the copies out of the way first.
    """
    top = FIRST + len(inherited)
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, top + 1) for fd in (log, kept, *inherited)]
    null = os.open("/dev/null", os.O_RDONLY)
    sources = [null, high[0], high[0], *high[2:]]
    for number, source in enumerate(sources):
        os.dup2(source, number)
        os.set_inheritable(number, True)
    os.dup2(high[1], top, inheritable=False)
    close_from(top + 1)
    return top


def close_from(first: int) -> None:
    """Close every descriptor from ``first`` on; a kernel without close_range (before 5.9) is asked for the list."""
    result, _errno = kernel.syscall(CLOSE_RANGE, first, 0xFFFFFFFF, 0)
    if result == 0:
        return
    for name in os.listdir("/proc/self/fd"):
        if int(name) >= first:
            try:
                os.close(int(name))
            except OSError:
                pass  # the descriptor of the listing itself


def limit(limits: Dict[str, int]) -> None:
    """Set hard and soft limits, each at most the present hard one, and raise the OOM score, never lower it."""
    for name, which in _LIMITS.items():
        _soft, hard = resource.getrlimit(which)
        value = limits[name] if hard == resource.RLIM_INFINITY else min(limits[name], hard)
        resource.setrlimit(which, (value, value))
    with open("/proc/self/oom_score_adj", encoding="ascii") as file:
        present = int(file.read())
    if limits["oom_score_adj"] > present:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(limits["oom_score_adj"]))
