"""The control directory of a native workspace: where it is, what lies in it, and how it is made and removed (8.2).

::

    <home>/run/<16 hex>/    0700; pc.sock pc.lock pc.token pc.pid pc.exit, and ``workspace`` (id and path)
"""

from __future__ import annotations

import os
import stat

from berth.guest.core import wire
from berth.tools import steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.registry import Workspace
    from berth.tools.control import Control
    from berth.tools.procfs import Identity

OWNER_FILE = "workspace"
DEFINITION = "pc.yaml"
LARGEST_DEFINITION = 16 << 20
SUPERVISOR_LOG = "supervisor.log"


def control_directory(home: str, path: str) -> str:
    """The control directory of the workspace at ``path`` (canonical)."""
    return wire.control_directory(home, path)


def control_of(directory: str) -> Control:
    """How the supervisor of a control directory is reached. Raises state_unknown for a token that is none."""
    from berth.tools.control import Control
    from berth.tools.supervisor import read_token

    return Control(directory, read_token(directory) or "")


def make_directory(home: str, row: Workspace) -> str:
    """Make the control directory with the file that says whose it is."""
    from berth.tools.files import replace_file

    directory = control_directory(home, row.path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    owner = f"{row.id}\n{row.path}\n".encode("utf-8", "surrogateescape")
    replace_file(os.path.join(directory, OWNER_FILE), owner, mode=0o600)
    return directory


def recorded_supervisor(directory: str) -> Identity | None:
    """The supervisor that ``pc.pid`` names, or None."""
    from berth.tools.git.checkout import read_plain
    from berth.tools.procfs import Identity

    facts = wire.decode_pid(read_plain(os.path.join(directory, wire.PID_FILE)) or "")
    return Identity(facts[0], facts[1], facts[2]) if facts is not None else None


def recorded_end(directory: str) -> str | None:
    """Why the supervisor ended by itself, from ``pc.exit``; None when it did not."""
    from berth.tools.git.checkout import read_plain

    text = read_plain(os.path.join(directory, wire.EXIT_FILE))
    return end_of(os.fsencode(text)) if text is not None else None


def end_of(data: bytes) -> str:
    """The content of ``pc.exit`` in words."""
    import json

    from berth.tools.procfs import one_line

    try:
        facts = json.loads(data)
        why = f"it ended by itself: {facts['reason']} of {facts['process']} (code {facts['code']})"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "it ended by itself"
    return one_line(why)


def clear_remains(directory: str) -> None:
    """Remove what a supervisor that is gone left: socket, pid file, end. Token and lock file stay."""
    for name in (wire.SOCKET_FILE, wire.PID_FILE, wire.EXIT_FILE):
        steps.reach(f"before {name} is removed")
        try:
            os.unlink(os.path.join(directory, name))
        except FileNotFoundError:
            continue


def remove_directory(directory: str) -> None:
    """Remove the control directory with everything that berth keeps in it; one that is gone is fine."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    for name in names:
        steps.reach(f"before {name} is removed")
        os.unlink(os.path.join(directory, name))
    os.rmdir(directory)


def read_definition_file(path: str) -> bytes | None:
    """The bytes of ``.berth/pc.yaml`` of the workspace at ``path``, a regular file; None when there is none."""
    return _definition_file(os.path.join(path, ".berth", DEFINITION))


def _definition_file(name: str) -> bytes | None:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        return file.read(LARGEST_DEFINITION) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def read_definition(path: str) -> dict[str, dict[str, object]]:
    """The processes of the last rendered ``.berth/pc.yaml`` of the workspace at ``path``; empty when there is none."""
    return _processes(read_definition_file(path))


def definition_in(directory: str) -> dict[str, dict[str, object]]:
    """The same from the control directory of a container workspace, where berth keeps its own copy (9.4)."""
    return _processes(definition_file_in(directory))


def definition_file_in(directory: str) -> bytes | None:
    """The bytes of that copy; None when there is none."""
    return _definition_file(os.path.join(directory, DEFINITION))


def _processes(data: bytes | None) -> dict[str, dict[str, object]]:
    import json

    try:
        processes = json.loads(data or b"{}").get("processes", {})
    except (ValueError, AttributeError, RecursionError):
        return {}
    if not isinstance(processes, dict):
        return {}
    return {str(name): body for name, body in processes.items() if isinstance(body, dict)}


def timeouts(processes: dict[str, dict[str, object]]) -> dict[str, float]:
    """T in seconds of every process of a rendered definition."""
    found = {}
    for name, body in processes.items():
        shutdown = body.get("shutdown")
        value = shutdown.get("timeout_seconds") if isinstance(shutdown, dict) else None
        if isinstance(value, int | float) and value > 0:
            found[name] = float(value)
    return found


def replica_names(processes: dict[str, dict[str, object]]) -> list[str]:
    """The names the supervisor gives its processes, sorted: ``<name>`` or ``<name>-0`` …"""
    found = []
    for name, body in processes.items():
        count = body.get("replicas", 1)
        if isinstance(count, int) and count > 1:
            found += [f"{name}-{number}" for number in range(count)]
        else:
            found.append(name)
    return sorted(found)


def log_location(processes: dict[str, dict[str, object]], process: str) -> str:
    """Where the log of ``process`` lies below the workspace; of a replica beside those of its siblings."""
    body = processes.get(process) or processes.get(process.rpartition("-")[0]) or {}
    location = body.get("log_location")
    return location if isinstance(location, str) and location else f"{wire.LOGS_DIRECTORY}/{process}.log"
