"""The supervisor's start on the bare kernel: a document or a container that is not as it must be ends with 78, and no
app has run."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from berth.guest.sandbox import boot, directories, grants, landlock, sockets
from support.jail import document_of, inside, manifest, mount, needs_kernel

pytestmark = needs_kernel
APPS = ("a", "b")
DOCUMENT = Path(boot.DOCUMENT)


def two_apps() -> dict[str, Any]:
    return document_of(manifest("a", "filesystem:write:/workspace/x/y"), manifest("b", "app:invoke:a")).as_dict()


def write_document(value: Any) -> None:
    DOCUMENT.parent.mkdir(parents=True, exist_ok=True)
    DOCUMENT.write_text(value if isinstance(value, str) else json.dumps(value))
    DOCUMENT.chmod(0o400)


def booted(spoil: Callable[[], None]) -> Callable[[], Any]:
    """The container of a sandbox with a good document, spoilt; returns [exit status, last line of the log]."""

    def work() -> Any:
        os.rmdir("/run/berth/policy")
        os.rmdir("/run/berth/secrets")
        mount("run", "/run/berth", "tmpfs")
        for app in APPS:
            os.mkdir(grants.home_of(app))
        write_document(two_apps())
        spoil()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(writer, 1)
            os._exit(boot.main(["sandbox"]))
        os.close(writer)
        with open(reader) as log:
            lines = log.read().splitlines()
        return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), lines[-1]]

    return work


def changed(**fields: Any) -> Callable[[], None]:
    def spoil() -> None:
        value = two_apps()
        value["apps"][1].update(fields)
        write_document(value)

    return spoil


def link() -> None:
    DOCUMENT.rename("/etc/berth/real.json")
    DOCUMENT.symlink_to("/etc/berth/real.json")


def take_id() -> None:
    with open("/etc/passwd", "a") as file:
        file.write("somebody:x:10001:10001::/:/bin/sh\n")


SPOILT: dict[str, tuple[Callable[[], None], str]] = {
    "another owner": (lambda: os.chown(DOCUMENT, 1, 0), "boot document"),
    "open to its group": (lambda: DOCUMENT.chmod(0o440), "boot document"),
    "a symlink": (link, "boot document"),
    "absent": (DOCUMENT.unlink, "boot document"),
    "no JSON": (lambda: write_document("{"), "boot document"),
    "an unknown key": (changed(extra=1), "boot document"),
    "another uid": (changed(uid=10005), "boot document"),
    "a path that no manifest can have": (changed(write=["/dev/null", "/etc"]), "boot document"),
    "an id that somebody has": (take_id, "identities"),
    "no accounts": (lambda: os.unlink("/etc/passwd"), "identities"),
    "accounts through a link": (
        lambda: (os.rename("/etc/group", "/etc/g"), os.symlink("g", "/etc/group"))[0],
        "identities",
    ),
}


@pytest.mark.parametrize("case", SPOILT)
def test_what_is_not_as_it_must_be_ends_with_78_and_its_reason(case: str) -> None:
    spoil, step = SPOILT[case]
    status, last = inside(booted(spoil))
    event = json.loads(last)
    assert status == 78
    assert (event["event"], event["step"]) == ("capability_enforcement_refused", step)
    assert event["reason"]


def facts(path: str) -> list[Any]:
    found = os.lstat(path)
    return [stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid]


def test_everything_is_made_with_the_owners_and_modes_of_the_contract() -> None:
    def work() -> Any:
        document = document_of(
            manifest("a", "filesystem:write:/workspace/x/y", "filesystem:write:/workspace/both", secrets=["T"]),
            manifest("b", "app:invoke:a", "filesystem:write:/workspace/both"),
        )
        os.setgroups([grants.SHARED_GID])
        os.mkdir("/run/berth-secrets")
        Path("/run/berth-secrets/T").write_text("value")
        for app in APPS:
            os.mkdir(grants.home_of(app))
        directories.make_shared(document)
        for app in document.apps:
            directories.make_private(app)
        sockets.make_directories(document)
        warnings = list(directories.create_declared(document))
        for app in document.apps:
            directories.write_policy(app)
        listeners = sockets.listen_all(document)
        paths = [
            "/run/berth/policy", "/run/berth/policy/a.json", "/run/berth/secrets", "/run/berth/secrets/a",
            "/run/berth/secrets/a/T", "/run/berth/a", "/run/berth/a/peers", "/run/berth/a/rpc.sock",
            "/run/berth/a/peers/b", "/run/berth/a/peers/b/rpc.sock", "/run/berth/a/peers/a", "/run/berth/b/peers/a",
            "/tmp", "/tmp/a", "/var/lib/berth/state/a", "/context", "/var/lib/berth/index", "/workspace",
            "/workspace/x", "/workspace/x/y", "/workspace/both",
        ]  # fmt: skip
        seen = {path: facts(path) for path in paths}
        for one in listeners.values():
            one.close()
        return [seen, warnings]

    seen, warnings = inside(work)
    assert warnings == []
    assert seen == {
        "/run/berth/policy": [0o711, 0, 0],
        "/run/berth/policy/a.json": [0o640, 0, 10000],
        "/run/berth/secrets": [0o711, 0, 0],
        "/run/berth/secrets/a": [0o500, 10000, 10000],
        "/run/berth/secrets/a/T": [0o400, 10000, 10000],
        "/run/berth/a": [0o711, 0, 10000],
        "/run/berth/a/peers": [0o711, 0, 10000],
        "/run/berth/a/rpc.sock": [0o600, 10000, 10000],
        "/run/berth/a/peers/b": [0o710, 0, 10001],
        "/run/berth/a/peers/b/rpc.sock": [0o660, 10000, 10001],
        "/run/berth/a/peers/a": [0o700, 0, 0],
        "/run/berth/b/peers/a": [0o700, 0, 0],
        "/tmp": [0o755, 0, 0],
        "/tmp/a": [0o700, 10000, 10000],
        "/var/lib/berth/state/a": [0o700, 10000, 10000],
        "/context": [0o3770, 0, 9999],
        "/var/lib/berth/index": [0o700, 9003, 9003],
        "/workspace": [0o2775, 0, 9999],
        "/workspace/x": [0o755, 0, 0],
        "/workspace/x/y": [0o755, 10000, 10000],
        "/workspace/both": [0o2775, 0, 9999],
    }


def test_a_declared_path_behind_a_link_is_not_created_through_it() -> None:
    def work() -> Any:
        os.mkdir("/opt/target")
        os.symlink("/opt/target", "/workspace/x")
        document = document_of(manifest("a", "filesystem:write:/workspace/x/y"))
        return [list(directories.create_declared(document)), os.listdir("/opt/target")]

    warnings, inside_target = inside(work)
    assert [path for path, _reason in warnings] == ["/workspace/x/y"]
    assert inside_target == []


def test_a_state_volume_is_given_to_the_app_whose_place_changed() -> None:
    def work() -> Any:
        state = Path(grants.state_of("b"))
        state.mkdir()
        (state / "below").mkdir()
        (state / "below/file").write_text("")
        (state / "link").symlink_to("/etc/passwd")
        for path in (state, state / "below", state / "below/file"):
            os.chown(path, 10000, 10000)
        for app in APPS:
            os.mkdir(grants.home_of(app))
        os.makedirs("/run/berth/secrets", exist_ok=True)
        document = document_of(manifest("a"), manifest("b"))
        directories.make_private(document.apps[1])
        return [facts(str(path)) for path in (state, state / "below/file")] + [facts("/etc/passwd")[1:]]

    directory, file, passwd = inside(work)
    assert directory == [0o700, 10001, 10001]
    assert file[1:] == [10001, 10001]
    assert passwd == [0, 0]


def test_a_kernel_without_landlock_starts_no_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guest's own function is told that there is none: as near as a kernel that has it can come."""
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    status, last = inside(booted(lambda: None))
    assert status == 78
    assert json.loads(last)["reason"] == '"a": the kernel has no Landlock'
