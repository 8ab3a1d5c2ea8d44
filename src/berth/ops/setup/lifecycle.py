"""Holding a workspace: its lock, what berth runs inside of, the intent that is pending, and the record of a failure.

``Held`` is how every verb that changes a workspace begins. The nested rules (5.3) are decided here and nowhere else.
"""

from __future__ import annotations

from berth.errors import BerthError, Interrupted
from berth.ops.setup.leases import locks_directory, valid_lease
from berth.ops.setup.locate import canonical, relocate
from berth.ops.setup.young_index import refresh_young_index
from berth.tools import locks, steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from berth.ops.setup.context import Context
    from berth.registry import Workspace

NESTED_WAIT_SECONDS = 60.0
WORKS_INSIDE_A_RUN = frozenset(("up", "down", "start", "stop", "restart", "new", "adopt"))
STEERS = frozenset(("start", "stop", "restart"))
# A refusal protects something and says nothing about the workspace's health; these statuses are not recorded on it.
_RECORDED_STATUS = 1
_NOT_RECORDED = frozenset(
    ("busy", "config_invalid", "registry_busy", "registry_corrupt", "registry_newer", "port_in_use")
)


class Held:
    """The exclusive hold on the workspace at ``path``, for one lifecycle command::

        with Held(ctx, "up", row.path, row=row) as held:
            ...held.row...

    ``limit_seconds`` bounds the wait for the lock; by default there is no bound outside of runs, hooks and processes.
    Raises busy, inside_run, inside_service; with ``row`` also workspace_not_found and identity_mismatch when the
    workspace was replaced while berth waited.
    """

    def __init__(
        self,
        ctx: Context,
        command: str,
        path: str,
        *,
        row: Workspace | None = None,
        words: str = "",
        limit_seconds: float | None = None,
    ) -> None:
        self.ctx = ctx
        self.command = command
        self.path = canonical(path)
        self.key = locks.lock_key(self.path)
        self._seen = row
        self._row = row
        self._words = words or f"berth {command}"
        self._limit_seconds = limit_seconds
        self._lock: locks.Held | None = None

    @property
    def row(self) -> Workspace:
        """The row as it was last read under the lock."""
        assert self._row is not None
        return self._row

    @row.setter
    def row(self, row: Workspace) -> None:
        self._row = row

    def __enter__(self) -> Held:
        inside_run = self._admit()
        take = locks.operation if inside_run else locks.exclusive
        self._lock = take(
            locks_directory(self.ctx.home),
            self.key,
            command=self._words,
            say=self.ctx.say.waiting,
            limit=0.0 if self.ctx.no_wait else self._limit(inside_run),
        )
        steps.reach("the workspace is locked")
        try:
            if self._seen is not None:
                self._row = relocate(self.ctx, self._seen)
                refresh_young_index(self.ctx, self._row)
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        assert self._lock is not None
        try:
            if error is not None:
                self._record(error)
        finally:
            self._lock.release()

    def update(self, **changes: object) -> Workspace:
        """Change columns of the row; the row read back is the held one."""
        self._row = self.ctx.registry.update(self.row.id, **changes)
        return self._row

    def used(self) -> None:
        """Note that the workspace was used now."""
        self.update(last_used_at=self.ctx.timestamp())

    def refuse_pending_removal(self) -> None:
        """Raise removal_pending when a removal was begun (10.4)."""
        refuse_pending_removal(self.row)

    def _admit(self) -> bool:
        """Whether the command runs inside a ``run`` of this workspace; refuses what must not run inside it."""
        environ = self.ctx.environ
        refuse_inside_service(self.ctx, self._seen, self.command)
        if valid_lease(self.ctx.home, environ) != self.key:
            return False
        if self.command not in WORKS_INSIDE_A_RUN:
            raise BerthError(
                f"berth {self.command} cannot be run from inside a berth run of {self.path}",
                code="inside_run",
                hint="run it from outside",
            )
        return True

    def _limit(self, inside_run: bool) -> float | None:
        """Seconds to wait: no limit, but 60 s from inside a run, hook or process of another workspace (5.3)."""
        if self._limit_seconds is not None:
            return self._limit_seconds
        nested = self.ctx.environ.get("BERTH_SUPERVISED") or valid_lease(self.ctx.home, self.ctx.environ)
        return NESTED_WAIT_SECONDS if nested and not inside_run else None

    def _record(self, error: BaseException) -> None:
        """Write a failure on the workspace, so that ``status`` can tell it. A refusal is not a failure."""
        if self._row is None or self._row.removing or self._row.phase == "creating":
            return
        if isinstance(error, Interrupted):
            message = f"berth {self.command} was interrupted by signal {error.signum}"
            error.hint = error.hint or f"berth {self.command} {self._row.slug}"
        elif isinstance(error, BerthError):
            if error.exit_status != _RECORDED_STATUS or error.code in _NOT_RECORDED:
                return
            message = error.message
        else:
            message = f"berth {self.command} failed: {error}"
        try:
            self.ctx.registry.update(self._row.id, phase="failed", last_error=message)
        except BerthError:
            return  # the failure at hand is the one to tell; the registry's own comes up with the next command


def refuse_inside_service(ctx: Context, row: Workspace | None, command: str) -> None:
    """Raise inside_service in a hook or supervised process of the workspace itself: its lock is held, or it would end
    itself (5.3).
    """
    if row is not None and ctx.environ.get("BERTH_SUPERVISED") == row.id:
        raise BerthError(
            f"berth {command} cannot be run from a hook or process of {row.path} itself",
            code="inside_service",
            hint="run it from outside the workspace's processes",
        )


def refuse_pending_removal(row: Workspace) -> None:
    """Raise removal_pending when a removal was begun (10.4)."""
    if row.removing:
        raise BerthError(
            f"the removal of {row.slug} at {row.path} was begun and is not finished",
            code="removal_pending",
            hint=f"berth done {row.path}",
        )
