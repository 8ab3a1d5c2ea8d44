"""The main job, end to end: two workspaces of one repository, side by side, put away again."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from support.cli import Berth, command_lines
from support.repos import commit, git, make_repo, write

CONFIG = """
version: 1
ports: [web]
env:
  GREETING: hello from ${BERTH_SLUG}
hooks:
  setup: ['echo "setup ran"; cp seed.txt "$BERTH_DATA_DIR/value"']
processes:
  web:
    command: exec python3 server.py
    readiness_probe: {http_get: {host: 127.0.0.1, port: "${BERTH_PORT_WEB}", path: /}, period_seconds: 10}
"""
SERVER = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (os.environ["GREETING"] + " " + open(os.environ["BERTH_DATA_DIR"] + "/value").read()).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass
print("listening", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["BERTH_PORT_WEB"])), Handler).serve_forever()
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "my app", {"berth.yaml": CONFIG, "server.py": SERVER, "seed.txt": "seed"})


def get(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
        return str(answer.read().decode())


def test_two_workspaces_run_side_by_side_and_are_put_away(berth: Berth, repo: Path) -> None:
    before = (repo / ".git/config").read_bytes()
    a = berth.doc("new", "a", "--up")
    b = berth.doc("new", "b", "--up")
    assert a["running"] is True
    assert a["ports"]["web"] != b["ports"]["web"]
    assert get(a["ports"]["web"]) == "hello from a seed"
    (Path(b["path"]) / ".berth/data/value").write_text("changed")
    assert get(b["ports"]["web"]) == "hello from b changed"
    assert get(a["ports"]["web"]) == "hello from a seed"

    shown = berth.doc("status", "a")
    assert shown["processes"][0]["status"] == "Running"
    assert shown["processes"][0]["ready"] == "Ready"
    assert shown["processes"][0]["listening"] == [a["ports"]["web"]]
    assert shown["dirty"] is False
    assert shown["error"] is None

    listed = berth.doc("ls")["workspaces"]
    assert {row["slug"] for row in listed} == {"a", "b"}
    assert "listening\n" in berth.ok("logs", "web", "a").out

    berth.doc("reset", "b")
    assert (Path(b["path"]) / ".berth/data/value").read_text() == "seed"
    for slug in ("a", "b"):
        result = berth.doc("done", slug)
        assert result["branch_deleted"] is True
        assert result["checkout_removed"] is True
    assert berth.doc("ls")["workspaces"] == []
    assert git(repo, "worktree", "list").count("\n") == 0
    assert git(repo, "branch", "--list", "berth/*") == ""
    assert (repo / ".git/config").read_bytes() == before
    assert not command_lines(str(berth.home))
    left = sorted(p.relative_to(berth.home).parts[0] for p in berth.home.rglob("*") if p.is_file())
    assert set(left) <= {"registry.db", "locks"}


def test_new_up_json_prints_one_document_whatever_the_hooks_print(berth: Berth) -> None:
    outcome = berth("new", "a", "--up", "--json")
    assert outcome.code == 0, outcome
    assert json.loads(outcome.out)["slug"] == "a"
    assert "setup ran" in outcome.err


def test_run_passes_arguments_environment_and_exit_code_through(berth: Berth) -> None:
    berth.ok("new", "a")
    words = ["a b", "", "$(id)", "it's", "*"]
    outcome = berth("run", "-w", "a", "--", "printf", "[%s]\n", *words)
    assert outcome.code == 0, outcome
    assert outcome.out.splitlines() == [f"[{word}]" for word in words]
    assert berth("run", "-w", "a", "sh", "-c", "exit 7").code == 7
    assert berth("run", "-w", "a", "sh", "-c", "kill -9 $$").code == 137
    assert berth("run", "-w", "a", "no-such-program").code == 127
    assert berth.ok("run", "-w", "a", "sh", "-c", 'echo "$GREETING"').out == "hello from a\n"
    assert berth.ok("run", "--", "pwd", cwd=berth.path("a") / ".berth").out.strip() == str(berth.path("a"))


def test_new_prints_the_path_last_and_is_idempotent(berth: Berth) -> None:
    first = berth.ok("new", "a").out.splitlines()
    assert first[0] == "created a"
    assert first[-1] == str(berth.path("a"))
    assert berth.ok("new", "a").out.splitlines()[0] == "exists a"
    assert berth.ok("new", "a", "--print-path").out == f"{berth.path('a')}\n"


def test_work_that_is_nowhere_else_is_not_removed(berth: Berth, repo: Path) -> None:
    path = Path(berth.doc("new", "a")["path"])
    write(path, {"precious.txt": "mine"})
    assert "precious.txt" in berth.fails("dirty", "done", "a")["message"]
    head = commit(path, {"precious.txt": "mine"})
    berth.fails("not_preserved", "done", "a")
    assert (path / "precious.txt").read_text() == "mine"
    git(repo, "merge", "-q", "--ff-only", head)
    assert berth.doc("done", "a")["branch_deleted"] is True
