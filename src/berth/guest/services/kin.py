"""Which running process belongs to which definition: everything below the supervisor, attributed once per loop turn.

A subtree below a leader is its definition's. An orphan, which the kernel hands to the supervisor as the subreaper, is
named by its session or group, then by its tag, then by BERTH_PROCESS (supervisor.md 6). A subtree that carries
another workspace's tag or marker is nobody's here: a service may have started another workspace.
"""

from __future__ import annotations

import os

from ..core import procfs, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.children import Children
    from ..core.log import Log
    from ..core.loop import Loop
    from ..core.procfs import Entry


class Kin:
    """Attribution of the processes below this one. ``numbers`` maps tag numbers to names, ``keepers`` to live pids."""

    def __init__(
        self, workspace: str, *, has_tags: bool, is_subreaper: bool, loop: Loop, children: Children, log: Log
    ) -> None:
        self.leaders: dict[int, str] = {}  # unreaped leaders
        self.sessions: dict[int, str] = {}  # of every start whose last process was not seen to be gone
        self.numbers: dict[int, list[str]] = {}
        self.keepers: set[int] = set()
        self.commands: set[int] = set()  # probes and shutdown commands; they have time limits of their own
        self._workspace = workspace
        self._part = wire.workspace_part(workspace) if has_tags else -1
        self._is_subreaper = is_subreaper
        self._loop = loop
        self._children = children
        self.is_sure = True  # whether what was not seen was not there: who forks and exits can outrun the look
        self._log = log
        self._turn = -1
        self._owned: dict[str, list[Entry]] = {}
        self._strays: list[Entry] = []
        self._helpers: list[Entry] = []
        self._foreign: set[int] = set()

    def of(self, name: str) -> list[Entry]:
        """What is alive of ``name``: leader and descendants, wherever they went."""
        if self._turn != self._loop.turn and name not in self.leaders.values() and not self._has_orphans():
            self.is_sure = not self._children.has_exits()
            return []
        self._look()
        return self._owned.get(name, [])

    def all(self) -> list[Entry]:
        """Everything alive below the supervisor but keepers and other workspaces."""
        self._look()
        return [*(entry for owned in self._owned.values() for entry in owned), *self._strays, *self._helpers]

    def forget(self, name: str) -> None:
        """Nothing of ``name`` is left: its sessions' numbers may become somebody else's."""
        self.sessions = {sid: owner for sid, owner in self.sessions.items() if owner != name}

    def stale(self) -> None:
        """What was looked up in this turn no longer holds."""
        self._turn = -1

    def _has_orphans(self) -> bool:
        """Whether there is a child that is nobody's leader, keeper or command: one read instead of a look at all."""
        own = os.getpid()
        found = procfs.children_of(own, 1) if self._is_subreaper else ()
        return not found or any(
            pid not in self.leaders and pid not in self.keepers and pid not in self.commands for pid in found
        )

    def _look(self) -> None:
        if self._turn == self._loop.turn:
            return
        self._turn = self._loop.turn
        self._owned, self._strays, self._helpers = {}, [], []
        entries = procfs.below(os.getpid()) if self._is_subreaper else procfs.snapshot()
        tree = procfs.children(entries)
        for root in self._roots(entries, tree):
            self._attribute(root, tree)
        # Nobody who outran the look is missed: its parent's exit is still to be reaped.
        self.is_sure = not self._children.has_exits()

    def _roots(self, entries: dict[int, Entry], tree: dict[int, list[Entry]]) -> Iterable[Entry]:
        own = os.getpid()
        yield from tree.get(own, ())
        if not self._is_subreaper:
            # Orphans went to init: those that a session or tag of ours names.
            for entry in tree.get(1, ()) if own != 1 else ():
                if entry.sid in self.sessions or entry.pgid in self.sessions or self._by_tag(entry.pid):
                    yield entry

    def _attribute(self, root: Entry, tree: dict[int, list[Entry]]) -> None:
        if root.pid in self.keepers:
            return
        if root.pid in self.commands:
            target = self._helpers
        elif root.pid not in self.leaders and root.sid == root.pid and self._is_foreign(root):
            return
        else:
            name = self._owner(root)
            if name is None:
                if root.state not in ("Z", "X"):
                    self._log.once(
                        f"nothing says whose process {root.pid} is ({procfs.command(root.pid)}); it ends with down"
                    )
                target = self._strays
            else:
                target = self._owned.setdefault(name, [])
        pending = [root]
        while pending:
            entry = pending.pop()
            if entry is not root and entry.sid == entry.pid and self._is_foreign(entry):
                continue
            if entry.state not in ("Z", "X"):
                target.append(entry)
            pending.extend(tree.get(entry.pid, ()))

    def _owner(self, entry: Entry) -> str | None:
        name = self.leaders.get(entry.pid) or self.sessions.get(entry.sid) or self.sessions.get(entry.pgid)
        if name is not None:
            return name
        named = procfs.variable(entry.pid, wire.PROCESS_VARIABLE)
        candidates = self._by_tag(entry.pid)
        if named is not None and (named in candidates or not candidates):
            return named
        return candidates[0] if len(candidates) == 1 else None

    def _by_tag(self, pid: int) -> list[str]:
        tag = procfs.tag(pid)
        if tag is None or self._part < 0:
            return []
        part, number = wire.split_tag(tag)
        return self.numbers.get(number, []) if part == self._part else []

    def _is_foreign(self, entry: Entry) -> bool:
        """Only the leader of a session can be another workspace's supervisor or one of its services."""
        return procfs.is_other_workspace(entry.pid, self._workspace, self._part)
