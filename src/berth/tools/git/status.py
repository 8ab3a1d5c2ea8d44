"""Clean or dirty: exactly one ``git status``, started first so that other work goes on meanwhile.

The question is that of the preservation test (workspaces.md 10.2 rule 1). On hot paths: few imports.
"""

from __future__ import annotations

from berth.errors import BerthError
from berth.tools.git import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.tools import proc

LISTED = 10

# What the user's status.*, diff.* or core.untrackedCache say does not count; neither does an index lock get taken.
_STATUS = (
    "-c",
    "core.untrackedCache=false",
    "-c",
    "status.renames=false",
    "--no-optional-locks",
    "status",
    "--porcelain=v1",
    "-z",
    "--untracked-files=all",
    "--ignore-submodules=none",
    "--no-renames",
)


class Status:
    """What differs from HEAD: ``paths``, up to 10, as text for a message, and how many there are (``count``)."""

    __slots__ = ("count", "paths")

    def __init__(self, paths: tuple[str, ...], count: int) -> None:
        self.paths = paths
        self.count = count

    @property
    def dirty(self) -> bool:
        """Whether anything differs; ignored files do not count."""
        return self.count > 0


def status_start(checkout: str, *, env: Mapping[str, str]) -> proc.Child:
    """Start ``git status`` in ``checkout``, whose plain files have been compared with the record before.

    Any number may run side by side. Raises BerthError exec_failed.
    """
    return command.start(_STATUS, env=env, cwd=checkout)


def status_finish(child: proc.Child) -> Status:
    """Wait for it. Raises BerthError git_failed."""
    entries = command.checked(child.finish()).stdout.split(b"\0")
    found = [entry[3:] for entry in entries if entry]
    paths = tuple(command.shown(command.decoded(name)) for name in found[:LISTED])
    return Status(paths, len(found))


def status(checkout: str, *, env: Mapping[str, str]) -> Status:
    """Both at once."""
    return status_finish(status_start(checkout, env=env))


def dirty_error(checkout: str, found: Status) -> BerthError:
    """The refusal that lists the first paths."""
    listed = ", ".join(found.paths)
    more = f" and {found.count - len(found.paths)} more" if found.count > len(found.paths) else ""
    return BerthError(
        f"{checkout} has changes that are not committed: {listed}{more}",
        code="dirty",
        hint="commit, push or merge them; `--force` discards them",
    )
