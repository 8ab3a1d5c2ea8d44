"""``guest hook`` runs one hook of a container workspace, ``guest kill`` ends it from a second exec (workspaces.md 8.8).

Killing the engine's client ends nothing inside a container, so the hook is found again by its nonce. The hook's process
stays as the parent of its script and collects orphans: whatever the script started is below it, however it hides.
"""

from __future__ import annotations

import os
import sys
import time

from ..core import libc, procfs, wire
from ..core.children import set_tag, signal_entry
from ..core.loop import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.procfs import Entry

KILL_SECONDS = 4.0
STEP_SECONDS = 0.01


def main(arguments: list[str]) -> int:
    """``hook <nonce> <workspace id> <argv ...>`` or ``kill <nonce>``."""
    if arguments[0] == "kill" and len(arguments) == 2:
        return 0 if kill(arguments[1]) else 1
    if arguments[0] == "hook" and len(arguments) > 3:
        return hook(arguments[2], arguments[3:])
    print("usage: guest hook NONCE WORKSPACE ARGV ... | guest kill NONCE", file=sys.stderr)
    return wire.STATUS_USAGE


def hook(workspace: str, argv: list[str]) -> int:
    """Run ``argv`` in a session of its own with the workspace's marker and tag; its exit status, 128+n after a signal.

    Background processes that it leaves go on, marked, when this process has ended.
    """
    set_tag(wire.tag(workspace, wire.SUPERVISOR_NUMBER))
    libc.become_subreaper()
    environ = {**os.environ, wire.MARKER: workspace}
    pid = os.fork()
    if pid == 0:
        _become(argv, environ)
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _become(argv: list[str], environ: dict[str, str]) -> None:
    """In the child: own session and group, no input, default signals, then the hook itself."""
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        for number in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)):
            signal.signal(number, signal.SIG_DFL)  # Python ignores these; a shell must not
        os.execvpe(argv[0], argv, environ)  # noqa: S606  # the hook's own words, not a shell's
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def kill(nonce: str) -> bool:
    """KILL everything below the hook with that nonce and wait for its end; True when nothing of it is left."""
    deadline = time.monotonic() + KILL_SECONDS
    parent = _find(nonce)
    if parent is None:
        return True
    while time.monotonic() < deadline:
        entries = procfs.snapshot()
        found = entries.get(parent.pid)
        if found is None or found.start != parent.start or found.state == "Z":
            return True
        tree = procfs.children(entries)
        for entry in procfs.subtree(found, tree):
            if entry.pid != parent.pid and entry.state != "Z":
                signal_entry(entry, signal.SIGKILL)
        time.sleep(STEP_SECONDS)  # the parent reaps, and ends with its script
    signal_entry(parent, signal.SIGKILL)
    return False


def _find(nonce: str) -> Entry | None:
    """The waiting process of the hook with that nonce."""
    own = os.getpid()
    for entry in procfs.alive(procfs.snapshot().values()):
        if entry.pid == own:
            continue
        words = procfs.command(entry.pid).split(" ")
        if nonce in words and words[words.index(nonce) - 1] == "hook":
            return entry
    return None
