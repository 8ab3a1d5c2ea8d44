"""``guest init``: process 1 of a container workspace, with one child for all gateways (workspaces.md 9.2).

It makes the home directory, deletes a stale control socket, starts the gateway and reaps whatever ends. A stop (TERM,
INT) is handed to the supervisor first and then to everything else. When the gateway ends for any reason the container
ends with code 1 instead of keeping a broken publication. It starts no supervisor: that is an exec of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time

from ..core import procfs, wire
from ..core.loop import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HOME = "/tmp/berth-home"  # noqa: S108  # the container's own /tmp
CONTROL = "/workspace/.berth/run"
WAITED_FOR = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
SUPERVISOR_SECONDS = 9.0  # the engine kills 10 s after it asked
OTHERS_SECONDS = 0.5
STEP_SECONDS = 0.02


def main(arguments: list[str]) -> int:
    """``init --gateways {"name": [gateway, listen], ...}``; 0 after a stop, 1 when the gateway ended."""
    if len(arguments) != 3 or arguments[1] != "--gateways":
        print("usage: guest init --gateways JSON", file=sys.stderr)
        return 2
    pairs = [(int(gateway), int(listen)) for gateway, listen in json.loads(arguments[2]).values()]
    signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_FOR)
    # Process 1 is sent only the signals that it handles; once blocked and handled they can be waited for.
    for signum in WAITED_FOR:
        signal.signal(signum, _nothing)
    os.makedirs(os.path.join(HOME, ".cache"), mode=0o700, exist_ok=True)
    remove_stale_socket(CONTROL)
    gateway = start_gateway(pairs) if pairs else -1
    return serve(gateway)


def serve(gateway: int) -> int:
    """Reap until a stop is asked for (0) or the process ``gateway`` has ended (1)."""
    while True:
        signum = signal.sigwait(WAITED_FOR)
        if signum != signal.SIGCHLD:
            stop()
            return 0
        for pid, status in reap():
            if pid == gateway:
                how = (
                    f"by signal {os.WTERMSIG(status)}"
                    if os.WIFSIGNALED(status)
                    else f"with code {os.WEXITSTATUS(status)}"
                )
                print(f"the gateway ended {how}; without it nothing is published, so the container ends", flush=True)
                return 1


def start_gateway(pairs: Sequence[tuple[int, int]]) -> int:
    """Start the process that serves every published port and return its pid."""
    guest = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    python = sys.executable or "/usr/bin/python3"
    flags = [f"-X{name}={value}" for name, value in sys._xoptions.items() if name == "pycache_prefix"]
    words = [f"{gateway}:{listen}" for gateway, listen in pairs]
    return os.posix_spawn(
        python,
        [python, "-I", "-S", *flags, guest, "gateway", *words],
        dict(os.environ),
        setsigmask=(),
        setsigdef=WAITED_FOR,
    )


def remove_stale_socket(directory: str) -> None:
    """Delete the control socket that an earlier life of this container left."""
    try:
        os.unlink(os.path.join(directory, wire.SOCKET_FILE))
    except OSError:
        return  # none there, or not deletable: the supervisor's own start says what is wrong then


def reap() -> list[tuple[int, int]]:
    """(pid, status) of everything that has ended."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status))


def stop() -> None:
    """Hand a stop on: the supervisor first, so that it stops its processes in their order, then whatever is left."""
    supervisors = find_supervisors()
    for pid in supervisors:
        _send(pid, signal.SIGTERM)
    _await(lambda: not any(procfs.read(pid) for pid in supervisors), SUPERVISOR_SECONDS)
    if _others():
        _send(-1, signal.SIGTERM)  # everything but process 1
        _await(lambda: not _others(), OTHERS_SECONDS)


def find_supervisors() -> list[int]:
    """The pids of supervisors in this container: ours by their command line, process-compose by its name."""
    found = []
    for pid in _others():
        words = procfs.command(pid).split(" ")
        is_ours = "supervise" in words and words[words.index("supervise") - 1].endswith("/guest")
        if is_ours or os.path.basename(words[0]) == "process-compose":
            found.append(pid)
    return found


def _others() -> list[int]:
    """Everything alive in this container but this process."""
    own = os.getpid()
    return [entry.pid for entry in procfs.alive(procfs.snapshot().values()) if entry.pid != own]


def _await(fact: Callable[[], bool], seconds: float) -> None:
    """Reap until ``fact()`` is true, at most ``seconds``. Not everything here is a child, so its end is looked for."""
    deadline = time.monotonic() + seconds
    while not fact() and time.monotonic() < deadline:
        signal.sigtimedwait((signal.SIGCHLD,), STEP_SECONDS)
        reap()


def _send(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return  # gone already, or another user's: it ends with this process


def _nothing(signum: int, frame: object) -> None:
    """Never called while the signal is blocked; its presence is what lets process 1 receive it."""
