"""``guest probe``: is a policy held here? A throw-away app under a full policy tries what it may and may not.

One JSON object on stdout: ``abi``, ``uid_map``, and for each attempt whether it went as it should (sandboxes.md 4.9).
"""

from __future__ import annotations

import errno
import json
import os
import platform
import socket

from berth.guest.sandbox import agent_init, grants, kernel, landlock, levels, policy, rules
from berth.guest.sandbox.directories import make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Dict, List

NAME = "probe"
GRANTED, UNGRANTED = "/tmp/probe", "/tmp/other"  # noqa: S108  # in a container made for this
INNER = "inner"
UNSHARE = {"x86_64": 272, "aarch64": 97}
CLONE_NEWUSER = 0x10000000


def main(arguments: List[str]) -> int:
    """``probe``: 0 with the findings on stdout; the app itself is ``probe inner``."""
    if arguments[1:] == [INNER]:
        print(json.dumps(_attempts()))
        return 0
    print(json.dumps(_outer()))
    return 0


def _outer() -> Dict[str, Any]:
    abi = landlock.abi()
    with open("/proc/self/uid_map", encoding="ascii") as file:
        found: Dict[str, Any] = {"abi": abi, "uid_map": [line.split() for line in file]}
    document = _document()
    refused = levels.preflight(document, abi=abi, machine=platform.machine())
    if refused:
        return {**found, "error": refused[0][1]}
    app = document.apps[0]
    for path in (*app.write_private, UNGRANTED):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        make(path, 0o777 if path == UNGRANTED else 0o700, uid=app.uid, gid=app.uid)
    pins = rules.pin_system()
    log, ready, report = os.pipe(), os.pipe(), os.pipe()
    order = agent_init.Launch(
        document,
        app,
        argv=[
            app.interpreter,
            "-I",
            os.path.join(os.path.dirname(os.path.dirname(__file__)), "__main__.py"),
            NAME,
            INNER,
        ],
        environment={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        cwd="/",
        log=log[1],
        ready=ready[1],
        report=report[1],
        listeners=[],
        boot_id="0",
        abi=abi,
    )
    started = agent_init.launch(order)
    for _reader, writer in (log, ready, report):
        os.close(writer)
    told = _all(report[0])
    said = _all(log[0])
    os.waitpid(started.pid, 0)
    for descriptor in (*pins, *started.pins):
        os.close(descriptor)
    try:
        return {**found, **json.loads(said.splitlines()[-1])}
    except (ValueError, IndexError):
        return {**found, "error": (told.splitlines() or said.splitlines() or ["the probe app said nothing"])[-1]}


def _all(descriptor: int) -> str:
    with open(descriptor, encoding="utf-8", errors="replace") as file:
        return file.read()


def _document() -> policy.Document:
    """One app that may write its own directory and connect to port 1, compiled by hand: there is no host here."""
    directory = "/app/apps/" + NAME
    app = {
        "name": NAME, "uid": grants.FIRST_UID, "dir": directory, "entry": "src/app.py",
        "interpreter": "/usr/bin/python3", "manifest_sha256": "0" * 64, "capabilities": ["network:connect:1"],
        "read": grants.own_reads(NAME, directory), "write": ["/dev/null"],
        "write_private": [grants.home_of(NAME), grants.state_of(NAME)], "exec": ["/usr"], "devices": [],
        "proc_all": False, "connect": [1], "connect_any": False, "bind": [], "listen": False, "invoke": {},
        "callers": {}, "egress": [], "bus": {"publish": None, "subscribe": None}, "groups": [grants.SHARED_GID],
        "secrets": [],
        "limits": {"nproc": 256, "nofile": grants.NOFILE, "core": 0, "oom_score_adj": grants.OOM_PRIMARY},
        "on_install": 0, "exports": [],
    }  # fmt: skip
    return policy.check(
        {"format": grants.FORMAT, "sandbox": "probe", "kind": "test", "allow_unenforced": False, "apps": [app]}
    )


def _attempts() -> Dict[str, Any]:
    """Inside the policy: each attempt, and whether the kernel's answer is the right one."""
    return {
        "write_granted": _errno(lambda: _write(GRANTED + "/file")) == 0,
        "write_refused": _errno(lambda: _write(UNGRANTED + "/file")) == errno.EACCES,
        "read_refused": _errno(lambda: os.listdir(UNGRANTED)) == errno.EACCES,
        "connect_refused": _errno(_connect) == errno.EACCES,
        "udp_refused": _errno(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) == errno.EPERM,
        "unshare_refused": kernel.syscall(UNSHARE[platform.machine()], CLONE_NEWUSER) == (-1, errno.EPERM),
        "uid": os.getuid(),
    }


def _write(path: str) -> None:
    with open(path, "w") as file:
        file.write("x")


def _connect() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.connect(("127.0.0.1", 2))


def _errno(attempt: Callable[[], Any]) -> int:
    try:
        attempt()
    except OSError as error:
        return error.errno or -1
    return 0
