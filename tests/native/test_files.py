"""Replacing and reading single files, and the env_file block (workspaces.md 7.7; C88)."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.errors import BerthError
from berth.tools import envfile, files, trees

as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_file_is_replaced_whole_with_its_mode_whatever_the_umask(tmp_path: Path) -> None:
    target = tmp_path / "f"
    target.write_text("old")
    inode = target.stat().st_ino
    before = os.umask(0o077)
    try:
        files.replace_file(str(target), b"new", mode=0o644)
    finally:
        os.umask(before)
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert target.stat().st_ino != inode
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("work")
    (tmp_path / "f").symlink_to("precious")
    files.replace_file(str(tmp_path / "f"), b"new", mode=0o600)
    assert (tmp_path / "precious").read_text() == "work"
    assert not (tmp_path / "f").is_symlink()


def test_a_draft_that_a_killed_process_left_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / f"{files.DRAFT_PREFIX}{os.getpid()}-f").write_text("half")
    files.replace_file(str(tmp_path / "f"), b"new", mode=0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@as_root
def test_a_full_disk_leaves_the_old_file_and_no_draft(small_disk: Path) -> None:
    (small_disk / "f").write_text("old")
    with pytest.raises(OSError) as caught:
        files.replace_file(str(small_disk / "f"), b"x" * 200_000, mode=0o600)
    assert caught.value.errno == errno.ENOSPC
    assert (small_disk / "f").read_text() == "old"
    assert [path.name for path in small_disk.iterdir()] == ["f"]


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 100_000)
    (tmp_path / "link").symlink_to("f")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    assert files.read_file(str(tmp_path / "f")) == b"x" * 100_000
    assert files.read_file(str(tmp_path / "none")) is None
    for name in ("link", "directory", "fifo"):
        with pytest.raises(OSError):
            files.read_file(str(tmp_path / name))


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    os.truncate(tmp_path / "f", (16 << 20) + 1)
    with pytest.raises(OSError):
        files.read_file(str(tmp_path / "f"))


def test_marker_files_come_back_and_anything_else_is_none(tmp_path: Path) -> None:
    path = str(tmp_path / "m.json")
    files.replace_json(path, {"id": "ü", "n": 1}, mode=0o600)
    assert files.read_json(path) == {"id": "ü", "n": 1}
    for text in ("", "[]", "null", "{", "[" * 100_000, "\udcff"):
        (tmp_path / "m.json").write_bytes(text.encode("utf-8", "surrogateescape"))
        assert files.read_json(path) is None
    os.unlink(path)
    assert files.read_json(path) is None
    os.mkfifo(path)
    assert files.read_json(path) is None


def test_names_can_be_relative_to_an_open_directory(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    fd = trees.open_directory(str(tmp_path), ("a",))
    try:
        (tmp_path / "a").rename(tmp_path / "moved")
        (tmp_path / "a").symlink_to("/nonexistent")
        files.replace_file("f", b"x", mode=0o600, dir_fd=fd)
        assert files.read_file("f", dir_fd=fd) == b"x"
    finally:
        os.close(fd)
    assert (tmp_path / "moved" / "f").read_bytes() == b"x"


HARD = {
    "PLAIN": "a/b_c.d:e@f%g+h,i=j-k",
    "SPACE": "a b",
    "EMPTY": "",
    "DOLLAR": "$HOME ${X} $(id) `id`",
    "QUOTE": 'it\'s "x" \\ $HOME `id`',
    "HASH": "#x ! * ~ & ; | < > ( ) { } [ ] ?",
    "LINES": "one\ntwo'three\n",
    "TAB": "\t\r\v",
    "LATIN": "caf\udce9",
    "UTF": "ü漢",
    "MARKS": "\n# END BERTH\n",
    "BACK": "\\\\'\\n",
}


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_a_shell_that_sources_the_file_has_the_exact_values(tmp_path: Path, shell: str) -> None:
    envfile.write_block(str(tmp_path), ".env", HARD)
    assert sourced(shell, tmp_path / ".env", HARD) == HARD


def sourced(shell: str, path: Path, wanted: dict[str, str]) -> dict[str, str]:
    script = f'set -a; . "{path}"; exec env -0'
    done = subprocess.run([shell, "-c", script], env={"PATH": os.environ["PATH"]}, capture_output=True, check=True)
    assert done.stderr == b""
    pairs = (os.fsdecode(entry).partition("=") for entry in done.stdout.split(b"\0") if entry)
    return {key: value for key, _, value in pairs if key in wanted}


@given(st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=30))
@settings(max_examples=60, deadline=None)
def test_quoting_is_exact_for_any_text(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("q") / "e"
    path.write_bytes(f"K={envfile.quote(text)}\n".encode())
    assert sourced("dash", path, {"K": ""}) == {"K": text}


def test_values_are_bare_single_or_double_quoted() -> None:
    assert envfile.quote("a-Z0_9./:@%+,=") == "a-Z0_9./:@%+,="
    assert envfile.quote("a b$") == "'a b$'"
    assert envfile.quote("it's `$\\\"") == '"it\'s \\`\\$\\\\\\""'
    assert envfile.quote("") == "''"


def test_a_new_file_is_private_and_sorted(tmp_path: Path) -> None:
    envfile.write_block(str(tmp_path), "conf/deep/.env", {"B": "2", "A": "1"})
    path = tmp_path / "conf" / "deep" / ".env"
    assert path.read_text() == "# BEGIN BERTH\nA=1\nB=2\n# END BERTH\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_block_moves_to_the_end_and_other_content_and_the_mode_stay(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_bytes(b"X=1\r\n# BEGIN BERTH\nA=old\n# END BERTH\n\x0cY=\xff2\nno newline")
    path.chmod(0o640)
    envfile.write_block(str(tmp_path), ".env", {"A": "new"})
    assert path.read_bytes() == b"X=1\r\n\x0cY=\xff2\nno newline\n# BEGIN BERTH\nA=new\n# END BERTH\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_writing_again_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("X=1\n")
    envfile.write_block(str(tmp_path), ".env", HARD)
    before = (tmp_path / ".env").stat()
    envfile.write_block(str(tmp_path), ".env", HARD)
    after = (tmp_path / ".env").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    envfile.write_block(str(tmp_path), ".env", {"A": "1"})
    assert (tmp_path / ".env").read_text() == "X=1\n# BEGIN BERTH\nA=1\n# END BERTH\n"


@pytest.mark.parametrize(
    "kind", ["begin without end", "link", "dangling", "fifo", "directory", "parent link", "parent file"]
)
def test_what_cannot_be_an_env_file_is_refused_and_untouched(tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("work")
    root = tmp_path / "ws"
    root.mkdir()
    path = root / ".env"
    name = ".env"
    if kind == "begin without end":
        path.write_text("X=1\n# BEGIN BERTH\nA=1\n")
    elif kind in ("link", "dangling"):
        path.symlink_to(outside / ("precious" if kind == "link" else "none"))
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        name = "conf/.env"
        if kind == "parent link":
            (root / "conf").symlink_to(outside)
        else:
            (root / "conf").write_text("x")
    with pytest.raises(BerthError) as caught:
        envfile.write_block(str(root), name, {"A": "1"})
    assert caught.value.code == "env_file_invalid"
    assert str(root / name) in caught.value.message
    if kind == "begin without end":
        assert f"{path}:2" in caught.value.message
        assert path.read_text() == "X=1\n# BEGIN BERTH\nA=1\n"
    assert sorted(one.name for one in outside.iterdir()) == ["precious"]
    assert (outside / "precious").read_text() == "work"


@as_root
def test_a_full_disk_keeps_the_old_env_file(small_disk: Path) -> None:
    (small_disk / ".env").write_text("X=1\n")
    with pytest.raises(BerthError) as caught:
        envfile.write_block(str(small_disk), ".env", {"A": "x" * 200_000})
    assert caught.value.code == "io_error"
    assert (small_disk / ".env").read_text() == "X=1\n"
    assert [one.name for one in small_disk.iterdir()] == [".env"]
