"""Root's side of tests/engine/test_enforcement.py, inside the container: builds the places, makes the attempts.

Started with the boot document on stdin; prints one JSON object. Standard library and ``berth.guest`` only.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
from typing import Any

from berth.guest.sandbox import grants, landlock, policy, selfcheck
from support import rows
from support.world import PYTHON, Row, World, run_rows

# What a container without SYS_ADMIN and SETFCAP cannot prepare.
NOT_HERE = {"row 27 a program with file capabilities"}


def main() -> None:
    """Every table that needs no network device, in one container."""
    document = policy.read(sys.stdin.buffer.read())
    lay_out_container()
    world = World(document)
    rows.lay_out_files(world)
    seen: dict[str, Any] = {"abi": landlock.abi(), "rows": {}}
    seen["rows"].update(run_rows(world, "a", [*rows.FILES_LANDLOCK, *rows.FILES_MODES]))
    shutil.copy(PYTHON, "/usr/local/sbin/setuid-python")
    os.chmod("/usr/local/sbin/setuid-python", 0o4755)
    seen["rows"].update(run_rows(world, "a", processes()))
    with rows.listeners() as arrived:
        seen["rows"].update(run_rows(world, "a", [*rows.PORTS, *rows.FAMILIES]))
        seen["arrived"] = arrived()
    fields = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
    seen["identity"] = world.probe("b", [["identity", "@identity"], ["status", "@status", *fields]])
    seen["work"] = world.probe("a", [["work", "ordinary_work"]])["work"]
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        selfcheck.main(["check"])
    seen["selfcheck"] = json.loads(told.getvalue())
    print(json.dumps(seen))


def processes() -> list[Row]:
    """The rows on processes that this container can prepare."""
    return [row for row in (*rows.PROCESSES_SECCOMP, *rows.PROCESSES_KERNEL) if row.id not in NOT_HERE]


def lay_out_container() -> None:
    """The shared places, mode before owner, as the supervisor makes them without FOWNER."""
    os.setgroups([grants.SHARED_GID])
    os.umask(0o022)
    for path, mode in (("/context", 0o3770), ("/workspace", 0o2775)):
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        os.chown(path, 0, grants.SHARED_GID)
    for path in ("/run/berth/policy", "/run/berth/secrets", "/app/apps", "/var/lib/berth/state"):
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o711 if path.startswith("/run") else 0o755)
