"""The milestone: two apps from their sources in one container, called from the host, separated by the kernel."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.tools.engine.client import Engine
from support import engines
from support.sandboxed import ROOT, Dev, Project


@pytest.fixture
def project(tmp_path: Path, engine: Engine) -> Iterator[Project]:
    made = Project(tmp_path, engine, engines.IMAGE)
    for name in ("filesystem", "code-editor"):
        made.add(ROOT / "apps" / name)
    yield made
    made.clean()


def test_two_apps_start_write_read_restart_and_leave_nothing(project: Project, engine: Engine) -> None:
    started = time.monotonic()
    dev = Dev(project, project.root / "apps/filesystem", "--apps=apps/code-editor")
    try:
        dev.await_text("multi-app mode: filesystem code-editor", stream="out", seconds=30)
        for name in ("filesystem", "code-editor"):
            dev.await_text(f'[{name}] [berth:runtime] "{name}" ready', stream="out", seconds=20)
        dev.await_text("berth: ready: filesystem, code-editor (berth-dev-filesystem)")
        assert time.monotonic() - started < 40
        restricted = re.findall(r"^\[agent-init\] landlock restrict_self\(\) status: (.*)$", dev.out, re.MULTILINE)
        assert sorted(restricted) == [
            f'ruleset=FullyEnforced no_new_privs=true app="{name}"' for name in ("code-editor", "filesystem")
        ]

        written = project.berth(
            "rpc", "filesystem", "--export=write_file", '--input={"path":"multi-app-test.txt","content":"hi"}'
        )
        assert written.code == 0, written
        read = project.berth(
            "rpc", "code-editor", "--container=berth-dev-filesystem", "--export=open_file",
            '--input={"path":"multi-app-test.txt"}',
        )  # fmt: skip
        assert json.loads(read.out) == {"content": "hi"}
        assert (project.root / ".berth/dev-workspace/multi-app-test.txt").read_text() == "hi"
        assert not (project.root / "multi-app-test.txt").exists()
        assert (project.root / ".berth/.gitignore").read_text() == "*\n"

        readme = project.berth(
            "rpc", "code-editor", "--container=berth-dev-filesystem", "--export=open_file",
            '--input={"path":"/workspace/README.md"}',
        )  # fmt: skip
        assert json.loads(readme.out) == {"content": "# a project\n"}
        alone = project.berth("rpc", "code-editor", "--export=open_file")
        assert alone.code == 4
        assert "berth-dev-code-editor" in alone.err
        into = project.berth(
            "rpc", "filesystem", "--export=write_file", '--input={"path":"/workspace/apps/x","content":""}'
        )
        assert into.code == 1
        assert "Read-only file system" in into.err

        again = project.berth("dev", cwd=project.root / "apps/filesystem")
        assert again.code == 3
        assert f"already running here (pid {dev.process.pid})" in again.err

        boot_ids = re.findall(r"boot id: (\S+)", dev.out)
        source = project.root / "apps/code-editor/src/app.py"
        source.write_text(source.read_text() + "\n# changed\n")
        dev.await_text("berth: ready:", count=2)
        assert len(set(re.findall(r"boot id: (\S+)", dev.out)) - set(boot_ids)) == 1

        manifest = project.root / "apps/code-editor/berth.yml"
        good = manifest.read_text()
        manifest.write_text(good + "capabilities: oops\n")
        dev.await_text("apps/code-editor/berth.yml is invalid")
        assert project.berth("rpc", "filesystem", "--export=list_files").code == 0
        manifest.write_text(good + "# changed\n")
        dev.await_text("berth: ready:", count=3)
        assert dev.stop() == 0
    finally:
        dev.stop()
    left = engine.call(["container", "ls", "-a", "--filter", f"label=dev.berth.root={project.root}", "-q"]).text
    assert left == ""
    volumes = engine.call(["volume", "ls", "-q", "--filter", f"label=dev.berth.root={project.root}"]).text.split()
    assert sorted(volumes) == ["berth-dev-filesystem.code-editor.state", "berth-dev-filesystem.filesystem.state"]


def test_another_checkout_and_a_foreign_container_keep_their_names(
    project: Project, engine: Engine, tmp_path: Path
) -> None:
    dev = Dev(project, project.root / "apps/code-editor")
    try:
        dev.await_text("berth: ready:")
        elsewhere = Project(tmp_path / "elsewhere", engine, engines.IMAGE)
        elsewhere.env["BERTH_HOME"] = project.env["BERTH_HOME"]
        other = elsewhere.add(ROOT / "apps/code-editor")
        refused = elsewhere.berth("dev", cwd=other)
        assert refused.code == 3
        assert str(project.root) in refused.err
        assert "--name" in refused.err
    finally:
        dev.stop()
    engine.call(["container", "create", *engines.labelled(), "--name", "berth-dev-taken", engines.IMAGE, "true"])
    try:
        foreign = project.berth("dev", "--name", "taken", cwd=project.root / "apps/code-editor")
        assert foreign.code == 3, foreign
        assert engine.attempt(["container", "inspect", "berth-dev-taken"]).code == 0
    finally:
        engines.discard(engine, "berth-dev-taken")


def test_a_killed_dev_is_taken_over_by_the_next(project: Project) -> None:
    app = project.root / "apps/code-editor"
    dev = Dev(project, app)
    dev.await_text("berth: ready:")
    dev.process.kill()
    dev.process.wait()
    second = Dev(project, app)
    try:
        second.await_text("berth: ready:")
        assert second.stop() == 0
    finally:
        second.stop()


@pytest.mark.parametrize("code", ["raise RuntimeError('broken at import')", "def unfinished(:", "app2 = App()"])
def test_an_app_that_cannot_start_fails_the_boot_with_its_log(project: Project, engine: Engine, code: str) -> None:
    app = project.app("broken", code=code + "\n")
    outcome = project.berth("dev", cwd=app)
    assert outcome.code == 1
    assert 'app "broken" exited with code 1 before it was ready' in outcome.err
    assert "[broken]" in outcome.err
    assert engine.call(["container", "ls", "-a", "-q", "--filter", "name=berth-dev-broken"]).text == ""


def test_exports_of_code_and_manifest_must_be_the_same(project: Project) -> None:
    app = project.app("differs", code="@app.export\ndef more(): ...\n")
    outcome = project.berth("dev", cwd=app)
    assert outcome.code == 1
    assert "the manifest declares [ping], the code registers [more, ping]" in outcome.err


def test_nothing_is_made_for_what_is_wrong_with_files(project: Project, tmp_path: Path) -> None:
    """Checks 1 to 5 come before any engine call: the engine named here does not exist on PATH."""
    env = {"PATH": str(tmp_path), "BERTH_ENGINE": "docker"}
    one, two = (
        project.app("one", "capabilities: ['terminal:a:*']"),
        project.app("two", "capabilities: ['terminal:b:*']"),
    )
    clash = project.berth("dev", "--apps=apps/two", cwd=one, env=env)
    assert clash.code == 1
    assert "at most one app per sandbox may declare terminal:*; declared by: one, two" in clash.err
    assert project.berth("os", "up", f"--apps={one},{two}", env=env).code == 1
    bad = project.app("bad", "capabilities: ['filesystem:read:/etc', 'network:connect:0']")
    issues = project.berth("dev", cwd=bad, env=env)
    assert issues.code == 1
    assert re.search(r"^apps/bad/berth.yml:3:\d+ capabilities.0: ", issues.err, re.MULTILINE)
    assert re.search(r"^apps/bad/berth.yml:3:\d+ capabilities.1: ", issues.err, re.MULTILINE)
    outside = project.berth("dev", "--apps=../..", cwd=one, env=env)
    assert outside.code == 1
    assert "outside the workspace root" in outside.err
    twice = project.berth("dev", "--apps=apps/one", cwd=one, env=env)
    assert twice.code == 1
    later = project.app("later", "capabilities: ['network:host:example.com']")
    refused = project.berth("dev", cwd=later, env=env)
    assert refused.code == 1
    assert "egress broker" in refused.err
    printed = project.berth("dev", "--print-policy", cwd=one, env=env)
    assert printed.code == 0
    assert json.loads(printed.out)["apps"][0]["name"] == "one"
    valid = project.berth("dev", cwd=one, env=env)
    assert valid.code == 5  # the positive control: now the engine is asked, and it is not there
