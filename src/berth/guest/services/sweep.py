"""``guest sweep``: end, or list, what a lost supervisor left inside a container (workspaces.md 8.6 step 2).

Only processes that carry the workspace's tag or marker, and no other workspace's, are touched; commands of ``run``
carry neither. Keepers end with their last writer and are killed only when they do not.
"""

from __future__ import annotations

import json
import os
import sys
import time

from ..core import procfs, wire
from ..core.children import signal_entry
from ..core.loop import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.procfs import Entry

KILLED_SECONDS = 2.0  # a process that lives longer after KILL cannot be ended from here
KEEPER_SECONDS = 1.0
STEP_SECONDS = 0.02


class Wanted:
    """What to look for: the ``workspace`` id, the sorted ``names`` of its processes, T by name and by default."""

    def __init__(self, document: dict[str, object]) -> None:
        self.workspace = str(document["workspace"])
        self.part = wire.workspace_part(self.workspace)
        self.names = [str(name) for name in document.get("names", ())]  # type: ignore[attr-defined]
        self.timeouts = {str(key): float(value) for key, value in document.get("timeouts", {}).items()}  # type: ignore[attr-defined]
        self.default = float(str(document.get("default", 15)))

    def number(self, pid: int) -> int | None:
        """The number in the process's tag if it is this workspace's, -1 for the marker alone, None for neither."""
        limit = procfs.tag(pid)
        if limit is not None:
            part, number = wire.split_tag(limit)
            if part == self.part:
                return number
            if procfs.is_other_workspace(pid, self.workspace, self.part):
                return None
        return -1 if procfs.variable(pid, wire.MARKER) == self.workspace else None

    def name(self, pid: int, number: int) -> str | None:
        """The process's name: from its own variable, else from its number."""
        named = procfs.variable(pid, wire.PROCESS_VARIABLE)
        if named is None and 0 < number <= len(self.names):
            return self.names[number - 1]
        return named


class Found:
    """One survivor: when its KILL is due, when it was sent."""

    def __init__(self, entry: Entry, wanted: Wanted, number: int) -> None:
        self.entry = entry
        self.is_keeper = number == wire.KEEPER_NUMBER
        self.document: dict[str, object] = {
            "pid": entry.pid,
            "name": wanted.name(entry.pid, number),
            "command": procfs.command(entry.pid),
            "signal": "TERM",
        }
        timeout = wanted.timeouts.get(str(self.document["name"]), wanted.default)
        self.kill_at = time.monotonic() + timeout
        self.killed_at: float | None = None

    def kill(self) -> None:
        if self.killed_at is None:
            self.killed_at = time.monotonic()
            self.document["signal"] = "KILL"
            signal_entry(self.entry, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    """``sweep end|list <JSON>``: one JSON list on standard output; 1 when something could not be ended."""
    if len(arguments) != 3 or arguments[1] not in ("end", "list"):
        print("usage: guest sweep end|list JSON", file=sys.stderr)
        return wire.STATUS_USAGE
    wanted = Wanted(json.loads(arguments[2]))
    if arguments[1] == "list":
        survivors = [found.document for found in look(wanted, {}) if not found.is_keeper]
        print(json.dumps(survivors))
        return 0
    ended, left = end(wanted)
    print(json.dumps([found.document for found in ended]))
    return 1 if left else 0


def look(wanted: Wanted, known: dict[tuple[int, int], Found]) -> list[Found]:
    """Every marked process that is alive now, each looked at once."""
    own = os.getpid()
    alive = []
    for entry in procfs.alive(procfs.snapshot().values()):
        key = (entry.pid, entry.start)
        if key in known:
            alive.append(known[key])
            continue
        number = wanted.number(entry.pid) if entry.pid not in (own, 1) else None
        if number is not None:
            known[key] = Found(entry, wanted, number)
            alive.append(known[key])
    return alive


def end(wanted: Wanted) -> tuple[list[Found], list[Found]]:
    """TERM, after T KILL, to every marked process; what was signalled, and what of it is still there."""
    known: dict[tuple[int, int], Found] = {}
    asked: list[Found] = []
    keepers_since: float | None = None
    while True:
        alive = look(wanted, known)
        now = time.monotonic()
        if not alive:
            return asked, []
        workers = [found for found in alive if not found.is_keeper]
        for found in workers:
            if found not in asked:
                asked.append(found)
                signal_entry(found.entry, signal.SIGTERM)
            elif now >= found.kill_at:
                found.kill()
        keepers_since = None if workers else keepers_since or now
        if keepers_since is not None and now - keepers_since >= KEEPER_SECONDS:
            for found in alive:
                found.kill()
        if all(found.killed_at is not None and now - found.killed_at >= KILLED_SECONDS for found in alive):
            return asked, workers
        time.sleep(STEP_SECONDS)
