"""Files for the other apps and for the host. Paths are joined to the workspace; what is refused, the kernel refuses."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from pathlib import Path

from berth.sdk import App

CLONE_NEWUSER = 0x10000000
app = App()


@app.export
def write_file(path: str, content: str) -> dict:
    return _write(app.ctx.workspace / path, content)


@app.export
def read_file(path: str) -> dict:
    return {"content": (app.ctx.workspace / path).read_text()}


@app.export
def list_files(path: str | None = None) -> dict:
    return {"files": sorted(entry.name for entry in (app.ctx.workspace / (path or ".")).iterdir())}


@app.export
def write_context_file(path: str, content: str) -> dict:
    return _write(_context() / path, content)


@app.export
def read_context_file(path: str) -> dict:
    return {"content": (_context() / path).read_text()}


@app.export
def truncate_file(path: str, size: int) -> dict:
    os.truncate(app.ctx.workspace / path, size)
    return {"size": size}


@app.export
def probe_network_connect(host: str, port: int) -> dict:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        return {"connected": False, "error": _name(error)}
    return {"connected": True}


@app.export
def probe_network_udp() -> dict:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.sendto(b"probe", ("127.0.0.1", 9))
    except OSError as error:
        return {"sent": False, "error": _name(error)}
    return {"sent": True}


@app.export
def probe_raw_socket(host: str) -> dict:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as probe:
            probe.connect((host, 0))
    except OSError as error:
        return {"opened": False, "error": _name(error)}
    return {"opened": True}


@app.export
def probe_user_namespace() -> dict:
    pid = os.fork()
    if pid == 0:
        os._exit(_enter_user_namespace())
    number = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if number in (0, 255):
        return {"created": True, "regainedCaps": number == 255}
    return {"created": False, "regainedCaps": False, "error": errno.errorcode.get(number, str(number))}


def _enter_user_namespace() -> int:
    """An errno; or 0, or 255 when the new namespace gave capabilities."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER) != 0:
        return ctypes.get_errno()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:") and int(line.split()[1], 16):
            return 255
    return 0


def _write(path: Path, content: str) -> dict:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode()
    try:
        # Without O_CREAT first: on hosts with fs.protected_regular that flag is refused for a sibling's file.
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o664)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return {"path": str(path), "bytes": len(data)}


def _context() -> Path:
    return Path(os.environ["BERTH_CONTEXT_DIR"])


def _name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error))
