"""What runs in container workspaces: one inspection, one query each, warnings about lost protections. Reads only.

The table is that of workspaces.md 8.5; instead of /proc the guest inside says what a lost supervisor left, because only
there do the pids mean something. Answers from inside are untrusted input.
"""

from __future__ import annotations

import json
import os

from berth.errors import BerthError
from berth.guest.core import wire
from berth.runtime import controls
from berth.runtime.base import Observation
from berth.runtime.box import LOG_LINES, Box
from berth.runtime.protection import has_record
from berth.runtime.state import LOST, RUNNING, SILENT, STOPPED, UNKNOWN, Found
from berth.spec import container as spec
from berth.tools.control import ABSENT, ANSWERING, FOREIGN, REFUSED, Control

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from berth.registry import Workspace
    from berth.tools.control import State
    from berth.tools.engine.containers import Container

GUEST_SECONDS = 10.0
BELOW = (".berth", "run")
LARGEST_END = 65536


class Boxed(Found):
    """What was found of one container workspace; ``container`` says whether it runs, ``left`` are the guest's documents
    of processes without a supervisor."""

    __slots__ = ("left", "runs")

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.runs = False
        self.left: list[dict[str, Any]] = []


def look(box: Box) -> Boxed:
    """The state of one container workspace; no inspection where its recorded process 1 is seen to live.

    Raises engine_unavailable, engine_mismatch, container_mismatch.
    """
    one = Boxed(box.control_directory)
    if box.init_lives():
        if not _ask_for_control(one, box):
            return one
    elif _settle_without_query(one, box, box.find()):
        return one
    from berth.tools.control import state

    assert one.control is not None
    _judge(one, box, state(one.control))
    return one


def _settle_without_query(one: Boxed, box: Box, found: Container | None) -> bool:
    """Everything that is known before the socket is asked; True when there is nothing to ask."""
    if found is None or not found.running:
        if found is not None and has_record(box.control_directory):
            from berth.tools.engine.containers import logs

            said = "".join(f"\n  {line}" for line in logs(box.engine, box.name, tail=LOG_LINES))
            one.kind = LOST
            one.detail = f"container stopped unexpectedly (exit code {found.exit_code}); the end of its log:{said}"
        return True
    return not _ask_for_control(one, box)


def _ask_for_control(one: Boxed, box: Box) -> bool:
    """How the supervisor of a running container is reached; False when its token says that nothing is known."""
    one.runs = True
    try:
        token = _token(box.control_directory)
    except BerthError as error:
        one.kind, one.detail = UNKNOWN, error.message
        return False
    owner = box.init_user()
    reachable = owner is not None and os.geteuid() in (0, owner)
    one.control = Control(box.row.path, token, below=BELOW, owner=owner, relay=None if reachable else relay_of(box))
    return True


def _token(directory: str) -> str:
    from berth.tools.supervisor import read_token

    return read_token(directory) or ""


def _judge(one: Boxed, box: Box, answer: State) -> None:
    """The table of 8.5 for a container that runs."""
    recorded = controls.recorded_supervisor(one.directory)
    if answer.kind == ANSWERING:
        one.kind, one.processes = RUNNING, list(answer.processes)
        return
    if answer.kind == FOREIGN:
        one.kind, one.detail = UNKNOWN, f"process state unknown: {answer.detail}"
        return
    one.left = left_behind(box)
    if recorded is not None and any(process["pid"] == recorded.pid for process in one.left):
        one.kind = SILENT
        one.detail = f"the supervisor (pid {recorded.pid} inside) does not answer: {answer.detail}"
    elif answer.kind not in (ABSENT, REFUSED):
        one.kind, one.detail = UNKNOWN, f"process state unknown: {answer.detail}"
    elif recorded is not None or answer.kind == REFUSED:
        who = f"pid {recorded.pid} inside is gone" if recorded is not None else answer.detail
        one.kind, one.detail = LOST, f"supervisor lost: {recorded_end(box.row.path) or who}"
    elif one.left:
        pids = ", ".join(str(process["pid"]) for process in one.left[:10])
        one.kind, one.detail = LOST, f"processes left behind (pid {pids} inside)"
    else:
        one.kind = STOPPED


def left_behind(box: Box) -> list[dict[str, Any]]:
    """Marked processes inside, as the guest sees them; empty when it cannot be asked."""
    result = box.exec(box.guest("sweep", "list", sweep_document(box)), env={}, timeout=GUEST_SECONDS)
    return survivors_of(result.stdout) if result.code == 0 and not result.timed_out else []


def sweep_document(box: Box) -> str:
    """What the guest's ``sweep`` needs to know: workspace, names, T by name."""
    processes = definition_of(box)
    times = controls.timeouts(processes)
    return json.dumps(
        {
            "workspace": box.row.id,
            "names": controls.replica_names(processes),
            "timeouts": {
                name: times[base]
                for name in controls.replica_names(processes)
                for base in (name if name in times else name.rpartition("-")[0],)
                if base in times
            },
            "default": max(times.values(), default=15.0),
        }
    )


def definition_of(box: Box) -> dict[str, dict[str, object]]:
    """The processes of the last start, from berth's own copy: what lies in the workspace, code inside can write."""
    return controls.definition_in(box.control_directory)


def survivors_of(data: bytes) -> list[dict[str, Any]]:
    """The documents that the guest printed: pid, name, command, signal. What is no such document is left out."""
    try:
        found = json.loads(data)
        return [
            {
                "pid": int(one["pid"]),
                "name": str(one["name"]) if one["name"] is not None else None,
                "command": str(one["command"]),
                "signal": "KILL" if one["signal"] == "KILL" else "TERM",
            }
            for one in found
        ]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def recorded_end(path: str) -> str | None:
    """Why the supervisor ended by itself, from ``.berth/run/pc.exit``, read the careful way; None when it did not."""
    from berth.tools.logs import open_below

    try:
        descriptor = open_below(path, "/".join((*BELOW, wire.EXIT_FILE)))
    except (FileNotFoundError, BerthError):
        return None
    try:
        return controls.end_of(os.read(descriptor, LARGEST_END))
    finally:
        os.close(descriptor)


def relay_of(box: Box) -> Callable[[], tuple[int, Callable[[], str | None]]]:
    """Reach the control socket by an exec of the guest's relay, where this machine cannot connect to it itself."""

    def connect() -> tuple[int, Callable[[], str | None]]:
        import socket

        from berth.tools import proc
        from berth.tools.engine.containers import exec_words

        words = box.guest("relay", f"{spec.CONTROL}/{wire.SOCKET_FILE}")
        ours, theirs = socket.socketpair()
        with theirs:
            ends = (theirs.fileno(), theirs.fileno(), proc.DEVNULL)
            pid = box.engine.spawn(exec_words(box.name, words, env={}, interactive=True, shell=False), descriptors=ends)

        def verdict() -> str | None:
            proc.kill_group(pid)
            status = os.waitpid(pid, 0)[1]
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
            return {wire.STATUS_ABSENT: ABSENT, wire.STATUS_REFUSED: REFUSED}.get(code)

        return ours.detach(), verdict

    return connect


def observe_containers(home: str, rows: Sequence[Workspace], *, environ: Mapping[str, str]) -> list[Observation]:
    """What ``status`` and ``ls`` show of each workspace: engines asked once, sockets all at once."""
    from berth.tools.control import states

    looks = [_Look(Box(home, row, environ=environ)) for row in rows]
    inspected = _inspect(looks)
    for look_ in looks:
        look_.begin(inspected)
    asked = [look_ for look_ in looks if look_.is_open]
    for look_, answer in zip(asked, states([look_.control for look_ in asked]), strict=True):
        look_.end(answer)
    return [look_.observation() for look_ in looks]


class _Look:
    """The observation of one workspace; a failure is its ``error`` and makes the state unknown."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.found = Boxed(box.control_directory)
        self.error: str | None = None
        self.is_open = False

    @property
    def control(self) -> Control:
        assert self.found.control is not None
        return self.found.control

    def begin(self, inspected: Mapping[str, Container]) -> None:
        try:
            one = inspected.get(self.box.name)
            if one is None:
                one = self.box.find()
            else:
                self.box.check_labels(one)
            self.is_open = not _settle_without_query(self.found, self.box, one)
        except BerthError as error:
            self.error = error.message

    def end(self, answer: State) -> None:
        try:
            _judge(self.found, self.box, answer)
        except BerthError as error:
            self.error = error.message

    def observation(self) -> Observation:
        if self.error is not None:
            return Observation(running=None, error=self.error, container=self.box.name)
        one = self.found
        running = {RUNNING: True, STOPPED: False, LOST: False}.get(one.kind)
        processes = [{**process, "listening": None} for process in one.processes]
        return Observation(
            running=running,
            processes=[*processes, *(survivor_document(process) for process in one.left)],
            error=one.detail if one.kind != RUNNING else None,
            container=self.box.name,
            warnings=self.box.lost_mounts() if one.runs else [],
        )


def _inspect(looks: Sequence[_Look]) -> dict[str, Container]:
    """Containers by name, one call an engine; what is not in here is looked for the long way."""
    from berth.tools.engine import containers

    found: dict[str, Container] = {}
    for name in sorted({look_.box.engine.name for look_ in looks}):
        boxes = [look_.box for look_ in looks if look_.box.engine.name == name and look_.box.row.engine_id is not None]
        if boxes:
            found.update({one.name: one for one in containers.peek(boxes[0].engine, [box.name for box in boxes])})
    return found


def survivor_document(process: Mapping[str, Any]) -> dict[str, Any]:
    """A process without a supervisor as ``status`` shows it."""
    return {
        "name": process["name"] or process["command"],
        "status": "Survivor",
        "ready": "-",
        "healthy": False,
        "pid": process["pid"],
        "exit_code": None,
        "restarts": 0,
        "listening": None,
    }
