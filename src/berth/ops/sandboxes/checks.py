"""Does this engine on this kernel hold a policy? The probe before every start, and doctor's sandbox part (4.1, 4.9)."""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import Any

from berth.errors import BerthError
from berth.ops.sandboxes import starting
from berth.ops.sandboxes.starting import Settings
from berth.ops.setup.context import Context
from berth.spec import sandbox as spec
from berth.tools.engine.client import Engine

PROBE_SECONDS = 20.0
CACHE_SECONDS = 24 * 3600.0
EXPECTED = ("write_granted", "write_refused", "read_refused", "connect_refused", "udp_refused", "unshare_refused")


def enforcement(ctx: Context, engine: Engine, image: str, image_id: str, settings: Settings) -> None:
    """Raise enforcement_refused unless a probe app was held, or the caller allowed less. Success is kept for 24 h."""
    if settings.allow_unenforced or _cached(ctx, engine, image_id):
        return
    answer = probe(engine, image)
    failed = failures(answer)
    if failed:
        raise BerthError(
            f"this kernel and engine do not hold a policy: {', '.join(failed)}",
            code="enforcement_refused",
            hint="berth doctor --sandbox; --allow-unenforced starts anyway, without protection",
        )
    _remember(ctx, engine, image_id)


def failures(answer: dict[str, Any]) -> list[str]:
    """What a probe's answer lacks, in words."""
    if "error" in answer:
        return [str(answer["error"])]
    return [name for name in EXPECTED if answer.get(name) is not True]


def probe(engine: Engine, image: str) -> dict[str, Any]:
    """Run the guest's probe in a throw-away container: its findings, or ``{"error"}``."""
    words = ["run", "--rm", "--network", "none", "--cap-drop", "ALL", "--user", "0:0"]
    for capability in spec.CAPABILITIES:
        words += ["--cap-add", capability]
    words += ["--security-opt", "no-new-privileges", "--tmpfs", "/run/berth", "--tmpfs", "/tmp", "--pull", "never"]  # noqa: S108
    for mount in starting.guest_mounts():
        words += ["--mount", spec.mount_words(mount)]
    command = ["-I", f"{spec.GUEST}/guest/__main__.py", "probe"]
    result = engine.attempt([*words, "--entrypoint", "/usr/bin/python3", image, *command], timeout=PROBE_SECONDS)
    try:
        answer = json.loads(result.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        said = result.complaint.splitlines()[-1:] or [f"exit code {result.code}"]
        return {"error": "no answer in time" if result.timed_out else said[0]}
    return answer if isinstance(answer, dict) else {"error": "no answer"}


def _cache_path(ctx: Context, engine: Engine, image_id: str) -> str:
    key = "\0".join((os.uname().release, engine.name, engine.facts.identity, image_id))
    return os.path.join(ctx.home, "run", f"enforcement-{hashlib.sha256(key.encode()).hexdigest()[:24]}")


def _cached(ctx: Context, engine: Engine, image_id: str) -> bool:
    try:
        age = time.time() - os.stat(_cache_path(ctx, engine, image_id)).st_mtime
    except FileNotFoundError:
        return False
    return 0 <= age < CACHE_SECONDS


def _remember(ctx: Context, engine: Engine, image_id: str) -> None:
    path = _cache_path(ctx, engine, image_id)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("held\n")


def warn_unenforced(ctx: Context) -> None:
    """The banner of every boot that may be less than fully enforced."""
    ctx.say.warning("--allow-unenforced: apps start with what this kernel can apply, which may be nothing")
