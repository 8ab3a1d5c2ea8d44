"""What ``doctor`` does with supervisors: try one in a scratch directory, clear the files of dead ones."""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.runtime import controls
from berth.tools import supervisor
from berth.tools.control import Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

STOP_SECONDS = 15.0


def try_supervisor(home: str, *, environ: Mapping[str, str]) -> str:
    """Start a supervisor in a scratch directory, ask it, stop it; returns the interpreter it runs on (``doctor``)."""
    import json
    import shutil
    import sys
    import tempfile

    from berth.tools.control import ANSWERING, Control, state

    scratch = tempfile.mkdtemp(prefix="doctor-", dir=home)
    try:
        config = os.path.join(scratch, controls.DEFINITION)
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"version": "0.5", "processes": {"probe": {"command": "exec sleep 60"}}}, file)
        log = os.path.join(scratch, controls.SUPERVISOR_LOG)
        supervisor.start(scratch, workspace=scratch, workspace_id="doctor", env=environ, config=config, log=log)
        control = Control(scratch, supervisor.read_token(scratch) or "")
        answer = state(control)
        supervisor.stop_project(control, timeout_seconds=STOP_SECONDS)
        if answer.kind != ANSWERING:
            raise BerthError(f"the supervisor did not answer: {answer.detail}", code="supervisor_failed")
    except Unreachable as failure:
        raise BerthError(f"the supervisor did not answer: {failure}", code="supervisor_failed") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return sys.executable


def remove_dead_control_files(run: str) -> list[str]:
    """Remove the control files of supervisors that are proven dead; one line for each repair (``doctor --fix``)."""
    from berth.tools.control import ABSENT, REFUSED, state
    from berth.tools.procfs import is_alive

    done = []
    for name in sorted(os.listdir(run)) if os.path.isdir(run) else []:
        directory = os.path.join(run, name)
        who = controls.recorded_supervisor(directory)
        if who is None or is_alive(who):
            continue
        try:
            kind = state(controls.control_of(directory)).kind
        except BerthError:
            continue  # not ours to touch: status names it
        if kind in (ABSENT, REFUSED):
            controls.clear_remains(directory)
            done.append(f"removed the control files of the dead supervisor {who.pid} in {directory}")
    return done
