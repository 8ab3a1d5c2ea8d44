"""Run a command of ``berth run`` in the workspace's runtime, with berth's own streams. HOT."""

from __future__ import annotations

import errno
import os
import time

from berth.errors import BerthError
from berth.runtime.ended import Ended
from berth.tools import foreground
from berth.tools.proc import ExecFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.tools.plans import PreparedPlan


def execute(plan: PreparedPlan, argv: Sequence[str], *, env: Mapping[str, str], stdout_to_stderr: bool) -> Ended:
    """Run ``argv`` in the root of the workspace and say how it ended.

    Raises command_not_found (127), command_not_executable (126), exec_failed (the environment is too large).
    """
    began = time.monotonic()
    try:
        ended = foreground.run(argv, env=env, cwd=plan.path, stdout=2 if stdout_to_stderr else 1)
    except ExecFailed as error:
        raise _cannot_execute(argv[0], error, plan.path) from None
    return Ended(
        argv,
        exit_status=ended.exit_status,
        signal=ended.signal,
        duration_seconds=time.monotonic() - began,
    )


def _cannot_execute(program: str, error: ExecFailed, cwd: str) -> BerthError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR) and os.path.isdir(cwd):
        return BerthError(f"{program}: command not found", code="command_not_found")
    if error.errno in (errno.EACCES, errno.ENOEXEC, errno.EISDIR, errno.EPERM):
        return BerthError(f"{program}: {os.strerror(error.errno)}", code="command_not_executable")
    return error
