"""``os up`` and its kin with small apps: grants of single exports, relaxed boots, boots that fail, kept volumes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.tools.engine.client import Engine
from support import engines
from support.sandboxed import Project

CALLER = """
from berth.sdk import CallError
@app.export
def ask(export: str):
    try:
        return {"said": app.ctx.call("target", export)}
    except CallError as error:
        return {"said": error.code}
"""
EXPORT = "  - name: ask\n    input: {export: string}\n"


@pytest.fixture
def project(tmp_path: Path, engine: Engine) -> Iterator[Project]:
    made = Project(tmp_path, engine, engines.IMAGE)
    yield made
    made.clean()


def add_export(app: Path, lines: str) -> None:
    manifest = app / "berth.yml"
    manifest.write_text(manifest.read_text() + lines)


def test_a_grant_of_one_export_is_no_grant_of_another(project: Project) -> None:
    target = project.app("target", code="@app.export\ndef other():\n    return {'message': 'no'}\n")
    add_export(target, "  - name: other\n    input: {}\n")
    caller = project.app("caller", "capabilities: ['app:invoke:target/ping']", CALLER)
    add_export(caller, EXPORT)
    up = project.berth("os", "up", "pair", "--apps=apps/target,apps/caller")
    try:
        assert up.code == 0, up
        said = project.call("berth-os-pair", "caller", "ask", export="ping")
        assert said == {"result": {"said": {"message": "pong"}}}
        assert project.call("berth-os-pair", "caller", "ask", export="other") == {"result": {"said": "not_allowed"}}
        assert project.call("berth-os-pair", "target", "other") == {"result": {"message": "no"}}
        log = project.logs("berth-os-pair")
        assert '[target] [berth:runtime] "caller" invoked export "ping"' in log
        assert 'invoked export "other"' not in log
    finally:
        assert project.berth("os", "down", "pair").code == 0


def test_a_relaxed_boot_is_shown_everywhere_and_still_has_no_root(project: Project) -> None:
    project.app("one", code="import os\nprint('uid', os.getuid(), flush=True)\n")
    up = project.berth("os", "up", "one", "--apps=apps/one", "--allow-unenforced")
    try:
        assert up.code == 0, up
        assert "warning: --allow-unenforced" in up.err
        (one,) = json.loads(project.berth("--json", "os", "status", "one").out)["sandboxes"]
        assert one["unenforced"] is True
        assert one["apps"][0]["enforcement"] == "full"  # this kernel can hold it all, and then it does
        assert "[one] uid 10000" in project.logs("berth-os-one")
        actions = [json.loads(line)["action"] for line in (project.home / "audit/audit.jsonl").read_text().splitlines()]
        assert actions == ["unenforced_boot"]
    finally:
        project.berth("os", "down", "one")


def test_a_boot_that_fails_leaves_nothing(project: Project, engine: Engine) -> None:
    project.app("good")
    project.app("bad", code="import os\nos._exit(3)\n")
    up = project.berth("os", "up", "pair", "--apps=apps/good,apps/bad")
    assert up.code == 1
    assert 'app "bad" exited with code 3 before it was ready' in up.err
    assert engine.call(["container", "ls", "-a", "-q", "--filter", "name=berth-os-pair"]).text == ""
    assert engine.call(["volume", "ls", "-q", "--filter", "name=berth-os-pair"]).text == ""
    assert engine.attempt(["image", "inspect", "berth-os/pair:latest"]).code != 0
    assert json.loads(project.berth("--json", "os", "status").out) == {"sandboxes": []}


def test_kept_volumes_come_back_to_the_same_apps_alone(project: Project) -> None:
    code = (
        "@app.on_install\n"
        "def count():\n"
        "    path = app.ctx.state_dir / 'boots'\n"
        "    path.write_text((path.read_text() if path.exists() else '') + 'x')\n"
    )
    project.app("one", code=code + "@app.export\ndef boots():\n    return (app.ctx.state_dir / 'boots').read_text()\n")
    add_export(project.root / "apps/one", "  - name: boots\n    input: {}\n")
    project.app("two")
    for wanted in ("x", "xx"):
        assert project.berth("os", "up", "--apps=apps/one,apps/two").code == 0
        assert project.call("berth-os-one", "one", "boots") == {"result": wanted}
        assert project.berth("os", "down", "one", "--keep-volumes").code == 0
    assert "missing" in project.berth("os", "status", "one").out
    other = project.berth("os", "up", "one", "--apps=apps/one")
    assert other.code == 3
    assert "one, two" in other.err
    assert project.berth("os", "down", "one").code == 0
    assert project.berth("os", "status", "one").code == 4


def test_the_primary_decides_how_the_sandbox_ends(project: Project, engine: Engine) -> None:
    project.app(
        "one", code="import os, threading\n@app.export\ndef leave():\n    threading.Timer(0.2, os._exit, [7]).start()\n"
    )
    add_export(project.root / "apps/one", "  - name: leave\n    input: {}\n")
    project.app("two")
    assert project.berth("os", "up", "--apps=apps/one,apps/two").code == 0
    try:
        assert project.call("berth-os-one", "one", "leave") == {"result": None}
        assert engine.call(["wait", "berth-os-one"]).text.strip() == "7"
        again = project.berth("os", "up", "--apps=apps/one,apps/two")
        assert again.code == 0
        assert "was stopped" in again.err
    finally:
        assert project.berth("os", "down", "one").code == 0
