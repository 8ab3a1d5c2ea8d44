"""``gc``: put away, machine-wide, what nobody needs and nothing is lost with (10.5). Only when called; never forces."""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.ops.setup.configuration import check_contract, load
from berth.ops.setup.describe import last_used
from berth.ops.setup.lifecycle import Held
from berth.ops.setup.removal import begin_removal, finish_removal, forget_record, refuse_loss, work_of
from berth.ops.setup.stopping import phase_stopped, stop_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from berth.ops.setup.context import Context
    from berth.registry import Workspace
    from berth.spec.config import Config

LOCK_SECONDS = 0.03
HOUR, DAY = 3600.0, 86400.0
# A workspace that one of these speaks for is kept without a word (``-v`` says so).
KEPT_SILENTLY = frozenset(("dirty", "submodule_unpushed", "not_preserved", "processes_inside"))


class Action:
    """One thing that was (or, with dry_run, would be) done: ``kind``, ``path``, ``slug`` or None, why, bytes freed."""

    __slots__ = ("bytes", "kind", "path", "reason", "slug")

    def __init__(self, kind: str, *, path: str, slug: str | None, reason: str, size: int) -> None:
        self.kind = kind
        self.path = path
        self.slug = slug
        self.reason = reason
        self.bytes = size

    def document(self) -> dict[str, Any]:
        """The JSON object of one action."""
        return {name: getattr(self, name) for name in ("kind", "path", "slug", "reason", "bytes")}


class Collected:
    """What ``gc`` did: the ``actions`` in order, and ``warnings`` about what it left alone."""

    def __init__(self, *, dry_run: bool) -> None:
        self.dry_run = dry_run
        self.actions: list[Action] = []
        self.warnings: list[str] = []

    def add(self, kind: str, *, path: str, slug: str | None, reason: str, size: int) -> None:
        """Note an action."""
        self.actions.append(Action(kind, path=path, slug=slug, reason=reason, size=size))

    def document(self) -> dict[str, Any]:
        """The JSON object of ``gc``."""
        return {
            "dry_run": self.dry_run,
            "actions": [action.document() for action in self.actions],
            "bytes": sum(action.bytes for action in self.actions),
            "warnings": self.warnings,
        }


def gc(ctx: Context, *, dry_run: bool = False) -> Collected:
    """Look at every workspace of this machine, least recently used first, then at what is left over without one.

    ``dry_run`` makes all checks and changes nothing. Errors become warnings; the other items go on.
    """
    from berth.ops.setup.orphans import collect_orphans

    found = Collected(dry_run=dry_run)
    rows = ctx.registry.all()
    rows.sort(key=lambda row: (last_used(ctx, row), row.path))
    counts: dict[str, int] = {}
    for row in rows:
        if row.owned:
            counts[row.repo] = counts.get(row.repo, 0) + 1
    for row in rows:
        ctx.say.step(f"looking at {row.slug}")
        _guarded(found, row.path, lambda row=row: _look(ctx, found, row, counts))  # type: ignore[misc]  # bound now
    collect_orphans(ctx, found)
    return found


def _guarded(found: Collected, path: str, work: Callable[[], None]) -> None:
    try:
        work()
    except (BerthError, OSError) as error:
        message = error.message if isinstance(error, BerthError) else str(error)
        found.warnings.append(f"{path}: {' '.join(message.split())}")


def _look(ctx: Context, found: Collected, seen: Workspace, counts: dict[str, int]) -> None:
    """One workspace under its lock, unless somebody works on it or used it meanwhile."""
    try:
        with Held(ctx, "gc", seen.path, row=seen, words="berth gc", limit_seconds=LOCK_SECONDS) as held:
            if last_used(ctx, held.row) == last_used(ctx, seen):
                _judge(held, found, counts)
    except BerthError as error:
        if error.code in ("busy", "workspace_not_found") or (
            error.code == "identity_mismatch" and ctx.registry.by_id(seen.id) is None
        ):
            ctx.say.detail(f"{seen.path} is left alone: {error.message}")
            return
        raise


def _judge(held: Held, found: Collected, counts: dict[str, int]) -> None:
    """The first rule that matches (the table of 10.5)."""
    row = held.row
    if row.removing:
        found.warnings.append(f"{row.path}: its removal is not finished; retry berth done {row.path}")
        return
    if not os.path.lexists(row.path):
        _reclaim(held, found, counts)
        return
    config = load(row.path).config
    if _idle_stop(held, found, config):
        return
    if not row.owned or not row.setup_complete or row.phase == "creating" or _is_running(held):
        return
    reason = _reason_to_remove(held, config, counts)
    if reason is None:
        return
    try:
        refuse_loss(held, force=False)
    except BerthError as error:
        if error.code in KEPT_SILENTLY:
            held.ctx.say.detail(f"{row.path} is kept: {error.message}")
            return
        raise
    kind, why = reason
    size = _size(row)
    if not found.dry_run:
        begin_removal(held, force=False)
        finish_removal(held)
    counts[row.repo] -= 1
    found.add(kind, path=row.path, slug=row.slug, reason=why, size=size)


def _reclaim(held: Held, found: Collected, counts: dict[str, int]) -> None:
    """The directory is gone, its parent is there: the record goes; git metadata and branch stay and are named."""
    from berth.tools.git.worktrees import lock_reason

    row = held.row
    if not os.path.isdir(os.path.dirname(row.path)):
        found.warnings.append(f"{row.path}: its parent directory is missing too; is a disk not mounted?")
        return
    if row.git_dir and lock_reason(row.git_dir) is not None:
        found.warnings.append(f"{row.path} is missing and locked: git worktree unlock {row.path}")
        return
    left = f"branch {row.branch} and git's entry stay" if row.branch else "git's entry stays"
    if not found.dry_run:
        stop_all(held.ctx, row)
        forget_record(held)
    if row.owned:
        counts[row.repo] -= 1
    reason = f"its directory is missing; {left} (git worktree remove {row.path})"
    found.add("reclaim", path=row.path, slug=row.slug, reason=reason, size=0)


def _idle_stop(held: Held, found: Collected, config: Config) -> bool:
    hours = config.gc.idle_stop_hours
    if hours <= 0 or _age(held) < hours * HOUR or not _is_running(held):
        return False
    if not found.dry_run:
        stop_all(held.ctx, held.row)
        phase_stopped(held.ctx, held.row)
    reason = f"running and not used for {hours} h"
    found.add("idle_stop", path=held.row.path, slug=held.row.slug, reason=reason, size=0)
    return True


def _reason_to_remove(held: Held, config: Config, counts: dict[str, int]) -> tuple[str, str] | None:
    """(kind, why) of the first of the three rules that end in ``done``, or None."""
    row = held.row
    days = config.gc.remove_after_days
    if days > 0 and _age(held) >= days * DAY and _is_merged(held):
        return "remove_merged", f"merged and not used for {days} d"
    most = config.gc.max_workspaces
    if most > 0 and counts.get(row.repo, 0) > most:
        return "evict", f"{counts[row.repo]} workspaces of this repository, max_workspaces is {most}"
    try:
        check_contract(row, config)
    except BerthError as error:
        return "reclaim_contract", error.message
    return None


def _is_merged(held: Held) -> bool:
    from berth.tools.git.preservation import is_merged

    return is_merged(held.row.common_dir, work_of(held), env=held.ctx.environ)


def _is_running(held: Held) -> bool:
    from berth.runtime.select import observe

    (observation,) = observe(held.ctx.home, [held.row], environ=held.ctx.environ)
    if observation.running is None:
        raise BerthError(observation.error or "process state unknown", code="state_unknown")
    return observation.running or bool(observation.processes)


def _age(held: Held) -> float:
    """Seconds since the workspace was last used."""
    import calendar
    import time

    used = last_used(held.ctx, held.row)
    return held.ctx.now() - calendar.timegm(time.strptime(used[:19], "%Y-%m-%dT%H:%M:%S"))


def _size(row: Workspace) -> int:
    from berth.tools.trees import size

    return size(row.path)
