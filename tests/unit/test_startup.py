"""Start-up is a feature: the modules that hot commands import are pinned; a regression shows without a timer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import PROGRAM, ROOT, Berth
from support.repos import make_repo

HEAVY = {
    "asyncio",
    "concurrent",
    "dataclasses",
    "dotenv",
    "email",
    "http",
    "importlib.metadata",
    "inspect",
    "logging",
    "pathlib",
    "pydantic",
    "rich",
    "ruamel",
    "shtab",
    "subprocess",
    "tempfile",
    "threading",
    "typing",
    "urllib",
    "uuid",
    "yaml",
}
# What a bare interpreter, its site module and the script itself bring along.
SCRIPT = f"""
import sys
before = set(sys.modules)
sys.argv[0] = {str(PROGRAM[1])!r}
sys.path.insert(0, {str(ROOT / "src")!r})
from berth.cli.main import main
status = main()
after = sorted(set(sys.modules) - before)
import json
sys.stderr.write("\\nMODULES" + json.dumps([status, after]))
"""


def modules(berth: Berth, *words: str, cwd: Path | None = None) -> set[str]:
    """The modules that a command imported, beyond a bare interpreter's."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        cwd=cwd or berth.cwd,
        env=berth.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    status, names = json.loads(done.stderr.rpartition("MODULES")[2])
    assert status == 0, done.stderr
    return set(names)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    config = "version: 1\nports: [web]\nprocesses: {web: {command: exec sleep 1000}}\n"
    return make_repo(tmp_path / "app", {"berth.yaml": config})


@pytest.fixture
def settled(berth: Berth) -> Berth:
    """A workspace that is up, with a prepared plan."""
    berth.ok("new", "a", "--up")
    subprocess.run(["touch", "-d", "10 seconds ago", berth.path("a") / "berth.yaml"], check=True)
    # The change time cannot be set back: the plan may rest on the file two seconds after it was made.
    subprocess.run(["sleep", "2.1"], check=True)
    berth.ok("run", "-w", "a", "true")
    return berth


def top(names: set[str]) -> set[str]:
    return {name for name in names if name in HEAVY or name.split(".")[0] in HEAVY}


def test_help_imports_next_to_nothing(berth: Berth) -> None:
    found = modules(berth, "-h")
    assert top(found) == set()
    assert {name for name in found if not name.startswith("berth")} <= {"__future__"}


def test_run_with_a_plan_that_holds_imports_no_registry_no_parser_no_json(settled: Berth) -> None:
    found = modules(settled, "run", "true", cwd=settled.path("a"))
    others = {name for name in found if not name.startswith("berth")}
    assert others <= {"__future__", "_signal", "errno", "fcntl", "resource", "termios", "time", "json"}, others
    assert not {name for name in found if name.startswith(("berth.registry", "berth.spec.config", "berth.tools.git"))}


@pytest.mark.parametrize(
    "words", [["status", "a"], ["ls"], ["plan", "a"], ["ports", "a"], ["__complete", "workspaces"]]
)
def test_looking_imports_no_yaml_no_pydantic_no_rich(settled: Berth, words: list[str]) -> None:
    found = modules(settled, *words)
    assert top(found) == set(), top(found)
    assert "berth.spec.config" not in found
