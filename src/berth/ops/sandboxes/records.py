"""Whose is a container name: rows, owners, labels (sandboxes.md 4.10). Identity before force, in both directions."""

from __future__ import annotations

import os
import uuid

from berth.errors import BerthError
from berth.ops.setup.context import Context
from berth.registry_sandboxes import Sandbox, Sandboxes
from berth.spec import sandbox as spec
from berth.tools import procfs
from berth.tools.engine import containers, images
from berth.tools.engine.client import Engine

OWNED_BY_PROCESS = ("dev", "mcp", "test", "boot")


def sandboxes(ctx: Context) -> Sandboxes:
    """The rows of this machine."""
    return Sandboxes(ctx.registry)


def marks(row: Sandbox) -> dict[str, str]:
    """The labels of everything that belongs to ``row``."""
    return spec.labels(uuid=row.uuid, kind=row.kind, name=row.name, root=row.root)


def new_row(
    ctx: Context,
    *,
    kind: str,
    name: str,
    container: str,
    engine: Engine,
    image: str,
    root: str,
    apps: tuple[tuple[str, str], ...],
    unenforced: bool,
) -> Sandbox:
    """A row as this command would write it; this process is its owner where the kind has one."""
    owner = procfs.identity(os.getpid()) if kind in OWNED_BY_PROCESS else None
    return Sandbox(
        uuid=str(uuid.uuid4()),
        kind=kind,
        name=name,
        container=container,
        engine=engine.name,
        engine_id=engine.facts.identity,
        container_id=None,
        image=image,
        root=root,
        apps=apps,
        owner_pid=owner.pid if owner is not None else None,
        owner_start=owner.start if owner is not None else None,
        unenforced=unenforced,
        created_at=ctx.timestamp(),
    )


def claim(ctx: Context, engine: Engine, wanted: Sandbox) -> Sandbox:
    """Write the row, or raise sandbox_exists: of another root, a living owner, or a foreign container."""
    if sandboxes(ctx).by_container(wanted.container) is None:
        find_ours(engine, wanted)

    def may_take(present: Sandbox) -> None:
        if present.root != wanted.root:
            raise BerthError(
                f"{present.container} belongs to {present.root}",
                code="sandbox_exists",
                hint="use another name: --name <name>" if wanted.kind == "dev" else "use another name",
            )
        if owner_lives(present) and present.owner_pid != os.getpid():
            raise BerthError(
                f"berth {present.kind} is already running here (pid {present.owner_pid})",
                code="sandbox_exists",
                hint=f"stop it, or use another name for this one ({present.container})",
            )

    return sandboxes(ctx).claim(wanted, may_take=may_take)


def owner_lives(row: Sandbox) -> bool:
    """True when the very process that made ``row`` still runs."""
    return row.owner_pid is not None and procfs.start_time(row.owner_pid) == row.owner_start


def find_ours(engine: Engine, row: Sandbox) -> containers.Container | None:
    """The container of ``row``, or None when the engine has none; sandbox_exists for a foreign one of that name."""
    found = containers.find(engine, row.container)
    if found is not None and found.labels.get(spec.LABEL) != row.uuid:
        raise BerthError(
            f"a container {row.container} exists that is not this sandbox's",
            code="sandbox_exists",
            hint=f"look at it: {engine.name} container inspect {row.container}",
        )
    return found


def remove_container(engine: Engine, row: Sandbox, *, stop_seconds: int = 10) -> None:
    """Stop and remove the container of ``row``; a foreign one is left alone and raises."""
    found = find_ours(engine, row)
    if found is None:
        return
    if found.running:
        containers.stop(engine, found.id, seconds=stop_seconds)
    containers.remove(engine, found.id)


def context_volumes(row: Sandbox) -> list[str]:
    """The volumes of ``/context`` and its index."""
    return [f"{row.container}.context", f"{row.container}.index"]


def state_volumes(row: Sandbox) -> list[str]:
    """The state volumes, in the order of the apps."""
    return [f"{row.container}.{app}.state" for app in row.app_names]


def create_volumes(engine: Engine, row: Sandbox, names: list[str]) -> None:
    """Create what is missing of ``names``; a volume of that name with another label raises sandbox_exists."""
    present = set(engine.call(["volume", "ls", "-q"]).text.split())
    ours = set(images.volumes(engine, {spec.LABEL: row.uuid})) if present.intersection(names) else set()
    for name in names:
        if name in present and name not in ours:
            raise BerthError(
                f"a volume {name} exists that is not this sandbox's",
                code="sandbox_exists",
                hint=f"look at it: {engine.name} volume inspect {name}",
            )
    images.create_volumes(engine, [name for name in names if name not in present], labels=marks(row))


def remove_volumes(engine: Engine, row: Sandbox, names: list[str]) -> None:
    """Remove those of ``names`` that carry the sandbox's label."""
    ours = set(images.volumes(engine, {spec.LABEL: row.uuid}))
    for name in names:
        if name in ours:
            images.remove_volume(engine, name)
