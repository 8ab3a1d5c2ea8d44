"""Which living processes belong to a workspace, and who stands inside a directory.

A process belongs to a workspace when it carries its tag (soft RLIMIT_LOCKS, supervisor.md 1) or its marker
(BERTH_SUPERVISED), and nothing of another workspace. Command lines, names and ports decide nothing. Reads only; ending
processes is the matter of ``tools.termination``.
"""

from __future__ import annotations

import os

from berth.guest.core import wire
from berth.tools import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# A smaller workspace part is a limit that somebody meant as a limit, no tag (once in 16 million workspaces it is one).
_LEAST_PART = 1 << 24

_MARKER = wire.MARKER.encode()
_NAME = wire.PROCESS_VARIABLE.encode()


class Marked:
    """A living process of the workspace ``workspace_id``.

    ``start`` is in clock ticks since boot; ``name`` is its BERTH_PROCESS, None for the supervisor, hooks and those that
    cleared their environment; ``number`` is the one in its tag, None without a tag. A keeper writes a log and is
    no survivor.
    """

    __slots__ = ("name", "number", "pid", "ppid", "start", "workspace_id")

    def __init__(
        self, workspace_id: str, pid: int, *, ppid: int, start: int, name: str | None, number: int | None
    ) -> None:
        self.workspace_id = workspace_id
        self.pid = pid
        self.ppid = ppid
        self.start = start
        self.name = name
        self.number = number

    @property
    def is_keeper(self) -> bool:
        return self.number == wire.KEEPER_NUMBER

    @property
    def command(self) -> str:
        """Its command line now, for a message."""
        return procfs.command(self.pid)

    def name_among(self, names: Sequence[str]) -> str | None:
        """``name``, else what its tag's number means in ``names``, the workspace's processes in any order."""
        if self.name is not None or not self.number or self.number > len(names):
            return self.name
        return sorted(names)[self.number - 1]


class Inside:
    """A process whose working directory lies inside a directory."""

    __slots__ = ("command", "pid")

    def __init__(self, pid: int, command: str) -> None:
        self.pid = pid
        self.command = command

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.command})"


def scan(workspace_ids: Iterable[str]) -> dict[str, list[Marked]]:
    """The processes of this user that belong to each workspace, keepers included, by pid, in one pass over /proc.

    berth itself and its ancestors are never among them.
    """
    found: dict[str, list[Marked]] = {workspace_id: [] for workspace_id in workspace_ids}
    owners = {wire.workspace_part(workspace_id): workspace_id for workspace_id in found}
    exempt = procfs.ancestors()
    uid = os.getuid()
    for pid in sorted(procfs.pids()):
        if pid in exempt or not _may_be_of(pid, uid):
            continue
        marked = _examine(pid, owners)
        if marked is not None and procfs.is_of_user(pid, uid):
            found[marked.workspace_id].append(marked)
    return found


def marked(workspace_id: str) -> list[Marked]:
    """As ``scan`` for one workspace."""
    return scan((workspace_id,))[workspace_id]


def is_still(process: Marked) -> bool:
    """Whether that process lives and still belongs to its workspace: to be asked right before force is used."""
    now = _examine(process.pid, {wire.workspace_part(process.workspace_id): process.workspace_id})
    return now is not None and now.start == process.start


def belongs(pid: int, workspace_id: str) -> bool:
    """Whether the living process ``pid`` carries the workspace's tag or marker and nothing of another (8.5)."""
    return _examine(pid, {wire.workspace_part(workspace_id): workspace_id}) is not None


def inside(directory: str, *, besides: Iterable[int] = ()) -> list[Inside]:
    """The processes of this user whose cwd is ``directory`` (canonical) or below it, by pid.

    berth itself, its ancestors and the pids ``besides`` (those that berth started) are left out.
    """
    if not procfs.HAS_PROC:
        from berth.tools import ps

        numbers = ps.inside(directory)
    else:
        numbers = [pid for pid in procfs.pids() if _stands_in(pid, directory)]
    exempt = procfs.ancestors() | set(besides)
    uid = os.getuid()
    return [
        Inside(pid, procfs.command(pid)) for pid in sorted(numbers) if pid not in exempt and procfs.is_of_user(pid, uid)
    ]


def _may_be_of(pid: int, uid: int) -> bool:
    """A cheap first look: the entry's owner is the process's, or root where it may not be dumped."""
    if not procfs.HAS_PROC:
        return True
    try:
        return os.stat(f"/proc/{pid}").st_uid in (uid, 0)
    except OSError:
        return False


def _examine(pid: int, owners: dict[int, str]) -> Marked | None:
    """What ``pid`` is to the workspaces ``owners`` (by the tag's upper part)."""
    limit = procfs.tag(pid)
    number: int | None = None
    tagged: str | None = None
    if limit is not None:
        part, number = wire.split_tag(limit)
        tagged = owners.get(part)
        if tagged is None:
            if part >= _LEAST_PART:
                return None  # another workspace's
            number = None
    environment = procfs.variables(pid)
    marker = procfs.variable(environment, _MARKER)
    workspace_id = tagged or marker
    if workspace_id is None or workspace_id not in owners.values() or marker not in (None, workspace_id):
        return None
    entry = procfs.stat(pid)
    if entry is None or entry.is_dead:
        return None
    name = procfs.variable(environment, _NAME)
    return Marked(workspace_id, pid, ppid=entry.ppid, start=entry.start, name=name, number=number)


def _stands_in(pid: int, directory: str) -> bool:
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd")
    except OSError:  # gone, another user's, or a kernel thread
        return False
    cwd = cwd.removesuffix(" (deleted)")
    return cwd == directory or cwd.startswith(directory.rstrip("/") + "/")
