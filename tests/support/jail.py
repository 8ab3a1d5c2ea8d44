"""A private root for kernel tests: own mounts, network, pids and ipc, laid out like a sandbox container.

``inside(work)`` runs ``work`` as root in there and returns its JSON value. In there, ``World`` stands for the
supervisor: it makes the directories of a boot document and starts apps through the real agent-init. Nothing is left
behind: the namespaces go with their processes.
"""

from __future__ import annotations

import encodings.ascii
import encodings.idna
import encodings.latin_1
import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from berth.guest.sandbox import grants, landlock
from berth.guest.sandbox.policy import Document
from berth.spec.app import Manifest, Resources
from berth.spec.boot import Placed, compile_document
from berth.spec.capabilities import Capability, parse
from support.world import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    PYTHON,
    call,
    mount,
    read_all,
)

# Loaded now: once the root is private there is no library to load a codec from.
CODECS = (encodings.ascii, encodings.idna, encodings.latin_1)
CLONE = 0x00020000 | 0x40000000 | 0x08000000 | 0x04000000 | 0x20000000  # NEWNS NEWNET NEWIPC NEWUTS NEWPID

needs_kernel = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or landlock.abi() < 6 or not os.access(PYTHON, os.X_OK),
    reason="not verified here: needs root, Landlock ABI 6 and /usr/bin/python3",
)


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
        answer = read_all(read_end, deadline=time.monotonic() + timeout_seconds)
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
        call("unshare", CLONE)
        pid = os.fork()
        if pid == 0:
            call("prctl", 1, signal.SIGKILL, 0, 0, 0)
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
    call("pivot_root", b".", b"old")  # not chroot: in one, no user namespace could be made, with or without a filter
    os.chdir("/")
    call("umount2", b"/old", 2)
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


def note(request: pytest.FixtureRequest, name: str, value: Any) -> None:
    """Leave a line of the attack table in the test's report (a property in JUnit's XML)."""
    request.node.user_properties.append((name, value))
