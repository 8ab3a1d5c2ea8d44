"""Containers of this machine's home that no workspace knows any more (workspaces.md 10.5, ``orphan_container``)."""

from __future__ import annotations

from berth.errors import BerthError
from berth.runtime.box import home_identity
from berth.spec.container import LABEL_HOME, LABEL_WORKSPACE
from berth.tools.engine import containers
from berth.tools.engine.client import NAMES, Engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class Orphan:
    """One container without a workspace: the ``engine`` that has it, its ``name`` and the ``workspace_id`` it names."""

    __slots__ = ("engine", "name", "workspace_id")

    def __init__(self, engine: Engine, name: str, workspace_id: str) -> None:
        self.engine = engine
        self.name = name
        self.workspace_id = workspace_id


def orphans(
    home: str, known: Collection[str], *, environ: Mapping[str, str], used: Collection[str]
) -> tuple[list[Orphan], list[str]]:
    """(containers whose label names this home and no id in ``known``, warnings).

    Both engines are asked where they are installed; one that does not answer is a warning only if it is in ``used``,
    the engines that some workspace has. Orphans of another home or machine carry another label.
    """
    found: list[Orphan] = []
    warnings: list[str] = []
    for name in NAMES:
        engine = Engine(name, environ=environ)
        try:
            listed = containers.find_labelled(engine, {LABEL_HOME: home_identity(home)})
        except BerthError as error:
            if name in used:
                warnings.append(error.message)
            continue
        for one in listed:
            workspace_id = one.labels.get(LABEL_WORKSPACE, "")
            if workspace_id and workspace_id not in known and one.name == f"berth-{workspace_id}":
                found.append(Orphan(engine, one.name, workspace_id))
    return found, warnings


def remove_orphan(orphan: Orphan) -> None:
    """Stop and remove one. Raises stop_failed, engine_unavailable."""
    containers.stop(orphan.engine, orphan.name)
    containers.remove(orphan.engine, orphan.name)
