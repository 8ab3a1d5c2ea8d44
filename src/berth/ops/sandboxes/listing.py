"""``ls --all``: every sandbox on record, whatever made it (sandboxes.md 4.10)."""

from __future__ import annotations

from typing import Any

from berth.errors import BerthError
from berth.ops.sandboxes import records
from berth.ops.setup.context import Context
from berth.registry_sandboxes import Sandbox
from berth.tools.engine.client import Engine


def listing(ctx: Context) -> list[dict[str, Any]]:
    """``kind``, ``name``, ``state`` (running, stopped, missing, foreign, unknown), ``path`` and ``apps`` of each."""
    return [
        {
            "kind": row.kind,
            "name": row.name,
            "state": _state(ctx, row),
            "path": row.root,
            "apps": row.app_names,
        }
        for row in records.sandboxes(ctx).all()
    ]


def _state(ctx: Context, row: Sandbox) -> str:
    try:
        found = records.find_ours(Engine(row.engine, environ=ctx.environ), row)
    except BerthError as error:
        return "foreign" if error.code == "sandbox_exists" else "unknown"
    return "missing" if found is None else "running" if found.running else "stopped"
