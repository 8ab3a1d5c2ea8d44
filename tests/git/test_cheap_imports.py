"""What ``run``, ``status``, ``ls`` and ``plan`` touch of git costs few imports (performance.md)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

DEAR = {"typing", "re", "json", "subprocess", "pathlib", "dataclasses", "contextlib", "tempfile", "logging", "shutil"}


@pytest.mark.parametrize("module", ["command", "checkout", "status"])
def test_a_module_on_a_hot_path_imports_nothing_dear(module: str) -> None:
    import berth

    source = os.path.dirname(os.path.dirname(os.path.abspath(berth.__file__)))
    code = f"import sys; sys.path.insert(0, {source!r}); import berth.tools.git.{module}; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, capture_output=True, text=True)
    loaded = set(told.stdout.split())
    assert f"berth.tools.git.{module}" in loaded
    assert not DEAR & loaded
