"""Container workspaces as a user meets them: ports, git, files, limits, environment."""

from __future__ import annotations

import os
import socket
import urllib.request
from pathlib import Path

import pytest

from berth.spec.container import LABEL_WORKSPACE
from berth.tools.engine import containers
from support import engines
from support.boxed import WEB, Boxed, host_server, say
from support.cli import await_true
from support.repos import git

UNREACHABLE = (ConnectionError, OSError)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_two_workspaces_and_the_host_serve_the_same_hard_coded_port(boxed: Boxed) -> None:
    port = free_port()
    boxed.configure(processes=WEB.replace("8080", str(port)), listen=f"{{web: {port}}}")
    with host_server(port, b"host"):
        for slug in ("a", "b"):
            boxed.ok("new", slug)
            (boxed.path(slug) / "who").write_text(slug)
            boxed.ok("up", slug)
        assert (boxed.get("a", "/who"), boxed.get("b", "/who"), say(port)) == (b"a", b"b", b"host")
        boxed.ok("down", "a")
        assert boxed.get("b", "/who") == b"b"
        assert say(port) == b"host"
        boxed.ok("down", "b")
        assert say(port) == b"host"
    for slug in ("a", "b"):
        boxed.ok("done", slug, "--force")
    assert boxed.ours() == []


def test_a_command_gets_its_arguments_as_they_are_and_its_code_is_berths(boxed: Boxed) -> None:
    boxed.ok("new", "a")
    words = ["a b", "", "$(id)", "it's", "*", "--json", "-w"]
    assert boxed.inside("a", "printf", "[%s]", *words) == "".join(f"[{word}]" for word in words)
    assert boxed("run", "-w", "a", "--", "sh", "-c", "exit 7").code == 7
    assert boxed("run", "-w", "a", "--", "no-such-program").code == 127
    assert boxed("run", "-w", "a", "--", "/etc/passwd").code == 126
    assert boxed("run", "-w", "a", "--", "sh", "-c", "kill -9 $$").code == 137
    assert boxed("run", "-w", "a", "--", "cat", stdin=b"through \xff a pipe").raw == b"through \xff a pipe"


@engines.on_one_engine
def test_run_json_keeps_stdout_for_the_document(boxed: Boxed) -> None:
    boxed.ok("new", "a")
    outcome = boxed("run", "-w", "a", "--json", "--", "echo", "hello")
    assert outcome.json["exit_code"] == 0
    assert outcome.json["argv"] == ["echo", "hello"]
    assert "hello" in outcome.err


def test_only_the_documented_variables_arrive_inside(boxed: Boxed) -> None:
    boxed.configure(more='env: {OWN: "${BERTH_PORT_WEB} ${BERTH_HOST_PORT_WEB} $HOME"}\n')
    boxed.ok("new", "a")
    shown = boxed("run", "-w", "a", "--", "env", "-0", env={"SECRET": "of the host", "LANG": "xx_YY"})
    found = dict(entry.split("=", 1) for entry in shown.out.rstrip("\0").split("\0"))
    port = str(boxed.port("a"))
    assert found["OWN"] == f"8080 {port} $HOME"
    assert found["BERTH_PORT_WEB"] == "8080"
    assert found["BERTH_HOST_PORT_WEB"] == port
    assert found["BERTH_WORKSPACE"] == found["BERTH_ROOT"] == found["GIT_WORK_TREE"] == "/workspace"
    assert found["BERTH_DATA_DIR"] == "/workspace/.berth/data"
    assert found["GIT_DIR"] == "/berth/git/worktrees/a"
    assert found["HOME"] == "/tmp/berth-home"
    assert found["XDG_CACHE_HOME"] == "/tmp/berth-home/.cache"
    settings = {
        found[f"GIT_CONFIG_KEY_{number}"]: found[f"GIT_CONFIG_VALUE_{number}"]
        for number in range(int(found["GIT_CONFIG_COUNT"]))
    }
    assert settings["safe.directory"] == "*"
    assert settings["gc.auto"] == "0"
    assert settings["gc.worktreePruneExpire"] == "never"
    assert settings["user.name"] == git(boxed.repo, "config", "user.name").strip()
    assert "SECRET" not in found
    assert "LANG" not in found
    assert "BERTH_LEASE" not in found
    assert "BERTH_SUPERVISED" not in found
    host = boxed.document("a")["env"]
    assert host["BERTH_WORKSPACE"] == str(boxed.path("a").resolve())
    assert host["BERTH_PORT_WEB"] == port
    assert host["OWN"] == f"{port} {port} $HOME"
    assert "GIT_DIR" not in host


@engines.on_one_engine
def test_plan_and_status_tell_the_container(boxed: Boxed) -> None:
    boxed.ok("new", "a", "--up")
    plan = boxed.doc("plan", "a")
    assert plan["backend"] == "container"
    assert plan["gateway_ports"] == {"web": 65535}
    assert plan["working_dir"] == "/workspace"
    assert plan["data_dir"] == "/workspace/.berth/data"
    assert plan["network_namespace"] is True
    assert plan["security_sandbox"] is False
    found = boxed.document("a")
    assert found["running"] is True
    assert found["container"] == f"berth-{found['id']}"
    assert found["listen"] == {"web": 8080}
    (process,) = found["processes"]
    assert process["healthy"] is True
    assert process["listening"] is None
    assert boxed.doc("ls")["workspaces"][0]["container"] == found["container"]


def test_git_works_inside_and_its_commits_are_the_hosts(boxed: Boxed) -> None:
    boxed.ok("new", "a")
    assert boxed.shell("a", "git status --porcelain && git rev-parse --abbrev-ref HEAD").strip() == "berth/a"
    boxed.shell("a", "echo one > one && git add one && git commit -qm one")
    assert git(boxed.repo, "log", "-1", "--format=%s %an %ae", "berth/a") == git(
        boxed.repo, "log", "-1", "--format=one %an %ae", "main"
    )
    boxed.shell("a", "git checkout -qb side HEAD~1 && echo two > two && git add two && git commit -qm two")
    boxed.shell("a", "git checkout -q berth/a && git rebase -q side")
    boxed.shell("a", "git checkout -q side && git cherry-pick berth/a && git checkout -q berth/a")
    boxed.shell("a", "git bisect start HEAD HEAD~1 && git bisect reset")
    boxed.shell("a", "git stash list; echo x >> one; git stash -q; git stash pop -q; git checkout -q -- one")
    boxed.ok("run", "-w", "a", "--", "git", "branch", "-D", "side")
    assert git(boxed.repo, "branch", "--list", "side") == ""
    git(boxed.repo, "fsck", "--no-dangling")
    assert git(boxed.repo, "config", "--file", ".git/config", "core.bare").strip() == "false"


def test_hooks_and_configuration_cannot_be_written_inside(boxed: Boxed) -> None:
    boxed.ok("new", "a")
    before = (boxed.repo / ".git/config").read_bytes()
    for script in (
        "echo x > /berth/git/hooks/post-checkout",
        "git config core.fsmonitor ./x",
        "echo x >> /berth/git/config",
        "rm -f /berth/git/config",
        "mv /berth/git/hooks /berth/git/h",
        "echo x > /berth/git/worktrees/new",
        "echo x > /workspace/.git",
        'echo x > "$GIT_DIR/commondir"',
        'echo x > "$GIT_DIR/gitdir"',
        'echo x > "$GIT_DIR/modules/x"',
    ):
        assert boxed("run", "-w", "a", "--", "sh", "-c", script).code != 0, script
    boxed.shell("a", 'echo ok > /workspace/x && echo ok > "$GIT_DIR/MY_HEAD" && rm /workspace/x "$GIT_DIR/MY_HEAD"')
    assert (boxed.repo / ".git/config").read_bytes() == before
    assert not (boxed.repo / ".git/hooks/post-checkout").exists()


def test_a_configuration_replaced_on_the_host_is_named_and_protected_again_after_down_and_up(boxed: Boxed) -> None:
    boxed.ok("new", "a", "--up")
    assert boxed.document("a")["warnings"] == []
    git(boxed.repo, "config", "color.ui", "auto")
    (warning,) = boxed.document("a")["warnings"]
    assert str(boxed.repo / ".git/config") in warning
    assert "berth down" in warning
    assert ".git/config" in boxed.ok("run", "-w", "a", "--", "true").err
    assert ".git/config" in boxed.ok("up", "a").err
    boxed.ok("down", "a")
    boxed.ok("up", "a")
    assert boxed.document("a")["warnings"] == []
    assert boxed("run", "-w", "a", "--", "git", "config", "core.fsmonitor", "x").code != 0


def test_files_belong_to_the_caller_both_ways(boxed: Boxed) -> None:
    boxed.ok("new", "a")
    (boxed.path("a") / "theirs").write_text("host")
    boxed.shell(
        "a", "cat theirs && echo more >> theirs && mkdir -p deep/er && echo x > deep/er/mine && chmod 600 theirs"
    )
    made = boxed.path("a") / "deep/er/mine"
    assert made.stat().st_uid == os.getuid()
    assert (boxed.path("a") / ".berth/data").stat().st_uid == os.getuid()
    made.write_text("edited on the host")
    assert boxed.shell("a", "cat deep/er/mine") == "edited on the host"
    made.unlink()
    boxed.ok("done", "a", "--force")
    assert not boxed.path("a").exists()


@engines.on_one_engine
def test_the_same_container_is_used_after_down_and_up(boxed: Boxed) -> None:
    boxed.ok("new", "a", "--up")
    first = boxed.inspect("a").id
    boxed.shell("a", "echo kept > /tmp/kept")
    assert boxed.doc("down", "a") == {
        "slug": "a",
        "path": str(boxed.path("a").resolve()),
        "was_running": True,
        "stopped": ["web"],
        "terminated": [],
    }
    assert not boxed.inspect("a").running
    assert boxed.document("a")["error"] is None
    boxed.ok("up", "a")
    assert boxed.inspect("a").id == first
    assert boxed.shell("a", "cat /tmp/kept") == "kept\n"
    assert boxed.get("a")


@engines.on_one_engine
def test_reset_makes_a_new_container_and_an_empty_data_directory(boxed: Boxed) -> None:
    boxed.configure(more="hooks: {setup: ['echo run >> \"$BERTH_DATA_DIR/setup\"']}\n")
    boxed.ok("new", "a", "--up")
    first = boxed.inspect("a").id
    (boxed.path("a") / ".berth/data/left").write_text("x")
    boxed.ok("reset", "a")
    assert boxed.inspect("a").id != first
    assert sorted(each.name for each in (boxed.path("a") / ".berth/data").iterdir()) == ["setup"]
    assert (boxed.path("a") / ".berth/data/setup").read_text() == "run\n"


@engines.on_one_engine
def test_processes_are_steered_and_their_logs_read(boxed: Boxed) -> None:
    more = "  other:\n    command: 'echo out; echo err >&2; exec sleep 1000'\n"
    boxed.configure(processes=WEB + more)
    boxed.ok("new", "a", "--up")
    assert boxed.ok("logs", "other", "a").out == "out\nerr\n"
    first = boxed.doc("restart", "other", "a")["process"]
    assert first["status"] == "Running"
    assert boxed.doc("stop", "other", "a")["process"]["status"] == "Completed"
    assert boxed.doc("start", "other", "a")["process"]["pid"] != first["pid"]
    assert "no-such" in boxed.fails("process_not_found", "stop", "no-such", "a")["message"]
    assert boxed.doc("wait", "a")["running"] is True
    boxed.ok("down", "a")
    assert boxed.ok("logs", "other", "a").out == "out\nerr\n"
    boxed.fails("not_running", "start", "other", "a")


@engines.on_one_engine
def test_a_process_that_fails_is_told_with_its_last_lines(boxed: Boxed) -> None:
    boxed.configure(processes="  bad:\n    command: 'echo the reason; exit 3'\n", listen="{}")
    boxed.ok("new", "a")
    error = boxed.fails("process_failed", "up", "a")
    assert "bad" in error["message"]
    assert "the reason" in error["message"]


def test_hooks_run_inside_with_a_time_limit_that_ends_everything_they_started(boxed: Boxed) -> None:
    script = "setsid sleep 987 & (env -i sleep 987 &) ; sleep 987"
    boxed.configure(more=f"hooks: {{setup: ['{script}'], timeout_seconds: 1}}\n")
    error = boxed.fails("hook_timeout", "new", "a")
    assert "sleep 987" in error["message"]
    shown = boxed.engine.call(containers.exec_words(boxed.container("a"), ["sh", "-c", "cat /proc/*/cmdline"], env={}))
    assert "987" not in shown.text.replace("\0", " ").replace("cat /proc", "")


@engines.on_one_engine
def test_a_failing_hook_names_line_and_code_and_its_output_is_the_story(boxed: Boxed) -> None:
    boxed.configure(more="hooks: {setup: ['echo on stdout; echo \"$GIT_DIR $BERTH_SUPERVISED\" >&2; exit 5']}\n")
    outcome = boxed("new", "a")
    assert outcome.code == 1
    assert "code 5" in outcome.err
    assert "on stdout" in outcome.err
    assert "/berth/git/worktrees/a" in outcome.err
    assert "on stdout" not in outcome.out


@engines.on_one_engine
def test_a_failing_setup_is_repeated_by_up(boxed: Boxed) -> None:
    boxed.configure(more="hooks: {setup: ['test -e .berth/data/fixed']}\n")
    boxed.fails("setup_failed", "new", "a")
    (boxed.path("a") / ".berth/data/fixed").write_text("")
    boxed.ok("up", "a")
    assert boxed.document("a")["phase"] == "running"


@engines.on_one_engine
def test_teardown_runs_inside_although_everything_is_stopped(boxed: Boxed, tmp_path: Path) -> None:
    boxed.configure(more="hooks: {teardown: ['echo torn down in $BERTH_WORKSPACE']}\n")
    boxed.ok("new", "a", "--up")
    outcome = boxed.ok("done", "a")
    assert "torn down in /workspace" in outcome.err
    assert boxed.ours() == []


def test_limits_are_applied_as_the_engine_and_the_inside_say(boxed: Boxed) -> None:
    if boxed.kind == "podman-rootless" and not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        pytest.skip("rootless Podman ignores limits on cgroup v1")
    boxed.configure(runtime=", memory: 200m, cpus: 0.5, pids: 77")
    boxed.ok("new", "a")
    host = boxed.inspect("a").document["HostConfig"]
    assert host["Memory"] == 200 << 20
    assert host["NanoCpus"] == 500_000_000 or host["CpuQuota"] == 50_000
    assert host["PidsLimit"] == 77
    limit = boxed.shell(
        "a", "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null; true"
    )
    assert str(200 << 20) in limit
    pids = boxed.shell("a", "cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null; true")
    assert "77" in pids
    many = "i=0; while [ $i -lt 90 ]; do sleep 5 & i=$((i+1)); done; echo survived"
    assert "survived" not in boxed("run", "-w", "a", "--", "sh", "-c", many).out


def test_a_container_has_no_privileges(boxed: Boxed) -> None:
    boxed.ok("new", "a")
    status = boxed.shell("a", "cat /proc/self/status")
    assert "CapEff:\t0000000000000000" in status
    assert "CapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status


def test_a_port_below_1024_can_be_listened_on_by_every_user(boxed: Boxed) -> None:
    web = WEB.replace("8080", "80")
    boxed.configure(processes=web, listen="{web: 80}")
    boxed.ok("new", "a", "--up")
    assert boxed.get("a")


def test_the_gateway_reaches_a_listener_on_ipv6_loopback(boxed: Boxed) -> None:
    web = "  web:\n    command: exec python3 -m http.server 8080 --bind ::1\n"
    web += "    readiness_probe: {http_get: {host: '::1', port: 8080, path: /}}\n"
    boxed.configure(processes=web)
    boxed.ok("new", "a")
    try_it = "import socket; s = socket.socket(socket.AF_INET6); print(s.connect_ex(('::1', 9)))"
    if boxed.inside("a", "python3", "-c", try_it) != "111\n":  # refused: the address is there
        pytest.skip("this engine's network has no IPv6, so nothing can listen there")
    boxed.ok("up", "a")
    assert boxed.get("a")


def test_a_gateway_that_is_killed_stops_the_container_and_status_says_so(boxed: Boxed) -> None:
    boxed.ok("new", "a", "--up")
    boxed.kill_inside("a", "gateway")
    await_true(lambda: not boxed.inspect("a").running)
    assert boxed.inspect("a").exit_code == 1
    found = boxed.document("a")
    assert found["running"] is False
    assert "container stopped unexpectedly" in found["error"]
    assert "the gateway ended" in found["error"]
    boxed.ok("up", "a")
    assert boxed.get("a")
    assert boxed.document("a")["error"] is None


def test_a_cancelled_run_stops_its_workspace_and_no_other(boxed: Boxed) -> None:
    boxed.configure()
    for slug in ("a", "b"):
        boxed.ok("new", slug, "--up")
    running = boxed.popen("run", "-w", "a", "--", "sh", "-c", "touch started; exec sleep 1000")
    await_true(lambda: (boxed.path("a") / "started").exists())
    running.terminate()
    assert running.wait(40) == 143
    running.communicate()
    assert not boxed.inspect("a").running
    assert boxed.get("b")
    boxed.ok("up", "a")
    assert boxed.get("a")


@engines.on_one_engine
def test_run_starts_a_container_that_is_down(boxed: Boxed) -> None:
    boxed.ok("new", "a", "--up")
    boxed.ok("down", "a")
    assert boxed.inside("a", "echo", "hello") == "hello\n"
    assert boxed.document("a")["running"] is False
    engines.discard(boxed.engine, boxed.container("a"))
    assert boxed.inside("a", "echo", "again") == "again\n"


def test_a_foreign_container_with_our_name_is_left_alone(boxed: Boxed) -> None:
    boxed.ok("new", "a")
    name = boxed.container("a")
    boxed.ok("down", "a")
    containers.remove(boxed.engine, name)
    options = engines.labelled(["--name", name, "--label", f"{LABEL_WORKSPACE}=other"])
    containers.create(boxed.engine, options, engines.IMAGE, ["sleep", "1000"])
    try:
        for words in (("up", "a"), ("down", "a"), ("done", "a", "--force"), ("run", "-w", "a", "--", "true")):
            assert name in boxed.fails("container_mismatch", *words)["message"]
        found = boxed.document("a")
        assert found["running"] is None
        assert name in found["error"]
        assert containers.find(boxed.engine, name) is not None
        assert boxed.path("a").exists()
    finally:
        engines.discard(boxed.engine, name)
    boxed.ok("up", "a")


@engines.on_one_engine
def test_a_missing_image_is_said_and_nothing_is_pulled(boxed: Boxed) -> None:
    boxed.configure(image="berth-no-such-image:local")
    error = boxed.fails("image_missing", "new", "a", "--up")
    assert "berth-no-such-image:local" in error["message"]
    assert "never pulls" in error["hint"]
    assert boxed.ours() == []


@engines.on_one_engine
def test_a_changed_contract_is_refused(boxed: Boxed) -> None:
    boxed.ok("new", "a")
    text = (boxed.path("a") / "berth.yaml").read_text()
    (boxed.path("a") / "berth.yaml").write_text(text.replace("8080", "8081"))
    assert "port contract changed" in boxed.fails("contract_changed", "up", "a")["message"]


@engines.on_one_engine
def test_a_path_that_a_mount_cannot_name_is_refused(boxed: Boxed) -> None:
    boxed.configure(more="worktree_root: 'with, comma'\n")
    error = boxed.fails("unsupported_path", "new", "a")
    assert "comma" in error["message"]


def test_another_engine_or_none_changes_nothing(boxed: Boxed) -> None:
    boxed.ok("new", "a", "--up")
    variable = "DOCKER_HOST" if boxed.kind == "docker" else "CONTAINER_HOST"
    away = {variable: "tcp://127.0.0.1:1"}
    for words in (
        ("down", "a"),
        ("done", "a", "--force"),
        ("up", "a"),
        ("run", "-w", "a", "--", "true"),
        ("reset", "a"),
    ):
        outcome = (
            boxed(*words, "--json", env=away) if words[0] != "run" else boxed("run", "--json", *words[1:], env=away)
        )
        assert outcome.code == 5, outcome
        assert outcome.error["code"] == "engine_unavailable"
    found = boxed.ok("status", "a", "--json", env=away).json
    assert found["running"] is None
    assert boxed.get("a")
    boxed.ok("done", "a", "--force")
    assert boxed.ours() == []


@engines.on_one_engine
def test_compose_variables_do_not_matter(boxed: Boxed) -> None:
    shared = {"COMPOSE_PROJECT_NAME": "shared", "COMPOSE_FILE": "/nope"}
    for slug in ("a", "b"):
        boxed.ok("new", slug, "--up", env=shared)
    assert len(boxed.ours()) == 2
    assert boxed.get("a")
    assert boxed.get("b")


def test_nothing_of_the_engine_stays_after_done(boxed: Boxed) -> None:
    before = engines.inventory(boxed.engine)
    for _ in range(3):
        boxed.ok("new", "a", "--up")
        boxed.ok("done", "a")
    after = engines.inventory(boxed.engine)
    assert boxed.ours() == []
    assert after["networks"] <= before["networks"]
    assert after["volumes"] <= before["volumes"]
    assert len(git(boxed.repo, "worktree", "list").splitlines()) == 1
    assert sorted(each.name for each in (boxed.home / "run").iterdir()) == []


def test_a_lost_supervisor_is_told_with_its_survivors_and_ended_by_up(boxed: Boxed) -> None:
    boxed.ok("new", "a", "--up")
    (before,) = boxed.document("a")["processes"]
    boxed.kill_inside("a", "supervise")
    await_true(lambda: boxed.document("a")["running"] is False)
    found = boxed.document("a")
    assert found["error"].startswith("supervisor lost")
    (survivor,) = found["processes"]
    assert survivor["status"] == "Survivor"
    assert survivor["name"] == "web"
    assert survivor["pid"] == before["pid"]
    boxed.ok("up", "a")
    (after,) = boxed.document("a")["processes"]
    assert after["pid"] != before["pid"]
    assert boxed.shell("a", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").count("http.server") == 1


@engines.on_one_engine
def test_down_reports_what_a_lost_supervisor_left(boxed: Boxed) -> None:
    boxed.ok("new", "a", "--up")
    boxed.kill_inside("a", "supervise")
    found = boxed.doc("down", "a")
    assert found["was_running"] is False
    assert [(one["name"], one["signal"]) for one in found["terminated"]] == [("web", "TERM")]
    assert not boxed.inspect("a").running


def test_a_host_server_on_the_published_port_is_named_and_left_alone(boxed: Boxed) -> None:
    boxed.ok("new", "a", "--up")
    port = boxed.port("a")
    boxed.ok("down", "a")
    with host_server(port, b"host"):
        error = boxed.fails("port_in_use", "up", "a")
        assert str(port) in error["message"]
        assert say(port) == b"host"
    boxed.ok("up", "a")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
        assert answer.status == 200
