"""Files: what Landlock, owners and modes refuse to an app (attacks.md F, sandboxes.md 15.1 rows 1-11)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.jail import Row, World, document_of, inside, manifest, needs_kernel, run_rows, without

pytestmark = needs_kernel

A = manifest(
    "a",
    "filesystem:read:/workspace/a",
    "filesystem:write:/workspace/a",
    "filesystem:read:/workspace/readable",
    "filesystem:write:/workspace/writable",
    "filesystem:read:/context",
    "filesystem:write:/context",
    secrets=["TOKEN"],
)
B = manifest("b", "filesystem:write:/workspace/b", secrets=["TOKEN"])

# Held by Landlock: everything these touch is open to every uid by mode, so that nothing else can be the reason.
LANDLOCK = [
    Row("F01 write outside", ["write", "/opt/open/new"], "EACCES", ["write", "/workspace/a/new"]),
    Row("F01 overwrite outside", ["overwrite", "/opt/open/file"], "EACCES", ["overwrite", "/workspace/a/file"]),
    Row("F01 write in a sibling's directory", ["write", "/workspace/b/new"], "EACCES", ["write", "/workspace/a/n2"]),
    Row("F01 write below /run/berth", ["write", "/run/berth/open/new"], "EACCES", ["write", "/tmp/a/new"]),
    Row(
        "F01 write where only reading is granted", ["write", "/workspace/readable/n"], "EACCES", ["write", "/context/n"]
    ),
    Row("read outside", ["read", "/opt/open/file"], "EACCES", ["read", "/workspace/readable/file"]),
    Row(
        "read where only writing is granted", ["read", "/workspace/writable/f"], "EACCES", ["read", "/workspace/a/file"]
    ),
    Row("list /", ["list", "/"], "EACCES", ["list", "/workspace/a"]),
    Row("list /opt", ["list", "/opt"], "EACCES", ["list", "/usr"]),
    Row("list /proc", ["list", "/proc"], "EACCES", ["@list", "/proc/self/fd"]),
    Row("list /run/berth", ["list", "/run/berth"], "EACCES", ["list", "/etc/python3"]),
    Row("F02 truncate outside", ["truncate", "/opt/open/file"], "EACCES", ["truncate", "/workspace/a/t"]),
    Row(
        "F02 truncate where only reading is granted",
        ["truncate", "/workspace/readable/file"],
        "EACCES",
        ["truncate", "/workspace/writable/f"],
    ),
    Row(
        "F02 open read-only and truncate",
        ["open_truncating", "/workspace/readable/file"],
        "EACCES",
        ["open_truncating", "/workspace/a/t"],
    ),
    Row(
        "F03 read through a planted link",
        ["through_symlink", "/opt/open/file", "/workspace/a/l1"],
        "EACCES",
        ["through_symlink", "/workspace/readable/file", "/workspace/a/l2"],
    ),
    Row(
        "F03 write through a planted link",
        ["through_symlink", "/opt/open/file", "/workspace/a/l3", "overwrite"],
        "EACCES",
        ["through_symlink", "/workspace/a/file", "/workspace/a/l4", "overwrite"],
    ),
    Row("F03 read ..", ["read", "/workspace/a/../../opt/open/file"], "EACCES", ["read", "/workspace/a/../a/file"]),
    Row(
        "F04 link a foreign file in",
        ["link", "/opt/open/file", "/workspace/a/stolen"],
        "EXDEV",
        ["link", "/workspace/a/file", "/workspace/a/linked"],
    ),
    Row(
        "F04 link a read-only file in",
        ["link", "/workspace/readable/own", "/workspace/a/s2"],
        "EXDEV",
        ["link", "/workspace/a/file", "/workspace/a/linked2"],
    ),
    Row(
        "F04 link /proc/self/fd/N",
        ["link_descriptor", "/workspace/readable/own", "/workspace/a/s3"],
        "EXDEV",
        ["link_descriptor", "/workspace/a/file", "/workspace/a/linked3"],
    ),
    Row(
        "F05 rename out",
        ["rename", "/workspace/a/moved", "/opt/open/moved"],
        "EXDEV|EACCES",
        ["rename", "/workspace/a/m1", "/workspace/a/d/m1"],
    ),
    Row(
        "F05 rename in",
        ["rename", "/opt/open/m", "/workspace/a/m"],
        "EXDEV|EACCES",
        ["rename", "/workspace/a/m2", "/workspace/a/d/m2"],
    ),
    Row(
        "F05 exchange",
        ["exchange", "/workspace/a/x1", "/opt/open/x2"],
        "EXDEV|EACCES",
        ["exchange", "/workspace/a/x3", "/workspace/a/x4"],
    ),
    Row(
        "F05 whiteout",
        ["exchange", "/workspace/a/w1", "/opt/open/w2", 4],
        "EXDEV|EACCES|EPERM",
        ["rename", "/workspace/a/w3", "/workspace/a/w4"],
    ),
    Row(
        "row 5 ftruncate a descriptor opened for reading",
        ["ftruncate_read_only", "/workspace/a/file"],
        "EINVAL",
        ["truncate", "/workspace/a/t"],
        removed="EINVAL",
    ),
    Row("remove outside", ["unlink", "/opt/open/gone"], "EACCES", ["unlink", "/workspace/a/gone"]),
    Row("make a directory outside", ["mkdir", "/opt/open/dir"], "EACCES", ["mkdir", "/workspace/a/dir"]),
    Row("remove a directory outside", ["rmdir", "/opt/open/empty"], "EACCES", ["rmdir", "/workspace/a/empty"]),
    Row("make a link outside", ["symlink", "x", "/opt/open/sym"], "EACCES", ["symlink", "x", "/workspace/a/sym"]),
    Row("F11 create in /dev/shm", ["write", "/dev/shm/x"], "EACCES", ["write", "/tmp/a/x"]),
    Row("F11 create in /dev/mqueue", ["write", "/dev/mqueue/x"], "EACCES", ["write", "/tmp/a/x"], removed="EINVAL"),
    Row("F11 create in /var/tmp", ["write", "/var/tmp/x"], "EACCES", ["write", "/tmp/a/x"]),
    Row("F11 create in /run/lock", ["write", "/run/lock/x"], "EACCES", ["write", "/tmp/a/x"]),
    Row("F12 fifo in /context", ["mkfifo", "/context/fifo"], "EACCES", ["mkfifo", "/tmp/a/fifo"]),
    Row(
        "F12 fifo in a shared grant", ["mkfifo", "/workspace/a/fifo"], "EACCES", ["mkfifo", "/var/lib/berth/state/a/f"]
    ),
    Row("F12 socket in /context", ["bind_unix", "/context/sock"], "EACCES", ["bind_unix", "/tmp/a/sock"]),
    Row(
        "F14 write through /proc/self/fd",
        ["reopen_for_write", "/workspace/readable/own"],
        "EACCES",
        ["reopen_for_write", "/workspace/a/file"],
    ),
    Row(
        "F14 read /proc/self/root",
        ["read", "/proc/self/root/opt/open/file"],
        "EACCES",
        ["read", "/proc/self/root/workspace/readable/file"],
    ),
    Row(
        "F14 list /proc/thread-self/cwd/..",
        ["list", "/proc/thread-self/cwd/.."],
        "EACCES",
        ["list", "/proc/thread-self/cwd"],
    ),
    Row(
        "F15 a neighbour with the same beginning",
        ["write", "/workspace/a-evil/x"],
        "EACCES",
        ["write", "/workspace/a/y"],
    ),
    Row("F15 through ..", ["write", "/workspace/a/../a-evil/x"], "EACCES", ["write", "/workspace/a/../a/y"]),
    Row("F15 doubled slashes", ["write", "/workspace//a-evil//x"], "EACCES", ["write", "/workspace//a//y"]),
    Row(
        "row 8 execute what it wrote",
        ["write_and_exec", "/workspace/a/program"],
        "EACCES",
        ["exec", "/usr/bin/true"],
        control_gives=0,
        removed=0,
    ),
    Row(
        "row 8 execute a script it wrote",
        ["script_and_exec", "/workspace/a/script"],
        "EACCES",
        ["exec", "/bin/sh", "-c", "exit 0"],
        control_gives=0,
        removed=0,
    ),
    Row("row 26 a pseudo-terminal without terminal:*", ["open_pty"], "EACCES"),
    Row(
        "row 32 list the secrets directory",
        ["list", "/run/berth/secrets"],
        "EACCES",
        ["list", "/run/berth/secrets/a"],
        removed="EACCES",
    ),
]

# Held by owners and modes: Landlock does not cover these calls, or would allow them.
MODES = [
    Row("F01 write in /etc", ["write", "/etc/new"], "EACCES", ["write", "/tmp/a/z"]),
    Row(
        "F03 /etc/shadow through a link",
        ["through_symlink", "/etc/shadow", "/tmp/a/s"],
        "EACCES",
        ["through_symlink", "/etc/passwd", "/tmp/a/s"],
    ),
    Row(
        "F03 /proc/1/root through a link",
        ["through_symlink", "/proc/1/root", "/tmp/a/s"],
        "EACCES",
        ["@through_symlink", "/proc/self/status", "/tmp/a/s"],
    ),
    Row("F08 chmod the own app directory", ["chmod", "/app/apps/a"], "EPERM", ["chmod", "/tmp/a/z"]),
    Row("F08 chown the policy file", ["chown", "/run/berth/policy/a.json"], "EPERM", ["chown", "/tmp/a/z"]),
    Row("F08 touch the own program", ["utime", "/app/apps/a/probe.py"], "EPERM", ["utime", "/tmp/a/z"]),
    Row(
        "F08 an attribute on the own program",
        ["setxattr", "/app/apps/a/probe.py"],
        "EACCES|EPERM",
        ["setxattr", "/tmp/a/z"],
    ),
    Row("F09 look into a sibling's home", ["stat", "/tmp/b/secret"], "EACCES", ["stat", "/tmp/a/z"]),
    Row("F09 O_PATH into a sibling's home", ["opath", "/tmp/b/secret"], "EACCES", ["opath", "/tmp/a/z"]),
    Row(
        "F09 walk through .. into a sibling's state",
        ["stat", "/var/lib/berth/state/a/../b/x"],
        "EACCES",
        ["stat", "/var/lib/berth/state/a/../a"],
    ),
    Row("F11 create in /tmp itself", ["write", "/tmp/x"], "EACCES", ["write", "/tmp/a/x"]),
    Row("F12 character device", ["mknod", "/tmp/a/null", "char"], "EPERM|EACCES", ["mkfifo", "/tmp/a/f2"]),
    Row("F12 block device in /context", ["mknod", "/context/disk", "block"], "EPERM|EACCES", ["write", "/context/n"]),
    Row(
        "row 32 a sibling's secret",
        ["read", "/run/berth/secrets/b/TOKEN"],
        "EACCES",
        ["read", "/run/berth/secrets/a/TOKEN"],
    ),
    Row(
        "row 32 a sibling's policy",
        ["read", "/run/berth/policy/b.json"],
        "EACCES",
        ["read", "/run/berth/policy/a.json"],
    ),
    Row(
        "row 37 remove a sibling's file in /context", ["unlink", "/context/of-b"], "EPERM", ["unlink", "/context/of-a"]
    ),
]


def lay_out() -> World:
    """The directories of both apps, and a world-writable place that no grant names."""
    world = World(document_of(A, B))
    os.umask(0)
    for path in ("/workspace/a/d", "/workspace/a/empty", "/workspace/b", "/workspace/a-evil", "/workspace/readable"):
        os.makedirs(path)
    for path in ("/workspace/writable", "/opt/open/empty", "/run/berth/open"):
        os.makedirs(path)
    names = ("file", "t", "moved", "m1", "m2", "x1", "x3", "x4", "w1", "w3", "gone")
    for path in [
        *(f"/workspace/a/{n}" for n in names),
        "/workspace/readable/own",
        "/context/of-a",
        "/workspace/writable/f",
    ]:
        Path(path).write_text("text")
        os.chmod(path, 0o666)
        os.chown(path, 10000, 10000)
    for path in ("/workspace/readable/file", *(f"/opt/open/{n}" for n in ("file", "m", "x2", "w2", "gone"))):
        Path(path).write_text("text")
        os.chmod(path, 0o666)
    Path("/context/of-b").write_text("text")
    os.chown("/context/of-b", 10001, 10001)
    Path("/tmp/b/secret").write_text("text")
    Path("/var/lib/berth/state/b/x").write_text("text")
    for path in ("/workspace/a", "/workspace/a/d", "/workspace/a/empty"):
        os.chown(path, 10000, 10000)
    return world


@pytest.fixture(scope="module")
def seen() -> Any:
    """Every row in one process of app a, under its whole policy."""
    return inside(lambda: run_rows(lay_out(), "a", [*LANDLOCK, *MODES]))


@pytest.fixture(scope="module")
def seen_without_landlock() -> Any:
    """The same with step 7 left out."""
    return inside(lambda: run_rows(lay_out(), "a", LANDLOCK, become=without("landlock")))


@pytest.mark.parametrize("row", [*LANDLOCK, *MODES], ids=lambda row: row.id)
def test_an_app_is_refused_what_it_was_not_granted_and_allowed_what_it_was(
    row: Row, seen: Any, record_property: Any
) -> None:
    record_property("row", [row.id, row.expected, seen[row.id], row.control and seen[row.id + "+"], row.held_by])
    if row.control is not None:
        assert seen[row.id + "+"] == row.control_gives, "positive control"
    assert seen[row.id] in row.expected.split("|")


@pytest.mark.parametrize("row", LANDLOCK, ids=lambda row: row.id)
def test_without_landlock_the_attempt_succeeds(row: Row, seen_without_landlock: Any, record_property: Any) -> None:
    record_property("removed", [row.id, "Landlock", seen_without_landlock[row.id]])
    assert seen_without_landlock[row.id] == row.removed
