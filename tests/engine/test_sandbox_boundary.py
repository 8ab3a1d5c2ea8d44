"""Three boundary apps in one sandbox, on each engine: who reaches whom, who owns what, what an end leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import engines
from support.sandboxed import APPS, Project

CONTAINER = "berth-os-boundary"
A, B, C = "boundary-app-a", "boundary-app-b", "boundary-app-c"


@pytest.fixture(scope="module", params=[kind for kind in engines.KINDS if engines.for_this_user(kind)])
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose boundary apps a, b, c run as ``berth os`` sandbox ``boundary``; only a's secret has a value."""
    made = Project(tmp_path_factory.mktemp("boundary"), engines.require(request.param), engines.IMAGE)
    for name in (A, B, C):
        made.add(APPS / name)
    try:
        outcome = made.berth("os", "up", "boundary", f"--apps=apps/{A},apps/{B},apps/{C}", env={"SECRET_A": "s3cret-a"})
        assert outcome.code == 0, outcome
        made.started = outcome
        yield made
        made.berth("os", "down", "boundary")
    finally:
        made.clean()


@pytest.fixture
def attempt(project: Project) -> Any:
    return lambda app, kind, *args: project.probe(CONTAINER, app, kind, *args)


def test_each_app_has_its_own_identity_and_no_privilege(attempt: Any) -> None:
    for number, app in enumerate((A, B, C)):
        uid = 10000 + number
        assert attempt(app, "ids")["value"] == [uid, uid, 9999, uid]
        status = dict(line.split(":\t", 1) for line in attempt(app, "status")["value"] if ":\t" in line)
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(status[name], 16) == 0, name
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"
        assert status["Uid"].split() == [str(uid)] * 4
    assert attempt(A, "stdin")["value"] == ["/dev/null"]


def test_the_environment_is_built_and_not_inherited(attempt: Any) -> None:
    names = {entry.partition("=")[0] for entry in attempt(A, "env")["value"]}
    assert names == {
        "PATH", "HOME", "TMPDIR", "TMUX_TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "LANG", "SHELL", "USER",
        "LOGNAME", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "BERTH_APP_NAME", "BERTH_BOOT_ID",
        "BERTH_POLICY",
        "BERTH_WORKSPACE_ROOT", "BERTH_STATE_DIR", "BERTH_CONTEXT_DIR", "BERTH_BUS_SOCKET", "BERTH_INDEX_SOCKET",
        "BERTH_READY_FD", "BERTH_LISTEN_FDS",
    } | ({"LC_CTYPE"} & names)  # fmt: skip


def test_an_app_reaches_only_the_sockets_it_was_granted(project: Project, attempt: Any) -> None:
    def connect(app: str, path: str) -> Any:
        return project.call(CONTAINER, app, "probe_unix_socket", path=f"/run/berth/{path}/rpc.sock")["result"]

    assert connect(A, A) == {"connected": True}
    assert connect(C, f"{B}/peers/{C}") == {"connected": True}
    for app, path in ((A, B), (A, f"{B}/peers/{A}"), (A, f"{B}/peers/{C}"), (C, A), (C, B), (A, f"{A}/peers/{A}")):
        assert connect(app, path) == {"connected": False, "code": "EACCES"}, path
    assert connect(A, "no-such-app") == {"connected": False, "code": "ENOENT"}
    assert attempt(A, "call", B, "read_file", {})["value"] == [
        "not_allowed", f'"{B}" may not be called: berth.yml lacks app:invoke:{B}',
    ]  # fmt: skip


def test_a_granted_call_runs_as_the_target_and_is_logged_there(project: Project, attempt: Any) -> None:
    path = f"/workspace/data-b/{time.monotonic_ns()}"
    assert attempt(C, "call", B, "write_file", {"path": path, "content": "x"}) == {
        "ok": True,
        "value": [{"path": path}],
    }
    assert project.inside(CONTAINER, "stat", "-c", "%u", path).strip() == "10001"
    assert f'[{B}] [berth:runtime] "{C}" invoked export "write_file"' in project.logs(CONTAINER)
    forged = project.call(
        CONTAINER, C, "invoke_via_socket", path=f"/run/berth/{B}/peers/{C}/rpc.sock", export="probe",
        input={"kind": "ids", "caller": "host"},
    )  # fmt: skip
    assert forged["result"]["response"]["error"]["code"] == "invalid_input"


def test_calls_that_call_back_end_too_deep_and_not_in_a_deadlock(attempt: Any) -> None:
    started = time.monotonic()
    answer = attempt(A, "bounce", A, A)
    levels = 0
    while isinstance(answer, dict):
        (answer, *more) = answer["value"]
        levels += 1
    assert (answer, *more) == ("too_deep", "more than 16 calls deep")
    assert levels == 17
    assert time.monotonic() - started < 10


def test_an_absent_target_is_one_warning_and_all_start(project: Project) -> None:
    warning = (
        f'[berth:entrypoint] warning: "{C}" declares app:invoke:no-such-app but no app named no-such-app is in this '
        "container"
    )
    assert project.logs(CONTAINER).splitlines().count(warning) == 1


def test_nobody_changes_what_the_supervisor_made(attempt: Any) -> None:
    for path in (f"/run/berth/{A}", f"/run/berth/{B}/peers", f"/run/berth/policy/{A}.json", f"/app/apps/{A}"):
        assert attempt(A, "chmod", path) == {"ok": False, "errno": "EPERM"}, path
    for kind, *args in (
        ("unlink", f"/run/berth/{A}/rpc.sock"),
        ("mkdir", "/run/berth/boundary-app-d"),
        ("bind", f"/run/berth/{A}/peers/{B}/rpc.sock"),
    ):
        assert attempt(A, kind, *args) == {"ok": False, "errno": "EACCES"}, (kind, args)
    assert attempt(A, "rename", f"/run/berth/{A}", "/tmp/boundary-app-a/x")["errno"] in ("EACCES", "EXDEV", "EBUSY")


def test_files_stay_within_their_grants(project: Project, attempt: Any) -> None:
    wrote = project.call(CONTAINER, A, "write_file", path="/workspace/data-a/f", content="x")
    assert wrote == {"result": {"path": "/workspace/data-a/f"}}
    for path in ("/etc/x", "/opt/x", "/workspace/data-b/x", "/workspace/x", "/run/berth/x", "/tmp/x", "/dev/shm/x"):
        assert "Permission denied" in project.call(CONTAINER, A, "write_file", path=path, content="x")["error"], path
    assert attempt(A, "listdir", "/workspace/data-a")["ok"]
    for path in ("/", "/opt", "/proc", "/workspace/data-b", "/run/berth/secrets"):
        assert attempt(A, "listdir", path) == {"ok": False, "errno": "EACCES"}, path


def test_a_siblings_context_file_can_be_written_and_not_removed(project: Project, attempt: Any) -> None:
    project.call(CONTAINER, B, "write_file", path="/context/shared", content="by b")
    assert attempt(A, "overwrite", "/context/shared", "by a")["ok"]
    assert project.call(CONTAINER, B, "read_file", path="/context/shared") == {"result": {"content": "by a"}}
    assert attempt(A, "unlink", "/context/shared") == {"ok": False, "errno": "EPERM"}
    assert attempt(A, "bind", "/context/socket") == {"ok": False, "errno": "EACCES"}
    assert attempt(A, "bind", "/tmp/boundary-app-a/socket")["ok"]
    assert attempt(B, "unlink", "/context/shared")["ok"]


def test_a_secret_reaches_its_app_and_nothing_else(project: Project, attempt: Any) -> None:
    assert attempt(A, "secret", "SECRET_A") == {"ok": True, "value": ["s3cret-a"]}
    assert attempt(B, "secret", "SECRET_A")["errno"] == "KeyError 'SECRET_A'"
    assert attempt(B, "secret", "SECRET_B")["errno"] == "KeyError 'SECRET_B'"
    assert attempt(B, "listdir", f"/run/berth/secrets/{A}") == {"ok": False, "errno": "EACCES"}
    assert attempt(A, "listdir", "/run/berth-secrets") == {"ok": False, "errno": "EACCES"}
    for told in ("SECRET_B", "SECRET_C"):
        assert project.started.err.count(f"secret {told} has no value") == 1
    assert "SECRET_A" not in project.started.err
    everywhere = [
        project.engine.call(["container", "inspect", CONTAINER]).text,
        project.engine.call(["image", "inspect", "berth-os/boundary:latest"]).text,
        project.engine.call(["history", "--no-trunc", "berth-os/boundary:latest"]).text,
        project.logs(CONTAINER),
        project.inside(CONTAINER, "sh", "-c", "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline"),
        (project.home / "audit/audit.jsonl").read_text(),
        project.berth("--json", "os", "status", "boundary").out,
    ]
    for text in everywhere:
        assert "s3cret-a" not in text


def test_signals_stay_at_home(project: Project) -> None:
    status = json.loads(project.inside(CONTAINER, "cat", "/run/berth/status.json"))
    pids = {app["name"]: app["pid"] for app in status["apps"]}

    def send(pid: int) -> Any:
        return project.call(CONTAINER, A, "probe_signal", pid=pid, signal=0)["result"]

    assert send(pids[A]) == {"sent": True}
    for pid in (pids[B], pids[C], 1):
        assert send(pid) == {"sent": False, "code": "EPERM"}


def test_what_an_app_prints_is_never_mistaken_for_berth(project: Project, attempt: Any) -> None:
    for text in ('[agent-init] restricted "evil"', '{"event": "sandbox_ready"}', "\x1b[2Jgone\x07", "y" * 40000):
        assert attempt(A, "print", text)["ok"]
    deadline = time.monotonic() + 10
    while f"[{A}] yyy" not in project.logs(CONTAINER) and time.monotonic() < deadline:
        time.sleep(0.1)
    log = project.logs(CONTAINER)
    assert f'[{A}] [agent-init] restricted "evil"' in log
    assert '\n[agent-init] restricted "evil"' not in log
    assert f"[{A}] \\x1b[2Jgone\\x07" in log
    assert max(len(line) for line in log.splitlines()) <= 16384 + len(A) + 3


def test_a_fork_bomb_and_a_full_disk_hurt_their_app_alone(project: Project, attempt: Any) -> None:
    assert attempt(A, "fork_bomb")["value"] == ["EAGAIN"]
    assert attempt(A, "fill", "/tmp/boundary-app-a/big")["value"] == ["ENOSPC"]
    assert attempt(B, "ids")["ok"]


def test_an_endless_line_is_refused_and_memory_stays_flat(project: Project, attempt: Any) -> None:
    def resident(app: str) -> int:
        line = next(line for line in attempt(app, "status")["value"] if line.startswith("VmRSS"))
        return int(line.split()[1])

    before = resident(B)
    answer = project.call(CONTAINER, C, "send_oversized_frame", path=f"/run/berth/{B}/peers/{C}/rpc.sock")["result"]
    if answer["response"]:
        assert json.loads(answer["response"])["error"]["code"] == "too_large"
    assert resident(B) - before < 32 * 1024
    assert attempt(B, "ids")["ok"]


def test_the_host_library_calls_what_berth_os_started(project: Project) -> None:
    program = (
        "from berth import Computer\n"
        "from berth.computer import UnknownTool\n"
        "computer = Computer.connect('boundary')\n"
        "with computer:\n"
        "    names = {tool.name for tool in computer.tools()}\n"
        "    assert 'boundary-app-a__write_file' in names and 'boundary-app-b__read_file' in names, names\n"
        "    computer.call('boundary-app-a.write_file', path='/context/from-library', content='hi')\n"
        "    assert computer.call('boundary-app-b__read_file', path='/context/from-library') == {'content': 'hi'}\n"
        "    try: computer.call('boundary-app-a.nope')\n"
        "    except UnknownTool as error: assert 'boundary-app-a__probe' in str(error)\n"
        "    else: raise AssertionError\n"
    )
    done = subprocess.run([sys.executable, "-c", program], env=project.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "running" in project.berth("os", "status", "boundary").out


def test_up_again_says_so_and_status_names_every_app(project: Project) -> None:
    again = project.berth("os", "up", "boundary", f"--apps=apps/{A},apps/{B},apps/{C}")
    assert again.code == 0
    assert "already up" in again.out
    (one,) = json.loads(project.berth("--json", "os", "status", "boundary").out)["sandboxes"]
    assert [(app["name"], app["uid"], app["state"], app["enforcement"]) for app in one["apps"]] == [
        (A, 10000, "ready", "full"), (B, 10001, "ready", "full"), (C, 10002, "ready", "full"),
    ]  # fmt: skip
    assert project.berth("os", "status", "nobody").code == 4
    assert project.berth("os", "down", "nobody").code == 4


def test_the_audit_chain_breaks_with_one_byte(project: Project, tmp_path: Path) -> None:
    from berth.ops.sandboxes import audit

    assert audit.verify(str(project.home)) is None
    copy = tmp_path / "audit" / "audit.jsonl"
    copy.parent.mkdir()
    copy.write_text(
        (project.home / "audit/audit.jsonl").read_text().replace('"decision": "allowed"', '"decision": "denied"', 1)
    )
    assert audit.verify(str(tmp_path)) is not None


def test_ends(project: Project, attempt: Any) -> None:
    """Last in this file. A companion's end leaves the others; the primary's code is the container's."""
    container = project.engine
    project.inside(CONTAINER, "bash", "-c", "kill -9 $(grep -l '^Uid:.10002' /proc/[0-9]*/status | cut -d/ -f3)")
    deadline = time.monotonic() + 10
    while f'companion "{C}" exited with code 137' not in project.logs(CONTAINER):
        assert time.monotonic() < deadline, project.logs(CONTAINER)
        time.sleep(0.1)
    unreachable = project.berth("rpc", C, f"--container={CONTAINER}", "--export=probe")
    assert unreachable.code == 5
    (one,) = json.loads(project.berth("--json", "os", "status", "boundary").out)["sandboxes"]
    assert [app["state"] for app in one["apps"]] == ["ready", "ready", "exited"]
    assert attempt(A, "ids")["ok"]
    container.call(["stop", "-t", "10", CONTAINER])
    assert container.call(["container", "inspect", "--format", "{{.State.ExitCode}}", CONTAINER]).text.strip() == "143"
    stopped = project.berth("rpc", A, f"--container={CONTAINER}", "--export=probe", '--input={"kind":"ids"}')
    assert stopped.code == 5
