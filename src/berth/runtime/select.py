"""Which back end a workspace has: its record says, never the configuration of the day."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from berth.registry import Workspace
    from berth.runtime.base import Observation, Runtime, Say


def runtime_for(
    home: str,
    row: Workspace,
    *,
    environ: Mapping[str, str],
    say: Say,
    record: Callable[..., Workspace] | None = None,
) -> Runtime:
    """The runtime of one workspace. ``record`` writes columns of its row (a container records engine and guest)."""
    if backend_of(row) == "container":
        from berth.runtime.container import Container

        return Container(home, row, environ=environ, say=say, record=record)
    from berth.runtime.native import Native

    return Native(home, row, environ=environ, say=say)


def observe(home: str, rows: Sequence[Workspace], *, environ: Mapping[str, str]) -> list[Observation]:
    """What runs in each workspace now, all asked at once, in the order given."""
    native = [row for row in rows if backend_of(row) == "native"]
    boxed = [row for row in rows if backend_of(row) == "container"]
    found: dict[str, Observation] = {}
    if native:
        from berth.runtime.state import observe_native

        found.update(zip((row.id for row in native), observe_native(home, native), strict=True))
    if boxed:
        from berth.runtime.box_state import observe_containers

        found.update(zip((row.id for row in boxed), observe_containers(home, boxed, environ=environ), strict=True))
    return [found[row.id] for row in rows]


def backend_of(row: Workspace) -> str:
    """``native`` or ``container``, as recorded."""
    import json

    return str(json.loads(row.runtime).get("backend", "native"))
