"""Guards and fixtures of the whole test run: no test sees the real home directory or the user's git configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import Berth
from support.repos import GIT_TEST_CONFIG, make_repo

CLEARED = ("BERTH_", "GIT_", "PC_", "NO_COLOR", "CLICOLOR", "XDG_")


@pytest.fixture(scope="session", autouse=True)
def _guarded_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """HOME is a scratch directory, git reads only our configuration, nothing of berth's is inherited."""
    home = tmp_path_factory.mktemp("home")
    config = home / ".gitconfig"
    config.write_text(GIT_TEST_CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(CLEARED):
                patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("GIT_CONFIG_GLOBAL", str(config))
        patch.setenv("GIT_TERMINAL_PROMPT", "0")
        patch.setenv("BERTH_HOME", str(home / "a test that opens the default registry is wrong"))
        # A file where the directory should be: the default home explodes when used.
        (home / "a test that opens the default registry is wrong").write_text("guard")
        yield


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A fresh repository with one commit on main."""
    return make_repo(tmp_path / "app")


@pytest.fixture
def berth_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private BERTH_HOME, set in the environment."""
    home = tmp_path / "berth-home"
    monkeypatch.setenv("BERTH_HOME", str(home))
    return home


@pytest.fixture
def berth(tmp_path: Path, repo: Path) -> Iterator[Berth]:
    """The program with a private home, in the fresh repository ``repo``; every workspace is down afterwards."""
    program = Berth(tmp_path / "berth home", repo)
    yield program
    if (program.home / "registry.db").exists():
        for row in program.doc("ls")["workspaces"]:
            program("down", row["path"])
