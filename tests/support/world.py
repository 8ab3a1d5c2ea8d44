"""The supervisor's part as far as the tests of enforcement need it, and the attempts that are made in an app.

Standard library and ``berth.guest`` only, Python 3.9 syntax: it also runs as root inside a container (tests/engine).
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence  # noqa: UP035 — Python 3.9 reads this file

from berth.guest.sandbox import agent_init, descriptors, grants, identity, landlock, rules, seccomp
from berth.guest.sandbox.policy import Document, Policy

PYTHON = "/usr/bin/python3"
PROBE_TEXT = (Path(__file__).parents[1] / "kernel" / "probe.py").read_text()
_libc = ctypes.CDLL(None, use_errno=True)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 1 << 14, 1 << 18


def call(name: str, *arguments: Any) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(arguments))


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    call("mount", source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())


def read_all(descriptor: int, *, deadline: float) -> bytes:
    chunks = []
    while True:
        left = deadline - time.monotonic()
        assert left > 0, b"".join(chunks)[-2000:]
        if not select.select([descriptor], [], [], left)[0]:
            continue
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


class Process:
    """One started app: its pid, and the read ends of its log, ready and report pipes."""

    def __init__(self, pid: int, pins: list[int], log: int, ready: int, report: int) -> None:
        self.pid = pid
        self.pins = pins
        self.log = log
        self.ready = ready
        self.report = report

    def await_ready(self, timeout_seconds: float = 20) -> None:
        """Return once the app wrote its byte; AssertionError with its log when it ended before."""
        ready, _w, _x = select.select([self.ready], [], [], timeout_seconds)
        if not ready or not os.read(self.ready, 1):
            raise AssertionError(f"not ready: {self.finish()}")

    def events(self) -> list[Any]:
        """The lines of the report, events decoded."""
        text = read_all(self.report, deadline=time.monotonic() + 20).decode()
        return [json.loads(line) if line.startswith("{") else line for line in text.splitlines()]

    def finish(self, timeout_seconds: float = 30) -> dict[str, Any]:
        """``{"status": exit status, "log": text, "events": [...]}`` once the app has ended."""
        events = self.events()
        log = read_all(self.log, deadline=time.monotonic() + timeout_seconds).decode(errors="replace")
        _pid, status = os.waitpid(self.pid, 0)
        for descriptor in self.pins:
            os.close(descriptor)
        return {"status": os.waitstatus_to_exitcode(status), "log": log, "events": events}


class World:
    """The supervisor's part as far as the kernel tests need it: directories, identities, launches."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.pins = rules.pin_system()
        for app in document.apps:
            self._make_home(app)

    def _make_home(self, app: Policy) -> None:
        os.makedirs(app.dir, exist_ok=True)
        Path(app.dir, "probe.py").write_text(PROBE_TEXT)
        home, state = app.write_private
        os.makedirs(home, exist_ok=True)
        if not os.path.ismount(home):
            mount("home", home, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4m,nr_inodes=256,mode=0700")
        os.makedirs(state, exist_ok=True)
        for path in (home, state):
            os.chmod(path, 0o700)
            os.chown(path, app.uid, app.uid)
        secrets = grants.secrets_of(app.name)
        os.mkdir(secrets)
        for secret in app.secrets:
            Path(secrets, secret).write_text(f"secret of {app.name}")
            os.chmod(f"{secrets}/{secret}", 0o400)
            os.chown(f"{secrets}/{secret}", app.uid, app.uid)
        os.chmod(secrets, 0o500)
        os.chown(secrets, app.uid, app.uid)
        policy_file = grants.policy_file_of(app.name)
        Path(policy_file).write_text(json.dumps(app.as_dict()))
        os.chmod(policy_file, 0o640)
        os.chown(policy_file, 0, app.uid)

    def app(self, name: str) -> Policy:
        """The policy of one app."""
        return next(app for app in self.document.apps if app.name == name)

    def start(
        self,
        name: str,
        *argv: str,
        abi: int | None = None,
        document: Document | None = None,
        listeners: Sequence[int] = (),
        prepare: Callable[[], None] | None = None,
        become: Callable[[agent_init.Launch], Any] | None = None,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        """Start an app through agent-init; ``prepare`` runs in the child first, ``become`` replaces the last part."""
        app = self.app(name)
        pipes = [os.pipe() for _ in range(3)]
        order = agent_init.Launch(
            document or self.document,
            app,
            argv=list(argv),
            environment={
                "PATH": "/usr/bin:/bin",
                "TMPDIR": app.write_private[0],
                "LANG": "C.UTF-8",
                **(environment or {}),
            },
            cwd=cwd or app.dir,
            log=pipes[0][1],
            ready=pipes[1][1],
            report=pipes[2][1],
            listeners=list(listeners),
            boot_id="00000000-0000-0000-0000-000000000000",
            abi=landlock.abi() if abi is None else abi,
        )
        started = self._fork(order, prepare, become) if prepare or become else agent_init.launch(order)
        for _read_end, write_end in pipes:
            os.close(write_end)
        return Process(started.pid, started.pins, *(read_end for read_end, _w in pipes))

    def _fork(
        self,
        order: agent_init.Launch,
        prepare: Callable[[], None] | None,
        become: Callable[[agent_init.Launch], Any] | None,
    ) -> agent_init.Started:
        pid = os.fork()
        if pid == 0:
            try:
                if prepare:
                    prepare()
                (become or agent_init.become)(order)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(99)
        return agent_init.Started(pid, rules.pin_process(pid))

    def probe(self, name: str, probes: Sequence[Sequence[Any]], **options: Any) -> dict[str, Any]:
        """Run ``[id, function, *arguments]`` probes in app ``name``; id → ``ok``, an errno's name, or a value."""
        argv = (PYTHON, "-I", "-S", f"{self.app(name).dir}/probe.py", json.dumps(list(probes)))
        process = self.start(name, *argv, **options)
        seen = process.finish()
        assert seen["status"] == 0, seen
        return json.loads(seen["log"].splitlines()[-1])


def without(*left_out: str, uid: int | None = None) -> Callable[[agent_init.Launch], None]:
    """A ``become`` that leaves steps out: ``landlock``, ``scopes``, ``no_new_privs``, ``seccomp``, ``identity``,
    ``bounding``, ``descriptors``, ``limits``; ``uid`` is taken instead of the app's own.
    The product has no such switch.
    """

    def become(order: agent_init.Launch) -> None:
        app = order.policy
        os.setsid()
        os.umask(0o002)
        if "descriptors" not in left_out:
            descriptors.arrange(log=order.log, inherited=[order.ready, *order.listeners], kept=order.report)
        else:
            os.dup2(order.log, 1)
        if "limits" not in left_out:
            descriptors.limit(app.limits)
        opened = rules.open_all(app)
        ruleset = rules.ruleset(app, opened, abi=5 if "scopes" in left_out else order.abi)
        if "bounding" not in left_out:
            identity.drop_bounding()
        if "identity" not in left_out:
            mine = app.uid if uid is None else uid
            identity.assume(uid=mine, gid=mine, groups=[mine, *app.groups])
        if "no_new_privs" not in left_out:
            identity.no_new_privileges()
        if "landlock" not in left_out:
            landlock.restrict(ruleset, abi=order.abi)
        if "seccomp" not in left_out:
            seccomp.install(seccomp.program(app, os.uname().machine))
        os.chdir(order.cwd)
        os.execve(order.argv[0], order.argv, order.environment)

    return become


class Row(NamedTuple):
    """One attempt of the attack table: the probe, what it must give, the same probe where it is allowed, and what it
    gives when the mechanism that holds it is taken away."""

    id: str
    attempt: list[Any]
    expected: str
    control: list[Any] | None = None
    held_by: str = ""
    removed: Any = "ok"
    control_gives: Any = "ok"


def run_rows(world: World, name: str, rows: Sequence[Row], **options: Any) -> dict[str, Any]:
    """Probe attempts and controls of ``rows`` in one process of app ``name``: id → outcome, id + ``+`` → control."""
    probes: list[list[Any]] = []
    for row in rows:
        if row.control is not None:
            probes.append([row.id + "+", *row.control])
        probes.append([row.id, *row.attempt])
    return world.probe(name, probes, **options)
