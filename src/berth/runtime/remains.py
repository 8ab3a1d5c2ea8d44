"""What a workspace that is no longer registered left running: found by its control directory."""

from __future__ import annotations

from berth.runtime import controls


def is_unknown_state(directory: str) -> bool:
    """True when something is at the control socket that is not the recorded supervisor (8.5)."""
    from berth.tools.control import ABSENT, ANSWERING, REFUSED, SILENT, state

    kind = state(controls.control_of(directory)).kind
    return kind not in (ABSENT, REFUSED, ANSWERING) and not (kind == SILENT and _lives(directory))


def _lives(directory: str) -> bool:
    from berth.tools.procfs import is_alive

    who = controls.recorded_supervisor(directory)
    return who is not None and is_alive(who)


def end_unknown(directory: str, workspace_id: str) -> None:
    """End the processes that carry that workspace's tag or marker, its supervisor among them; remove the directory.

    Raises stop_failed; then the directory stays.
    """
    from berth.tools.control import ANSWERING, Unreachable, state
    from berth.tools.supervisor import stop_project
    from berth.tools.termination import end_marked, wait_gone

    control = controls.control_of(directory)
    who = controls.recorded_supervisor(directory)
    if state(control).kind == ANSWERING:
        try:
            stop_project(control, timeout_seconds=30.0)
        except Unreachable:
            pass  # what is left is ended next
        if who is not None:
            wait_gone(who.pid, who.start, 2.0)
    end_marked(workspace_id)
    controls.remove_directory(directory)
