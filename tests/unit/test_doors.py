"""Doors that no linter knows: one module starts processes, one prints."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src/berth"
HOST = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in ("guest", "sdk")]
STARTERS = {"fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "popen", "execv", "execve", "execvp", "execvpe"}


def calls(path: Path) -> set[str]:
    """The names of what a module calls: ``os.fork`` gives ``fork``."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            function = node.func
            found.add(function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", ""))
    return found


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


def test_there_is_something_to_look_at() -> None:
    assert len(HOST) > 80
    assert calls(SOURCE / "tools/proc.py") & STARTERS


@pytest.mark.parametrize("path", HOST, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_one_door_starts_processes(path: Path) -> None:
    if path != SOURCE / "tools/proc.py":
        assert not calls(path) & STARTERS
        assert not imports(path) & {"subprocess", "multiprocessing", "pty"}


@pytest.mark.parametrize("path", HOST, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_output_prints(path: Path) -> None:
    if path != SOURCE / "cli/output.py":
        assert "print" not in calls(path)
