"""tools.engine against real engines, and against none."""

from __future__ import annotations

import io
import os
import resource
import tarfile
import uuid
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.tools.engine import containers, images
from berth.tools.engine.client import Engine, engine_environment
from support import engines
from support.engines import IMAGE, labelled

SLEEP = ["sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"]


def fake(tmp_path: Path, name: str, script: str) -> dict[str, str]:
    """An environment whose only engine is a shell script."""
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin"}


def new(engine: Engine, *options: str, command: list[str] | None = None) -> str:
    name = f"berth-test-{uuid.uuid4().hex[:12]}"
    containers.create(engine, labelled(["--name", name, "--pull=never", *options]), IMAGE, command or SLEEP)
    return name


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_an_engine_that_is_not_installed_is_said_so(name: str, tmp_path: Path) -> None:
    engine = Engine(name, environ={"PATH": str(tmp_path)})
    with pytest.raises(BerthError) as caught:
        containers.find(engine, "berth-x")
    assert caught.value.code == "engine_unavailable"
    assert f"{name} is not installed" in caught.value.message
    assert f"install {name}" in str(caught.value.hint)


@pytest.mark.parametrize("url", ["tcp://127.0.0.1:1", "unix:///nonexistent/docker.sock"])
def test_a_daemon_that_is_down_is_not_absence_of_a_container(url: str) -> None:
    engines.require("docker" if os.getuid() == 0 else "podman-rootless")
    name, variable = ("docker", "DOCKER_HOST") if os.getuid() == 0 else ("podman", "CONTAINER_HOST")
    engine = Engine(name, environ=engines.environment({variable: url}))
    with pytest.raises(BerthError) as caught:
        containers.find(engine, "berth-x")
    assert caught.value.code == "engine_unavailable"
    assert "container ls -a" in caught.value.message
    assert "start the" in str(caught.value.hint)
    assert url in str(caught.value.hint)


@pytest.mark.skipif(os.getuid() == 0, reason="root is denied nothing")
def test_a_socket_without_permission_asks_for_access(tmp_path: Path) -> None:
    shut = tmp_path / "shut"
    shut.mkdir(mode=0)
    env = {**fake(tmp_path, "docker", "exit 1"), "DOCKER_HOST": f"unix://{shut}/docker.sock"}
    with pytest.raises(BerthError) as caught:
        Engine("docker", environ=env).call(["info"])
    assert "get access to" in str(caught.value.hint)


def test_an_engine_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    engine = Engine("docker", environ=fake(tmp_path, "docker", "exec sleep 60"))
    with pytest.raises(BerthError) as caught:
        engine.call(["info"], timeout=0.3)
    assert caught.value.code == "engine_unavailable"
    assert "no answer within" in caught.value.message


def test_an_image_that_is_missing_is_told_from_an_engine_that_is(engine: Engine) -> None:
    images.require_linux_image(engine, IMAGE)
    with pytest.raises(BerthError) as caught:
        images.require_linux_image(engine, "berth-no-such-image:local")
    assert caught.value.code == "image_missing"
    assert images.image_id(engine, "berth-no-such-image:local") is None
    assert images.image_id(engine, IMAGE)


def test_an_image_of_another_system_is_unsuitable(tmp_path: Path) -> None:
    engine = Engine("docker", environ=fake(tmp_path, "docker", "echo windows"))
    with pytest.raises(BerthError) as caught:
        images.require_linux_image(engine, "x")
    assert caught.value.code == "image_unsuitable"


def test_another_engine_than_the_recorded_one_is_a_mismatch(engine: Engine) -> None:
    engine.require_identity(None)
    engine.require_identity(engine.facts.identity)
    with pytest.raises(BerthError) as caught:
        engine.require_identity("SOMEBODY:ELSE")
    assert caught.value.code == "engine_mismatch"
    assert "SOMEBODY:ELSE" in caught.value.message


def test_rootless_is_recognised(engine: Engine, kind: str) -> None:
    assert engine.facts.rootless is kind.endswith("rootless")


def test_the_environment_of_an_engine_carries_nothing_of_another_workspace_or_compose_project() -> None:
    environ = {"PATH": "/bin", "DOCKER_HOST": "x", "COMPOSE_FILE": "/nope", "BERTH_SUPERVISED": "a", "GIT_DIR": "b"}
    assert engine_environment(environ) == {"PATH": "/bin", "DOCKER_HOST": "x"}


def test_a_container_is_found_by_its_exact_name_only(engine: Engine) -> None:
    name = new(engine)
    try:
        assert containers.find(engine, name[:-1]) is None
        found = containers.find(engine, name)
        assert found is not None
        assert found.name == name
        assert not found.running
        assert [each.name for each in containers.find_labelled(engine, {engines.LABEL: str(os.getpid())})] == [name]
    finally:
        containers.remove(engine, name)
    assert containers.find(engine, name) is None
    containers.remove(engine, name)  # gone already is fine


def test_a_foreign_label_is_a_mismatch(engine: Engine) -> None:
    name = new(engine, "--label", "dev.berth.workspace=someone-else")
    try:
        found = containers.find(engine, name)
        assert found is not None
        containers.require_labels(found, {"dev.berth.workspace": "someone-else"})
        with pytest.raises(BerthError) as caught:
            containers.require_labels(found, {"dev.berth.workspace": "me"})
        assert caught.value.code == "container_mismatch"
        assert name in caught.value.message
    finally:
        containers.remove(engine, name)


def test_start_exec_copy_stop(engine: Engine) -> None:
    name = new(engine)
    try:
        containers.start(engine, name)
        found = containers.find(engine, name)
        assert found is not None
        assert found.running
        assert Path(f"/proc/{found.pid}").is_dir()
        argv = ["printf", "[%s]", "a b", "", "$(id)", "it's", "*"]
        words = containers.exec_words(name, argv, env={"K": "a=b c"}, workdir="/tmp")
        assert engine.call(words).text == "[a b][][$(id)][it's][*]"
        shown = containers.exec_words(name, ["sh", "-c", 'echo "$K" "$PWD"'], env={"K": "a=b c"}, workdir="/tmp")
        assert engine.call(shown).text == "a=b c /tmp\n"
        assert engine.attempt(containers.exec_words(name, ["no-such-program"], env={})).code == 127
        assert engine.attempt(containers.exec_words(name, ["/etc/passwd"], env={})).code == 126
        bundle = io.BytesIO()
        with tarfile.open(fileobj=bundle, mode="w") as tar:
            entry = tarfile.TarInfo("greeting")
            entry.size = 5
            tar.addfile(entry, io.BytesIO(b"hello"))
        containers.copy_in(engine, name, "/opt", bundle.getvalue())
        assert engine.call(containers.exec_words(name, ["cat", "/opt/greeting"], env={})).text == "hello"
        containers.stop(engine, name)
        stopped = containers.find(engine, name)
        assert stopped is not None
        assert not stopped.running
    finally:
        engines.discard(engine, name)


def test_the_callers_tag_does_not_reach_the_container(engine: Engine) -> None:
    soft, hard = resource.getrlimit(10)
    resource.setrlimit(10, (12345678, hard))
    name = new(engine)
    try:
        containers.start(engine, name)
        limits = engine.call(containers.exec_words(name, ["cat", "/proc/1/limits", "/proc/self/limits"], env={})).text
        assert "Max file locks            12345678" not in limits
        assert resource.getrlimit(10)[0] == 12345678  # ours is as it was
    finally:
        resource.setrlimit(10, (soft, hard))
        engines.discard(engine, name)


def test_volumes_are_made_and_found_by_label(engine: Engine) -> None:
    name = f"berth-test-{uuid.uuid4().hex[:12]}"
    images.create_volume(engine, name, labels={engines.LABEL: name})
    try:
        assert images.volumes(engine, {engines.LABEL: name}) == [name]
    finally:
        images.remove_volume(engine, name)
    assert images.volumes(engine, {engines.LABEL: name}) == []
    images.remove_volume(engine, name)
