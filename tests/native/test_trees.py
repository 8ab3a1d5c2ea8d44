"""Making, measuring and deleting trees that may hold anything (workspaces.md 7.7, 10.1, 10.3, 10.4; C16)."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.tools import deletion, trees
from support.processes import environment

DELETE = """
import sys
from berth.tools.deletion import delete_tree
delete_tree(sys.argv[1], ".berth/identity.json")
"""

as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
as_user = pytest.mark.skipif(os.getuid() == 0, reason="root passes every permission")


def identity(path: Path) -> tuple[int, int]:
    facts = path.lstat()
    return facts.st_dev, facts.st_ino


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with everything in it, and a precious neighbour outside that its links point to."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("work")
    root = tmp_path / "tree"
    (root / ".berth").mkdir(parents=True)
    (root / ".berth" / "identity.json").write_text("{}")
    (root / "a" / "b" / "c").mkdir(parents=True)
    (root / "a" / "file").write_text("x")
    (root / "a" / "link").symlink_to(tmp_path / "outside")
    (root / "a" / "broken").symlink_to("nowhere")
    os.mkfifo(root / "a" / "fifo")
    (root / "shut").mkdir()
    (root / "shut" / "inner").write_text("x")
    (root / "shut").chmod(0o000)
    (root / "a" / "b").chmod(0o555)
    return root


def test_a_tree_goes_with_closed_directories_and_links_lose_nothing_outside(tree: Path, tmp_path: Path) -> None:
    deletion.delete_tree(str(tree), identity=identity(tree))
    assert not tree.exists()
    assert (tmp_path / "outside" / "precious").read_text() == "work"


def test_a_link_in_place_of_the_tree_is_not_followed(tree: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("outside")
    for path in (str(link), str(link) + "/"):
        with pytest.raises(BerthError) as caught:
            deletion.delete_tree(path)
        assert caught.value.code == "io_error"
    assert (tmp_path / "outside" / "precious").exists()
    assert link.is_symlink()


def test_another_directory_at_the_path_is_left_alone(tree: Path) -> None:
    device, inode = identity(tree)
    with pytest.raises(BerthError) as caught:
        deletion.delete_tree(str(tree), identity=(device, inode + 1))
    assert caught.value.code == "identity_mismatch"
    assert (tree / "a" / "file").exists()


def test_nothing_there_is_nothing_to_do(tmp_path: Path) -> None:
    deletion.delete_tree(str(tmp_path / "none"))
    deletion.delete_below(str(tmp_path), ("none", "data"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_the_marker_goes_last(tree: Path) -> None:
    """Interrupted at any unlink, the marker is there as long as anything else is."""
    (tree / "z").mkdir()
    for folder in ("z", ".berth"):
        for number in range(100):
            (tree / folder / f"{number}").write_text("")
    done = subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=unlink,unlinkat,rmdir", sys.executable, "-c", DELETE, str(tree)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names = re.findall(r'(?:unlinkat|unlink|rmdir)\((?:\w+, )?"([^"]+)"', done.stderr)
    assert names[-3:] == ["identity.json", ".berth", "tree"]
    assert not tree.exists()


def test_depth_and_width_are_no_limits(tmp_path: Path) -> None:
    root = tmp_path / "deep"
    root.mkdir()
    fd = os.open(root, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d" * 20, dir_fd=fd)
        below = os.open("d" * 20, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    for number in range(2000):
        (root / str(number)).mkdir()
    deletion.delete_tree(str(root))
    assert not root.exists()


def test_a_writer_is_outrun_or_named(tmp_path: Path) -> None:
    """All or a clear error, never silence (C05)."""
    root = tmp_path / "busy"
    (root / "logs").mkdir(parents=True)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                (root / "logs" / str(number)).write_text("x")
            except FileNotFoundError:
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        deletion.delete_tree(str(root))
        said = None
    except BerthError as error:
        said = error
    finally:
        stop.set()
        writer.join()
    if said is None:  # either end is right
        assert not root.exists()
    else:
        assert said.code == "path_busy"
        assert str(root) in said.message


@as_root
def test_a_mount_below_is_never_entered(tree: Path, tmp_path: Path) -> None:
    place = tree / "with space"
    place.mkdir()
    subprocess.run(["mount", "--bind", str(tmp_path / "outside"), str(place)], check=True)
    try:
        for delete in (
            lambda: deletion.delete_tree(str(tree)),
            lambda: deletion.delete_below(str(tree), ("with space",)),
        ):
            with pytest.raises(BerthError) as caught:
                delete()
            assert caught.value.code == "path_busy"
            assert str(place) in caught.value.message
        assert (tree / "a" / "file").exists()
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert (tmp_path / "outside" / "precious").exists()
    deletion.delete_tree(str(tree))  # positive control
    assert not tree.exists()


def test_data_is_deleted_without_following_links(tree: Path, tmp_path: Path) -> None:
    data = tree / ".berth" / "data"
    data.mkdir()
    (data / "to-outside").symlink_to(tmp_path / "outside")
    (data / "f").write_text("x")
    deletion.delete_below(str(tree), (".berth", "data"))
    assert not data.exists()
    assert (tree / ".berth" / "identity.json").exists()
    assert (tmp_path / "outside" / "precious").exists()


@pytest.mark.parametrize("planted", [".berth", ".berth/data"])
def test_a_link_planted_in_the_chain_to_the_data_is_refused(tree: Path, tmp_path: Path, planted: str) -> None:
    (tmp_path / "outside" / "data").mkdir()
    (tmp_path / "outside" / "data" / "db").write_text("work")
    if planted == ".berth":
        shutil.rmtree(tree / ".berth")
        (tree / ".berth").symlink_to(tmp_path / "outside")
    else:
        (tree / ".berth" / "data").symlink_to(tmp_path / "outside" / "data")
    with pytest.raises(BerthError) as caught:
        deletion.delete_below(str(tree), (".berth", "data"))
    assert caught.value.code == "io_error"
    assert str(tree / planted) in caught.value.message
    assert (tmp_path / "outside" / "data" / "db").read_text() == "work"


def test_directories_are_made_with_their_mode_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        trees.make_directories(str(tmp_path), ("a", "b"), mode=0o755)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755
    (tmp_path / "a").chmod(0o700)
    trees.make_directories(str(tmp_path), ("a", "b", "c"), mode=0o750)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b", "a/b/c")] == [0o700, 0o755, 0o750]


@pytest.mark.parametrize("kind", ["link", "file", "fifo"])
def test_a_chain_of_directories_has_no_links_or_files_in_it(tmp_path: Path, kind: str) -> None:
    (tmp_path / "real").mkdir()
    if kind == "link":
        (tmp_path / "a").symlink_to("real")
    elif kind == "file":
        (tmp_path / "a").write_text("x")
    else:
        os.mkfifo(tmp_path / "a")
    for call in (
        lambda: trees.make_directories(str(tmp_path), ("a", "b"), mode=0o700),
        lambda: trees.open_directory(str(tmp_path), ("a",)),
    ):
        with pytest.raises(NotADirectoryError) as caught:
            call()
        assert caught.value.filename == str(tmp_path / "a")
    assert list((tmp_path / "real").iterdir()) == []


def test_no_descriptor_is_left_open(tree: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError):
        trees.open_directory(str(tree), ("a", "none"))
    with pytest.raises(BerthError):
        deletion.delete_tree(str(tree), identity=(1, 1))
    trees.size(str(tree))
    trees.make_directories(str(tree), ("n", "m"), mode=0o700)
    deletion.delete_tree(str(tree))
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_size_is_what_du_says(tree: Path) -> None:
    (tree / "big").write_bytes(b"x" * 300_000)
    os.link(tree / "big", tree / "again")
    (tree / "sparse").touch()
    os.truncate(tree / "sparse", 1 << 30)
    (tree / "shut").chmod(0o700)
    said = int(
        subprocess.run(["du", "-s", "-B1", str(tree)], capture_output=True, text=True, check=True).stdout.split()[0]
    )
    assert trees.size(str(tree)) == said
    assert trees.size(str(tree / "none")) == 0


def test_closed_directories_are_looked_into_and_closed_again(tree: Path) -> None:
    assert "shut/inner" in {entry.path for entry in trees.walk(str(tree))}
    assert stat.S_IMODE((tree / "shut").stat().st_mode) == 0


@as_root
def test_files_of_others_are_named_ten_at_most_and_their_directories_once(tree: Path) -> None:
    (tree / "their").mkdir()
    (tree / "their" / "file").write_text("x")
    os.chown(tree / "their" / "file", 12345, 12345)
    os.chown(tree / "their", 12345, 12345)
    os.chown(tree / "a" / "link", 12345, 12345, follow_symlinks=False)
    assert trees.foreign_files(str(tree)) == ["a/link", "their"]
    assert trees.foreign_files(str(tree), besides=("a",)) == ["their"]
    for number in range(20):
        (tree / f"f{number}").write_text("")
        os.chown(tree / f"f{number}", 12345, 12345)
    assert len(trees.foreign_files(str(tree))) == 10


def test_ones_own_files_are_nobody_elses(tree: Path) -> None:
    assert trees.foreign_files(str(tree)) == []
    assert trees.foreign_files(str(tree), uid=os.getuid() + 1, limit=3) != []
