"""The verbs that only look: ``ls status ports plan attach open``. They take no lock and change nothing."""

from __future__ import annotations

from berth.errors import BerthError
from berth.ops.setup.describe import View, view, views
from berth.ops.setup.locate import locate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from berth.ops.setup.context import Context

FAILS_AT_ONCE_SECONDS = 0.3
PREFERRED_PORTS = ("web", "frontend", "ui", "http", "api")


def ls(ctx: Context) -> list[View]:
    """Every workspace of this machine, most recently used first, ties by path."""
    found = views(ctx, ctx.registry.all())
    found.sort(key=lambda one: one.path)
    found.sort(key=lambda one: one.last_used_at, reverse=True)
    return found


def status(ctx: Context, argument: str | None) -> View:
    """One workspace with its variables, processes and whatever is wrong with it."""
    return view(ctx, locate(ctx, argument), env=True, configuration=True)


class Ports:
    """The reserved ports of a workspace: name → host port, name → container port, name → URL."""

    __slots__ = ("listen", "path", "ports", "slug", "urls")

    def __init__(self, *, slug: str, path: str, ports: dict[str, int], listen: dict[str, int]) -> None:
        self.slug = slug
        self.path = path
        self.ports = ports
        self.listen = listen
        self.urls = {name: f"http://{slug}.localhost:{port}" for name, port in ports.items()}

    def document(self) -> dict[str, Any]:
        """The JSON object of ``ports``."""
        return {"slug": self.slug, "path": self.path, "ports": self.ports, "listen": self.listen, "urls": self.urls}


def ports(ctx: Context, argument: str | None) -> Ports:
    """The reserved ports, from the record alone."""
    import json

    row = locate(ctx, argument)
    return Ports(slug=row.slug, path=row.path, ports=row.ports, listen=json.loads(row.listen))


def plan(ctx: Context, argument: str | None) -> str:
    """What a run of the workspace would use, as JSON text: the prepared plan while it holds, else made afresh."""
    import json

    from berth.ops.setup.lifecycle import refuse_pending_removal
    from berth.tools import plans

    row = locate(ctx, argument)
    refuse_pending_removal(row)
    prepared = plans.load(ctx.home, row.path)
    if prepared is not None and prepared.workspace_id == row.id and prepared.holds(ctx.environ):
        return prepared.document
    from berth.ops.setup.configuration import load, usable
    from berth.ops.setup.identity import check_identity
    from berth.spec.plan import plan_document

    if row.phase == "creating":
        load(row.path)
    else:
        check_identity(row)
        usable(ctx, row)
    return json.dumps(plan_document(row), indent=2, ensure_ascii=False)


def attach(ctx: Context, argument: str | None) -> View:
    """The workspace with its variables as seen from the host; notes that it was used."""
    row = locate(ctx, argument)
    found = view(ctx, row, env=True)
    if not row.removing:
        ctx.registry.update(row.id, last_used_at=ctx.timestamp())
    return found


class Target:
    """What ``open`` opens: ``url``, the published ``address``, the host ``port``."""

    __slots__ = ("_environ", "address", "port", "url")

    def __init__(self, slug: str, port: int, environ: Mapping[str, str]) -> None:
        self.url = f"http://{slug}.localhost:{port}"
        self.address = f"http://127.0.0.1:{port}"
        self.port = port
        self._environ = environ

    def document(self) -> dict[str, Any]:
        """The JSON object of ``open``."""
        return {"url": self.url, "address": self.address, "port": self.port}

    def launch(self) -> None:
        """Hand the URL to the desktop's launcher without waiting for it. Raises open_failed, with the URL."""
        import sys

        from berth.spec.environment import inherited
        from berth.tools import proc

        launcher = "open" if sys.platform == "darwin" else "xdg-open"
        failure = BerthError(
            f"{launcher} cannot open {self.url}", code="open_failed", hint=f"open {self.url} or {self.address} yourself"
        )
        try:
            pid = proc.spawn([launcher, self.url], env=inherited(self._environ), session=True)
        except proc.ExecFailed:
            raise failure from None
        if proc.ended_badly(pid, within_seconds=FAILS_AT_ONCE_SECONDS):
            raise failure


def open_port(ctx: Context, name: str | None, argument: str | None) -> Target:
    """The URL of a port, handed to the desktop's launcher without waiting for it.

    Raises port_not_found with the known names, open_failed when there is no launcher or it fails at once.
    """
    row = locate(ctx, argument)
    chosen = name or next((known for known in PREFERRED_PORTS if known in row.ports), None) or declared_first(ctx, row)
    if chosen is None or chosen not in row.ports:
        known = ", ".join(row.ports) or "none"
        raise BerthError(
            f"{row.slug} has no port {name or 'at all'}",
            code="port_not_found",
            hint=f"known ports: {known}",
        )
    return Target(row.slug, row.ports[chosen], ctx.environ)


def declared_first(ctx: Context, row: Any) -> str | None:
    """The port that berth.yaml declares first; ports are kept sorted in the registry, and numbered as declared."""
    return min(row.ports, key=lambda name: row.ports[name], default=None)
