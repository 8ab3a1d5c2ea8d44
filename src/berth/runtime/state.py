"""What runs in native workspaces: the table of workspaces.md 8.5, for one or for many at once. Reads only."""

from __future__ import annotations

from berth.runtime.base import Observation
from berth.runtime.controls import control_directory, control_of, read_definition, recorded_end, recorded_supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from berth.registry import Workspace
    from berth.tools.control import Control, State
    from berth.tools.processes import Marked
    from berth.tools.procfs import Identity

STOPPED, RUNNING, LOST, SILENT, UNKNOWN = "stopped", "running", "lost", "silent", "unknown"


class Found:
    """What was found of one workspace.

    ``kind`` is STOPPED, RUNNING, LOST (a supervisor is gone that berth did not stop, or a hook left processes), SILENT
    (the recorded supervisor lives and does not answer) or UNKNOWN. ``processes`` are the supervisor's own states,
    ``survivors`` live processes without a supervisor, ``detail`` says what is wrong.
    """

    __slots__ = ("control", "detail", "directory", "kind", "processes", "supervisor", "survivors")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.kind = STOPPED
        self.detail: str | None = None
        self.control: Control | None = None
        self.processes: list[dict[str, Any]] = []
        self.survivors: list[Marked] = []
        self.supervisor: Identity | None = None


def look(home: str, rows: Sequence[Workspace]) -> list[Found]:
    """The state of each workspace, all sockets asked at once, /proc read once, in the order given."""
    from berth.errors import BerthError
    from berth.tools.control import ANSWERING, states
    from berth.tools.processes import scan

    found = [Found(control_directory(home, row.path)) for row in rows]
    for one in found:
        try:
            one.control = control_of(one.directory)
        except BerthError as error:
            one.kind, one.detail = UNKNOWN, error.message
    asked = [one for one in found if one.control is not None]
    answers = states([one.control for one in asked if one.control is not None])
    quiet: list[tuple[Found, State, Workspace]] = []
    for one, answer in zip(asked, answers, strict=True):
        one.supervisor = recorded_supervisor(one.directory)
        if answer.kind == ANSWERING:
            one.kind, one.processes = RUNNING, list(answer.processes)
        else:
            quiet.append((one, answer, rows[found.index(one)]))
    living = scan([row.id for _, _, row in quiet]) if quiet else {}
    for one, answer, row in quiet:
        _judge(one, answer, living[row.id])
    return found


def _judge(one: Found, answer: State, marked: list[Marked]) -> None:
    """The table of 8.5 for a workspace whose supervisor does not answer."""
    from berth.tools.control import ABSENT, REFUSED
    from berth.tools.procfs import is_alive

    recorded = one.supervisor
    one.survivors = [process for process in marked if not process.is_keeper]
    lives = recorded is not None and is_alive(recorded)
    is_ours = lives and recorded is not None and any(process.pid == recorded.pid for process in marked)
    if is_ours and answer.kind != "foreign":
        one.kind = SILENT
        one.detail = f"the supervisor (pid {recorded.pid if recorded else '?'}) does not answer: {answer.detail}"
    elif answer.kind not in (ABSENT, REFUSED):
        one.kind, one.detail = UNKNOWN, f"process state unknown: {answer.detail}"
    elif recorded is not None or answer.kind == REFUSED:
        why = recorded_end(one.directory)
        who = f"pid {recorded.pid} is gone" if recorded is not None else answer.detail
        one.kind, one.detail = LOST, f"supervisor lost: {why or who}"
    elif one.survivors:
        one.kind = LOST
        pids = ", ".join(str(process.pid) for process in one.survivors[:10])
        one.detail = f"processes left behind (pid {pids})"


def observe_native(home: str, rows: Sequence[Workspace]) -> list[Observation]:
    """What ``status`` and ``ls`` show of each workspace."""
    found = look(home, rows)
    owners = _listeners(found)
    observations = []
    for one, row in zip(found, rows, strict=True):
        running = {RUNNING: True, STOPPED: False, LOST: False}.get(one.kind)
        observations.append(
            Observation(
                running=running,
                processes=_with_listeners(one, row, owners),
                error=one.detail if one.kind != RUNNING else None,
            )
        )
    return observations


def _listeners(found: Sequence[Found]) -> dict[int, list[int]] | None:
    """pid of a process → TCP ports on which it or its descendants listen; None where that cannot be told."""
    from berth.tools.listeners import listening_ports

    roots = [process["pid"] for one in found for process in one.processes if process["pid"] is not None]
    roots += [process.pid for one in found for process in one.survivors]
    ports = listening_ports({str(pid): (pid,) for pid in roots}) if roots else {}
    return None if ports is None else {int(pid): numbers for pid, numbers in ports.items()}


def _with_listeners(one: Found, row: Workspace, owners: dict[int, list[int]] | None) -> list[dict[str, Any]]:
    documents = [
        {**process, "listening": owners.get(process["pid"] or 0, []) if owners is not None else None}
        for process in one.processes
    ]
    if one.survivors:
        from berth.runtime.controls import replica_names

        names = replica_names(read_definition(row.path))
        documents += [survivor_document(process, names, owners) for process in one.survivors]
    return documents


def survivor_document(process: Marked, names: list[str], owners: dict[int, list[int]] | None) -> dict[str, Any]:
    """A process without a supervisor as ``status`` shows it: its own name, else its command."""
    return {
        "name": process.name_among(names) or process.command,
        "status": "Survivor",
        "ready": "-",
        "healthy": False,
        "pid": process.pid,
        "exit_code": None,
        "restarts": 0,
        "listening": owners.get(process.pid, []) if owners is not None else None,
    }
