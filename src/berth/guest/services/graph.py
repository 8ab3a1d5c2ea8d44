"""The words for states, the moves between them, what a dependent waits for, and what counts as settled or failed.

Pure rules over what a process shows. They are supervisor.md 3 and workspaces.md 8.4 written as
code; process.py makes the moves.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .process import Process

DISABLED = "Disabled"
PENDING = "Pending"
LAUNCHING = "Launching"
RUNNING = "Running"
LAUNCHED = "Launched"
RESTARTING = "Restarting"
TERMINATING = "Terminating"
COMPLETED = "Completed"
SKIPPED = "Skipped"
ERROR = "Error"

READY = "Ready"
NOT_READY = "Not Ready"
UNKNOWN = "-"

ENDED = frozenset((DISABLED, COMPLETED, SKIPPED, ERROR))  # nothing runs and nothing is due
UP = frozenset((RUNNING, LAUNCHED))

# supervisor.md 3. ``Pending -> Completed``: stopped while it waited.
MOVES = {
    DISABLED: frozenset((PENDING,)),
    PENDING: frozenset((LAUNCHING, SKIPPED, COMPLETED)),
    LAUNCHING: frozenset((RUNNING, LAUNCHED, ERROR, TERMINATING, RESTARTING, COMPLETED)),
    RUNNING: frozenset((TERMINATING, RESTARTING, COMPLETED)),
    LAUNCHED: frozenset((TERMINATING, RESTARTING, COMPLETED)),
    RESTARTING: frozenset((PENDING, TERMINATING, COMPLETED)),
    TERMINATING: frozenset((COMPLETED,)),
    COMPLETED: frozenset((PENDING,)),
    SKIPPED: frozenset((PENDING,)),
    ERROR: frozenset((PENDING,)),
}

# Why a process was stopped or ended (``reason``).
BY_EXIT = "exit"
BY_STOP = "stop"
BY_READINESS = "readiness"
BY_LIVENESS = "liveness"
PROBES = (BY_READINESS, BY_LIVENESS)

HOLDS = "holds"
WAIT = "wait"
SETTLED = "settled"
FAILED = "failed"


def condition(word: str, dependency: Process) -> str:
    """HOLDS, WAIT, or the reason why ``word`` can no longer hold for ``dependency``."""
    state = dependency.state
    if state in (SKIPPED, ERROR, DISABLED):
        return f"{dependency.name} is {state}"
    if state == COMPLETED and dependency.reason == BY_STOP:
        return f"{dependency.name} was stopped on request"
    if word == "process_log_ready":
        return _line_condition(dependency)
    if word == "process_started":
        return HOLDS if state in (RUNNING, LAUNCHED, RESTARTING, COMPLETED) else WAIT
    if word == "process_healthy":
        if state == COMPLETED:
            return f"{dependency.name} ended{_code(dependency)}"
        return HOLDS if state in UP and dependency.ready in (READY, UNKNOWN) else WAIT
    if state != COMPLETED:
        return WAIT
    if word == "process_completed_successfully" and dependency.failed:
        return f"{dependency.name} failed{_code(dependency)}"
    return HOLDS


def _line_condition(dependency: Process) -> str:
    if dependency.readiness.line_seen:
        return HOLDS
    if dependency.state == COMPLETED and not dependency.readiness.line_pending:
        return f"{dependency.name} ended without its ready_log_line"
    return WAIT


def _code(process: Process) -> str:
    return f" with exit code {process.exit_code}"


def excuse(dependency: Process) -> bool:
    """Whether one who waited for ``dependency`` in vain was skipped without a failure."""
    if dependency.state == SKIPPED:
        return dependency.skipped_without_failure
    return dependency.state == DISABLED or (dependency.state == COMPLETED and dependency.reason == BY_STOP)


def verdict(process: Process) -> tuple[str, str]:
    """(SETTLED, FAILED or WAIT, why) of one process: the table of workspaces.md 8.4."""
    state = process.state
    if state in UP:
        if process.ready == NOT_READY:
            return WAIT, process.readiness.complaint
        return SETTLED, ""
    if state == DISABLED:
        return SETTLED, ""
    if state == ERROR:
        return FAILED, process.error or "it could not be started"
    if state == SKIPPED:
        return (SETTLED if process.skipped_without_failure else FAILED), process.skip_reason
    if state != COMPLETED:
        return WAIT, process.readiness.complaint or process.waiting_for
    return _verdict_of_completed(process)


def _verdict_of_completed(process: Process) -> tuple[str, str]:
    if process.reason == BY_STOP:
        return SETTLED, ""
    if process.reason in PROBES:
        return FAILED, f"its {process.reason} probe failed: {process.readiness.complaint}"
    if process.failed:
        return FAILED, process.error or f"it ended with exit code {process.exit_code}"
    if process.definition.declares_readiness and not process.readiness.was_ready:
        if process.readiness.line_pending:
            return WAIT, "the rest of its output is being read"
        return FAILED, f"it ended with exit code {process.exit_code} before it was ready"
    return SETTLED, ""
