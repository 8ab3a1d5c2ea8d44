"""The one root process of a sandbox while apps run: launches, logs, states, and how everything ends (sandboxes.md 5.4).

It interprets nothing that an app says beyond one byte on the ready pipe; what agent-init says arrives on a pipe that no
app ever holds.
"""

from __future__ import annotations

import json
import os
import signal
import time

from berth.guest.core.loop import READ
from berth.guest.sandbox import agent_init, environment, grants, rules, sockets
from berth.guest.sandbox.logs import LinePump, escape, event_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    from berth.guest.core.loop import Loop
    from berth.guest.sandbox.logs import Output
    from berth.guest.sandbox.policy import Document, Policy
    from berth.guest.sandbox.sockets import Listeners

STOP_SECONDS = 8.0
STATUS_FILE = "/run/berth/status.json"
RUNTIME = ("-m", "berth.guest.sandbox.runtime")
STOPPING = {signal.SIGTERM: 143, signal.SIGINT: 130}


class App:
    """One launched app: ``state`` is starting, ready, exited or refused; ``exit_code`` is None while it runs."""

    def __init__(self, policy: Policy, *, is_primary: bool) -> None:
        self.policy = policy
        self.is_primary = is_primary
        self.pid = 0
        self.pins: List[int] = []
        self.state = "starting"
        self.exit_code: Optional[int] = None
        self.enforcement = "none"
        self.missing: List[str] = []
        self.refusal = ""
        self.log: Optional[LinePump] = None
        self.report: Optional[LinePump] = None

    @property
    def is_running(self) -> bool:
        return self.pid > 0 and self.state in ("starting", "ready")

    def as_dict(self) -> Dict[str, Any]:
        """The object of ``os status`` (sandboxes.md 4.5)."""
        return {
            "name": self.policy.name,
            "uid": self.policy.uid,
            "pid": self.pid if self.is_running else None,
            "state": self.state,
            "exit_code": self.exit_code,
            "enforcement": self.enforcement,
            "missing": self.missing,
        }


class Sandbox:
    """All apps of one container. ``exit_code`` is the container's once the loop has stopped."""

    def __init__(
        self,
        loop: Loop,
        output: Output,
        document: Document,
        *,
        listeners: Dict[str, Listeners],
        boot_id: str,
        abi: int,
        status_file: str = STATUS_FILE,
    ) -> None:
        self.loop = loop
        self.output = output
        self.document = document
        self.boot_id = boot_id
        self.exit_code = 0
        self._listeners = listeners
        self._abi = abi
        self._status_file = status_file
        self._started_at = time.time()
        self._ending = False
        self._told_ready = False
        self._pins: List[int] = []
        self.apps = [App(policy, is_primary=number == 0) for number, policy in enumerate(document.apps)]

    # -- start --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Launch every app in order; none is waited for."""
        self._pins = rules.pin_system()
        self.loop.on_signal(signal.SIGCHLD, self._reap)
        for number, code in STOPPING.items():
            self.loop.on_signal(number, lambda code=code: self.stop(code))  # type: ignore[misc]
        self._write_status()
        for app in self.apps:
            self._launch(app)
        self._reap()

    def _launch(self, app: App) -> None:
        listeners = self._listeners.pop(app.policy.name)
        log, ready, report = os.pipe(), os.pipe(), os.pipe()
        os.fchown(log[1], app.policy.uid, app.policy.uid)  # so that /dev/stderr opens by name
        order = agent_init.Launch(
            self.document,
            app.policy,
            argv=[app.policy.interpreter, *RUNTIME],
            environment=environment.build(
                app.policy,
                boot_id=self.boot_id,
                callers=sorted(listeners.peers),
                dev=self.document.kind in grants.DEV_KINDS,
            ),
            cwd=app.policy.dir,
            log=log[1],
            ready=ready[1],
            report=report[1],
            listeners=listeners.descriptors,
            boot_id=self.boot_id,
            abi=self._abi,
        )
        started = agent_init.launch(order)
        app.pid, app.pins = started.pid, started.pins
        for _reader, writer in (log, ready, report):
            os.close(writer)
        listeners.close()
        app.log = LinePump(self.loop, log[0], lambda line: self._app_line(app, line), _nothing)
        app.report = LinePump(self.loop, report[0], lambda line: self._report_line(app, line), _nothing)
        self.loop.watch(ready[0], READ, lambda _events: self._ready(app, ready[0]))

    # -- what is heard ------------------------------------------------------------------------------------------

    def _app_line(self, app: App, line: bytes) -> None:
        self.output.line(escape(line.decode("utf-8", "surrogateescape")), owner=app.policy.name)

    def _report_line(self, app: App, line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        if text.startswith("{"):
            event = json.loads(text)
            if event.get("event") == "capability_policy_applied":
                app.enforcement, app.missing = event["enforcement"], event["missing"]
            elif event.get("event") == "capability_enforcement_refused":
                app.refusal = str(event.get("reason"))
        self.output.line(text)

    def _ready(self, app: App, descriptor: int) -> None:
        byte = os.read(descriptor, 1)
        self.loop.unwatch(descriptor)
        os.close(descriptor)
        if not byte or app.state != "starting":
            return
        app.state = "ready"
        self._write_status()
        if not self._told_ready and all(other.state == "ready" for other in self.apps):
            self._told_ready = True
            self._tell_unenforced()
            self._event("sandbox_ready", apps=[other.policy.name for other in self.apps])

    def _tell_unenforced(self) -> None:
        lacking = {other.policy.name: other.missing for other in self.apps if other.enforcement != "full"}
        if lacking and self.document.allow_unenforced:
            self._event("unenforced_boot", apps=lacking)

    # -- end ----------------------------------------------------------------------------------------------------

    def stop(self, code: int) -> None:
        """TERM to every app's session, KILL after 8 s; the container then exits ``code``."""
        if self._ending:
            return
        self._ending = True
        self.exit_code = code
        for app in self.apps:
            if app.is_running:
                _signal_session(app.pid, signal.SIGTERM)
        self.loop.call_later(STOP_SECONDS, self._kill_all)
        self._finish_if_all_ended()

    def _kill_all(self) -> None:
        for app in self.apps:
            if app.is_running:
                _kill_uid(app.policy.uid)
                _signal_session(app.pid, signal.SIGKILL)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for app in self.apps:
                if app.pid == pid and app.is_running:
                    self._ended(app, status)

    def _ended(self, app: App, status: int) -> None:
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if app.report is not None:
            app.report.finish()
        _kill_uid(app.policy.uid)
        if app.log is not None:
            app.log.finish()
        for descriptor in app.pins:
            os.close(descriptor)
        app.pins = []
        app.exit_code = code
        app.state = "refused" if app.refusal else "exited"
        sockets.unlink_all(app.policy.name)
        self._write_status()
        name = app.policy.name
        if not app.is_primary and not self._ending:
            self.output.entrypoint(f'companion "{name}" exited with code {code}')
        self._event("app_exited", app=name, exit_code=code, state=app.state)
        if app.is_primary and not self._ending:
            self.stop(code)
        self._finish_if_all_ended()

    def _finish_if_all_ended(self) -> None:
        if self._ending and not any(app.is_running for app in self.apps):
            self.loop.stop()

    # -- what is told -------------------------------------------------------------------------------------------

    def _event(self, name: str, **fields: Any) -> None:
        self.output.line(event_line("entrypoint", name, boot_id=self.boot_id, **fields))

    def _write_status(self) -> None:
        document = {
            "boot_id": self.boot_id,
            "started_at": self._started_at,
            "unenforced": self.document.allow_unenforced,
            "apps": [app.as_dict() for app in self.apps],
        }
        draft = self._status_file + ".draft"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644), "w") as file:
            json.dump(document, file)
        os.rename(draft, self._status_file)


def _nothing() -> None:
    """The end of a pipe; the end of the process is what counts."""


def _signal_session(leader: int, signum: int) -> None:
    """Signal every process of the session that ``leader`` opened; those that left it die with their uid."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (int(name) == leader or _session_of(int(name)) == leader):
            try:
                os.kill(int(name), signum)
            except ProcessLookupError:
                continue  # it ended meanwhile


def _session_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[3])
    except (OSError, ValueError, IndexError):
        return -1


def _kill_uid(uid: int) -> None:
    """KILL every process of an app's uid, by a child that is nobody else: with real, effective and saved ids changed
    ``kill(-1)`` reaches that uid alone (an effective one alone would reach every root process)."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            if os.getresuid() == (uid, uid, uid):
                os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass  # reaped by the other wait
