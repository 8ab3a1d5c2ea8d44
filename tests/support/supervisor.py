"""A real supervisor for a test: started by path under any Python, driven through its socket, gone at the end."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from berth.guest.core import procfs, wire
from berth.tools import control, supervisor

WORKSPACE_ID = "0123456789abcdef0123456789abcdef"


def pythons() -> list[str]:
    """Every CPython from 3.9 on that this machine has, one per minor version, this one first.

    BERTH_TEST_PYTHONS (paths, colon-separated) overrides what is found. Where CI=true, 3.9 must be among them.
    """
    named = os.environ.get("BERTH_TEST_PYTHONS")
    if named:
        return [path for path in named.split(":") if path]
    home = pwd.getpwuid(os.getuid()).pw_dir
    roots = [os.environ.get("PYENV_ROOT", ""), os.path.join(home, ".pyenv")]
    found = {sys.version_info[:2]: sys.executable}
    for root in filter(None, roots):
        for path in sorted(Path(root).glob("versions/3.*/bin/python3")):
            numbers = path.parts[-3].split(".")
            version = (int(numbers[0]), int(numbers[1])) if numbers[1].isdigit() else (0, 0)
            if version >= (3, 9) and os.access(path, os.X_OK):
                found.setdefault(version, str(path))
    if os.environ.get("CI") == "true":
        assert (3, 9) in found, "CI needs a Python 3.9 for the guest"
    return list(found.values())


def until(condition: Callable[[], object], timeout: float = 10.0, what: str = "") -> object:
    """The first true answer of ``condition``; fails after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {timeout} s: {what or condition}"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether ``pid`` exists and is no zombie."""
    entry = procfs.read(pid)
    return entry is not None and entry.state not in ("Z", "X")


class Supervisor:
    """One workspace directory and the supervisor in it."""

    def __init__(self, root: Path, processes: dict[str, object], *, python: str = sys.executable) -> None:
        self.root = root
        self.run = root / "run"
        self.run.mkdir(mode=0o700, exist_ok=True)
        (root / ".berth").mkdir(exist_ok=True)
        self.config = root / ".berth" / "pc.yaml"
        self.log = root / ".berth" / "supervisor.log"
        self.python = python
        self.guest = supervisor.guest_directory()
        self.write({"version": "0.5", "processes": processes})
        self.child: subprocess.Popen[bytes] | None = None
        self.workspace_id = WORKSPACE_ID[:-6] + f"{os.getpid() % 0xFFFFFF:06x}"
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(root), wire.MARKER: self.workspace_id}

    def write(self, document: object) -> None:
        self.config.write_text(json.dumps(document))

    @property
    def pid(self) -> int:
        assert self.child is not None
        return self.child.pid

    @property
    def control(self) -> control.Control:
        return control.Control(str(self.run), supervisor.make_token(str(self.run)))

    def start(self, **popen: object) -> Supervisor:
        """Start it as ``up`` does and return once it listens."""
        supervisor.make_token(str(self.run))
        self.child = subprocess.Popen(
            [
                *(self.python, "-I", "-S", self.guest, "supervise", "--config", str(self.config)),
                *("--socket", str(self.run / "pc.sock"), "--token-file", str(self.run / "pc.token")),
                *("--log", str(self.log)),
            ],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **popen,  # type: ignore[call-overload]
        )
        assert self.child.stdout is not None
        with self.child.stdout as stream:
            said = stream.read()
        if said != b"ready\n":
            self.child.wait(10)
        assert said == b"ready\n", said.decode()
        return self

    def ask(self, method: str, path: str, *, timeout: float = 10.0, body: bytes = b"") -> tuple[int, object]:
        return control.query(self.control, method, path, timeout_seconds=timeout, body=body)

    def wait(self, process: str | None = None, *, timeout: float = 10.0) -> supervisor.Verdict:
        return supervisor.wait(self.control, process, timeout_seconds=timeout)

    def state(self, name: str) -> dict[str, object]:
        status, document = self.ask("GET", f"/process/{name}")
        assert status == 200, document
        assert isinstance(document, dict)
        return document

    def reaches(self, name: str, status: str, timeout: float = 10.0) -> dict[str, object]:
        """The state of ``name`` once it is ``status``."""
        seen: list[dict[str, object]] = []

        def look() -> bool:
            seen[:] = [self.state(name)]
            return seen[0]["status"] == status

        until(look, timeout, f"{name} {status}; {self.history()}")
        return seen[0]

    def output(self, name: str) -> str:
        """What the log of ``name`` holds now."""
        return (self.root / wire.LOGS_DIRECTORY / f"{name}.log").read_text("utf-8", "replace")

    def prints(self, name: str, text: str, timeout: float = 10.0) -> str:
        """The log of ``name`` once ``text`` is in it."""
        path = self.root / wire.LOGS_DIRECTORY / f"{name}.log"
        until(lambda: path.exists() and text in self.output(name), timeout, f"{text!r} in {name}")
        return self.output(name)

    def history(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def moves(self, name: str) -> list[str]:
        """The states that ``name`` moved to, in order."""
        return [
            line.split(" -> ")[1].split(" (")[0]
            for line in self.history().splitlines()
            if f" {name}: " in line and " -> " in line
        ]

    def down(self, timeout: float = 30.0) -> float:
        """Stop everything through the socket; the seconds that took."""
        assert self.child is not None
        begun = time.monotonic()
        supervisor.stop_project(self.control, timeout_seconds=timeout)
        took = time.monotonic() - begun
        assert self.child.wait(5) == 0
        return took

    def tagged(self) -> list[procfs.Entry]:
        """Live processes with this workspace's tag, keepers and supervisor included."""
        part = wire.workspace_part(self.workspace_id)
        found = []
        for entry in procfs.alive(procfs.snapshot().values()):
            tag = procfs.tag(entry.pid)
            if tag is not None and wire.split_tag(tag)[0] == part:
                found.append(entry)
        return found

    def destroy(self) -> None:
        """Whatever the test left: killed."""
        if self.child is not None and self.child.poll() is None:
            os.kill(self.child.pid, signal.SIGKILL)
            self.child.wait()
        for _ in range(100):
            left = self.tagged()
            if not left:
                return
            for entry in left:
                try:
                    os.kill(entry.pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.01)


@contextmanager
def supervised(root: Path, processes: dict[str, object], **options: object) -> Iterator[Supervisor]:
    """A running supervisor of ``processes`` in ``root``."""
    one = Supervisor(root, processes, **options)  # type: ignore[arg-type]
    try:
        yield one.start()
    finally:
        one.destroy()


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def answer(port: int, *, delay: float = 0, status: int = 200, host: str = "127.0.0.1") -> str:
    """The command of a server that answers every request with ``status``, ``delay`` seconds after its start."""
    script = Path(__file__).with_name("answer.py")
    return f"exec {sys.executable} -I -S {script} {port} {delay} {status} {host}"


def http_get(port: int, host: str = "127.0.0.1", **more: object) -> dict[str, object]:
    return {"http_get": {"host": host, "port": port, **more}}
