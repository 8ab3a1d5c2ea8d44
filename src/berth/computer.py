"""The host library: boot or join a sandbox and call its apps' exports as functions (sandboxes.md 7.5, 12.2).

Nothing here parses arguments or prints; warnings are collected. Calls are thread-safe: one open relay per app, its lock
held for the exchange.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from berth.errors import BerthError
from berth.ops.sandboxes import audit, calls, records, resident, resolve
from berth.ops.sandboxes.relay import ProtocolError, Relay, Timeout, Unreachable
from berth.ops.sandboxes.starting import Settings
from berth.ops.setup.context import Context, home_directory
from berth.registry_sandboxes import Sandbox
from berth.spec.app import Export
from berth.tools.engine import containers
from berth.tools.engine.client import Engine

__all__ = [
    "CallError", "Computer", "NotFound", "NotRunning", "ProtocolError", "Timeout", "Tool", "UnknownTool", "Unreachable",
    "invoke_app_export",
]  # fmt: skip

MAX_DESCRIPTION = 1024
_JSON_TYPES = {"string": "string", "number": "number", "boolean": "boolean", "object": "object", "array": "array"}


class NotFound(LookupError):
    """No sandbox of berth's has that name."""


class NotRunning(RuntimeError):
    """The sandbox is known and its container does not run."""


class UnknownTool(LookupError):
    """No app of this sandbox exports that; the message lists what there is."""


class CallError(Exception):
    """The app answered with an error: ``code`` of sandboxes.md 7.3, ``str()`` its message."""

    def __init__(self, code: str, message: str, *, errno: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.errno = errno


class Tool(NamedTuple):
    """One export as a tool: ``name`` is ``<app>__<export>``, ``input_schema`` a JSON Schema."""

    name: str
    app: str
    export: str
    description: str
    input_schema: dict[str, Any]


class _Quiet:
    """Keeps warnings for whoever asks; tells nobody anything."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def note(self, text: str) -> None:
        """Not told."""

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def waiting(self, text: str) -> None:
        """Not told."""

    def detail(self, text: str) -> None:
        """Not told."""

    def step(self, name: str) -> None:
        """Not told."""

    def raw_story(self, data: bytes) -> None:
        """Not told."""


def _context(env: Mapping[str, str] | None = None) -> Context:
    environ = {**os.environ, **(env or {})}
    return Context(home=home_directory(environ), environ=environ, say=_Quiet())


def invoke_app_export(
    container: str,
    app: str,
    export: str,
    input: Mapping[str, Any],  # noqa: A002  # the protocol's word
    timeout: float = calls.DEFAULT_SECONDS,
) -> dict[str, Any]:
    """One call over a relay of its own: the response object, also where the app answered with an error.

    ``timeout`` in seconds. Raises Unreachable, Timeout, ProtocolError, NotFound (no container of berth's).
    """
    ctx = _context()
    try:
        return calls.exchange(ctx, _row(ctx, container, app=app), app, export, input, seconds=timeout)
    finally:
        ctx.registry.close()


def _row(ctx: Context, container: str, *, app: str | None = None) -> Sandbox:
    try:
        return calls.find(ctx, container, app=app)
    except BerthError as error:
        if error.code in ("sandbox_not_found", "app_not_found"):
            raise NotFound(error.message) from error
        raise


class Computer:
    """A running sandbox. Made by ``boot``, which owns it, or by ``connect``, which leaves it running."""

    def __init__(self, ctx: Context, row: Sandbox, *, owned: bool) -> None:
        self._ctx = ctx
        self._row = row
        self._owned = owned
        self._engine = Engine(row.engine, environ=ctx.environ)
        self._tools = _tools_of(row)
        self._relays: dict[str, Relay] = {}
        self._locks = {app: threading.Lock() for app in row.app_names}
        self._stopped = False

    @classmethod
    def boot(
        cls,
        apps: Sequence[str],
        *,
        name: str | None = None,
        engine: str | None = None,
        image: str | None = None,
        env: Mapping[str, str] | None = None,
        allow_unenforced: bool = False,
        timeout: float = 60,
    ) -> Computer:
        """Build and start a sandbox of the app directories ``apps``, relative to the current directory, and own it.

        ``env`` has values of secrets; ``timeout`` in seconds. Raises BerthError as ``berth os up`` would print it.
        """
        ctx = _context(env)
        resolved = resolve.for_os(os.getcwd(), [os.fspath(app) for app in apps])
        chosen = name or f"{resolved.names[0][:24]}-{secrets.token_hex(3)}"
        settings = Settings(
            engine=engine, image=image, allow_unenforced=allow_unenforced, env_file=None, timeout_seconds=timeout
        )
        result = resident.up(ctx, resolved, name=chosen, settings=settings, kind="boot")
        return cls(ctx, _row(ctx, result.row.container), owned=True)

    @classmethod
    def connect(cls, name: str) -> Computer:
        """Join a running sandbox by its ``berth os`` name or its container's name. Raises NotFound and NotRunning."""
        ctx = _context()
        rows = {row.container: row for row in records.sandboxes(ctx).all()}
        row = rows.get(name) or rows.get(f"berth-os-{name}")
        if row is None:
            raise NotFound(f"no sandbox {name}")
        found = containers.find(Engine(row.engine, environ=ctx.environ), row.container)
        if row.container_id is None or found is None or not found.running:
            raise NotRunning(f"{row.container} is not running")
        return cls(ctx, row, owned=False)

    @property
    def container(self) -> str:
        """The container's name."""
        return self._row.container

    def tools(self) -> list[Tool]:
        """Every export of every app, in the order of the apps and their manifests."""
        return list(self._tools)

    def call(self, tool: str, /, *, timeout: float = calls.DEFAULT_SECONDS, **input: Any) -> Any:  # noqa: A002
        """The result of ``app.export`` or ``app__export``; the input as keywords.

        Raises UnknownTool, CallError, Timeout, Unreachable. For an input field called ``timeout``: ``invoke``.
        """
        return self.invoke(tool, input, timeout=timeout)

    def invoke(self, tool: str, input: Mapping[str, Any], *, timeout: float = calls.DEFAULT_SECONDS) -> Any:  # noqa: A002
        """Like ``call`` with the input as one mapping."""
        chosen = self._tool(tool)
        answer = self._exchange(chosen.app, chosen.export, input, timeout)
        error = answer.get("error")
        audit.record(
            self._ctx,
            "call",
            self._row,
            decision="failed" if error else "allowed",
            command="computer",
            app=chosen.app,
            export=chosen.export,
            outcome=str(error.get("code")) if error else "ok",
        )
        if error:
            raise CallError(str(error.get("code")), str(error.get("message")), errno=error.get("errno"))
        return answer.get("result")

    def _tool(self, name: str) -> Tool:
        wanted = name.replace(".", "__", 1) if "__" not in name else name
        for tool in self._tools:
            if tool.name == wanted:
                return tool
        raise UnknownTool(f"no tool {name}; there are: {', '.join(tool.name for tool in self._tools)}")

    def _exchange(self, app: str, export: str, input: Mapping[str, Any], timeout: float) -> dict[str, Any]:  # noqa: A002
        """One exchange on the app's open relay; a dead one is opened once more, a failed one is given up."""
        with self._locks[app]:
            relay = self._relays.pop(app, None)
            if relay is not None and not relay.is_alive():
                relay.close()
                relay = None
            if relay is None:
                assert self._row.container_id is not None
                relay = Relay(self._engine, self._row.container_id, app)
            try:
                answer = relay.call(export, input, seconds=timeout)
            except BaseException:
                relay.close()
                raise
            self._relays[app] = relay
            return answer

    def stop(self) -> None:
        """Close the relays; a sandbox that ``boot`` made is removed with image and volumes. Safe to call twice."""
        if self._stopped:
            return
        self._stopped = True
        for app, lock in self._locks.items():
            with lock:
                relay = self._relays.pop(app, None)
                if relay is not None:
                    relay.close()
        if self._owned:
            resident.down(self._ctx, self._row.name, keep_volumes=False)
        self._ctx.registry.close()

    def __enter__(self) -> Computer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _tools_of(row: Sandbox) -> list[Tool]:
    """The tools of a sandbox, from the manifests of its apps as they lie on the host."""
    from berth.tools import manifest

    loaded = [manifest.load(directory).manifest for _name, directory in row.apps]
    return [_tool_of(app.name, export) for app in loaded for export in app.exports]


def _tool_of(app: str, export: Export) -> Tool:
    description = f"{app}: {export.description or export.name}"[:MAX_DESCRIPTION]
    return Tool(f"{app}__{export.name}", app, export.name, description, _schema(export.input))


def _schema(fields: Mapping[str, str] | None) -> dict[str, Any]:
    if fields is None:
        return {"type": "object"}
    properties = {name: {"type": _JSON_TYPES[kind.rstrip("?")]} for name, kind in fields.items()}
    required = [name for name, kind in fields.items() if not kind.endswith("?")]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
