"""A private root for kernel tests: own mounts, network, pids and ipc, laid out like a sandbox container.

``inside(work)`` runs ``work`` as root in there and returns its JSON value. In there, ``World`` stands for the
supervisor: it makes the directories of a boot document and starts apps through the real agent-init. Nothing is left
behind: the namespaces go with their processes.
"""

from __future__ import annotations

import ctypes
import encodings.ascii
import encodings.idna
import encodings.latin_1
import json
import os
import select
import shutil
import signal
import stat
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from berth.guest.sandbox import agent_init, descriptors, grants, identity, landlock, rules, seccomp
from berth.guest.sandbox.policy import Document, Policy, check
from berth.spec.app import Manifest, Resources
from berth.spec.boot import Placed, compile_document
from berth.spec.capabilities import Capability, parse

# Loaded now: once the root is private there is no library to load a codec from.
CODECS = (encodings.ascii, encodings.idna, encodings.latin_1)
PYTHON = "/usr/bin/python3"
PROBE_TEXT = (Path(__file__).parents[1] / "kernel" / "probe.py").read_text()
_libc = ctypes.CDLL(None, use_errno=True)
CLONE = 0x00020000 | 0x40000000 | 0x08000000 | 0x04000000 | 0x20000000  # NEWNS NEWNET NEWIPC NEWUTS NEWPID
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1,
    2,
    4,
    8,
    32,
    4096,
    1 << 14,
    1 << 18,
)

needs_kernel = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or landlock.abi() < 6 or not os.access(PYTHON, os.X_OK),
    reason="not verified here: needs root, Landlock ABI 6 and /usr/bin/python3",
)


def _call(name: str, *arguments: Any) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(arguments))


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    _call("mount", source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())


def inside(work: Callable[[], Any], *, timeout_seconds: float = 60, bind: Mapping[str, str] | None = None) -> Any:
    """The JSON value that ``work`` returned as root in a private root; its traceback as AssertionError otherwise.

    ``bind`` maps a name to a directory that appears read-only as ``/outside/<name>``.
    """
    base = tempfile.mkdtemp(prefix="berth-jail-")
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the runner may have threads; the child has none
        pid = os.fork()
    if pid == 0:
        os.close(read_end)
        _outer(work, base, write_end, bind or {})
    os.close(write_end)
    try:
        answer = _read_all(read_end, deadline=time.monotonic() + timeout_seconds)
    finally:
        os.close(read_end)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.rmdir(base)
    assert answer, "the jail died without an answer"
    value = json.loads(answer)
    assert "error" not in value, value.get("error")
    return value["result"]


def _outer(work: Callable[[], Any], base: str, answer: int, bind: Mapping[str, str]) -> None:
    """In the first child: namespaces, then pid 1 of the new pid namespace, which goes when its parent does."""
    try:
        _call("unshare", CLONE)
        pid = os.fork()
        if pid == 0:
            _call("prctl", 1, signal.SIGKILL, 0, 0, 0)
            _inner(work, base, answer, bind)
        os.close(answer)
        os.waitpid(pid, 0)
    finally:
        os._exit(0)


def _inner(work: Callable[[], Any], base: str, answer: int, bind: Mapping[str, str]) -> None:
    try:
        make_root(base, bind)
        value = {"result": work()}
    except BaseException:
        value = {"error": traceback.format_exc()}
    try:
        data = json.dumps(value).encode()
        while data:
            data = data[os.write(answer, data) :]
    finally:
        os._exit(0)


def _read_all(descriptor: int, *, deadline: float) -> bytes:
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


def make_root(base: str, bind: Mapping[str, str]) -> None:
    """Build the file system of a sandbox container on ``base`` and make it the root."""
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    mount("jail", base, "tmpfs", MS_NOSUID, "mode=0755,size=64m")
    os.chdir(base)
    for name in ("usr", "etc", "dev", "proc", "sys", "tmp", "run", "opt", "context", "workspace", "app/apps", "root"):
        os.makedirs(name, mode=0o755)
    for name in ("run/berth/policy", "run/berth/secrets", "run/lock", "var/tmp", "var/lib/berth/state"):
        os.makedirs(name, mode=0o755)
    for name in ("bin", "sbin", "lib", "lib64"):
        os.symlink("usr/" + name, name)
    mount("/usr", "usr", flags=MS_BIND | MS_REC)
    mount("none", "usr", flags=MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NODEV)
    for name, source in bind.items():
        os.makedirs(f"outside/{name}")
        mount(source, f"outside/{name}", flags=MS_BIND)
        mount("none", f"outside/{name}", flags=MS_REMOUNT | MS_BIND | MS_RDONLY)
    for name in ("passwd", "group", "shadow", "nsswitch.conf", "ld.so.cache", "mime.types", "services", "protocols"):
        if os.path.exists("/etc/" + name):
            shutil.copy("/etc/" + name, "etc/" + name)
    os.mkdir("etc/python3")
    Path("etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    mount("proc", "proc", "proc")
    mount("sysfs", "sys", "sysfs", MS_RDONLY)
    _make_devices()
    for path in ("var/tmp", "run/lock"):
        os.chmod(path, 0o1777)
    for path, mode in (("context", 0o3770), ("workspace", 0o2775)):
        os.chmod(path, mode)
        os.chown(path, 0, grants.SHARED_GID)
        os.chmod(path, mode)
    for path in ("run/berth/policy", "run/berth/secrets"):
        os.chmod(path, 0o711)
    os.mkdir("old")
    _call("pivot_root", b".", b"old")  # not chroot: in one, no user namespace could be made, with or without a filter
    os.chdir("/")
    _call("umount2", b"/old", 2)
    os.rmdir("/old")
    _bring_loopback_up()


def _make_devices() -> None:
    mount("dev", "dev", "tmpfs", MS_NOSUID, "mode=0755")
    for name, minor in (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9)):
        os.mknod(f"dev/{name}", stat.S_IFCHR | 0o666, os.makedev(1, minor))
        os.chmod(f"dev/{name}", 0o666)
    os.mknod("dev/tty", stat.S_IFCHR | 0o666, os.makedev(5, 0))
    os.chmod("dev/tty", 0o666)
    for name in ("pts", "shm", "mqueue"):
        os.mkdir(f"dev/{name}")
    mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5")
    os.symlink("pts/ptmx", "dev/ptmx")
    mount("shm", "dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
    mount("mqueue", "dev/mqueue", "mqueue", MS_NOSUID | MS_NODEV)
    os.chmod("dev/mqueue", 0o1777)


def _bring_loopback_up() -> None:
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sH14s", b"lo", 0x1 | 0x40, b""))  # SIOCSIFFLAGS, UP and RUNNING


def manifest(name: str, *capabilities: str, pids: int | None = None, secrets: Sequence[str] = ()) -> Manifest:
    """A manifest without a file behind it."""
    parsed: list[Capability] = []
    for text in capabilities:
        capability = parse(text)
        assert capability is not None, text
        parsed.append(capability)
    return Manifest(
        name=name,
        version="1.0.0",
        file=f"{name}/berth.yml",
        sha256="0" * 64,
        capabilities=tuple(parsed),
        declared_at=tuple((("capabilities", index), (index + 4, 5)) for index in range(len(parsed))),
        resources=Resources(pids=pids),
        secrets=tuple(secrets),
    )


def document_of(*manifests: Manifest, kind: str = "os", allow_unenforced: bool = False) -> Document:
    """The compiled boot document of apps in their production places."""
    return compile_document(
        [Placed(m, f"/app/apps/{m.name}") for m in manifests],
        sandbox="berth-os-test",
        kind=kind,
        allow_unenforced=allow_unenforced,
    )


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
        text = _read_all(self.report, deadline=time.monotonic() + 20).decode()
        return [json.loads(line) if line.startswith("{") else line for line in text.splitlines()]

    def finish(self, timeout_seconds: float = 30) -> dict[str, Any]:
        """``{"status": exit status, "log": text, "events": [...]}`` once the app has ended."""
        events = self.events()
        log = _read_all(self.log, deadline=time.monotonic() + timeout_seconds).decode(errors="replace")
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
        os.mkdir(home)
        mount("home", home, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4m,nr_inodes=256,mode=0700")
        os.mkdir(state)
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


def changed(document: Document, **fields: Any) -> Document:
    """The document with fields of its first app replaced, checked again."""
    value = document.as_dict()
    value["apps"][0].update(fields)
    return check(value)


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
            seccomp.install(seccomp.program(app, "x86_64"))
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
