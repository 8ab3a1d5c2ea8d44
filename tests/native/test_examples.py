"""The projects of ``examples/`` for real: two workspaces each, up at the same time, answering with their own data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli import ROOT, Berth, command_lines
from support.repos import git, make_repo, write

EXAMPLES = ROOT / "examples"
UNITTEST = ("python3", "-m", "unittest")
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))

# example -> port, its tests, how to leave a trace, where to read it, programs it needs
Trace = Callable[[str], tuple[str, str, str]]
PROJECTS: dict[str, tuple[str, tuple[str, ...], Trace, str]] = {
    "http-worker": ("web", UNITTEST, lambda text: ("POST", "/notes", text), "/notes"),
    "http-files": ("http", UNITTEST, lambda text: ("PUT", f"/{text}", text), "/"),
    "node-web": ("web", ("node", "--test"), lambda text: ("POST", f"/?name={text}", ""), "/"),
    "postgres": ("web", ("bin/pg", "with", *UNITTEST), lambda text: ("POST", "/", text), "/"),
    "postgres-template": ("web", ("bin/pg", "with", *UNITTEST), lambda text: ("POST", "/", text), "/"),
}


def require(name: str) -> None:
    """Skip where a program that the example needs is not installed."""
    if name == "node-web" and shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    if name.startswith("postgres"):
        done = subprocess.run([EXAMPLES / "postgres/bin/pg", "with", "true"], capture_output=True, check=False)
        if done.returncode == 127:
            pytest.skip("PostgreSQL is not installed")


def project(name: str, path: Path) -> Path:
    """A fresh repository made from an example, with its template if it has one."""
    shutil.copytree(EXAMPLES / name, path, ignore=shutil.ignore_patterns("__pycache__", ".seed", "node_modules"))
    git(path, "init", "-q", "-b", "main")
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "start")
    if (path / "bin/seed").exists():
        subprocess.run([path / "bin/seed"], check=True, capture_output=True)
    return path


def ask(port: int, method: str, path: str, body: str = "") -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body.encode() or None, method=method)
    with DIRECT.open(request, timeout=10) as answer:
        return str(answer.read().decode())


def up_at_once(berth: Berth, *slugs: str) -> dict[str, Any]:
    """``new --up`` of all slugs in parallel; their documents."""
    started = {slug: berth.popen("new", slug, "--up", "--json") for slug in slugs}
    documents = {}
    for slug, process in started.items():
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, (out, err)
        documents[slug] = json.loads(out)
    return documents


@pytest.fixture
def own_python(berth: Berth) -> None:
    """``python3`` is the interpreter of this run, not a shim that costs 0.1 s."""
    berth.env["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))


@pytest.mark.usefixtures("own_python")
@pytest.mark.parametrize("name", PROJECTS)
def test_two_workspaces_of_an_example_run_side_by_side(berth: Berth, tmp_path: Path, name: str) -> None:
    require(name)
    port_name, tests, trace, read = PROJECTS[name]
    repo = project(name, tmp_path / "my prójekt")
    berth.cwd = repo
    before = (repo / ".git/config").read_bytes(), git(repo, "status", "--porcelain"), git(repo, "stash", "list")

    documents = up_at_once(berth, "one", "two")
    ports = {slug: document["ports"][port_name] for slug, document in documents.items()}
    assert ports["one"] != ports["two"]
    for slug, document in documents.items():
        assert all(process["healthy"] for process in document["processes"]), document["processes"]
        ask(ports[slug], *trace(f"mark-of-{slug}"))
    for slug, other in (("one", "two"), ("two", "one")):
        answer = ask(ports[slug], "GET", read)
        assert f"mark-of-{slug}" in answer
        assert f"mark-of-{other}" not in answer
    for slug in documents:
        outcome = berth("run", "-w", slug, "--", *tests, timeout=120)
        assert outcome.code == 0, outcome

    berth.ok("reset", "one")
    berth.ok("up", "one")
    assert "mark-of-one" not in ask(ports["one"], "GET", read)
    assert "mark-of-two" in ask(ports["two"], "GET", read)

    for slug in documents:
        assert berth.doc("done", slug)["branch_deleted"] is True
    assert command_lines(str(repo.parent)) == []
    assert len(git(repo, "worktree", "list").splitlines()) == 1
    assert before == (
        (repo / ".git/config").read_bytes(),
        git(repo, "status", "--porcelain"),
        git(repo, "stash", "list"),
    )


def test_the_examples_postgres_parts_are_the_same() -> None:
    for name in ("bin/pg", "database.py"):
        assert (EXAMPLES / "postgres" / name).read_bytes() == (EXAMPLES / "postgres-template" / name).read_bytes()


@pytest.mark.usefixtures("own_python")
def test_postgres_runs_where_no_user_namespace_can_be_made(berth: Berth, tmp_path: Path) -> None:
    """As root in a container that forbids them: the cluster then belongs to another user and lies outside."""
    require("postgres")
    write(tmp_path, {"shadow/unshare": "#!/bin/sh\nexit 1\n"})
    (tmp_path / "shadow/unshare").chmod(0o755)
    berth.env["PATH"] = f"{tmp_path}/shadow:{berth.env['PATH']}"
    berth.cwd = project("postgres", tmp_path / "tasks")
    berth.ok("new", "one", "--up")
    assert berth("run", "-w", "one", "--", *PROJECTS["postgres"][1]).code == 0
    cluster = berth.path("one") / ".berth/data/pg"
    outside = os.path.realpath(cluster)
    assert cluster.is_symlink() is (os.geteuid() == 0)
    berth.ok("done", "one")
    assert not os.path.exists(outside)


@pytest.fixture(params=["ext4", "xfs"])
def file_system(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A mounted loop file system: ext4 copies, xfs made with reflink shares blocks. Root only."""
    kind: str = request.param
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    maker = shutil.which(f"mkfs.{kind}", path=os.environ["PATH"] + ":/sbin:/usr/sbin")
    if maker is None:
        pytest.skip(f"mkfs.{kind} is not installed")
    image, mount = tmp_path / "image", tmp_path / "mounted"
    with image.open("wb") as file:
        file.truncate(700 << 20)
    mount.mkdir()
    options = ["-q", "-F"] if kind == "ext4" else ["-q", "-m", "reflink=1"]
    subprocess.run([maker, *options, str(image)], check=True, capture_output=True)
    mounted = subprocess.run(["mount", "-o", "loop", str(image), str(mount)], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a loop file system cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield kind, mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_a_template_is_shared_where_the_file_system_can(
    file_system: tuple[str, Path], own_python: None, berth: Berth
) -> None:
    # The file system comes first among the arguments, so that it is unmounted last.
    require("postgres-template")
    kind, mount = file_system
    berth.cwd = project("postgres-template", mount / "catalogue")
    size = int(subprocess.run(["du", "-sk", berth.cwd / ".seed"], capture_output=True, check=True).stdout.split()[0])

    def used() -> int:
        os.sync()
        state = os.statvfs(mount)
        return (state.f_blocks - state.f_bfree) * state.f_frsize // 1024

    before = used()
    berth.ok("new", "one")
    growth = used() - before
    if kind == "xfs":
        assert growth < size / 2, f"two copies of {size} KiB took {growth} KiB"
    else:
        assert growth > size, "the positive control: without reflink the copies take space"
    berth.ok("up", "one")
    assert berth("run", "-w", "one", "--", *PROJECTS["postgres-template"][1]).code == 0
    berth.ok("done", "one")


CONFIGURATION_OF_THE_MANUAL = """
version: 1
base: main
ports: [web, pg]
env:
  PORT: ${BERTH_PORT_WEB}
  DATABASE_URL: postgres://127.0.0.1:${BERTH_PORT_PG}/app
hooks:
  setup:
    - mkdir -p "$BERTH_DATA_DIR/pg"
    - test -d "$BERTH_DATA_DIR/pg/base" || initdb -D "$BERTH_DATA_DIR/pg" --no-locale --encoding=UTF8
processes:
  pg:
    command: >
      postgres -D "$BERTH_DATA_DIR/pg" -p "$BERTH_PORT_PG" -k "$BERTH_DATA_DIR" -c fsync=off -c synchronous_commit=off
    readiness_probe: {exec: {command: 'pg_isready -h 127.0.0.1 -p "$BERTH_PORT_PG"'}}
  web:
    command: npm run dev -- --port "$BERTH_PORT_WEB"
    readiness_probe: {http_get: {host: 127.0.0.1, port: "${BERTH_PORT_WEB}", path: /}}
"""
AS_ANOTHER_USER = """#!/bin/sh
if [ "$(id -u)" != 0 ]; then exec {program} "$@"; fi
exec unshare --user --map-user="$(id -u nobody)" --map-group="$(id -g nobody)" -- {program} "$@"
"""


@pytest.mark.usefixtures("own_python")
def test_the_web_and_postgres_configuration_runs_as_it_is_written(
    berth: Berth, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    require("postgres")
    require("node-web")
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    found = subprocess.run(
        [EXAMPLES / "postgres/bin/pg", "with", "sh", "-c", "command -v postgres"], capture_output=True, check=True
    )
    programs = os.path.dirname(os.path.realpath(found.stdout.decode().strip()))
    for name in ("initdb", "postgres"):
        write(tmp_path, {f"shadow/{name}": AS_ANOTHER_USER.format(program=f"{programs}/{name}")})
        (tmp_path / "shadow" / name).chmod(0o755)
    berth.env["PATH"] = f"{tmp_path}/shadow:{programs}:{berth.env['PATH']}"
    # A short path: PostgreSQL's socket lies in the data directory here.
    repo = make_repo(
        tmp_path_factory.mktemp("w") / "r",
        {
            "berth.yaml": CONFIGURATION_OF_THE_MANUAL,
            "package.json": (EXAMPLES / "node-web/package.json").read_text(),
            "server.mjs": (EXAMPLES / "node-web/server.mjs").read_text(),
        },
    )
    berth.cwd = repo
    documents = up_at_once(berth, "a", "b")
    for slug, document in documents.items():
        assert json.loads(ask(document["ports"]["web"], "GET", "/"))["workspace"] == slug
        assert {process["name"]: process["healthy"] for process in document["processes"]} == {"pg": True, "web": True}
    for slug in documents:
        berth.ok("done", slug)
