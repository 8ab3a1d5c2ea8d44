"""The apps of the repository: their own tests pass, their manifests are valid, and they import the SDK alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from berth.tools import manifest

ROOT = Path(__file__).parents[2]
APPS = sorted(path.parent for path in (ROOT / "apps").glob("*/berth.yml"))
GUEST = sorted(
    str(path.relative_to(ROOT / "src"))[:-3].replace("/", ".").removesuffix(".__init__")
    for package in ("guest", "sdk")
    for path in (ROOT / "src/berth" / package).rglob("*.py")
    if path.name != "__main__.py"
)


@pytest.mark.parametrize("app", APPS, ids=lambda app: app.name)
def test_an_app_is_valid_and_its_own_tests_pass(app: Path) -> None:
    validated = manifest.load(str(app))
    assert validated.warnings == []
    assert validated.manifest.name == app.name
    assert (app / "README.md").exists()
    done = subprocess.run(
        [sys.executable, "-m", "unittest", "discover", "-s", str(app / "tests")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 0 tests" not in done.stderr


def test_guest_and_sdk_need_nothing_but_the_standard_library() -> None:
    program = (
        "import importlib, sys\n"
        f"sys.path[:] = [{str(ROOT / 'src')!r}, *sys.path]\n"
        f"for name in {GUEST!r}: importlib.import_module(name)\n"
        "print(sorted(n for n in sys.modules if n.startswith('berth.') and n.split('.')[1] not in ('guest', 'sdk')))\n"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
