"""Does this kernel, in this container, hold a policy? Tried, not asked (sandboxes.md 4.9, ``sandbox.enforcement``).

Runs as root in a throw-away container made like a sandbox: an app with a full policy goes through agent-init and
attempts what it was and was not granted. One JSON object on stdout; status 0 when everything was as it must be.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket

from berth.guest.sandbox import agent_init, grants, landlock, policy, rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Tuple

APP = "check"
FOREIGN = "/var/tmp/berth-check"  # noqa: S108 — made here, world-readable and world-writable on purpose
# check → what the app must see. The first three are the positive controls of the others.
EXPECTED = {
    "granted write": "ok",
    "granted read": "ok",
    "granted connect": "ok",
    "ungranted write": "EACCES",
    "ungranted read": "EACCES",
    "ungranted connect": "EACCES",
    "udp socket": "EPERM",
    "unshare": "EPERM",
}
UNSHARE = {"x86_64": 272, "aarch64": 97}

PROGRAM = """
import ctypes, errno, json, os, socket, sys
granted, foreign, port, other, unshare = json.loads(sys.argv[1])
def seen(attempt):
    try: attempt()
    except OSError as error: return errno.errorcode.get(error.errno, str(error))
    return "ok"
def connect(number):
    with socket.socket() as sock: sock.connect(("127.0.0.1", number))
def call():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(unshare), ctypes.c_ulong(0x10000000)) < 0: raise OSError(ctypes.get_errno(), "")
print(json.dumps({
    "granted write": seen(lambda: open(granted, "w").close()),
    "granted read": seen(lambda: open("/etc/passwd").close()),
    "granted connect": seen(lambda: connect(port)),
    "ungranted write": seen(lambda: os.close(os.open(foreign, os.O_WRONLY))),
    "ungranted read": seen(lambda: open(foreign).close()),
    "ungranted connect": seen(lambda: connect(other)),
    "udp socket": seen(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()),
    "unshare": seen(call),
}))
"""


def main(arguments: List[str]) -> int:
    """Print ``{"abi", "machine", "enforced", "checks", "reason"}``; ``checks`` maps each check to what was seen."""
    result: Dict[str, Any] = {"abi": landlock.abi(), "machine": platform.machine(), "enforced": False, "checks": {}}
    try:
        with _foreign_file(), _listeners() as ports:
            result["checks"], result["reason"] = _attempt(ports, abi=result["abi"])
    except OSError as error:
        result["reason"] = f"the check could not be prepared: {error}"
    if result["checks"]:
        seen = result["checks"]
        differing = [f"{name}: {seen.get(name)}" for name, expected in EXPECTED.items() if seen.get(name) != expected]
        result["enforced"] = not differing
        result["reason"] = ", ".join(differing) or None
    print(json.dumps(result))
    return 0 if result["enforced"] else 1


def _attempt(ports: Tuple[int, int], *, abi: int) -> Tuple[Dict[str, str], str]:
    """(what the app saw, why there is nothing)."""
    document = _document(ports[0])
    app = document.apps[0]
    home = app.write_private[0]
    os.makedirs(home, mode=0o700, exist_ok=True)
    os.chown(home, app.uid, app.uid)
    order = [home + "/written", FOREIGN, *ports, UNSHARE.get(platform.machine(), 0)]
    log, ready, report = os.pipe(), os.pipe(), os.pipe()
    pins = rules.pin_system()
    started = agent_init.launch(
        agent_init.Launch(
            document,
            app,
            argv=[app.interpreter, "-I", "-S", "-c", PROGRAM, json.dumps(order)],
            environment={"PATH": "/usr/bin:/bin"},
            cwd="/",
            log=log[1],
            ready=ready[1],
            report=report[1],
            listeners=[],
            boot_id=APP,
            abi=abi,
        )
    )
    for _reader, writer in (log, ready, report):
        os.close(writer)
    said, told = _read(report[0]), _read(log[0])
    os.close(ready[0])
    os.waitpid(started.pid, 0)
    for pin in (*pins, *started.pins):
        os.close(pin)
    try:
        return json.loads(told), ""
    except ValueError:
        return {}, (said.splitlines() or ["agent-init said nothing"])[-1]


def _document(port: int) -> policy.Document:
    """The policy under test: one port, its own directory, nothing else."""
    app = {
        "name": APP,
        "uid": grants.FIRST_UID,
        "dir": "/app/apps/" + APP,
        "entry": "src/app.py",
        "interpreter": "/usr/bin/python3",
        "manifest_sha256": "0" * 64,
        "capabilities": [f"network:connect:{port}"],
        "read": [],
        "write": ["/dev/null"],
        "write_private": [grants.home_of(APP), grants.state_of(APP)],
        "exec": ["/usr"],
        "devices": [],
        "proc_all": False,
        "connect": [port],
        "connect_any": False,
        "bind": [],
        "listen": False,
        "invoke": {},
        "callers": {},
        "egress": [],
        "bus": {"publish": None, "subscribe": None},
        "groups": [grants.SHARED_GID],
        "secrets": [],
        "limits": {"nproc": 32, "nofile": grants.NOFILE, "core": 0, "oom_score_adj": grants.OOM_PRIMARY},
        "on_install": 0,
        "exports": [],
    }
    value = {"format": grants.FORMAT, "sandbox": APP, "kind": "test", "allow_unenforced": False, "apps": [app]}
    return policy.check(value)


@contextlib.contextmanager
def _foreign_file() -> Iterator[None]:
    descriptor = os.open(FOREIGN, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    os.fchmod(descriptor, 0o666)
    os.close(descriptor)
    try:
        yield
    finally:
        os.unlink(FOREIGN)


@contextlib.contextmanager
def _listeners() -> Iterator[Tuple[int, int]]:
    """Two ports on loopback that somebody answers; the app gets one of them."""
    with socket.socket() as one, socket.socket() as two:
        for sock in (one, two):
            sock.bind(("127.0.0.1", 0))
            sock.listen(4)
        yield one.getsockname()[1], two.getsockname()[1]


def _read(descriptor: int) -> str:
    with open(descriptor, "rb") as file:
        return file.read().decode("utf-8", "replace")
