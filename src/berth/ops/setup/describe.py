"""What a workspace looks like from outside: the JSON object of workspaces.md 2.4, for one or for many at once.

git is started first and everything else happens meanwhile; sockets are asked together; nothing is changed.
"""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.ops.setup.identity import damage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from berth.ops.setup.context import Context
    from berth.registry import Workspace
    from berth.runtime.base import Observation
    from berth.tools.proc import Child

AT_ONCE = 8  # git processes that run beside each other


class View:
    """A workspace as it is shown; the attributes are the keys of its JSON object.

    ``env`` is None where the contract leaves it out, ``container`` in native mode. ``state`` is the word of ``ls``.
    """

    __slots__ = (
        "branch",
        "container",
        "created_at",
        "dirty",
        "env",
        "error",
        "id",
        "last_used_at",
        "listen",
        "missing",
        "ownership",
        "path",
        "phase",
        "ports",
        "processes",
        "repo",
        "running",
        "runtime",
        "slug",
        "urls",
        "warnings",
    )

    def __init__(self, row: Workspace) -> None:
        import json

        self.id = row.id
        self.slug = row.slug
        self.path = row.path
        self.repo = row.repo
        self.branch: str | None = row.branch
        self.ports = row.ports
        self.urls = {name: f"http://{row.slug}.localhost:{port}" for name, port in row.ports.items()}
        self.listen: dict[str, int] = json.loads(row.listen)
        self.env: dict[str, str] | None = None
        self.running: bool | None = None
        self.dirty: bool | None = None
        self.processes: list[dict[str, Any]] = []
        self.created_at = row.created_at
        self.last_used_at = row.last_used_at
        self.phase = row.phase
        self.ownership = row.ownership
        self.error: str | None = row.last_error
        self.runtime: dict[str, Any] = {}
        self.container: str | None = None
        self.warnings: list[str] = json.loads(row.warnings)
        self.missing = False

    @property
    def state(self) -> str:
        """The first word that applies, as ``ls`` shows it."""
        if self.phase == "removing":
            return "removing"
        if self.missing:
            return "missing"
        if self.phase == "creating":
            return "creating"
        if self.running is None:
            return "unknown"
        if self.error is not None and self.error.startswith(("supervisor lost", "processes left behind")):
            return "lost"
        if self.running:
            return "up"
        return "failed" if self.phase == "failed" else "stopped"

    def document(self) -> dict[str, Any]:
        """The JSON object, its keys in the contract's order."""
        found: dict[str, Any] = {
            "id": self.id,
            "slug": self.slug,
            "path": self.path,
            "repo": self.repo,
            "branch": self.branch,
            "ports": self.ports,
            "urls": self.urls,
            "listen": self.listen,
        }
        if self.env is not None:
            found["env"] = self.env
        for name in ("running", "dirty", "processes", "created_at", "last_used_at", "phase", "ownership", "error"):
            found[name] = getattr(self, name)
        found["runtime"] = self.runtime
        if self.container is not None:
            found["container"] = self.container
        found["warnings"] = self.warnings
        return found


def view(ctx: Context, row: Workspace, *, env: bool = False, configuration: bool = False) -> View:
    """One workspace. ``env`` asks for its variables, ``configuration`` for an error in its berth.yaml."""
    (found,) = views(ctx, [row], env=env, configuration=configuration)
    return found


def views(ctx: Context, rows: Sequence[Workspace], *, env: bool = False, configuration: bool = False) -> list[View]:
    """Many workspaces at once, in the order given; one that cannot be inspected says so in ``error``."""
    looks = [_Look(ctx, row) for row in rows]
    started = 0
    for look in looks[:AT_ONCE]:
        look.start_git()
        started += 1
    from berth.runtime.select import observe

    observations = observe(ctx.home, [look.row for look in looks], environ=ctx.environ)
    for look, observation in zip(looks, observations, strict=True):
        if started < len(looks):
            looks[started].start_git()
            started += 1
        look.finish(observation, env=env, configuration=configuration)
    return [look.view for look in looks]


class _Look:
    """The inspection of one workspace, in two halves with git running between them."""

    def __init__(self, ctx: Context, row: Workspace) -> None:
        self.ctx = ctx
        self.row = row
        self._child: Child | None = None
        self._damage = damage(row)

    def start_git(self) -> None:
        """Ask git whether the checkout is clean, unless its identity is in doubt: git would believe what it finds."""
        if self._damage is None and os.path.isdir(self.row.path):
            from berth.tools.git.status import status_start

            try:
                self._child = status_start(self.row.path, env=self.ctx.environ)
            except BerthError as error:
                self._damage = error.message

    def finish(self, observation: Observation, *, env: bool, configuration: bool) -> None:
        """Collect everything into ``view``."""
        self.view = found = View(self.row)
        found.missing = not os.path.isdir(self.row.path)
        found.error = self._damage or found.error
        if configuration or env:
            self._configured(found, env=env)
        self._branch_and_dirt(found)
        found.running = observation.running
        found.processes = observation.processes
        found.error = observation.error or found.error
        found.container = observation.container
        found.warnings = found.warnings + observation.warnings
        found.last_used_at = last_used(self.ctx, self.row)
        from berth.spec.plan import plan_document

        found.runtime = plan_document(self.row)

    def _configured(self, found: View, *, env: bool) -> None:
        from berth.ops.setup.planning import host_environment

        variables, complaint = host_environment(self.ctx, self.row)
        if env:
            found.env = variables
        found.error = complaint or found.error

    def _branch_and_dirt(self, found: View) -> None:
        if self._child is None:
            return
        from berth.tools.git.checkout import current_branch
        from berth.tools.git.status import status_finish

        try:
            found.branch = current_branch(self.row.git_dir, env=self.ctx.environ)
            found.dirty = status_finish(self._child).dirty
        except BerthError as error:
            found.error = error.message


def last_used(ctx: Context, row: Workspace) -> str:
    """The later of the recorded time and the last ``run``, as a timestamp (5.1)."""
    from berth.ops.setup.leases import locks_directory
    from berth.registry import timestamp
    from berth.tools.locks import last_use, lock_key

    return max(row.last_used_at, timestamp(last_use(locks_directory(ctx.home), lock_key(row.path))))
