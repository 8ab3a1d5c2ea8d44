"""``run``: execute a command inside the workspace from the prepared plan, under a shared lease (8.8).

Going up from the current directory, a plan whose stamps hold is executed at once, without registry, YAML or git.
Otherwise every check is made, the plan is written anew, and executed by the same code. HOT.
"""

from __future__ import annotations

import os

from berth.ops.setup.leases import locks_directory, valid_lease
from berth.tools import locks, plans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.ops.setup.context import Context
    from berth.runtime.ended import Ended
    from berth.tools.plans import PreparedPlan


def run(ctx: Context, argv: Sequence[str], argument: str | None, *, stdout_to_stderr: bool = False) -> Ended:
    """Run ``argv`` as given and say how it ended.

    Raises command_not_found, command_not_executable, busy, and every check's error when there is no plan that holds.
    """
    path = surrounding_workspace(ctx.cwd) if argument is None else None
    plan = plans.load(ctx.home, path) if path is not None else None
    if plan is None or not plan.holds(ctx.environ):
        return _run_carefully(ctx, argv, argument, stdout_to_stderr)
    if _inside(ctx, plan):
        return _execute(ctx, plan, argv, stdout_to_stderr)
    with _lease(ctx, plan.lock_key, argv) as lease:
        again = plans.load(ctx.home, plan.path)  # a reset or removal may have come between look and lock
        if again is not None and again.workspace_id == plan.workspace_id and again.holds(ctx.environ):
            return _execute(ctx, again, argv, stdout_to_stderr, lease=lease)
    return _run_carefully(ctx, argv, argument, stdout_to_stderr)


def surrounding_workspace(cwd: str | None) -> str | None:
    """The first directory at or above ``cwd`` with a ``.git`` or ``.berth`` entry, or None."""
    while cwd is not None:
        for name in (".git", ".berth"):
            try:
                os.lstat(f"{cwd}/{name}")
            except OSError:
                continue
            return cwd
        parent = os.path.dirname(cwd)
        cwd = parent if parent != cwd else None
    return None


def _inside(ctx: Context, plan: PreparedPlan) -> bool:
    """True inside a hook or process of the workspace, or inside another ``run``: no lease is taken (5.3)."""
    environ = ctx.environ
    return environ.get("BERTH_SUPERVISED") == plan.workspace_id or valid_lease(ctx.home, environ) == plan.lock_key


def _lease(ctx: Context, key: str, argv: Sequence[str]) -> locks.Held:
    return locks.shared(
        locks_directory(ctx.home),
        key,
        command=f"berth run {' '.join(argv)}",
        say=ctx.say.waiting,
        limit=0.0 if ctx.no_wait else None,
    )


def _run_carefully(ctx: Context, argv: Sequence[str], argument: str | None, stdout_to_stderr: bool) -> Ended:
    from berth.ops.setup.careful import checked_plan, needs_preparing, prepare_first
    from berth.ops.setup.locate import locate, relocate

    row = locate(ctx, argument)
    key = locks.lock_key(row.path)
    nested = valid_lease(ctx.home, ctx.environ) == key
    if ctx.environ.get("BERTH_SUPERVISED") == row.id:
        return _execute(ctx, checked_plan(ctx, row, write=False), argv, stdout_to_stderr)
    while True:
        if needs_preparing(row):
            prepare_first(ctx, row)
            row = relocate(ctx, row)
        if nested:
            return _execute(ctx, checked_plan(ctx, row, write=False), argv, stdout_to_stderr)
        with _lease(ctx, key, argv) as lease:
            row = relocate(ctx, row)
            if not needs_preparing(row):
                ctx.registry.update(row.id, last_used_at=ctx.timestamp())
                plan = checked_plan(ctx, row, write=True)
                return _execute(ctx, plan, argv, stdout_to_stderr, lease=lease)


def _execute(
    ctx: Context, plan: PreparedPlan, argv: Sequence[str], stdout_to_stderr: bool, *, lease: locks.Held | None = None
) -> Ended:
    """Run the plan: the caller's environment, merged now and never stored, then the plan's variables."""
    if plan.backend == "container":
        return _execute_inside(ctx, plan, argv, stdout_to_stderr)
    from berth.runtime.execute import execute
    from berth.spec.environment import merged

    env = merged(ctx.environ, plan.environment)
    if lease is not None:
        env[locks.LEASE_VARIABLE] = str(lease.lease)
    return execute(plan, argv, env=env, stdout_to_stderr=stdout_to_stderr)


def _execute_inside(ctx: Context, plan: PreparedPlan, argv: Sequence[str], stdout_to_stderr: bool) -> Ended:
    """Run the plan in its container; where that does not run, the operation lock is taken to start it (5.3)."""
    from berth.runtime.inside import execute_inside, warnings_if_running

    warnings = warnings_if_running(ctx.home, plan, environ=ctx.environ)
    if warnings is None:
        _start_container(ctx, plan)
    for warning in warnings or ():
        ctx.say.warning(warning)
    return execute_inside(plan, argv, environ=ctx.environ, stdout_to_stderr=stdout_to_stderr)


def _start_container(ctx: Context, plan: PreparedPlan) -> None:
    from berth.errors import BerthError
    from berth.ops.setup.back_end import runtime_of

    with locks.operation(
        locks_directory(ctx.home),
        plan.lock_key,
        command="berth run (starting the container)",
        say=ctx.say.waiting,
        limit=0.0 if ctx.no_wait else None,
    ):
        row = ctx.registry.by_id(plan.workspace_id)
        if row is None:
            raise BerthError(f"workspace {plan.slug} replaced during operation", code="identity_mismatch")
        ctx.say.step("starting the container")
        for warning in runtime_of(ctx, row).ready():
            ctx.say.warning(warning)
