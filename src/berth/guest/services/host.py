"""What processes stand on: the loop, children, log, kinship, growing files, and the facts about this supervisor."""

from __future__ import annotations

import errno
import os

from ..core import libc, wire
from ..core.children import Children, set_tag
from .growth import Growth, Trimmer
from .kin import Kin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..core.log import Log
    from ..core.loop import Loop
    from .definition import Definition

# Never handed on: a lease is a run's, the others are set for each process.
_OWN_VARIABLES = ("BERTH_LEASE", wire.PROCESS_VARIABLE, "PC_PROC_NAME", "PC_REPLICA_NUM")


class Host:
    """Shared by all processes of one supervisor. ``environment`` is the supervisor's own, the marker in it."""

    def __init__(self, loop: Loop, log: Log, environment: Mapping[str, str]) -> None:
        self.loop = loop
        self.log = log
        self.environment = {key: value for key, value in environment.items() if key not in _OWN_VARIABLES}
        self.workspace = environment.get(wire.MARKER, "")
        self._part = wire.workspace_part(self.workspace) << wire.NUMBER_BITS
        self.has_tags = bool(self.workspace) and set_tag(self._part | wire.SUPERVISOR_NUMBER)
        if not self.has_tags:
            log.once("processes carry no tag: " + ("no workspace" if not self.workspace else "the hard limit is lower"))
        self.is_subreaper = libc.become_subreaper()
        if not self.is_subreaper:
            log.once("no subreaper and no trimming of logs: this Python has no ctypes, or this system no prctl")
        self.children = Children(loop)
        self.kin = Kin(
            self.workspace,
            has_tags=self.has_tags,
            is_subreaper=self.is_subreaper,
            loop=loop,
            children=self.children,
            log=log,
        )
        self.searches = Growth(loop)
        self.trimmer = Trimmer(loop, Growth(loop), log)

    def tag(self, number: int) -> int | None:
        """The tag of process ``number`` of this workspace, None where there are no tags."""
        return self._part | number if self.has_tags else None


def environment_of(definition: Definition, inherited: Mapping[str, str]) -> dict[str, str]:
    """What a process, its probes and its shutdown command see."""
    environment = dict(inherited)
    environment.update(definition.environment)
    environment[wire.PROCESS_VARIABLE] = definition.name
    environment["PC_PROC_NAME"] = definition.base_name
    environment["PC_REPLICA_NUM"] = str(definition.replica)
    if wire.MARKER in inherited:
        environment[wire.MARKER] = inherited[wire.MARKER]
    return environment


def resolve(program: str, path: str, cwd: str | None) -> str:
    """The file that ``program`` names: itself with a slash in it, else looked up on ``path``. Raises OSError."""
    if "/" in program:
        return program
    reason = errno.ENOENT
    for directory in path.split(":"):
        candidate = os.path.join(directory or ".", program)
        if os.path.isfile(os.path.join(cwd or ".", candidate)):
            if os.access(os.path.join(cwd or ".", candidate), os.X_OK):
                return candidate
            reason = errno.EACCES
    raise OSError(reason, os.strerror(reason), program)
