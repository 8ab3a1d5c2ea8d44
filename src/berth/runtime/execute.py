"""Run a command of ``berth run`` in the workspace's runtime, with berth's own streams. HOT."""

from __future__ import annotations

from berth.runtime.ended import Ended
from berth.tools import foreground

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.tools.plans import PreparedPlan


def execute(plan: PreparedPlan, argv: Sequence[str], *, env: Mapping[str, str], stdout_to_stderr: bool) -> Ended:
    """Run ``argv`` in the root of the workspace and say how it ended.

    Raises command_not_found (127), command_not_executable (126), exec_failed (the environment is too large).
    """
    outcome = foreground.run(argv, env=env, cwd=plan.path, stdout=2 if stdout_to_stderr else 1)
    return Ended(
        argv,
        exit_status=outcome.exit_status,
        exit_code=outcome.code,
        signal=outcome.signal,
        duration_seconds=outcome.duration_seconds,
    )
