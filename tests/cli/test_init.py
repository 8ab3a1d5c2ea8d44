"""``berth init`` in real projects: what it recognises, what it leaves alone, and that the result is always valid."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from berth.ops.init import node, python, services, template
from berth.ops.init.guesses import Guesses
from berth.ops.init.project import Project
from support.cli import Berth
from support.repos import git, make_repo, write


def looked(root: Path) -> tuple[dict[str, Any], template.Written]:
    """What the lookers make of the files below ``root``, as data and as text."""
    project, guesses = Project(str(root)), Guesses()
    services.look(project, guesses)
    serves = not guesses.processes
    node.look(project, guesses, serves=serves)
    python.look(project, guesses, serves=serves)
    made = template.written(guesses, base="main")
    return YAML(typ="safe", pure=True).load(made.text), made


def package(**keys: Any) -> str:
    return json.dumps({"name": "app", **keys})


def test_it_writes_the_file_the_ignore_line_and_the_skill(berth: Berth, repo: Path) -> None:
    git(repo, "checkout", "-q", "-b", "trunk")
    outcome = berth.ok("init")
    assert outcome.out == f"{repo}/berth.yaml\n{repo}/.agents/skills/berth/SKILL.md\n"
    file = repo / "berth.yaml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    text = file.read_text()
    document = YAML(typ="safe", pure=True).load(text)
    assert document["base"] == "trunk"
    assert document["runtime"] == {"backend": "native"}
    assert document["hooks"] == {"setup": [], "teardown": []}
    assert document["gc"] == {"idle_stop_hours": 0, "remove_after_days": 0, "max_workspaces": 0}
    for words in ("BERTH_HOST_PORT_", "# env_file:", "# copy_dirs:", "Example, native", "Example, container"):
        assert words in text
    assert (repo / ".gitignore").read_text().endswith("\n.berth/\n")
    assert (repo / ".agents/skills/berth/SKILL.md").is_file()
    assert git(repo, "status", "--porcelain", "-uall").split() == [
        *("??", ".agents/skills/berth/SKILL.md", "??", ".agents/skills/berth/references/berth-yaml.md"),
        *("??", ".agents/skills/berth/references/recovery.md", "??", ".gitignore", "??", "berth.yaml"),
    ]


def test_json_is_one_document_and_advice_goes_to_stderr(berth: Berth, repo: Path) -> None:
    outcome = berth.ok("init", "--json")
    skill = str(repo / ".agents/skills/berth/SKILL.md")
    assert outcome.json == {"file": "berth.yaml", "ok": True, "skill": skill}
    number = int(outcome.err.split("berth.yaml:")[1].split(":")[0])
    assert (repo / "berth.yaml").read_text().splitlines()[number - 1] == "processes: {}"


def test_an_existing_file_is_kept_without_force(berth: Berth, repo: Path) -> None:
    write(repo, {"berth.yaml": "version: 1\n", ".gitignore": "x\n.berth/\ny"})
    error = berth.fails("config_exists", "init")
    assert "--force" in error["hint"]
    assert (repo / "berth.yaml").read_text() == "version: 1\n"
    berth.ok("init", "--force")
    assert "processes: {}" in (repo / "berth.yaml").read_text()
    assert (repo / ".gitignore").read_text() == "x\n.berth/\ny"
    again = (repo / "berth.yaml").read_bytes()
    berth.ok("init", "--force")
    assert (repo / "berth.yaml").read_bytes() == again


def test_an_ignore_file_without_a_last_newline_keeps_its_last_line(berth: Berth, repo: Path) -> None:
    write(repo, {".gitignore": "dist"})
    berth.ok("init")
    assert (repo / ".gitignore").read_text().splitlines()[0] == "dist"


def test_it_needs_a_repository_with_a_primary_checkout(berth: Berth, tmp_path: Path, repo: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    assert berth("init", "--json", cwd=outside).error["code"] == "not_a_repository"
    git(repo, "clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    assert berth("init", "--json", cwd=tmp_path / "bare.git").error["code"] == "unsupported_repository"


def test_a_repository_without_commits_and_a_detached_head_work(berth: Berth, repo: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    git(fresh, "init", "-q", "-b", "dev")
    berth.ok("init", cwd=fresh)
    assert "base: dev\n" in (fresh / "berth.yaml").read_text()
    git(repo, "checkout", "-q", "--detach")
    berth.ok("init")
    assert "base: main\n" in (repo / "berth.yaml").read_text()


@pytest.mark.parametrize("branch", ["true", "1.5", "a#b", "x'y", "功能/é", "release-2"])
def test_a_branch_of_any_name_is_the_base(berth: Berth, repo: Path, branch: str) -> None:
    git(repo, "checkout", "-q", "-b", branch)
    berth.ok("init")
    assert YAML(typ="safe", pure=True).load((repo / "berth.yaml").read_text())["base"] == branch


def test_vite_takes_its_port_as_an_option(tmp_path: Path) -> None:
    write(tmp_path, {"package.json": package(scripts={"dev": "vite"}, devDependencies={"vite": "^5"})})
    document, made = looked(tmp_path)
    assert document["processes"]["web"]["command"] == 'npm run dev -- --port "$BERTH_PORT_WEB" --strictPort'
    assert document["processes"]["web"]["readiness_probe"]["http_get"]["port"] == "${BERTH_PORT_WEB}"
    assert document["ports"] == ["web"]
    assert document["hooks"]["setup"] == ["npm install --no-package-lock"]
    assert made.advice == ()


@pytest.mark.parametrize(
    ("files", "step", "run"),
    [
        ({"package-lock.json": "{}"}, "npm ci", "npm run dev -- --port"),
        ({"pnpm-lock.yaml": ""}, "pnpm install --frozen-lockfile", "pnpm run dev --port"),
        ({"yarn.lock": ""}, "yarn install --frozen-lockfile", "yarn run dev --port"),
        ({"yarn.lock": "", ".yarnrc.yml": ""}, "yarn install --immutable", "yarn run dev --port"),
        ({"bun.lockb": ""}, "bun install --frozen-lockfile", "bun run dev --port"),
    ],
)
def test_the_lock_file_says_which_package_manager(tmp_path: Path, files: dict[str, str], step: str, run: str) -> None:
    write(tmp_path, {**files, "package.json": package(scripts={"dev": "next dev"}, dependencies={"next": "14"})})
    document, _ = looked(tmp_path)
    assert document["hooks"]["setup"] == [step]
    assert document["processes"]["web"]["command"].startswith(run)


@pytest.mark.parametrize(
    ("source", "command", "sure"),
    [
        ("app.listen(process.env.PORT || 3000)", "npm run start", True),
        ("parseArgs({options: {port: {type: 'string'}}})", 'npm run start -- --port "$BERTH_PORT_WEB"', True),
        ("app.listen(3000)", "npm run start", False),
    ],
)
def test_a_server_of_the_projects_own_is_read_for_its_port(
    tmp_path: Path, source: str, command: str, sure: bool
) -> None:
    write(tmp_path, {"package.json": package(scripts={"start": "node server.js"}), "server.js": source})
    document, made = looked(tmp_path)
    assert document["processes"]["web"]["command"] == command
    assert ("readiness_probe" in document["processes"]["web"]) is sure
    assert document["env"] == {"PORT": "${BERTH_PORT_WEB}"}
    if sure:
        assert made.advice == ()
    else:
        line, advice = made.advice[0]
        assert "unsure" in advice
        assert "unsure" in made.text.splitlines()[line - 1]


@pytest.mark.parametrize("script", ["vite --port 3000", "concurrently 'a' 'b'", "tsc -w & vite", "make dev"])
def test_a_script_that_leaves_doubt_is_live_with_its_probe_as_a_comment(tmp_path: Path, script: str) -> None:
    write(tmp_path, {"package.json": package(scripts={"dev": script})})
    document, made = looked(tmp_path)
    assert "readiness_probe" not in document["processes"]["web"]
    assert "    # readiness_probe: " in made.text
    assert made.advice


def test_django_fastapi_and_flask_are_recognised(tmp_path: Path) -> None:
    write(tmp_path / "django", {"manage.py": "os.environ['DJANGO_SETTINGS_MODULE']", "requirements.txt": "django\n"})
    document, made = looked(tmp_path / "django")
    assert "manage.py runserver" in document["processes"]["web"]["command"]
    assert document["hooks"]["setup"][0] == 'python3 -m venv "$BERTH_DATA_DIR/venv"'
    assert "    # - '\"$BERTH_DATA_DIR/venv/bin/python\" manage.py migrate'" in made.text

    write(tmp_path / "fast", {"src/shop/main.py": "app: FastAPI = FastAPI()\n", "uv.lock": "", "pyproject.toml": ""})
    document, _ = looked(tmp_path / "fast")
    command = 'uv run python -m uvicorn shop.main:app --app-dir src --port "$BERTH_PORT_WEB"'
    assert document["processes"]["web"]["command"] == command
    assert document["hooks"]["setup"] == ["uv sync --locked"]

    write(tmp_path / "flask", {"app.py": "server = Flask(__name__)\n"})
    document, _ = looked(tmp_path / "flask")
    assert document["processes"]["web"]["command"] == 'python3 -m flask --app app:server run --port "$BERTH_PORT_WEB"'


def test_a_front_end_and_a_back_end_get_a_port_each(tmp_path: Path) -> None:
    write(tmp_path, {"package.json": package(scripts={"dev": "vite"}), "manage.py": "DJANGO_SETTINGS_MODULE"})
    document, _ = looked(tmp_path)
    assert document["ports"] == ["web", "api"]
    assert "$BERTH_PORT_API" in document["processes"]["api"]["command"]


def test_a_procfile_names_the_processes(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "Procfile.dev": "web: bin/rails server -p 3000\njobs: bundle exec sidekiq\nbad line\nrelease: rake x\n",
            "Procfile": "web: ignored\n",
            "bin/rails": "",
            "Gemfile": "",
            "package.json": package(scripts={"dev": "vite"}),
        },
    )
    document, _ = looked(tmp_path)
    assert list(document["processes"]) == ["web", "jobs"]
    assert document["processes"]["web"]["command"] == 'bin/rails server -p "$BERTH_PORT_WEB"'
    assert document["processes"]["web"]["environment"] == ["PORT=${BERTH_PORT_WEB}"]
    assert document["processes"]["jobs"] == {"command": "bundle exec sidekiq"}
    assert document["hooks"]["setup"] == ["bundle install"]


def test_services_of_a_compose_file_and_exposed_ports_become_comments(tmp_path: Path) -> None:
    compose = (
        "services:\n  db: {image: 'postgres:16-alpine'}\n  cache: {image: docker.io/library/redis}\n  app: {build: .}\n"
    )
    write(tmp_path, {"compose.yaml": compose, "Dockerfile": "FROM x\nEXPOSE 5000/tcp\n"})
    document, made = looked(tmp_path)
    assert document["processes"] == {}
    for words in (
        "service db is postgres:16-alpine",
        "#   pg:",
        "#   redis:",
        "service app (built here)",
        "listen: {web: 5000}",
    ):
        assert words in made.text


def test_a_file_that_git_ignores_is_advised_for_worktreeinclude(berth: Berth, repo: Path) -> None:
    write(repo, {".gitignore": ".env\n", ".env": "SECRET=hunter2\n"})
    assert "echo .env >> .worktreeinclude" in berth.ok("init").err
    assert "hunter2" not in (repo / "berth.yaml").read_text()
    write(repo, {".worktreeinclude": ".env\n"})
    assert ".worktreeinclude" not in berth.ok("init", "--force").err


BROKEN = {
    "package.json": ["", "{", "null", "[1]", '{"scripts": 3}', '{"scripts": {"dev": null}}', "\xff\xfe"],
    "compose.yaml": ["", ":", "a: [", "services: 3", "services: {db: null}", "!!python/object:os.system {}", "&a [*a]"],
    "Procfile": ["", ":::", "web:", "web: x\x00y", "w\tb: a"],
    "Dockerfile": ["EXPOSE", "EXPOSE 99999999", "EXPOSE $PORT"],
    "pyproject.toml": ["[project", "[project]\n"],
    "manage.py": ["\x00"],
    "app.py": ["app = FastAPI(\napp = Flask("],
}


def test_broken_files_are_passed_over(tmp_path: Path) -> None:
    from berth.ops.setup.configuration import parse

    for name, texts in BROKEN.items():
        for number, text in enumerate(texts):
            root = tmp_path / f"{name}-{number}"
            write(root, {name: text.encode("latin-1")})
            _, made = looked(root)
            parse(made.text.encode(), "berth.yaml")


def test_what_it_writes_passes_plan(berth: Berth, repo: Path) -> None:
    write(repo, {"Procfile": "web: x\x00y\njobs: work\n", "manage.py": "DJANGO_SETTINGS_MODULE"})
    berth.ok("init")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "berth")
    berth.ok("new", "a")
    berth.ok("plan", "a")


ODD = st.text(alphabet=st.sampled_from("ab$'\"\\:#{}[]&*!|>%@`,- \t\n\r\x00\x85\u2028é日")).filter(bool)


@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(script=ODD, line=ODD, name=ODD)
def test_whatever_the_files_hold_the_result_parses(tmp_path: Path, script: str, line: str, name: str) -> None:
    from berth.ops.setup.configuration import parse

    for variant, files in enumerate(
        (
            {"package.json": package(scripts={"dev": script}, dependencies={"x": name})},
            {"Procfile": f"web: {line}\n{name}: {script}\n"},
            {"compose.yaml": json.dumps({"services": {name: {"image": line}}})},
        )
    ):
        root = tmp_path / str(variant)
        root.mkdir(exist_ok=True)
        write(root, {key: text.encode("utf-8", "surrogatepass") for key, text in files.items()})
        _, made = looked(root)
        parse(made.text.encode(), "berth.yaml")


NODE_SERVER = """
const http = require("http");
http.createServer((q, r) => r.end("hello from " + process.env.BERTH_SLUG)).listen(process.env.PORT);
"""


def test_a_node_application_works_without_editing(berth: Berth, tmp_path: Path) -> None:
    import shutil
    import urllib.request

    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    repo = make_repo(
        tmp_path / "shop",
        {"package.json": package(scripts={"dev": "node server.js"}), "server.js": NODE_SERVER},
    )
    berth.ok("init", cwd=repo)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "berth")
    made = berth.doc("new", "a", "--up", cwd=repo)
    with urllib.request.urlopen(f"http://127.0.0.1:{made['ports']['web']}/", timeout=10) as answer:
        assert answer.read() == b"hello from a"
    berth.ok("done", "a", cwd=repo)
