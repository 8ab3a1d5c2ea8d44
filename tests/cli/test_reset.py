"""``reset`` starts over: data wiped, includes brought again, the checkout otherwise left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import Berth
from support.repos import git, make_repo, write

CONFIG = """
version: 1
copy_dirs: [conf]
hooks: {setup: ['cp conf/local "$BERTH_DATA_DIR/from-setup"']}
processes: {web: {command: exec sleep 1000}}
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = make_repo(
        tmp_path / "app", {"berth.yaml": CONFIG, ".gitignore": "conf/local\n.env\n", "conf/tracked": "tracked"}
    )
    write(made, {"conf/local": "local", ".env": "A=1\n", ".worktreeinclude": "# ignored files\n.env\nmissing\n"})
    git(made, "add", ".worktreeinclude")
    git(made, "commit", "-qm", "includes")
    return made


def test_reset_replaces_copies_but_not_what_git_tracks(berth: Berth) -> None:
    path = Path(berth.doc("new", "a")["path"])
    assert (path / ".env").read_text() == "A=1\n"
    write(path, {"conf/local": "changed", "conf/tracked": "work", ".env": "changed", ".berth/data/extra": "x"})
    (path / "conf/extra").write_text("kept")
    berth.ok("up", "a")
    assert (path / "conf/local").read_text() == "changed", "only reset replaces"
    row = berth.doc("reset", "a")
    assert row["running"] is False
    assert (path / "conf/local").read_text() == "local"
    assert (path / ".env").read_text() == "A=1\n"
    assert (path / "conf/tracked").read_text() == "work"
    assert (path / "conf/extra").read_text() == "kept"
    assert sorted(entry.name for entry in (path / ".berth/data").iterdir()) == ["from-setup"]


def test_reset_never_follows_a_link_in_the_data(berth: Berth, tmp_path: Path) -> None:
    path = Path(berth.doc("new", "a")["path"])
    write(tmp_path, {"outside/precious": "mine"})
    (path / ".berth/data/link").symlink_to(tmp_path / "outside")
    berth.ok("reset", "a")
    assert not (path / ".berth/data/link").is_symlink()
    assert (tmp_path / "outside/precious").read_text() == "mine"
