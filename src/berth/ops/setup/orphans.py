"""What is left over without a workspace: control directories, plans, guest copies, moved directories (10.5)."""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.ops.setup.identity import read_marker
from berth.ops.setup.leases import locks_directory
from berth.ops.setup.removal import MOVED_PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from berth.ops.setup.context import Context

    class Collector(Protocol):
        """Where findings go."""

        dry_run: bool
        warnings: list[str]

        def add(self, kind: str, *, path: str, slug: str | None, reason: str, size: int) -> None: ...


LOCK_SECONDS = 0.03


def collect_orphans(ctx: Context, found: Collector) -> None:
    """Every kind of remains, each guarded by itself."""
    for collect in (_containers, _control_directories, _plans, _guests, _moved_directories):
        try:
            collect(ctx, found)
        except (BerthError, OSError) as error:
            message = error.message if isinstance(error, BerthError) else str(error)
            found.warnings.append(f"{ctx.home}: {' '.join(message.split())}")


def _containers(ctx: Context, found: Collector) -> None:
    """Containers with berth's labels and this machine's home whose workspace is unknown."""
    import json

    from berth.runtime.orphans import orphans, remove_orphan

    rows = ctx.registry.all()
    used = {str(json.loads(row.runtime).get("engine", "")) for row in rows}
    listed, warnings = orphans(ctx.home, {row.id for row in rows}, environ=ctx.environ, used=used)
    found.warnings += warnings
    for orphan in listed:
        if ctx.registry.by_id(orphan.workspace_id) is not None:
            continue  # registered since the rows were read: its row comes before its container
        if not found.dry_run:
            remove_orphan(orphan)
        reason = f"no workspace has id {orphan.workspace_id}"
        found.add("orphan_container", path=orphan.name, slug=None, reason=reason, size=0)


def _control_directories(ctx: Context, found: Collector) -> None:
    from berth.registry_sandboxes import Sandboxes

    run = os.path.join(ctx.home, "run")
    sandboxes = {row.container for row in Sandboxes(ctx.registry).all()}
    for name in sorted(set(_names(run)) - sandboxes):
        directory = os.path.join(run, name)
        owner = read_owner(directory)
        if owner is not None and ctx.registry.by_id(owner[0]) is not None:
            continue
        if owner is None or not os.path.isdir(directory):
            found.warnings.append(f"{directory} says of no workspace that it is its own; look at it and remove it")
            continue
        _under_lock(ctx, owner[1], lambda: _end_orphan(ctx, found, directory, owner))  # noqa: B023  # called now


def _end_orphan(ctx: Context, found: Collector, directory: str, owner: tuple[str, str]) -> None:
    """End the proven supervisor and the marked processes of a workspace that is unknown, then the directory goes."""
    from berth.runtime.remains import end_unknown, is_unknown_state

    if ctx.registry.by_id(owner[0]) is not None:
        return
    if is_unknown_state(directory):
        found.warnings.append(f"{directory}: process state unknown; nothing is changed")
        return
    size = _size(directory)
    if not found.dry_run:
        end_unknown(directory, owner[0])
    found.add("orphan_run", path=directory, slug=None, reason=f"no workspace has id {owner[0]} ({owner[1]})", size=size)


def read_owner(directory: str) -> tuple[str, str] | None:
    """(id, path) of the workspace that a control directory says it belongs to."""
    from berth.tools.git.checkout import read_plain

    lines = (read_plain(os.path.join(directory, "workspace")) or "").split("\n")
    return (lines[0], lines[1]) if len(lines) == 2 and len(lines[0]) == 32 else None


def _plans(ctx: Context, found: Collector) -> None:
    from berth.tools import plans

    directory = os.path.join(ctx.home, "plans")
    known = {row.plan_file for row in ctx.registry.all()}
    for name in sorted(_names(directory)):
        if name not in known:
            path = os.path.join(directory, name)
            size = _size(path)
            if not found.dry_run:
                plans.delete(ctx.home, name)
            found.add("leftover_plan", path=path, slug=None, reason="no workspace refers to it", size=size)


def _guests(ctx: Context, found: Collector) -> None:
    from berth.tools.deletion import delete_tree
    from berth.tools.guest_copy import current_guest

    directory = os.path.join(ctx.home, "guest")
    names = sorted(_names(directory))
    if not names:
        return
    known = {row.guest for row in ctx.registry.all()} | {current_guest()}
    for name in names:
        if name not in known:
            path = os.path.join(directory, name)
            size = _size(path)
            if not found.dry_run:
                delete_tree(path)
            found.add("leftover_guest", path=path, slug=None, reason="no workspace refers to it", size=size)


def _moved_directories(ctx: Context, found: Collector) -> None:
    """``.berth-removing-<id>`` beside a known workspace, its id unknown, its marker naming that id."""
    from berth.tools.deletion import delete_tree

    rows = ctx.registry.all()
    known = {row.id for row in rows}
    for parent in sorted({os.path.dirname(row.path) for row in rows}):
        for name in sorted(_names(parent)):
            workspace_id = name.removeprefix(MOVED_PREFIX)
            path = os.path.join(parent, name)
            if workspace_id == name or workspace_id in known or os.path.islink(path):
                continue
            marker = read_marker(path)
            if marker is None or marker.get("ID") != workspace_id:
                found.warnings.append(f"{path} has no marker of that workspace; look at it and remove it")
                continue
            size = _size(path)
            if not found.dry_run:
                facts = os.lstat(path)
                delete_tree(path, last=".berth/identity.json", identity=(facts.st_dev, facts.st_ino))
            found.add("leftover", path=path, slug=None, reason="its removal was finished but for this", size=size)


def _under_lock(ctx: Context, path: str, work: Callable[[], None]) -> None:
    """Do it while nobody works on a workspace at that path; skip it when somebody does."""
    from berth.tools import locks

    try:
        held = locks.exclusive(locks_directory(ctx.home), locks.lock_key(path), command="berth gc", limit=LOCK_SECONDS)
    except BerthError as error:
        if error.code == "busy":
            return
        raise
    with held:
        work()


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def _size(path: str) -> int:
    from berth.tools.trees import size

    return size(path)
