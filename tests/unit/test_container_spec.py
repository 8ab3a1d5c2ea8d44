"""What a container is created with: words of ``create`` in the contract's order, mounts, users, labels."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.spec import container as spec
from berth.spec.ports import gateway_ports
from berth.tools import guest_copy

GIT = "/repo/.git"
ADMIN = f"{GIT}/worktrees/a"


def create_words() -> list[str]:
    return spec.create_words(
        name="berth-x",
        marks={"dev.berth.workspace": "x"},
        binds=spec.mounts(path="/ws", git_dir=ADMIN, common_dir=GIT, worktree_config=False),
        user=["--user", "1:2"],
        limits={"memory": "1g", "cpus": 0.5, "pids": 9},
        published={"web": (20000, 65534), "api": (20001, 65535)},
        guests="/home/guest",
    )


def test_the_words_of_create_come_in_the_contracts_order() -> None:
    words = create_words()
    order = [
        "--name",
        "--pull=never",
        "--restart=no",
        "--label",
        "no-new-privileges:true",
        "--cap-drop",
        "net.ipv4.ip_unprivileged_port_start=0",
        "--workdir",
        "--mount",
        "--user",
        "--memory",
        "--cpus",
        "--pids-limit",
        "--publish",
        "--entrypoint",
    ]
    assert [words.index(word) for word in order] == sorted(words.index(word) for word in order)
    assert words[words.index("--cpus") + 1] == "0.5"
    published = [words[at + 1] for at, word in enumerate(words) if word == "--publish"]
    assert published == ["127.0.0.1:20001:65535/tcp", "127.0.0.1:20000:65534/tcp"]
    assert "type=bind,source=/home/guest,target=/berth/guest,readonly" in words
    assert not {"--privileged", "--network", "--init"} & set(words)
    assert not any(word.endswith((":z", ":Z")) for word in words)


def test_hooks_and_configuration_are_mounted_read_only_over_the_common_directory() -> None:
    found = {
        mount.target: mount for mount in spec.mounts(path="/ws", git_dir=ADMIN, common_dir=GIT, worktree_config=True)
    }
    assert found["/workspace"].writable
    assert found["/berth/git"].writable
    assert found["/berth/git/worktrees/a"].writable
    closed = [target for target, mount in found.items() if not mount.writable]
    assert closed == [
        "/berth/git/hooks",
        "/berth/git/config",
        "/berth/git/modules",
        "/berth/git/worktrees",
        "/berth/git/config.worktree",
        "/workspace/.git",
        "/berth/git/worktrees/a/commondir",
        "/berth/git/worktrees/a/gitdir",
        "/berth/git/worktrees/a/config.worktree",
        "/berth/git/worktrees/a/modules",
    ]
    without = spec.mounts(path="/ws", git_dir=ADMIN, common_dir=GIT, worktree_config=False)
    assert not any(mount.target.endswith("config.worktree") for mount in without)


@pytest.mark.parametrize(
    ("engine", "rootless", "is_linux", "user", "words"),
    [
        ("docker", False, True, None, ["--user", "7:8"]),
        ("docker", True, True, None, ["--user", "0:0"]),
        ("podman", False, True, None, ["--user", "7:8"]),
        ("podman", True, True, None, ["--userns=keep-id", "--user", "7:8"]),
        ("podman", True, True, "nobody", ["--userns=keep-id", "--user", "nobody"]),
        ("docker", False, True, "33:33", ["--user", "33:33"]),
        ("docker", False, False, None, []),
        ("podman", True, False, None, []),
    ],
)
def test_the_user_of_the_container_follows_engine_and_mode(
    engine: str, rootless: bool, is_linux: bool, user: str | None, words: list[str]
) -> None:
    namespace, chosen = spec.user_words(engine=engine, rootless=rootless, is_linux=is_linux, user=user, uid=7, gid=8)
    assert [*namespace, *chosen] == words


@pytest.mark.parametrize("path", ["/a,b", '/a"b'])
def test_a_path_that_a_mount_cannot_name_is_refused(path: str) -> None:
    with pytest.raises(BerthError) as caught:
        spec.require_mountable("/fine", path)
    assert caught.value.code == "unsupported_path"
    assert path in caught.value.message


def test_an_admin_directory_elsewhere_is_refused() -> None:
    with pytest.raises(BerthError) as caught:
        spec.admin_name("/repo/.git")
    assert caught.value.code == "unsupported_path"


def test_gateway_ports_count_down_and_skip_listen_ports() -> None:
    assert gateway_ports(["web"], {"web": 8080}) == {"web": 65535}
    assert gateway_ports(["b", "a", "c"], {"a": 65535, "b": 65533, "c": 1}) == {"a": 65534, "b": 65532, "c": 65531}


def test_git_variables_carry_the_hosts_identity_where_it_is_known() -> None:
    found = spec.git_variables(ADMIN, identity={"user.email": "e@x"})
    assert found["GIT_DIR"] == "/berth/git/worktrees/a"
    assert found["GIT_CONFIG_COUNT"] == "4"
    assert (found["GIT_CONFIG_KEY_3"], found["GIT_CONFIG_VALUE_3"]) == ("user.email", "e@x")


def test_the_guest_copy_is_written_once_and_readable_by_all(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        guest = guest_copy.ensure_guest(str(tmp_path))
    finally:
        os.umask(mask)
    assert guest == guest_copy.current_guest()
    root = tmp_path / "guest" / guest / "guest"
    before = root.stat().st_ino
    for path in [root, *root.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path
    assert (root / "__main__.py").exists()
    assert (root / "services" / "init.py").exists()
    assert not list(root.rglob("__pycache__"))
    assert guest_copy.ensure_guest(str(tmp_path)) == guest
    assert root.stat().st_ino == before
    assert [each.name for each in (tmp_path / "guest").iterdir()] == [guest]
