"""Includes and copies between real directories (workspaces.md 7.6; C94)."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.tools.copies import copy_into
from berth.tools.files import DRAFT_PREFIX
from berth.tools.includes import read_includes
from support.processes import environment, eventually, python

as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount")


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    """A source with a dependency tree, an empty destination."""
    source = tmp_path / "app"
    (source / "deps" / "bin").mkdir(parents=True)
    (source / "deps" / "bin" / "tool").write_text("#!/bin/sh\n")
    (source / "deps" / "bin" / "tool").chmod(0o755)
    (source / "deps" / "read-only").write_text("x")
    (source / "deps" / "read-only").chmod(0o444)
    (source / "deps" / "empty").write_bytes(b"")
    (source / "deps" / "large").write_bytes(os.urandom(300_000))
    (source / "deps" / "pg").mkdir(mode=0o700)
    (source / "deps" / "pg" / "data").write_text("rows")
    os.utime(source / "deps" / "bin" / "tool", ns=(10**18, 10**18 + 5))
    (source / ".env").write_text("A=1\n")
    (source / ".env").chmod(0o600)
    destination = tmp_path / "ws"
    destination.mkdir()
    return source, destination


def copy(roots: tuple[Path, Path], name: str, **options: object) -> list[str]:
    return copy_into(str(roots[0]), str(roots[1]), name, **options)  # type: ignore[arg-type]


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_modes_times_and_content_are_kept_whatever_the_umask(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    (source / "deps" / "shut").mkdir(mode=0o755)
    (source / "deps" / "shut" / "f").write_text("x")
    (source / "deps" / "shut").chmod(0o555)
    before = os.umask(0o077)
    try:
        assert copy(roots, "deps") == copy(roots, ".env") == []
    finally:
        os.umask(before)
    assert names(destination) == names(source)
    for path in source.rglob("*"):
        twin = destination / path.relative_to(source)
        assert stat.S_IMODE(twin.stat().st_mode) == stat.S_IMODE(path.stat().st_mode), path
        assert twin.stat().st_mtime_ns == path.stat().st_mtime_ns, path
        if path.is_file():
            assert twin.read_bytes() == path.read_bytes()
            assert twin.stat().st_nlink == 1


def test_a_write_to_the_copy_never_changes_the_source(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    os.link(source / "deps" / "large", source / "deps" / "same")  # as pnpm's store does
    copy(roots, "deps")
    before = (source / "deps" / "large").read_bytes()
    (destination / "deps" / "large").write_bytes(b"mine")
    assert (source / "deps" / "large").read_bytes() == before
    assert (destination / "deps" / "same").read_bytes() == before


def test_a_nested_name_brings_its_parents_with_their_modes(roots: tuple[Path, Path]) -> None:
    assert copy(roots, "deps/pg/data") == []
    assert names(roots[1]) == {"deps", "deps/pg", "deps/pg/data"}
    assert stat.S_IMODE((roots[1] / "deps" / "pg").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["none", "deps/none", "none/deeper", ".env/below"])
def test_a_source_that_does_not_exist_is_skipped(roots: tuple[Path, Path], name: str) -> None:
    if name == ".env/below":
        (roots[0] / ".env").unlink()
    assert copy(roots, name) == []
    assert names(roots[1]) == set()


def test_what_exists_is_kept_and_replaced_only_where_asked(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    (destination / "deps").mkdir()
    for name in ("empty", "large", "extra"):
        (destination / "deps" / name).write_text("mine")
    copy(roots, "deps")
    assert {(destination / "deps" / name).read_text() for name in ("empty", "large", "extra")} == {"mine"}
    assert (destination / "deps" / "pg" / "data").read_text() == "rows"
    copy(roots, "deps", replace=lambda path: path != "deps/empty")
    assert (destination / "deps" / "large").read_bytes() == (source / "deps" / "large").read_bytes()
    assert (destination / "deps" / "empty").read_text() == "mine"
    assert (destination / "deps" / "extra").read_text() == "mine"


def test_a_directory_in_the_place_of_a_file_is_never_deleted(roots: tuple[Path, Path]) -> None:
    (roots[1] / ".env").mkdir()
    (roots[1] / ".env" / "precious").write_text("work")
    (warning,) = copy(roots, ".env", replace=True)
    assert ".env" in warning
    assert (roots[1] / ".env" / "precious").read_text() == "work"


def test_relative_links_inside_stay_links_and_all_others_are_named(roots: tuple[Path, Path], tmp_path: Path) -> None:
    source, destination = roots
    (tmp_path / "outside").mkdir()
    deps = source / "deps"
    kept = {"a": "bin/tool", "b": "../.env", "dangling": "none/at/all", "round": "round", "up": "pg/../bin"}
    (deps / "deep").mkdir()
    (deps / "deep" / "top").symlink_to("../..")  # the source root itself, so what follows it may still leave
    left_out = {"abs": str(deps / "bin"), "out": "../../outside", "sly": "deep/top/../outside", "via": "abs/tool"}
    for name, target in {**kept, **left_out}.items():
        (deps / name).symlink_to(target)
    warnings = copy(roots, "deps")
    assert {name: os.readlink(destination / "deps" / name) for name in kept} == kept
    assert os.readlink(destination / "deps" / "deep" / "top") == "../.."
    assert len(warnings) == len(left_out)
    for name, target in left_out.items():
        assert not os.path.lexists(destination / "deps" / name)
        assert any(f"deps/{name} " in warning and target in warning for warning in warnings)


def test_special_files_are_named_and_hang_nothing(roots: tuple[Path, Path]) -> None:
    os.mkfifo(roots[0] / "deps" / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        before = Path.cwd()
        os.chdir(roots[0] / "deps")
        listener.bind("sock")
        os.chdir(before)
        warnings = copy(roots, "deps")
    assert any("deps/fifo" in warning and "FIFO" in warning for warning in warnings)
    assert any("deps/sock" in warning and "socket" in warning for warning in warnings)
    assert len(warnings) == 2
    assert not {"deps/fifo", "deps/sock"} & names(roots[1])
    assert "deps/bin/tool" in names(roots[1])


def test_a_thousand_warnings_are_told_in_few_lines(roots: tuple[Path, Path]) -> None:
    for number in range(1000):
        (roots[0] / "deps" / f"l{number}").symlink_to("/")
    warnings = copy(roots, "deps")
    assert len(warnings) == 21
    assert "980 more" in warnings[-1]


@pytest.mark.parametrize("side", [0, 1])
def test_a_symlinked_parent_is_an_error_and_nothing_is_written_through_it(
    roots: tuple[Path, Path], tmp_path: Path, side: int
) -> None:
    (tmp_path / "outside" / "pg").mkdir(parents=True)
    if side == 0:
        shutil.rmtree(roots[0] / "deps")
    (roots[side] / "deps").symlink_to(tmp_path / "outside")
    with pytest.raises(BerthError) as caught:
        copy(roots, "deps/pg/data")
    assert caught.value.code == "copy_failed"
    assert str(roots[side] / "deps") in caught.value.message
    assert names(tmp_path / "outside") == {"pg"}


def test_a_link_in_the_place_of_a_directory_is_kept_and_not_followed(roots: tuple[Path, Path], tmp_path: Path) -> None:
    """The main checkout's node_modules linked into the workspace stays as it is (C16)."""
    (tmp_path / "shared").mkdir()
    (roots[1] / "deps").symlink_to(tmp_path / "shared")
    copy(roots, "deps")
    assert names(tmp_path / "shared") == set()
    assert (roots[1] / "deps").is_symlink()
    copy(roots, "deps", replace=True)
    assert names(tmp_path / "shared") == set()
    assert (roots[1] / "deps" / "pg" / "data").is_file()


def test_git_berth_and_every_workspace_are_left_out(tmp_path: Path) -> None:
    """A worktree root inside the repository does not copy itself."""
    source = tmp_path / "app"
    for folder in ("all/.git", "all/x/.berth", "all/.berths/a/f", "all/other", "all/kept"):
        (source / folder).mkdir(parents=True)
        (source / folder / "file").write_text("x")
    (tmp_path / "alias").symlink_to(source / "all")
    destination = source / "all" / "me"
    destination.mkdir()
    exclude = [str(tmp_path / "alias" / ".berths"), str(source / "all" / "other"), str(tmp_path / "gone")]
    assert copy_into(str(source), str(destination), "all", exclude=exclude) == []
    assert names(destination) == {"all", "all/x", "all/kept", "all/kept/file"}
    assert copy_into(str(source), str(destination), "all/other/file", exclude=exclude) == []


def test_files_that_vanish_or_are_rewritten_meanwhile_do_no_harm(roots: tuple[Path, Path]) -> None:
    script = """
import os, sys, pathlib
root = pathlib.Path(sys.argv[1])
print("begin", flush=True)
while True:
    for number in range(50):
        draft = root / f"n{number}"
        draft.write_text("x" * 10000)
        draft.rename(root / f"f{number}")
    for number in range(0, 50, 2):
        (root / f"f{number}").unlink(missing_ok=True)
"""
    with python(script, str(roots[0] / "deps")) as child:
        assert child.stdout is not None
        child.stdout.readline()
        for _ in range(10):
            assert copy(roots, "deps", replace=True) == []
    assert (roots[1] / "deps" / "bin" / "tool").exists()


def test_a_killed_copy_leaves_whole_files_and_the_next_one_completes_it(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    for number in range(400):
        (source / "deps" / f"f{number}").write_bytes(b"%d" % number * 20_000)
    script = "import sys; from berth.tools.copies import copy_into; copy_into(sys.argv[1], sys.argv[2], 'deps')"
    child = subprocess.Popen([sys.executable, "-c", script, str(source), str(destination)], env=environment())
    eventually(lambda: (destination / "deps").is_dir() and len(os.listdir(destination / "deps")) > 20)
    child.kill()
    child.wait(10)
    (destination / "deps" / f"{DRAFT_PREFIX}1").write_text("half")
    for path in (destination / "deps").iterdir():
        if path.is_file() and not path.name.startswith(DRAFT_PREFIX):
            assert path.read_bytes() == (source / "deps" / path.name).read_bytes()
    assert copy(roots, "deps") == []
    assert names(destination / "deps") == names(source / "deps")


def test_holes_stay_holes(roots: tuple[Path, Path]) -> None:
    path = roots[0] / "deps" / "sparse"
    with path.open("wb") as file:
        file.seek(50 << 20)
        file.write(b"end")
        file.truncate(100 << 20)
    copy(roots, "deps")
    twin = roots[1] / "deps" / "sparse"
    assert twin.stat().st_size == path.stat().st_size
    assert twin.stat().st_blocks <= path.stat().st_blocks
    with twin.open("rb") as file:
        file.seek(50 << 20)
        assert file.read(4) == b"end\0"


def test_no_descriptor_is_left_open(roots: tuple[Path, Path]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    copy(roots, "deps")
    copy(roots, "deps/none")
    (roots[1] / "deps" / "pg" / "data").unlink()
    shutil.rmtree(roots[1] / "deps" / "pg")
    (roots[1] / "deps" / "pg").write_text("x")
    with pytest.raises(BerthError):
        copy(roots, "deps/pg/data")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


@as_root
def test_a_full_disk_is_copy_failed_with_the_path_and_leaves_no_half_file(
    roots: tuple[Path, Path], small_disk: Path
) -> None:
    with pytest.raises(BerthError) as caught:
        copy_into(str(roots[0]), str(small_disk), "deps")
    assert caught.value.code == "copy_failed"
    assert "deps/large" in caught.value.message
    assert "No space left" in caught.value.message
    assert not any(DRAFT_PREFIX in name or "large" in name for name in names(small_disk))


@as_root
@pytest.mark.skipif(shutil.which("mkfs.xfs") is None, reason="needs xfsprogs")
def test_blocks_are_shared_where_the_file_system_can(tmp_path: Path) -> None:
    image, place = tmp_path / "image", tmp_path / "xfs"
    place.mkdir()
    image.touch()
    os.truncate(image, 400 << 20)
    subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", str(image)], check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=False, capture_output=True).returncode:
        pytest.skip("this kernel cannot mount xfs through a loop device")
    try:
        (place / "app").mkdir()
        (place / "ws").mkdir()
        (place / "app" / "large").write_bytes(os.urandom(20 << 20))
        os.sync()
        free = os.statvfs(place)
        assert copy_into(str(place / "app"), str(place / "ws"), "large") == []
        os.sync()
        used = (free.f_bfree - os.statvfs(place).f_bfree) * free.f_frsize
        assert used < 2 << 20
        assert (place / "ws" / "large").read_bytes() == (place / "app" / "large").read_bytes()
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_the_list_of_includes_is_plain(tmp_path: Path) -> None:
    path = tmp_path / ".worktreeinclude"
    assert read_includes(str(path)) == []
    path.write_bytes(b"\xef\xbb\xbf.env\r\n\n  # no\n#no\n  conf/./local.json  \n*.key\n")
    assert read_includes(str(path)) == [".env", "conf/local.json", "*.key"]


@pytest.mark.parametrize("line", ["../x", "/etc/passwd", "a/../../b", ".git/config", ".berth", ".", "a\\b", "c:x"])
def test_an_include_that_leaves_the_repository_is_an_error_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / ".worktreeinclude"
    path.write_text(f"ok\n{line}\n")
    with pytest.raises(BerthError) as caught:
        read_includes(str(path))
    assert caught.value.code == "copy_failed"
    assert f"{path}:2: " in caught.value.message


def test_a_list_of_includes_that_is_no_file_hangs_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".worktreeinclude")
    with pytest.raises(BerthError):
        read_includes(str(tmp_path / ".worktreeinclude"))
