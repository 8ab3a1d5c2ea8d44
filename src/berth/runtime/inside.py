"""Run a command of ``berth run`` in a workspace's container, with berth's own streams. HOT (performance.md C2).

That the container runs is known from its recorded process 1, seen in /proc; an inspection is the slow way.
"""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.runtime.ended import Ended
from berth.tools import foreground
from berth.tools.engine.client import Engine, raised_limit
from berth.tools.engine.containers import exec_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.tools.plans import PreparedPlan

ROOT = "/workspace"


def warnings_if_running(home: str, plan: PreparedPlan, *, environ: Mapping[str, str]) -> list[str] | None:
    """None unless the plan's container runs and is ours; else a warning for each protection that has ended.

    Raises engine_unavailable, container_mismatch.
    """
    from berth.guest.core import wire
    from berth.runtime.protection import lost, recorded_init

    engine = Engine(plan.engine[0], environ=environ)
    pid = recorded_init(wire.control_directory(home, plan.path)) if engine.is_local else None
    if pid is not None:
        return lost(pid, path=plan.path, git_dir=plan.git_dir, slug=plan.slug)
    from berth.spec.container import LABEL_WORKSPACE
    from berth.tools.engine import containers

    found = containers.find(engine, container_name(plan))
    if found is None:
        return None
    containers.require_labels(found, {LABEL_WORKSPACE: plan.workspace_id})
    return [] if found.running else None


def container_name(plan: PreparedPlan) -> str:
    """The name of the plan's container."""
    return f"berth-{plan.workspace_id}"


def execute_inside(
    plan: PreparedPlan, argv: Sequence[str], *, environ: Mapping[str, str], stdout_to_stderr: bool
) -> Ended:
    """Run ``argv`` in the root of the workspace, inside; only the plan's variables are passed.

    A cancel stops the whole container: killing the engine's client ends nothing inside. Raises engine_unavailable.
    """
    engine = Engine(plan.engine[0], environ=environ)
    stdout = 2 if stdout_to_stderr else 1
    words = exec_words(
        container_name(plan),
        argv,
        env=plan.environment,
        workdir=ROOT,
        interactive=True,
        terminal=_is_terminal(0) and _is_terminal(stdout),
    )
    try:
        with raised_limit():
            ended = foreground.run([engine.name, *words], env=engine.env, cwd="/", stdout=stdout)
    except BerthError as error:
        if error.code == "command_not_found":  # the engine's client, not the command
            engine.call(["version"])
        raise
    if ended.told is not None:
        from berth.tools.engine import containers

        containers.stop(engine, container_name(plan))
    return Ended(
        argv,
        exit_code=ended.code,
        exit_status=ended.exit_status,
        signal=ended.signal,
        duration_seconds=ended.duration_seconds,
    )


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False
