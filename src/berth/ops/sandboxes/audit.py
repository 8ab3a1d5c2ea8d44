"""The host's audit file: who did what with a sandbox, each line chained to the one before (sandboxes.md 13).

Layout: ``<home>/audit/audit.jsonl`` (0600 in 0700), then ``audit.jsonl.1`` … ``.4``, the oldest last. Tamper-evident,
not tamper-proof. Never an input or an output of a call.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any

from berth.ops.setup.context import Context
from berth.registry_sandboxes import Sandbox

GENESIS = "0" * 64
MAX_BYTES, KEPT = 16 * 1024 * 1024, 5


def record(
    ctx: Context,
    action: str,
    row: Sandbox | None,
    *,
    decision: str = "allowed",
    reason: str | None = None,
    boot_id: str | None = None,
    command: str,
    **meta: Any,
) -> None:
    """Append one line. A failing write is a warning and never fails the action."""
    entry: dict[str, Any] = {
        "ts": ctx.timestamp(),
        "action": action,
        "sandbox": row.container if row is not None else None,
        **({"boot_id": boot_id} if boot_id else {}),
        "actor": {"uid": os.getuid(), "command": command},
        "decision": decision,
        **({"reason": reason} if reason else {}),
        "meta": meta,
    }
    try:
        _append(os.path.join(ctx.home, "audit"), entry)
    except (OSError, ValueError) as error:
        ctx.say.warning(f"the audit file could not be written: {error}")


def _append(directory: str, entry: dict[str, Any]) -> None:
    os.makedirs(directory, mode=0o700, exist_ok=True)
    lock = os.open(os.path.join(directory, "lock"), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = os.path.join(directory, "audit.jsonl")
        last = _last(path) or _last(path + ".1") or {"seq": 0, "hash": GENESIS}
        if os.path.lexists(path) and os.lstat(path).st_size > MAX_BYTES:
            _rotate(path)
        whole = {**entry, "seq": int(last["seq"]) + 1, "prev": str(last["hash"])}
        whole["hash"] = digest(whole)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "ab") as file:
            file.write(json.dumps(whole, ensure_ascii=True).encode() + b"\n")
    finally:
        os.close(lock)


def digest(entry: dict[str, Any]) -> str:
    """SHA-256 of the previous hash and the entry as canonical JSON without its own hash."""
    bare = {key: value for key, value in entry.items() if key != "hash"}
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256((str(entry["prev"]) + text).encode()).hexdigest()


def _last(path: str) -> dict[str, Any] | None:
    """The last entry of a file; ValueError when its end is no entry."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 65536))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return None
    if not lines:
        return None
    value = json.loads(lines[-1])
    return value if isinstance(value, dict) else None


def _rotate(path: str) -> None:
    for number in range(KEPT - 2, 0, -1):
        if os.path.lexists(f"{path}.{number}"):
            os.rename(f"{path}.{number}", f"{path}.{number + 1}")
    os.rename(path, f"{path}.1")


def verify(home: str) -> str | None:
    """None when the chain is unbroken, else where it breaks."""
    previous: str | None = None
    for where, line in _lines(os.path.join(home, "audit", "audit.jsonl")):
        try:
            entry = json.loads(line)
            broken = entry["hash"] != digest(entry) or (previous is not None and entry["prev"] != previous)
            previous = str(entry["hash"])
        except (ValueError, KeyError, TypeError):
            broken = True
        if broken:
            return where
    return None


def _lines(path: str) -> Iterator[tuple[str, bytes]]:
    for name in (*(f"{path}.{number}" for number in range(KEPT - 1, 0, -1)), path):
        if os.path.isfile(name):
            with open(name, "rb") as file:
                for number, line in enumerate(file, start=1):
                    yield f"{name}:{number}", line
