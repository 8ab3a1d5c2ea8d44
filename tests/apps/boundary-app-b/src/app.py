"""A boundary app: each export tries one thing and reports the kernel's answer. The three differ in their manifests."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys

from berth.sdk import App
from berth.sdk.clients import CallError

app = App()


@app.export
def write_file(path: str, content: str) -> dict:
    with open(path, "w") as file:
        file.write(content)
    return {"path": path}


@app.export
def read_file(path: str) -> dict:
    with open(path) as file:
        return {"content": file.read()}


@app.export
def probe_unix_socket(path: str) -> dict:
    try:
        _connected(path).close()
    except OSError as error:
        return {"connected": False, "code": _name(error)}
    return {"connected": True}


@app.export
def probe_signal(pid: int, signal: int) -> dict:
    try:
        os.kill(pid, signal)
    except OSError as error:
        return {"sent": False, "code": _name(error)}
    return {"sent": True}


@app.export
def invoke_via_socket(path: str, export: str, input: dict) -> dict:  # noqa: A002
    with _connected(path) as connection:
        connection.sendall(json.dumps({"id": 1, "export": export, "input": input}).encode() + b"\n")
        return {"response": json.loads(connection.makefile().readline())}


@app.export
def send_oversized_frame(path: str) -> dict:
    with _connected(path) as connection:
        block = b"x" * (1024 * 1024)
        try:
            for _number in range(100):
                connection.sendall(block)
        except OSError:
            pass  # the other side closed, which is what is to be seen
        try:
            return {"ok": True, "response": connection.makefile().readline()}
        except OSError:
            return {"ok": True, "response": ""}


def _call(target: str, export: str, input: dict) -> list:  # noqa: A002
    try:
        return [app.ctx.call(target, export, input)]
    except CallError as error:
        return [error.code, str(error)]


def _bounce(target: str, back: str) -> list:
    """Call ``target``, which calls ``back``, which calls … until somebody says that it is too deep."""
    return _call(target, "probe", {"kind": "bounce", "args": [back, target]})


KINDS = {
    "env": lambda: sorted(f"{key}={value}" for key, value in os.environ.items()),
    "status": lambda: open("/proc/self/status").read().splitlines(),
    "descriptors": lambda: sorted(int(name) for name in os.listdir("/proc/self/fd")),
    "stdin": lambda: [os.readlink("/proc/self/fd/0")],
    "ids": lambda: [os.getuid(), os.getgid(), *sorted(os.getgroups())],
    "listdir": lambda path: sorted(os.listdir(path)),
    "unlink": lambda path: [os.unlink(path)],
    "rename": lambda one, two: [os.rename(one, two)],
    "mkdir": lambda path: [os.mkdir(path)],
    "overwrite": lambda path, text: [os.write(os.open(path, os.O_WRONLY | os.O_TRUNC), text.encode())],
    "chmod": lambda path: [os.chmod(path, 0o777)],
    "bind": lambda path: [socket.socket(socket.AF_UNIX).bind(path)],
    "secret": lambda name: [app.ctx.secret(name)],
    "print": lambda text: [sys.stdout.write(text + "\n"), sys.stdout.flush()][:0],
    "shell": lambda command: subprocess.run(command, shell=True, capture_output=True, text=True).stdout.splitlines(),
    "call": _call,
    "bounce": _bounce,
    "fork_bomb": lambda: [_fork_until_refused()],
    "fill": lambda path: [_fill(path)],
    "exit": lambda code: os._exit(int(code)),
}


@app.export
def probe(kind: str, args: list | None = None) -> dict:
    try:
        value = KINDS[kind](*(args or []))
    except OSError as error:
        return {"ok": False, "errno": _name(error)}
    except KeyError as error:
        return {"ok": False, "errno": f"KeyError {error}"}
    return {"ok": True, "value": value}


def _fork_until_refused() -> str:
    children = []
    try:
        while len(children) < 5000:
            pid = os.fork()
            if pid == 0:
                os.read(os.pipe()[0], 1)
                os._exit(0)
            children.append(pid)
    except OSError as error:
        return _name(error)
    finally:
        for pid in children:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    return "no limit"


def _fill(path: str) -> str:
    try:
        with open(path, "wb") as file:
            while True:
                file.write(b"x" * (1024 * 1024))
    except OSError as error:
        return _name(error)
    finally:
        os.unlink(path)


def _connected(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def _name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error.errno))
