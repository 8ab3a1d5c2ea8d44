"""Run one setup or teardown script natively: its own group, marker and tag, output passed on (workspaces.md 8.8)."""

from __future__ import annotations

from berth.errors import BerthError
from berth.guest.core import wire
from berth.tools import proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from berth.registry import Workspace
    from berth.tools.processes import Marked
    from berth.tools.procfs import Identity


def run_hook(
    row: Workspace,
    script: str,
    *,
    kind: str,
    env: Mapping[str, str],
    timeout_seconds: float | None,
    sink: Callable[[bytes], None],
    besides: Callable[[], Identity | None],
) -> None:
    """Run ``script`` by ``sh -c`` in the workspace; ``kind`` is setup or teardown, ``besides`` tells the supervisor.

    On a timeout or a cancel the whole group and everything marked that it started gets KILL.
    Raises setup_failed, teardown_failed, hook_timeout.
    """
    from berth.tools.procfs import start_time

    child = proc.start(
        ["sh", "-c", script],
        env={**env, wire.MARKER: row.id},
        cwd=row.path,
        sink=sink,
        tag=wire.tag(row.id, wire.SUPERVISOR_NUMBER),
    )
    began = start_time(child.pid) or 0
    try:
        result = child.finish(timeout_seconds)
    except BaseException:
        _end_started_since(row, began, besides())
        raise
    if result.timed_out:
        _end_started_since(row, began, besides())
    judge_hook(row, result, script, kind=kind, timeout_seconds=timeout_seconds)


def judge_hook(row: Workspace, result: proc.Result, script: str, *, kind: str, timeout_seconds: float | None) -> None:
    """Raise hook_timeout, setup_failed or teardown_failed for a script that did not succeed."""
    line = script.strip()
    again = f"{'berth up' if kind == 'setup' else 'berth done'} {row.slug}"
    if result.timed_out:
        raise BerthError(
            f"{kind} hook took longer than {timeout_seconds} s and was ended: {line}",
            code="hook_timeout",
            hint=f"fix it or raise hooks.timeout_seconds, then {again}",
        )
    if result.code != 0:
        raise BerthError(
            f"{kind} hook failed with code {result.code}: {line}", code=f"{kind}_failed", hint=f"fix it, then {again}"
        )


def _end_started_since(row: Workspace, began: int, supervisor: Identity | None) -> None:
    """KILL what the hook started: marked, not of a service, begun after the hook did."""
    from berth.tools.termination import end_marked

    def of_the_hook(one: Marked) -> bool:
        is_service = one.number not in (None, wire.SUPERVISOR_NUMBER) or one.name is not None
        return not is_service and one.start >= began and (supervisor is None or one.pid != supervisor.pid)

    end_marked(row.id, at_once=True, only=of_the_hook, keepers=False)
