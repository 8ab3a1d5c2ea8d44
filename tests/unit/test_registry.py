"""The registry: constraints, transactions, and what it says of a file it cannot use."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.registry import Registry, timestamp


def row(number: int, **changes: object) -> dict[str, object]:
    values: dict[str, object] = {
        "id": f"{number:032x}",
        "slug": f"s{number}",
        "path": f"/r.berths/s{number}",
        "repo": "/r",
        "common_dir": "/r/.git",
        "git_dir": f"/r/.git/worktrees/s{number}",
        "branch": f"berth/s{number}",
        "base": "main",
        "ownership": "berth-created",
        "phase": "creating",
        "runtime": "{}",
        "listen": "{}",
        "created_at": timestamp(0),
        "last_used_at": timestamp(number),
    }
    return values | changes


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(str(tmp_path / "home"))


def test_a_registered_workspace_is_found_by_id_path_slug_and_anything_below_it(registry: Registry) -> None:
    made = registry.insert(row(1), lambda taken: {"web": 20001, "api": 20000})
    assert made.ports == {"api": 20000, "web": 20001}
    assert list(made.ports) == ["api", "web"]
    assert registry.by_path("/r.berths/s1").id == made.id  # type: ignore[union-attr]
    assert [found.id for found in registry.by_slug("s1")] == [made.id]
    assert registry.containing("/r.berths/s1/a/b").id == made.id  # type: ignore[union-attr]
    assert registry.containing("/r.berths/s11") is None


def test_the_deepest_workspace_contains_a_path(registry: Registry) -> None:
    registry.insert(row(1), lambda taken: {})
    inner = registry.insert(row(2, path="/r.berths/s1/in/s2"), lambda taken: {})
    assert registry.containing("/r.berths/s1/in/s2/x").id == inner.id  # type: ignore[union-attr]


def test_a_port_is_never_given_twice(registry: Registry) -> None:
    registry.insert(row(1), lambda taken: {"web": 20000})
    with pytest.raises(BerthError, match="UNIQUE") as caught:
        registry.insert(row(2), lambda taken: {"web": 20000})
    assert caught.value.code == "identity_mismatch"
    assert registry.by_path("/r.berths/s2") is None, "the row is rolled back with its ports"


def test_ports_are_released_with_their_row(registry: Registry) -> None:
    made = registry.insert(row(1), lambda taken: {"web": 20000})
    registry.delete(made.id)
    assert registry.taken_ports() == set()


@pytest.mark.parametrize("same", ["path", "slug"])
def test_one_path_and_one_slug_per_repository(registry: Registry, same: str) -> None:
    registry.insert(row(1), lambda taken: {})
    with pytest.raises(BerthError) as caught:
        registry.insert(row(2, **{same: row(1)[same]}), lambda taken: {})
    assert caught.value.code == "identity_mismatch"


def test_the_same_slug_lives_in_two_repositories(registry: Registry) -> None:
    registry.insert(row(1), lambda taken: {})
    registry.insert(row(2, slug="s1", repo="/other"), lambda taken: {})
    assert len(registry.by_slug("s1")) == 2
    assert len(registry.by_slug("s1", repo="/other")) == 1


def test_an_update_of_a_row_that_is_gone_is_refused(registry: Registry) -> None:
    made = registry.insert(row(1), lambda taken: {})
    assert registry.update(made.id, phase="ready", setup_complete=True).setup_complete is True
    registry.delete(made.id)
    with pytest.raises(BerthError, match="workspace replaced during operation") as caught:
        registry.update(made.id, phase="ready")
    assert caught.value.code == "identity_mismatch"


def test_the_list_is_most_recently_used_first_and_ties_go_by_path(registry: Registry) -> None:
    for number, used in ((1, 5), (2, 9), (3, 5)):
        registry.insert(row(number, last_used_at=timestamp(used)), lambda taken: {})
    assert [found.slug for found in registry.all()] == ["s2", "s1", "s3"]


def test_the_file_and_its_directory_are_private_whatever_the_umask(registry: Registry) -> None:
    before = os.umask(0)
    try:
        registry.all()
    finally:
        os.umask(before)
    assert os.stat(registry.path).st_mode & 0o777 == 0o600
    assert os.stat(registry.home).st_mode & 0o777 == 0o700


def test_a_newer_schema_is_refused_and_not_written(registry: Registry) -> None:
    registry.all()
    registry.close()
    with sqlite3.connect(registry.path) as db:
        db.execute("PRAGMA user_version = 2")
    db.close()
    before = Path(registry.path).read_bytes()
    with pytest.raises(BerthError) as caught:
        registry.insert(row(1), lambda taken: {})
    assert caught.value.code == "registry_newer"
    assert Path(registry.path).read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_file_that_is_no_database_is_reported_and_left_alone(registry: Registry, content: bytes) -> None:
    Path(registry.home).mkdir()
    Path(registry.path).write_bytes(content)
    with pytest.raises(BerthError) as caught:
        registry.all()
    assert caught.value.code == "registry_corrupt"
    assert registry.path in caught.value.message
    assert Path(registry.path).read_bytes() == content


def test_a_busy_registry_is_waited_for(registry: Registry, tmp_path: Path) -> None:
    registry.all()
    hold = (
        "import sqlite3, sys, time\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None); db.execute('BEGIN EXCLUSIVE')\n"
        "print('held', flush=True); time.sleep(1.5); db.execute('COMMIT'); db.close()\n"
    )
    with subprocess.Popen([sys.executable, "-c", hold, registry.path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        made = registry.insert(row(1), lambda taken: {})
    assert made.slug == "s1"


def test_a_home_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        home = "/"  # root's
    else:
        home = str(tmp_path / "other")
        Path(home).mkdir()
        os.chown(home, 12345, 12345)
    with pytest.raises(BerthError, match="belongs to uid") as caught:
        Registry(home).all()
    assert caught.value.code == "io_error"


def test_timestamps_are_rfc_3339_utc() -> None:
    assert timestamp(1.5) == "1970-01-01T00:00:01.500Z"
