"""The attack table in containers as sandboxes are made (sandboxes.md 5.1), on each engine: agent-init must hold what
the engine's own profile leaves open, and must work with what it forbids."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

import berth
from berth.tools.engine.client import Engine
from support import rows
from support.contained import processes
from support.engines import IMAGE, labelled
from support.jail import document_of, manifest, note
from support.world import Row

# Controls that an engine refuses by itself: Docker's profile every unshare, a container without IPv6 its addresses.
REFUSED_BY_AN_ENGINE = {"N01 connect by IPv6", *(row.id for row in rows.PROCESSES_SECCOMP if "P06 unshare" in row.id)}
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETPCAP", "SETUID")
PROGRAM = (
    "import sys; sys.path[:0] = ['/usr/lib/berth', '/berth-tests']; from support import contained; contained.main()"
)


def options(engine: Engine) -> list[str]:
    """The create options of sandboxes.md 5.1 that matter to an app, and the tests read-only beside the guest."""
    tmpfs = "nosuid,nodev,noexec" + (",notmpcopyup" if engine.name == "podman" else "")
    package = os.path.dirname(os.path.abspath(berth.__file__))
    tests = os.path.dirname(os.path.dirname(os.path.abspath(rows.__file__)))
    return [
        *("--rm", "-i", "--pull=never", "--network=none", "--ipc=private", "--cap-drop=ALL"),
        *(f"--cap-add={capability}" for capability in CAPABILITIES),
        "--security-opt=no-new-privileges",
        *(f"--tmpfs={path}:size=8m,{tmpfs}" for path in ("/run/berth", "/tmp", "/tmp/a", "/tmp/b")),
        *("-v", f"{package}:/usr/lib/berth/berth:ro", "-v", f"{tests}:/berth-tests:ro"),
    ]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    """By engine, so that one container serves all tests of this file."""
    return {}


@pytest.fixture
def seen(kind: str, engine: Engine, outcomes: dict[str, Any]) -> Any:
    if kind not in outcomes:
        document = document_of(
            manifest("a", *rows.FILES_APP, *rows.NETWORK_APP, pids=32, secrets=["TOKEN"]),
            manifest("b", "filesystem:write:/workspace/b", secrets=["TOKEN"]),
        )
        command = ["run", *labelled(), *options(engine), IMAGE, "/usr/bin/python3", "-I", "-B", "-c", PROGRAM]
        result = engine.call(command, stdin=json.dumps(document.as_dict()).encode(), timeout=120)
        outcomes[kind] = json.loads(result.text.splitlines()[-1])
    return outcomes[kind]


def test_every_attempt_of_the_table_is_refused_as_documented(seen: Any, request: pytest.FixtureRequest) -> None:
    table: list[Row] = [*rows.FILES_LANDLOCK, *rows.FILES_MODES, *processes(), *rows.PORTS, *rows.FAMILIES]
    wrong = {}
    for row in table:
        outcome, control = seen["rows"][row.id], seen["rows"].get(row.id + "+")
        note(request, "row", [row.id, row.expected, outcome, control, ""])
        if row.control is not None and row.id not in REFUSED_BY_AN_ENGINE and control != row.control_gives:
            wrong[row.id + ", control"] = [control, row.control_gives]
        if outcome != rows.PROCESSES_VALUES.get(row.id, outcome) or str(outcome) not in row.expected.split("|"):
            wrong[row.id] = [outcome, row.expected]
    assert wrong == {}
    assert seen["arrived"] == 0


def test_the_self_check_of_doctor_says_so_here(seen: Any) -> None:
    assert (seen["selfcheck"]["enforced"], seen["selfcheck"]["reason"]) == (True, None)


def test_an_app_is_what_it_is_on_the_bare_kernel(seen: Any) -> None:
    identity, status = seen["identity"]["identity"], seen["identity"]["status"]
    assert (identity["uids"], identity["gids"]) == ([10001] * 3, [10001] * 3)
    assert identity["groups"] == [9999, 10001]
    assert (status.pop("NoNewPrivs"), status.pop("Seccomp")) == ("1", "2")
    assert {int(mask, 16) for mask in status.values()} == {0}
    assert seen["work"] is True
