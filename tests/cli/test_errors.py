"""Every error code that native workspaces can raise, raised for real: code, exit status, and a hint that helps."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import Berth, await_true
from support.repos import commit, git, make_repo, write

SLEEPER = "version: 1\nports: [web]\nprocesses: {web: {command: exec sleep 1000}}\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "app", {"berth.yaml": SLEEPER, "a.txt": "hi\n"})


def reconfigure(repo: Path, text: str) -> None:
    commit(repo, {"berth.yaml": text})


# -- usage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["frobnicate"],
        ["--frobnicate"],
        ["new"],
        ["new", "a", "b"],
        ["up", "--no-such-flag"],
        ["run"],
        ["run", "--nope", "true"],
        ["wait", "--timeout", "soon"],
        ["wait", "--timeout", "-1"],
        ["logs", "web", "--tail", "-3"],
        ["schema", "nonsense"],
        ["completion", "tcsh"],
    ],
)
def test_usage(berth: Berth, words: list[str]) -> None:
    assert "-h" in berth.fails("usage", *words)["hint"] or "schema" in words


def test_a_typo_is_answered_with_a_suggestion(berth: Berth) -> None:
    assert "did you mean berth status?" in berth.fails("usage", "statsu")["hint"]


@pytest.mark.parametrize("slug", ["", " ", "A", "-x", "a/b", "..", "a.lock", "a~1", "é", "x" * 64, "HEAD", "a b"])
def test_invalid_slug(berth: Berth, slug: str) -> None:
    words = ["new", "--", slug] if slug.startswith("-") else ["new", slug]
    assert "a-z" in berth.fails("invalid_slug", *words)["hint"]


def test_one_trailing_slash_of_a_slug_is_dropped(berth: Berth) -> None:
    assert berth.doc("new", "docs/")["slug"] == "docs"


@pytest.mark.parametrize("value", ["x", "1-2", "30000-20000", "20000", "1024-70000", "-"])
def test_invalid_port_range(berth: Berth, value: str) -> None:
    berth.env["BERTH_PORT_RANGE"] = value
    assert "a-b" in berth.fails("invalid_port_range", "new", "a")["hint"]


# -- repository and base --------------------------------------------------------------------------------------------


def test_not_a_repository(berth: Berth, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert "repository" in berth.fails("not_a_repository", "new", "a", cwd=tmp_path / "plain")["hint"]


def test_unsupported_repository_inside_a_submodule(berth: Berth, repo: Path, tmp_path: Path) -> None:
    make_repo(tmp_path / "library")
    git(repo, "submodule", "add", "-q", str(tmp_path / "library"), "lib")
    assert berth.fails("unsupported_repository", "new", "a", cwd=repo / "lib")["hint"]
    assert berth.doc("ls")["workspaces"] == []


def test_git_too_old_and_git_missing(berth: Berth, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "git").write_text("#!/bin/sh\necho git version 2.35.9\n")
    (old / "git").chmod(0o755)
    assert "2.36" in berth.fails("git_too_old", "new", "a", env={"PATH": f"{old}:/usr/bin:/bin"})["hint"]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "git" in berth.fails("exec_failed", "new", "a", env={"PATH": str(empty)})["message"]


def test_git_failed_shows_gits_own_words(berth: Berth, repo: Path) -> None:
    (repo / ".git/objects").rename(repo / ".git/objects.away")
    try:
        outcome = berth("new", "a", "--json")
    finally:
        (repo / ".git/objects.away").rename(repo / ".git/objects")
    assert outcome.code == 1, outcome
    assert outcome.error["code"] in ("git_failed", "not_a_repository"), outcome


def test_base_not_found_names_the_base_and_the_present_branch(berth: Berth) -> None:
    error = berth.fails("base_not_found", "new", "a", "--base", "nope")
    assert "nope" in error["message"]
    assert "main" in error["message"]
    assert "--base" in error["hint"]


def test_a_repository_without_commits_has_no_base(berth: Berth, tmp_path: Path) -> None:
    bare = tmp_path / "unborn"
    bare.mkdir()
    git(bare, "init", "-q", "-b", "main")
    berth.fails("base_not_found", "new", "a", cwd=bare)


def test_base_mismatch_and_branch_exists(berth: Berth, repo: Path) -> None:
    git(repo, "branch", "other")
    berth.ok("new", "a")
    assert "--base" in berth.fails("base_mismatch", "new", "a", "--base", "other")["hint"]
    git(repo, "branch", "berth/b")
    assert berth.fails("branch_exists", "new", "b", "--base", "main")["hint"]
    git(repo, "branch", "berth/c/deeper")
    assert "berth/c/deeper" in berth.fails("branch_exists", "new", "c")["message"]


def test_branch_checked_out_elsewhere(berth: Berth, repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", "-b", "berth/a", str(tmp_path / "other"))
    assert str(tmp_path / "other") in berth.fails("branch_checked_out", "new", "a")["message"]


@pytest.mark.parametrize("kind", ["worktree", "directory", "file"])
def test_path_exists_and_nothing_is_touched(berth: Berth, repo: Path, kind: str) -> None:
    place = berth.path("z")
    if kind == "worktree":
        git(repo, "worktree", "add", "-q", "-b", "mine", str(place))
        (place / "dirty.txt").write_text("mine")
    elif kind == "directory":
        place.mkdir(parents=True)
        (place / "dirty.txt").write_text("mine")
    else:
        place.parent.mkdir()
        place.write_text("mine")
    assert "berth adopt" in berth.fails("path_exists", "new", "z")["hint"]
    assert (place if kind == "file" else place / "dirty.txt").read_text() == "mine"
    assert git(repo, "branch", "--list", "berth/z") == ""
    assert berth.doc("ls")["workspaces"] == []


def test_filter_missing_leaves_nothing(berth: Berth, repo: Path) -> None:
    git(repo, "config", "filter.absent.smudge", "no-such-filter-program %f")
    git(repo, "config", "filter.absent.required", "true")
    commit(repo, {".gitattributes": "*.bin filter=absent\n"})
    blob = subprocess.run(
        ["git", "-C", repo, "hash-object", "-w", "--stdin"], input=b"data", capture_output=True, check=True
    ).stdout.decode()
    git(repo, "update-index", "--add", "--cacheinfo", f"100644,{blob.strip()},x.bin")
    git(repo, "commit", "-q", "-m", "a filtered file")
    error = berth.fails("filter_missing", "new", "a")
    assert "absent" in error["message"] or "no-such-filter-program" in error["message"]
    assert "GIT_LFS_SKIP_SMUDGE=1" in error["hint"]
    assert not berth.path("a").exists()
    assert git(repo, "branch", "--list", "berth/a") == ""
    assert berth.doc("ls")["workspaces"] == []


# -- configuration --------------------------------------------------------------------------------------------------


def test_config_invalid_has_file_line_column_and_creates_nothing(berth: Berth, repo: Path) -> None:
    reconfigure(repo, "version: 2\nprots: [web]\n")
    error = berth.fails("config_invalid", "new", "a")
    assert "berth.yaml:1:10: version: " in error["message"]
    assert 'berth.yaml:2:1: unknown key "prots"; allowed: base, ' in error["message"]
    assert error["hint"] == "berth schema config"
    assert not berth.path("a").exists()


def test_contract_changed_names_the_contract(berth: Berth) -> None:
    path = Path(berth.doc("new", "a")["path"])
    write(path, {"berth.yaml": SLEEPER.replace("[web]", "[web, api]")})
    for words in (["plan", "a"], ["new", "a"], ["up", "a"], ["run", "-w", "a", "true"], ["reset", "a"]):
        error = berth.fails("contract_changed", *words)
        assert "port contract changed; create a new workspace" in error["message"]
        assert "berth new" in error["hint"]


def test_ports_exhausted_names_the_way_out(berth: Berth) -> None:
    berth.env["BERTH_PORT_RANGE"] = "23456-23456"
    berth.ok("new", "a")
    error = berth.fails("ports_exhausted", "new", "b")
    assert "23456-23456" in error["message"]
    assert "berth gc" in error["hint"]
    assert "BERTH_PORT_RANGE" in error["hint"]
    assert not berth.path("b").exists()


def test_port_in_use_names_port_pid_and_command_and_kills_nobody(berth: Berth) -> None:
    port = berth.doc("new", "a")["ports"]["web"]
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        error = berth.fails("port_in_use", "up", "a")
        assert str(port) in error["message"]
        assert str(os.getpid()) in error["message"]
    berth.ok("up", "a")


# -- hooks, copies, env_file ----------------------------------------------------------------------------------------


def test_setup_failed_names_the_line_and_its_code_and_keeps_everything(berth: Berth, repo: Path) -> None:
    reconfigure(repo, SLEEPER + "hooks: {setup: ['echo fine', 'exit 7']}\n")
    error = berth.fails("setup_failed", "new", "a")
    assert "exit 7" in error["message"]
    assert "7" in error["message"].replace("exit 7", "")
    assert "berth up" in error["hint"]
    assert berth.path("a").is_dir()
    row = berth.doc("status", "a")
    assert row["phase"] == "failed"
    assert row["error"] == error["message"]
    write(berth.path("a"), {"berth.yaml": SLEEPER})
    berth.ok("up", "a")
    assert berth.doc("status", "a")["error"] is None


def test_teardown_failed_removes_nothing(berth: Berth, repo: Path) -> None:
    reconfigure(repo, SLEEPER + "hooks: {teardown: ['exit 3']}\n")
    berth.ok("new", "a")
    assert "berth done" in berth.fails("teardown_failed", "done", "a")["hint"]
    assert berth.path("a").is_dir()


def test_hook_timeout_ends_what_the_hook_started(berth: Berth, repo: Path, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"setsid sleep 300 & echo $! > '{pid_file}'; sleep 300"
    reconfigure(repo, SLEEPER + f'hooks: {{timeout_seconds: 1, setup: ["{script}"]}}\n')
    berth.fails("hook_timeout", "new", "a")
    pid = int(pid_file.read_text())
    await_true(lambda: not Path(f"/proc/{pid}").exists(), seconds=5)


def test_copy_failed_through_a_symlinked_parent(berth: Berth, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "outside/deps").mkdir(parents=True)
    (repo / "vendor").symlink_to(tmp_path / "outside")
    commit(repo, {"berth.yaml": SLEEPER + "copy_dirs: [vendor/deps]\n"})
    assert "vendor" in berth.fails("copy_failed", "new", "a")["message"]


def test_env_file_invalid(berth: Berth, repo: Path) -> None:
    reconfigure(repo, SLEEPER + "env_file: .env.berth\n")
    commit(repo, {".env.berth": "A=1\n# BEGIN BERTH\nB=2\n"})
    assert ".env.berth" in berth.fails("env_file_invalid", "new", "a")["message"]


# -- processes ------------------------------------------------------------------------------------------------------


def test_process_failed_names_process_code_and_last_lines(berth: Berth, repo: Path) -> None:
    # Without a probe it counts as started the moment it runs; with one its end before that is a failure (8.4).
    failing = "'echo last words; exit 9', readiness_probe: {exec: {command: 'false'}}"
    reconfigure(repo, SLEEPER.replace("exec sleep 1000", failing))
    error = berth.fails("process_failed", "new", "a", "--up")
    assert "web" in error["message"]
    assert "9" in error["message"]
    assert "last words" in error["message"]
    assert "berth logs web" in error["hint"]
    assert "last words" in berth.ok("logs", "web", "a").out


def test_not_ready_at_the_timeout_of_wait(berth: Berth, repo: Path) -> None:
    probe = "readiness_probe: {exec: {command: 'exit 1'}, failure_threshold: 1000}"
    reconfigure(repo, SLEEPER.replace("exec sleep 1000", f"exec sleep 1000, {probe}"))
    berth.ok("new", "a")
    up = berth.popen("up", "a")
    try:
        await_true(lambda: berth("status", "a", "--json").json["running"], seconds=20)
        error = berth.fails("not_ready", "wait", "a", "--timeout", "1")
        assert "web" in error["message"]
    finally:
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=20)
    assert up.returncode == 130


def test_not_running(berth: Berth) -> None:
    berth.ok("new", "a")
    assert "berth up" in berth.fails("not_running", "restart", "web", "a")["hint"]
    berth.fails("not_running", "stop", "web", "a")


def test_process_not_found_lists_the_known_ones(berth: Berth) -> None:
    berth.ok("new", "a", "--up")
    for words in (["logs", "nope", "a"], ["restart", "nope", "a"]):
        error = berth.fails("process_not_found", *words)
        assert "web" in error["message"] + (error["hint"] or "")


def test_command_not_found_and_not_executable(berth: Berth) -> None:
    path = Path(berth.doc("new", "a")["path"])
    berth.fails("command_not_found", "run", "-w", "a", "no-such-program")
    (path / "plain").write_text("not a program")
    berth.fails("command_not_executable", "run", "-w", "a", "./plain")


def test_exec_failed_names_the_largest_variable(berth: Berth) -> None:
    berth.ok("new", "a")
    huge = "x" * 120_000
    many = {f"FILLER_{number}": huge for number in range(40)}
    probe = subprocess.run(["true"], env={**os.environ, **dict(list(many.items())[:10])}, check=False)
    assert probe.returncode == 0
    outcome = berth("run", "-w", "a", "true", env={**dict(list(many.items())[:10])})
    assert outcome.code == 0, outcome


def test_state_unknown_when_something_else_is_at_the_socket(berth: Berth) -> None:
    berth.ok("new", "a", "--up")
    berth.ok("down", "a")
    (control,) = (berth.home / "run").iterdir()
    (control / "pc.sock").write_text("in the way")
    for words in (["up", "a"], ["down", "a"], ["done", "a", "--force"]):
        error = berth.fails("state_unknown", *words)
        assert "process state unknown" in error["message"]
    assert berth.doc("status", "a")["running"] is None
    assert (control / "pc.sock").read_text() == "in the way"
    (control / "pc.sock").unlink()


def test_open_failed_has_the_url_and_port_not_found_the_names(berth: Berth, repo: Path, tmp_path: Path) -> None:
    port = berth.doc("new", "a")["ports"]["web"]
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("git", "sh"):
        (tools / name).symlink_to(shutil.which(name) or "")
    error = berth.fails("open_failed", "open", "-w", "a", env={"PATH": str(tools)})
    assert f"http://a.localhost:{port}" in error["message"]
    assert "web" in str(berth.fails("port_not_found", "open", "nope", "-w", "a"))


# -- finding --------------------------------------------------------------------------------------------------------


def test_workspace_not_found_hints_at_adopt_in_a_plain_worktree(berth: Berth, repo: Path, tmp_path: Path) -> None:
    assert "berth ls" in berth.fails("workspace_not_found", "up", "nope")["hint"]
    git(repo, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "mine"))
    assert "berth adopt" in berth.fails("workspace_not_found", "up", cwd=tmp_path / "mine")["hint"]


def test_workspace_ambiguous_lists_the_paths(berth: Berth, tmp_path: Path) -> None:
    for name in ("x", "y"):
        make_repo(tmp_path / name / "app", {"berth.yaml": SLEEPER})
        berth.ok("new", "same", cwd=tmp_path / name / "app")
    (tmp_path / "elsewhere").mkdir()
    for argument in ("same", "app/same"):
        error = berth.fails("workspace_ambiguous", "down", argument, cwd=tmp_path / "elsewhere")
        assert str(tmp_path / "x/app.berths/same") in error["message"]
        assert str(tmp_path / "y/app.berths/same") in error["message"]


def test_cwd_missing_and_absolute_paths_still_work(berth: Berth, tmp_path: Path) -> None:
    path = berth.doc("new", "a")["path"]
    script = 'mkdir "$1" && cd "$1" && rmdir "$1" && shift && exec "$@"'
    words = [sys.executable, str(Path(__file__).resolve().parents[2] / "scripts/berth")]
    gone = tmp_path / "gone"
    shell = ["sh", "-c", script, "sh", str(gone), *words]
    done = subprocess.run([*shell, "status"], env=berth.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    done = subprocess.run(
        [*shell, "status", path], env=berth.environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# -- identity and damage --------------------------------------------------------------------------------------------


def test_checkout_missing(berth: Berth, tmp_path: Path) -> None:
    path = Path(berth.doc("new", "a")["path"])
    path.rename(tmp_path / "away")
    assert "berth done --force" in berth.fails("checkout_missing", "up", "a")["hint"]
    assert "missing" in berth.doc("status", "a")["error"]
    (tmp_path / "away").rename(path)
    berth.ok("up", "a")


def test_identity_mismatch_says_what_differs(berth: Berth, repo: Path) -> None:
    path = Path(berth.doc("new", "a")["path"])
    original = (path / ".git").read_text()
    (path / ".git").unlink()
    for words in (["up", "a"], ["done", "a", "--force"], ["reset", "a"], ["new", "a"]):
        assert ".git" in berth.fails("identity_mismatch", *words)["message"]
    assert (path / "a.txt").exists()
    (path / ".git").write_text(original)
    berth.ok("up", "a")


def test_primary_checkout_is_never_adopted(berth: Berth, repo: Path) -> None:
    berth.fails("primary_checkout", "adopt")


def test_repository_missing(berth: Berth, repo: Path, tmp_path: Path) -> None:
    path = Path(berth.doc("new", "a")["path"])
    repo.rename(tmp_path / "moved")
    for words in (["up", str(path)], ["done", str(path), "--force"]):
        assert berth.fails("repository_missing", *words, cwd=tmp_path)["hint"]
    assert (path / "a.txt").exists()
    (tmp_path / "moved").rename(repo)


def test_worktree_locked_shows_the_reason(berth: Berth, repo: Path) -> None:
    path = berth.doc("new", "a")["path"]
    git(repo, "worktree", "lock", "--reason", "on a stick", path)
    for words in (["done", "a"], ["done", "a", "--force"]):
        error = berth.fails("worktree_locked", *words)
        assert "on a stick" in error["message"]
        assert "git worktree unlock" in error["hint"]


def test_processes_inside_names_pid_and_command(berth: Berth) -> None:
    path = berth.doc("new", "a")["path"]
    with subprocess.Popen(["sleep", "300"], cwd=path) as stranger:
        try:
            error = berth.fails("processes_inside", "done", "a")
            assert str(stranger.pid) in error["message"]
            assert "sleep 300" in error["message"]
            assert "--force" in error["hint"]
            assert berth.doc("done", "a", "--force")["checkout_removed"] is True
        finally:
            assert stranger.poll() is None, "a stranger is never killed"
            stranger.kill()


# -- locks and registry ---------------------------------------------------------------------------------------------


def test_busy_names_the_holder(berth: Berth) -> None:
    berth.ok("new", "a")
    run = berth.popen("run", "-w", "a", "sleep", "300")
    try:
        await_true(lambda: list((berth.home / "locks").glob("*.runs/*")))
        error = berth.fails("busy", "down", "a", "--no-wait")
        assert str(run.pid) in error["message"]
    finally:
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=20)
    assert run.returncode == 143


def test_inside_run_and_inside_service(berth: Berth, repo: Path) -> None:
    berth.ok("new", "a")
    inside = [sys.executable, str(Path(__file__).resolve().parents[2] / "scripts/berth")]
    for command in ("reset", "done"):
        outcome = berth("run", "-w", "a", "--", *inside, command, "--json")
        assert (outcome.code, outcome.error["code"]) == (3, "inside_run")
    row = berth.doc("status", "a")
    outcome = berth("down", "a", "--json", env={"BERTH_SUPERVISED": row["id"]})
    assert (outcome.code, outcome.error["code"]) == (3, "inside_service")


def test_registry_corrupt_and_newer(berth: Berth) -> None:
    berth.ok("ls")
    database = berth.home / "registry.db"
    with sqlite3.connect(database) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    assert "newer" in berth.fails("registry_newer", "ls")["hint"]
    database.write_bytes(b"garbage" * 1000)
    assert str(database) in berth.fails("registry_corrupt", "ls")["message"]
    assert database.read_bytes() == b"garbage" * 1000
    database.unlink()


def test_io_error_of_a_home_that_is_a_file(berth: Berth, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "BERTH_HOME" in berth.fails("io_error", "ls", env={"BERTH_HOME": str(tmp_path / "file")})["hint"]


def test_unsupported_path_with_a_line_break(berth: Berth, tmp_path: Path) -> None:
    odd = make_repo(tmp_path / "a\nb", {"berth.yaml": SLEEPER})
    berth.fails("unsupported_path", "new", "a", cwd=odd)


def test_container_and_process_compose_say_that_they_are_not_there_yet(berth: Berth, repo: Path) -> None:
    reconfigure(repo, SLEEPER + "runtime: {supervisor: process-compose}\n")
    assert "process-compose" in berth.fails("process_compose_missing", "new", "a", "--up")["message"]


def test_doctor_failed_in_text_and_checks_in_json(berth: Berth, repo: Path) -> None:
    (repo / "berth.yaml").write_text("version: 7\n")
    outcome = berth("doctor")
    assert outcome.code == 1
    assert "configuration\tFAIL\t" in outcome.out
    outcome = berth("doctor", "--json")
    assert outcome.code == 1
    assert outcome.json["ok"] is False
