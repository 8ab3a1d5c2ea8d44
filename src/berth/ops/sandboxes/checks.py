"""Does this engine on this kernel hold a policy? The probe before every start, and doctor's sandbox part (4.1, 4.9)."""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import Any

from berth.errors import BerthError
from berth.guest.sandbox import grants
from berth.ops.sandboxes import engines, starting
from berth.ops.sandboxes.starting import Settings
from berth.ops.setup.context import Context
from berth.spec import sandbox as spec
from berth.tools.engine.client import Engine

PROBE_SECONDS = 20.0
CACHE_SECONDS = 24 * 3600.0
HIGHEST_ID = grants.FIRST_UID + grants.MAX_APPS - 1
SCRIPT = 'cat /proc/self/uid_map; exec /usr/bin/python3 -I "$0" check'


def enforcement(ctx: Context, engine: Engine, image: str, image_id: str, settings: Settings) -> None:
    """Raise enforcement_refused unless a probe app was held, or the caller allowed less. Success is kept for 24 h."""
    engines.require_other_uid(engine, os.getuid())
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
    if not ids_are_mapped(answer["uid_map"]):
        return [f"the engine maps fewer ids than 0-{HIGHEST_ID} (uid_map {answer['uid_map']})"]
    if answer.get("enforced") is True:
        return []
    return [str(answer.get("reason") or f"checks {answer.get('checks')}")]


def ids_are_mapped(uid_map: list[list[int]]) -> bool:
    """True when the ids 0 to that of the 64th app exist in the container; entries are (inside, outside, count)."""
    covered = 0
    for inside, _outside, count in sorted(uid_map):
        if inside > covered:
            break
        covered = max(covered, inside + count)
    return covered > HIGHEST_ID


def probe(engine: Engine, image: str) -> dict[str, Any]:
    """Run the guest's self-check in a throw-away container: its findings and ``uid_map``, or ``{"error"}``."""
    words = ["run", "--rm", "--network", "none", "--cap-drop", "ALL", "--user", "0:0", "--pull", "never"]
    for capability in spec.CAPABILITIES:
        words += ["--cap-add", capability]
    words += ["--security-opt", "no-new-privileges"]
    for mount in starting.guest_mounts():
        words += ["--mount", spec.mount_words(mount)]
    words += ["--entrypoint", "/bin/sh", image, "-c", SCRIPT, f"{spec.GUEST}/guest/__main__.py"]
    result = engine.attempt(words, timeout=PROBE_SECONDS)
    try:
        *maps, last = result.text.splitlines()
        answer = json.loads(last)
        return {**answer, "uid_map": [[int(word) for word in line.split()] for line in maps]}
    except (ValueError, TypeError):
        said = result.complaint.splitlines()[-1:] or [f"exit code {result.code}"]
        return {"error": "no answer in time" if result.timed_out else said[0]}


def _cache_path(ctx: Context, engine: Engine, image_id: str) -> str:
    key = "\0".join((os.uname().release, engine.name, engine.facts.identity, image_id))
    return os.path.join(ctx.home, "sandboxes", f"enforcement-{hashlib.sha256(key.encode()).hexdigest()[:24]}")


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
