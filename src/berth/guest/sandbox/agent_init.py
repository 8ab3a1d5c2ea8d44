"""The child of the supervisor that takes an app's policy upon itself, then becomes the app (sandboxes.md 6.5).

``become`` is the contract's list of steps, in its order. It runs as root until step 6 and executes nothing before
step 9; whatever fails on the way ends the child with 78, so that a half applied sandbox never runs an app.
Single-threaded throughout: Landlock and the credentials bind a thread, not a process.
"""

from __future__ import annotations

import os
import platform
import signal

from berth.guest.sandbox import descriptors, identity, landlock, levels, policy, rules, seccomp
from berth.guest.sandbox.report import Report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, NoReturn

    from berth.guest.sandbox.policy import Document, Policy

REFUSED = 78


class Launch:
    """All that agent-init is told. Nothing is read from the environment or the command line.

    ``log``, ``ready``, ``report`` are the write ends of the app's log pipe, of the ready pipe (becomes 3) and of the
    report pipe; ``listeners`` become 4, 5, …: own, then peers by caller name. ``abi`` is ``landlock.abi()``, asked
    once by the supervisor. ``environment`` is the whole environment of the app, ``argv[0]`` the interpreter's path.
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


class Started:
    """A child on its way: its ``pid``, and the descriptors (``pins``) to hold for as long as it lives."""

    __slots__ = ("pid", "pins")

    def __init__(self, pid: int, pins: List[int]) -> None:
        self.pid = pid
        self.pins = pins


def launch(order: Launch) -> Started:
    """Fork, pin the child's own procfs entries, let it go on to ``become``. The caller closes its copies of the pipes
    and listeners afterwards. OSError when there is no process or descriptor left: then no app runs."""
    closed, gate = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.close(gate)
            if os.read(closed, 1):
                become(order)
        finally:
            os._exit(REFUSED)
    os.close(closed)
    try:
        pins = rules.pin_process(pid)
        os.write(gate, b"\n")
    finally:
        os.close(gate)
    return Started(pid, pins)


def become(order: Launch) -> NoReturn:
    """Steps 1 to 9 of sandboxes.md 6.5; returns to nobody. Any failure is reported and ends the process with 78."""
    app = order.policy
    gid, groups = app.uid, [app.uid, *app.groups]
    report = Report(order.report, app=app.name, boot_id=order.boot_id)
    try:
        report.step(1, "session and descriptors")
        os.setsid()
        os.umask(0o002)
        descriptors.default_signals()
        report.descriptor = descriptors.arrange(
            log=order.log, inherited=[order.ready, *order.listeners], kept=order.report
        )

        report.step(2, "policy")
        policy.check(order.document.as_dict())
        held = levels.hold(app, abi=order.abi, relaxed=order.document.allow_unenforced)

        report.step(3, "limits")
        descriptors.limit(app.limits)

        report.step(4, "ruleset")
        opened = rules.open_all(app)
        ruleset = rules.ruleset(app, opened, abi=order.abi) if order.abi else None
        filter_code = seccomp.program(app, platform.machine())

        report.step(5, "bounding set")
        identity.drop_bounding()

        report.step(6, "identity")
        identity.assume(uid=app.uid, gid=gid, groups=groups)
        identity.verify(uid=app.uid, gid=gid, groups=groups)

        report.step(7, "landlock")
        with held.tolerate("no_new_privs"):
            identity.no_new_privileges()
        with held.tolerate("landlock"):
            if ruleset is not None:
                landlock.restrict(ruleset, abi=order.abi)

        report.step(8, "seccomp")
        with held.tolerate("seccomp"):
            seccomp.install(filter_code)

        report.step(9, "exec")
        report.applied(app, opened, held, abi=order.abi, instructions=len(filter_code))
        os.chdir(order.cwd)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execve(order.argv[0], order.argv, order.environment)  # noqa: S606 — the one exec, of a named interpreter
    except BaseException as error:
        report.refused(error)
    finally:
        os._exit(REFUSED)
