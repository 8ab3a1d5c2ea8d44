"""Each way to install berth gives one that works, with nothing to download, compile or configure afterwards."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.cli import ROOT
from support.repos import git, make_repo

pytestmark = pytest.mark.timeout(900)
OFFLINE_WORDS = ("Temporary failure in name resolution", "Network is unreachable", "Connection refused", "dns error")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of this source tree with the present state of its tracked files, as a user would have it."""
    target = tmp_path_factory.mktemp("source") / "berth"
    names = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    git(target, "init", "-q", "-b", "main")
    git(target, "add", "-A")
    git(target, "commit", "-q", "-m", "berth")
    return target


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Homes and caches of the installers in a scratch directory, one cache for all."""
    scratch = tmp_path_factory.mktemp("installers")
    left_out = ("PYTHON", "VIRTUAL_ENV", "PIPX_", "UV_TOOL", "BERTH_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
    return {
        **kept,
        "HOME": str(scratch),
        "PIP_CACHE_DIR": str(scratch / "pip"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "UV_CACHE_DIR": str(scratch / "uv"),
        "UV_TOOL_DIR": str(scratch / "uv-tools"),
        "UV_TOOL_BIN_DIR": str(scratch / "uv-bin"),
        "PIPX_HOME": str(scratch / "pipx"),
        "PIPX_BIN_DIR": str(scratch / "pipx-bin"),
        "PIPX_DEFAULT_PYTHON": sys.executable,
    }


def install(argv: list[str], source: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(argv, cwd=source, env=environment, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0 and any(word in done.stderr for word in OFFLINE_WORDS):
        pytest.skip(f"no package registry can be reached: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stdout + done.stderr


def virtual_environment(path: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(path)], check=True, capture_output=True)
    return path / "bin"


WAYS = ["pip install .", "pip install -e .", "uv tool install .", "pipx install ."]


@pytest.mark.parametrize("way", WAYS)
def test_an_installed_berth_works(way: str, source: Path, environment: dict[str, str], tmp_path: Path) -> None:
    tool, *words = way.split()
    if tool == "pip":
        binaries = virtual_environment(tmp_path / "venv")
        install([str(binaries / "python"), "-m", "pip", "--quiet", *words], source, environment)
    elif tool == "uv":
        if shutil.which("uv") is None:
            pytest.skip("uv is not installed")
        binaries = Path(environment["UV_TOOL_BIN_DIR"])
        install(["uv", *words, "--python", sys.executable], source, environment)
    else:
        if importlib.util.find_spec("pipx") is None:
            pytest.skip("pipx is not installed")
        binaries = Path(environment["PIPX_BIN_DIR"])
        install([sys.executable, "-m", "pipx", *words], source, environment)

    repo = make_repo(tmp_path / "app", {"berth.yaml": "processes: {web: {command: exec sleep 600}}\n"})
    env = {**environment, "BERTH_HOME": str(tmp_path / "home"), "PATH": os.defpath}

    def berth(*command: str) -> subprocess.CompletedProcess[str]:
        argv = [str(binaries / "berth"), *command]
        done = subprocess.run(argv, cwd=repo, env=env, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    facts = json.loads(berth("version", "--json").stdout)
    # An editable install follows the source tree, so it stands for no commit.
    assert facts["commit"] == ("unknown" if "-e" in words else git(source, "rev-parse", "--short", "HEAD"))
    assert len((binaries / "berth").read_text().splitlines()) < 10
    berth("skill", "install")
    berth("new", "a", "--up")
    assert json.loads(berth("status", "a", "--json").stdout)["processes"][0]["healthy"] is True
    berth("done", "a")


def test_the_wheel_holds_what_the_program_needs_and_is_pure(
    source: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    import zipfile

    binaries = virtual_environment(tmp_path / "venv")
    argv = [str(binaries / "python"), "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), "."]
    install(argv, source, environment)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("berth/skill/SKILL.md", "berth/guest/__main__.py", "berth/_build.py"):
        assert name in names
    assert any(name.endswith("/share/man/man1/berth.1") for name in names)
    assert not any(name.startswith(("tests/", "examples/", "skills/")) for name in names)
