"""``gc``, sandbox part: what a dead command left of its sandbox (sandboxes.md 4.10). What keeps data is only named."""

from __future__ import annotations

from typing import NamedTuple

from berth.errors import BerthError
from berth.ops.sandboxes import records, starting
from berth.ops.setup.context import Context
from berth.registry_sandboxes import Sandbox
from berth.spec import sandbox as spec
from berth.tools.engine import images
from berth.tools.engine.client import Engine


class Collected(NamedTuple):
    """One thing that was removed, or with ``dry_run`` would be, or is only named: its name and why."""

    name: str
    reason: str


def collect(ctx: Context, *, dry_run: bool, volumes: bool) -> tuple[list[Collected], list[str]]:
    """Look at every sandbox; returns what was collected and warnings. ``volumes``: state volumes of dev go too."""
    found: list[Collected] = []
    warnings: list[str] = []
    for row in records.sandboxes(ctx).all():
        try:
            found += _collect_one(ctx, row, dry_run=dry_run, volumes=volumes)
        except BerthError as error:
            warnings.append(f"{row.container}: {error.message}")
    return found, warnings


def _collect_one(ctx: Context, row: Sandbox, *, dry_run: bool, volumes: bool) -> list[Collected]:
    if row.kind not in records.OWNED_BY_PROCESS or records.owner_lives(row):
        return []
    engine = Engine(row.engine, environ=ctx.environ)
    done: list[Collected] = []
    container = records.find_ours(engine, row)
    if container is not None:
        done.append(Collected(row.container, f"its berth {row.kind} has ended"))
    ours = images.volumes(engine, {spec.LABEL: row.uuid})
    all_go = row.kind in ("test", "boot")
    going = ours if all_go else [name for name in ours if name in records.context_volumes(row) or volumes]
    kept = [name for name in ours if name not in going]
    done += [Collected(name, "volume of an ended sandbox") for name in going]
    done += [Collected(name, "kept: its state; berth gc --volumes removes it") for name in kept]
    if not dry_run:
        records.remove_container(engine, row)
        starting.remove_secrets(ctx, row)
        records.remove_volumes(engine, row, going)
        if all_go:
            images.remove_image(engine, row.image)
        if not kept:
            records.sandboxes(ctx).delete(row.uuid)
    return done
