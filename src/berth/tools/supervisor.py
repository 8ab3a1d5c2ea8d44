"""One workspace's supervisor as the host sees it: start it, wait for it, start, stop and restart what it holds.

Talking is control.py, reading logs is logs.py. No file but the token is written here, and no lock is taken.
"""

from __future__ import annotations

import os
import select
import sys
import time

from berth.errors import BerthError
from berth.guest.core import wire
from berth.tools.control import QUERY_SECONDS, Control, query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

START_SECONDS = 20.0


class Verdict:
    """The waiting request's answer: ``word`` is settled, failed, wait (the time is up) or stopping.

    ``processes`` are the supervisor's own states: process-compose's keys and ``verdict``, ``verdict_reason``.
    """

    __slots__ = ("processes", "word")

    def __init__(self, word: str, processes: list[dict[str, object]]) -> None:
        self.word = word
        self.processes = processes


def wait(control: Control, process: str | None = None, *, timeout_seconds: float) -> Verdict:
    """One waiting request for ``process`` or all: it returns with the event, or at the timeout. Raises Unreachable."""
    which = f"process={wire.quote(process)}&" if process is not None else ""
    path = f"/berth/wait?{which}timeout={timeout_seconds:g}"
    status, document = query(control, "GET", path, timeout_seconds=timeout_seconds + QUERY_SECONDS)
    _raise_refusal(control, status, document)
    assert isinstance(document, dict)
    return Verdict(document["verdict"], document["processes"])


def start_process(control: Control, name: str, *, timeout_seconds: float = QUERY_SECONDS) -> None:
    """Start it unless it runs; returns before it is ready. Raises Unreachable, BerthError."""
    _request(control, "POST", f"/process/start/{wire.quote(name)}", timeout_seconds)


def stop_process(control: Control, name: str, *, timeout_seconds: float) -> None:
    """Stop it; returns when nothing of it is left. Raises Unreachable, BerthError."""
    _request(control, "PATCH", f"/process/stop/{wire.quote(name)}", timeout_seconds)


def restart_process(control: Control, name: str, *, timeout_seconds: float) -> None:
    """Stop it and start it anew; returns once it was stopped. Raises Unreachable, BerthError."""
    _request(control, "POST", f"/process/restart/{wire.quote(name)}", timeout_seconds)


def stop_project(control: Control, *, timeout_seconds: float) -> None:
    """Bring everything down; returns when the supervisor has said so, right before it exits. Raises Unreachable."""
    _request(control, "POST", "/project/stop", timeout_seconds)


def _request(control: Control, method: str, path: str, timeout_seconds: float) -> object:
    status, document = query(control, method, path, timeout_seconds=timeout_seconds)
    _raise_refusal(control, status, document)
    return document


def _raise_refusal(control: Control, status: int, document: object) -> None:
    if status == 200 and isinstance(document, dict):
        return
    error = document if isinstance(document, dict) else {}
    if error.get("code") == "process_not_found":
        known = ", ".join(map(str, error.get("known", ())))
        raise BerthError(str(error.get("error")), code="process_not_found", hint=f"known processes: {known}")
    raise BerthError(f"{control.path}: {error.get('error', f'status {status}')}", code="supervisor_failed")


def read_token(directory: str) -> str | None:
    """The token in a control directory, None when there is none. Raises BerthError state_unknown for anything else."""
    path = os.path.join(directory, wire.TOKEN_FILE)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _bad_token(path, error.strerror or "") from None
    try:
        status = os.fstat(fd)
        data = os.read(fd, 256)
    finally:
        os.close(fd)
    token = data.strip().decode("ascii", "replace")
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise _bad_token(path, "must belong to the user alone (0600)")
    if len(token) != 64 or token.strip("0123456789abcdef"):
        raise _bad_token(path, "holds no token")
    return token


def _bad_token(path: str, why: str) -> BerthError:
    return BerthError(f"process state unknown: {path}: {why}", code="state_unknown")


def make_token(directory: str) -> str:
    """The token of a control directory, created if there is none: 32 random bytes as hex, 0600, whole or absent."""
    token = read_token(directory)
    if token is not None:
        return token
    path = os.path.join(directory, wire.TOKEN_FILE)
    draft = f"{path}.{os.getpid()}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, os.urandom(32).hex().encode() + b"\n")
    finally:
        os.close(fd)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # somebody else was first; theirs counts
    finally:
        os.unlink(draft)
    token = read_token(directory)
    if token is None:
        raise _bad_token(path, "was removed")
    return token


def guest_directory() -> str:
    """The guest program as it lies in this package."""
    import berth.guest

    return os.path.dirname(berth.guest.__file__ or "")


def supervisor_environment(environ: Mapping[str, str], workspace_id: str) -> dict[str, str]:
    """What the supervisor inherits: the marker; no PC_* variables, lease or git locations (workspaces.md 4.3, 4.4)."""
    from berth.tools import proc

    kept = proc.inherited_environment(environ)
    dropped = ("BERTH_LEASE", wire.PROCESS_VARIABLE)
    kept = {key: value for key, value in kept.items() if not key.startswith("PC_") and key not in dropped}
    kept[wire.MARKER] = workspace_id
    return kept


def start(
    directory: str,
    *,
    workspace: str,
    workspace_id: str,
    env: Mapping[str, str],
    config: str,
    log: str,
    timeout_seconds: float = START_SECONDS,
) -> int:
    """Start a supervisor with its control files in ``directory`` and return its pid once its socket listens.

    ``env`` is the environment it and its processes inherit; cwd is ``workspace``. Raises BerthError supervisor_failed
    with the reason and the last lines of ``log``.
    """
    from berth.tools import proc

    make_token(directory)
    reader, writer = os.pipe()
    argv = [sys.executable, "-I", "-S", guest_directory(), "supervise", "--config", config]
    argv += ["--socket", os.path.join(directory, wire.SOCKET_FILE)]
    argv += ["--token-file", os.path.join(directory, wire.TOKEN_FILE), "--log", log]
    try:
        pid = proc.spawn(
            argv,
            env=supervisor_environment(env, workspace_id),
            cwd=workspace,
            descriptors=(proc.DEVNULL, writer, writer),
            session=True,
            tag=wire.tag(workspace_id, wire.SUPERVISOR_NUMBER),
        )
        os.close(writer)
        writer = -1
        said = _read_until_ready(reader, time.monotonic() + timeout_seconds)
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)
    if said.endswith(wire.READY_LINE):
        return pid
    proc.kill_group(pid)
    status = os.waitpid(pid, 0)[1]
    reason = said.decode("utf-8", "replace").strip() or f"the supervisor ended with status {status}"
    raise _start_failure(reason, log)


def _read_until_ready(reader: int, deadline: float) -> bytes:
    """What the supervisor said until it is ready, gone, or the time is up."""
    said = b""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    while not said.endswith(wire.READY_LINE):
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000 + 1):
            return said + b"it did not listen in time"
        block = os.read(reader, 4096)
        if not block:
            return said
        said += block
    return said


def _start_failure(reason: str, log: str) -> BerthError:
    from berth.tools import logs

    lines = "".join(f"\n  {line}" for line in logs.last(log, 10))
    return BerthError(
        f"{reason}; its log {log}:{lines}" if lines else f"{reason} (log: {log})", code="supervisor_failed"
    )
