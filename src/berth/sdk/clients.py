"""What an app can ask for: calls to siblings, its capabilities, its secrets, its log (sandboxes.md 12.1).

Every answer is the kernel's or the callee's; nothing here grants or refuses.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import re
import socket
import struct
import threading
import time
from pathlib import Path

from berth.guest.sandbox import protocol
from berth.guest.sandbox.declared import HOPS
from berth.guest.sandbox.identities import account_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Dict, NamedTuple, Optional
else:
    from typing import NamedTuple

RUN = "/run/berth"
CALL_SECONDS = 15.0
_BROKER = ("network:host", "browser:navigate", "bus:publish", "bus:subscribe")
_KERNEL = (
    "filesystem:read", "filesystem:write", "network:connect", "network:bind", "process:list",
)  # fmt: skip


class CallError(Exception):
    """A call of another app that gave no result. ``code`` as in sandboxes.md 7.3; ``str()`` is the message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Capability(NamedTuple):
    """Whether a capability was declared, and who holds it: ``kernel``, ``broker`` or ``recorded``."""

    granted: bool
    tier: str

    def __bool__(self) -> bool:
        return self.granted


class Context:
    """``app.ctx``: made from the environment that the supervisor built."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.name = environ["BERTH_APP_NAME"]
        self.boot_id = environ["BERTH_BOOT_ID"]
        self.workspace = Path(environ["BERTH_WORKSPACE_ROOT"])
        self.state_dir = Path(environ["BERTH_STATE_DIR"])
        with open(environ["BERTH_POLICY"], encoding="utf-8") as file:
            self.manifest: Mapping[str, Any] = json.load(file)
        self._peers = threading.local()

    def call(self, app: str, export: str, input: Optional[Dict[str, Any]] = None, timeout: float = CALL_SECONDS) -> Any:  # noqa: A002
        """The result of a sibling's export; CallError otherwise. ``timeout`` in seconds."""
        hops = HOPS.get() + 1
        kept: Dict[str, _Peer] = self._peers.__dict__
        peer = kept.pop(app, None)
        fresh = peer is None or not peer.is_alive()
        if peer is not None and fresh:
            peer.close()
        if fresh or peer is None:
            peer = _Peer(self.name, app, timeout=timeout)
        try:
            answer = peer.call(export, input or {}, hops=hops, timeout=timeout)
        except BaseException:
            peer.close()
            raise
        kept[app] = peer
        if "error" in answer:
            raise CallError(str(answer["error"].get("code")), str(answer["error"].get("message")))
        return answer.get("result")

    def capability(self, cap: str) -> Capability:
        """Whether the manifest declares ``cap``, or something that covers it; it grants nothing."""
        granted = any(_matches(declared, cap) for declared in self.manifest["capabilities"])
        return Capability(granted, _tier(cap))

    def secret(self, name: str) -> str:
        """The value of a secret that the manifest lists; KeyError when it is not listed or has no value."""
        if name not in self.manifest["secrets"]:
            raise KeyError(name)
        try:
            with open(f"{RUN}/secrets/{self.name}/{name}", encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except FileNotFoundError:
            raise KeyError(name) from None

    def log(self, text: str) -> None:
        """A line in the sandbox's log."""
        os.write(2, (text + "\n").encode("utf-8", "backslashreplace"))


class _Peer:
    """One connection to a sibling, used by one thread at a time."""

    def __init__(self, me: str, target: str, *, timeout: float) -> None:
        place = target if target == me else f"{target}/peers/{me}"
        path = f"{RUN}/{place}/rpc.sock"
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", target):
            raise CallError("no_such_app", f"{target!a} is no app name")
        self._target = target
        self._count = 0
        self._rest = b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(path)
            self._require_target()
        except OSError as error:
            self._socket.close()
            raise _unreachable(error, target, path) from error
        except CallError:
            self._socket.close()
            raise

    def _require_target(self) -> None:
        """The listener must be the target's: the uid is the kernel's word, the account was the supervisor's."""
        uid = struct.unpack("3i", self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        if uid != pwd.getpwnam(account_of(self._target)).pw_uid:
            raise CallError("peer_uid_mismatch", f'the listener of "{self._target}" belongs to uid {uid}')

    def is_alive(self) -> bool:
        """False when the other side has gone since the last call."""
        self._socket.setblocking(False)
        try:
            return self._socket.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def call(self, export: str, input: Dict[str, Any], *, hops: int, timeout: float) -> Dict[str, Any]:  # noqa: A002
        self._count += 1
        deadline = time.monotonic() + timeout
        try:
            line = protocol.request_line(self._count, export, input, hops=hops)
        except (ValueError, TypeError) as error:
            raise CallError("bad_request", f"the input is no JSON value: {error}") from error
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(line)
            while True:
                answer = json.loads(self._line(deadline))
                if answer.get("id") in (self._count, None):
                    return dict(answer)
        except socket.timeout:
            raise CallError("timeout", f'no answer of "{self._target}" within {timeout:g} s') from None
        except (OSError, ValueError) as error:
            raise CallError("unreachable", f'"{self._target}" ended the connection: {error}') from error

    def _line(self, deadline: float) -> bytes:
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            left = deadline - time.monotonic()
            if left <= 0:
                raise socket.timeout
            self._socket.settimeout(left)
            block = self._socket.recv(262144)
            if not block:
                raise ConnectionResetError(errno.ECONNRESET, "closed")
            parts.append(block)
        line, _end, self._rest = b"".join(parts).partition(b"\n")
        return line

    def close(self) -> None:
        self._socket.close()


def _unreachable(error: OSError, target: str, path: str) -> CallError:
    if isinstance(error, socket.timeout):
        return CallError("timeout", f'"{target}" does not take connections')
    if error.errno == errno.EACCES:
        return CallError("not_allowed", f'"{target}" may not be called: berth.yml lacks app:invoke:{target}')
    if error.errno == errno.ENOENT:
        return CallError("no_such_app", f'no running app "{target}" in this sandbox ({path})')
    return CallError("unreachable", f'"{target}": {error.strerror} ({path})')


def _matches(granted: str, requested: str) -> bool:
    """Namespace and action equal, the scope an anchored glob in which only ``*`` is special (sandboxes.md 3)."""
    have, want = granted.split(":", 2), requested.split(":", 2)
    if len(have) != 3 or len(want) != 3 or have[:2] != want[:2]:
        return False
    pattern = ".*".join(re.escape(part) for part in have[2].split("*"))
    return re.fullmatch(pattern, want[2], re.DOTALL) is not None


def _tier(cap: str) -> str:
    namespace, _colon, rest = cap.partition(":")
    family = f"{namespace}:{rest.partition(':')[0]}"
    if cap == "network:connect:*":
        return "recorded"
    if family in _KERNEL or namespace == "terminal":
        return "kernel"
    if family == "app:invoke":
        return "broker" if "/" in cap else "kernel"
    return "broker" if family in _BROKER else "recorded"
