"""The child of the supervisor that takes an app's policy upon itself, then becomes the app (sandboxes.md 6.5).

``become`` is the contract's list of steps, in its order. It runs as root until step 6 and executes nothing before
step 9; whatever fails on the way ends the child with 78, so that a half applied sandbox never runs an app.
Single-threaded throughout: Landlock and the credentials bind a thread, not a process.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

    from berth.guest.sandbox.policy import Document, Policy

REFUSED = 78


class Launch:
    """All that agent-init is told. Nothing is read from the environment or the command line.

    ``log``, ``ready``, ``report`` are descriptors the child inherits: the app's log pipe (write end), the ready pipe
    (write end, becomes 3), the report pipe (write end, close-on-exec). ``listeners`` become 4, 5, …: own, then peers by
    caller name. ``abi`` is ``landlock.abi()``, asked once by the supervisor.
    """

    __slots__ = (
        "abi", "argv", "boot_id", "cwd", "document", "environment", "listeners", "log", "policy", "ready", "report",
    )  # fmt: skip

    def __init__(
        self,
        document: Document,
        policy: Policy,
        *,
        argv: List[str],
        environment: Dict[str, str],
        cwd: str,
        log: int,
        ready: int,
        report: int,
        listeners: List[int],
        boot_id: str,
        abi: int,
    ) -> None:
        self.document = document
        self.policy = policy
        self.argv = argv
        self.environment = environment
        self.cwd = cwd
        self.log = log
        self.ready = ready
        self.report = report
        self.listeners = listeners
        self.boot_id = boot_id
        self.abi = abi
