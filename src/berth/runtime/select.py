"""Which back end a workspace has: its record says, never the configuration of the day."""

from __future__ import annotations

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.registry import Workspace
    from berth.runtime.base import Observation, Runtime, Say


def runtime_for(home: str, row: Workspace, *, environ: Mapping[str, str], say: Say) -> Runtime:
    """The runtime of one workspace."""
    if backend_of(row) == "container":
        raise not_there_yet(row)
    from berth.runtime.native import Native

    return Native(home, row, environ=environ, say=say)


def observe(home: str, rows: Sequence[Workspace], *, environ: Mapping[str, str]) -> list[Observation]:
    """What runs in each workspace now, all asked at once, in the order given."""
    from berth.runtime.base import Observation
    from berth.runtime.state import observe_native

    native = [row for row in rows if backend_of(row) == "native"]
    found = dict(zip((row.id for row in native), observe_native(home, native), strict=True))
    unknown = Observation(running=None, error="container workspaces are not there yet")
    return [found.get(row.id, unknown) for row in rows]


def backend_of(row: Workspace) -> str:
    """``native`` or ``container``, as recorded."""
    import json

    return str(json.loads(row.runtime).get("backend", "native"))


def not_there_yet(row: Workspace) -> BerthError:
    """The refusal for a container workspace."""
    return BerthError(
        f"{row.path}: runtime.backend: container is not there yet",
        code="engine_unavailable",
        hint="use runtime.backend: native",
    )
