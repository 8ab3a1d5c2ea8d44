"""What ``ps`` says about processes, where there is no /proc (macOS).

Slower and coarser than ``tools.procfs``, which asks here: start times are whole seconds since the epoch, and
arguments cannot be told from variables. Tags do not exist there (workspaces.md 15).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.tools.procfs import Stat

_ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", "TZ": "UTC"}


def _ask(*words: str) -> list[str]:
    from berth.tools import proc

    return proc.run(words, env=_ENVIRONMENT, timeout=10).text.splitlines()


def stat(pid: int) -> Stat | None:
    """Parent, group, start (seconds since the epoch) and state of ``pid``."""
    import time

    from berth.tools.procfs import Stat

    lines = _ask("ps", "-o", "ppid=,pgid=,stat=,lstart=", "-p", str(pid))
    if not lines:
        return None
    parent, group, state, started = lines[0].split(None, 3)
    moment = time.strptime(started.strip(), "%a %b %d %H:%M:%S %Y")
    import calendar

    return Stat(pid, int(parent), int(group), calendar.timegm(moment), state.startswith("Z"))


def pids() -> list[int]:
    """The processes of this user."""
    return [int(line) for line in _ask("ps", "-x", "-U", str(os.getuid()), "-o", "pid=")]


def command(pid: int) -> str:
    """The command line of ``pid``."""
    from berth.tools.procfs import one_line

    lines = _ask("ps", "-ww", "-o", "command=", "-p", str(pid))
    return one_line(lines[0]) if lines else ""


def variables(pid: int) -> bytes:
    """What follows the command line in ``ps -E``, words separated by NUL."""
    lines = _ask("ps", "-E", "-ww", "-o", "command=", "-p", str(pid))
    return b"\0" + os.fsencode(lines[0]).replace(b" ", b"\0") if lines else b""


def uid(pid: int) -> int | None:
    """The real uid of ``pid``."""
    lines = _ask("ps", "-o", "ruid=", "-p", str(pid))
    return int(lines[0]) if lines else None


def boot_id() -> str:
    """The name of this boot."""
    lines = _ask("sysctl", "-n", "kern.bootsessionuuid")
    return lines[0].strip() if lines else "-"


def inside(directory: str) -> list[int]:
    """The processes whose cwd is ``directory`` or below it; empty where ``lsof`` is missing (workspaces.md 15)."""
    from berth.tools import proc

    found: list[int] = []
    pid = 0
    try:
        lines = _ask("lsof", "-a", "-d", "cwd", "-u", str(os.getuid()), "-F", "pn")
    except proc.ExecFailed:
        return []
    for line in lines:
        if line.startswith("p"):
            pid = int(line[1:])
        elif line[1:] == directory or line[1:].startswith(directory.rstrip("/") + "/"):
            found.append(pid)
    return found
