"""``rpc``: one call of an app's export through the relay (sandboxes.md 4.6). The container is meant by its recorded id,
so that a foreign one of the same name is never entered."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from berth.errors import BerthError
from berth.guest.sandbox import grants
from berth.ops.sandboxes import audit, records
from berth.ops.sandboxes.relay import ProtocolError, Relay, Timeout, Unreachable
from berth.ops.setup.context import Context
from berth.registry_sandboxes import Sandbox
from berth.tools.engine.client import Engine

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 2.0
DEFAULT_SECONDS = 30.0


def container_of(app: str, container: str | None) -> str:
    """The container meant: the given one, else that of the app's own ``dev``."""
    return container or f"berth-dev-{app}"


def find(ctx: Context, container: str, *, app: str | None = None) -> Sandbox:
    """The row of a container; sandbox_not_found and app_not_found (exit 4)."""
    row = records.sandboxes(ctx).by_container(container)
    if row is None or row.container_id is None:
        hint = "berth os status and the containers of berth dev: name one with --container=<name>"
        raise BerthError(f"no sandbox of berth's has the container {container}", code="sandbox_not_found", hint=hint)
    if app is not None and app not in row.app_names:
        raise BerthError(
            f"no app {app} in {container}; there are: {', '.join(row.app_names)}",
            code="app_not_found",
            hint=f"--container=<the container that runs {app}>",
        )
    return row


def call(
    ctx: Context,
    app: str,
    export: str,
    input: Mapping[str, Any],  # noqa: A002  # the protocol's word
    *,
    container: str | None = None,
    seconds: float = DEFAULT_SECONDS,
    wait_seconds: float = 0.0,
) -> Any:
    """The result of one call. Raises app_error (exit 1), not found (4), unreachable and timeout (5)."""
    if not grants.is_app_name(app):
        raise BerthError(f"{app!a} is no app name", code="app_not_found")
    row = find(ctx, container_of(app, container), app=app)
    started = time.monotonic()
    answer = _retried(ctx, row, app, export, input, seconds=seconds, wait_seconds=wait_seconds)
    error = answer.get("error")
    audit.record(
        ctx,
        "call",
        row,
        decision="failed" if error else "allowed",
        command="rpc",
        app=app,
        export=export,
        duration=round(time.monotonic() - started, 3),
        outcome=str(error.get("code")) if error else "ok",
    )
    if error:
        from berth.spec.findings import escape

        raise BerthError(escape(f"{app}.{export}: {error.get('message')}"), code="app_error")
    return answer.get("result")


def _retried(
    ctx: Context,
    row: Sandbox,
    app: str,
    export: str,
    input: Mapping[str, Any],  # noqa: A002
    *,
    seconds: float,
    wait_seconds: float,
) -> dict[str, Any]:
    """One exchange; an unreachable socket is tried again until ``wait_seconds`` are over."""
    deadline = time.monotonic() + wait_seconds
    pause = FIRST_PAUSE
    while True:
        try:
            return exchange(ctx, row, app, export, input, seconds=seconds)
        except Unreachable as error:
            left = deadline - time.monotonic()
            if left <= 0:
                raise _unreachable(ctx, row, app, str(error)) from error
            time.sleep(min(pause, left))
            pause = min(2 * pause, LONGEST_PAUSE)
        except Timeout as error:
            hint = f"a longer --timeout, or its log: {row.engine} logs {row.container}"
            raise BerthError(f"{app}.{export}: {error} ({seconds:g} s)", code="timeout", hint=hint) from error
        except ProtocolError as error:
            raise BerthError(
                f"{app}.{export}: {error}", code="unreachable", hint="is this the app's socket?"
            ) from error


def exchange(
    ctx: Context,
    row: Sandbox,
    app: str,
    export: str,
    input: Mapping[str, Any],  # noqa: A002
    *,
    seconds: float,
) -> dict[str, Any]:
    """One call over a relay of its own: the response object."""
    assert row.container_id is not None
    relay = Relay(Engine(row.engine, environ=ctx.environ), row.container_id, app)
    try:
        return relay.call(export, input, seconds=seconds)
    finally:
        relay.close()


def _unreachable(ctx: Context, row: Sandbox, app: str, reason: str) -> BerthError:
    """Say which of engine, container and app it is."""
    engine = Engine(row.engine, environ=ctx.environ)
    found = records.find_ours(engine, row)
    if found is None:
        return BerthError(f"{row.container} is not there any more", code="unreachable", hint="start it again")
    if not found.running:
        return BerthError(f"{row.container} is not running", code="unreachable", hint="start it again")
    return BerthError(
        f"{app} cannot be reached: {reason}", code="unreachable", hint=f"{engine.name} logs {row.container}"
    )
