"""What Procfile, compose file, Dockerfile and .env say about the processes and services around the application."""

from __future__ import annotations

import re
from typing import Any

from berth.ops.init.guesses import Guesses, Process, Step, Suggestion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.init.project import Project

COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

# Servers that one commonly has a container for, as processes of a workspace.
SERVERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "postgres": (
        "pg",
        (
            '# hooks.setup: test -d "$BERTH_DATA_DIR/pg" || initdb -D "$BERTH_DATA_DIR/pg" --auth=trust',
            "pg:",
            """  command: exec postgres -D "$BERTH_DATA_DIR/pg" -p "$BERTH_PORT_PG" -k ''""",
            """  readiness_probe: {exec: {command: 'pg_isready -h 127.0.0.1 -p "$BERTH_PORT_PG"'}}""",
            "  shutdown: {signal: 2}",
        ),
    ),
    "redis": (
        "redis",
        (
            "redis:",
            '  command: exec redis-server --port "$BERTH_PORT_REDIS" --bind 127.0.0.1 --dir "$BERTH_DATA_DIR"',
            """  readiness_probe: {exec: {command: 'redis-cli -p "$BERTH_PORT_REDIS" ping'}}""",
        ),
    ),
    "mysql": (
        "db",
        (
            "db:",
            '  command: exec mysqld --datadir="$BERTH_DATA_DIR/mysql" --port="$BERTH_PORT_DB" --bind-address=127.0.0.1',
            """  readiness_probe: {exec: {command: 'mysqladmin ping -h 127.0.0.1 -P "$BERTH_PORT_DB"'}}""",
        ),
    ),
}
IMAGES = {
    "postgres": "postgres",
    "postgis": "postgres",
    "redis": "redis",
    "valkey": "redis",
    "mysql": "mysql",
    "mariadb": "mysql",
}


def look(project: Project, guesses: Guesses) -> None:
    """Add what these files say. Processes of a Procfile go before those that a framework suggests."""
    _procfile(project, guesses)
    _rails(project, guesses)
    _compose(project, guesses)
    _dockerfile(project, guesses)


def _procfile(project: Project, guesses: Guesses) -> None:
    file = project.first("Procfile.dev", "Procfile")
    if file is None:
        return
    for line in project.text(file).splitlines():
        match = re.fullmatch(r"\s*([A-Za-z0-9_-]+)\s*:\s*(.+?)\s*", line)
        if match is None or not NAME.fullmatch(match[1]):
            continue
        name, command = match[1], match[2]
        if name == "release":
            guesses.setup.append(Step(command, f"{file}: release; unsure whether a workspace needs it", sure=False))
        elif name == "web" or "$PORT" in command or "${PORT" in command:
            _listening(file, name, command, guesses)
        else:
            guesses.add(Process(name, command, file))


def _listening(file: str, name: str, command: str, guesses: Guesses) -> None:
    """A process that gets PORT by the Procfile's convention; a number in its place is replaced."""
    port = name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) and name.lower() not in ("pc", "range") else "web"
    variable = "BERTH_PORT_" + port.upper().replace("-", "_")
    changed = re.sub(r"(--port[ =]|-p )\d+\b", rf'\1"${variable}"', command)
    reason = file if changed == command else f"{file}, with the port taken from the workspace"
    probe = f'{{http_get: {{host: localhost, port: "${{{variable}}}", path: /}}}}'
    doubt = None if changed != command or "PORT" in command else "it must listen on $PORT, as a Procfile promises"
    environment = (f"PORT=${{{variable}}}",)
    guesses.add(
        Process(name, changed, reason, probe, environment, doubt or "whether / answers with success"), port=port
    )


def _rails(project: Project, guesses: Guesses) -> None:
    if not (project.has("bin/rails") and project.has("Gemfile")):
        return
    guesses.setup.append(Step("bundle install", "Gemfile"))
    reason = "unsure: right only if the database is the workspace's own"
    guesses.setup.append(Step("bin/rails db:prepare", reason, sure=False))
    command = 'bin/rails server -b 127.0.0.1 -p "$BERTH_PORT_WEB" -P "$BERTH_DATA_DIR/server.pid"'
    probe = '{http_get: {host: 127.0.0.1, port: "${BERTH_PORT_WEB}", path: /up}}'
    guesses.add(
        Process("web", command, "bin/rails", probe, doubt="whether /up is there (Rails 7.1 and later)"), port="web"
    )


def _compose(project: Project, guesses: Guesses) -> None:
    file = project.first(*COMPOSE)
    if file is None:
        return
    services = _services(project.text(file))
    for name, service in services.items():
        image = str(service.get("image", "")) if isinstance(service, dict) else ""
        base = image.split("@")[0].rpartition("/")[2].partition(":")[0]
        known = IMAGES.get(base)
        if known is None:
            what = f"image {image}" if image else "built here"
            guesses.suggestions.append(
                Suggestion(f"{file}: service {name} ({what}) has no counterpart that is certain")
            )
            continue
        port, lines = SERVERS[known]
        reason = f"{file}: service {name} is {image}; as a process, if its programs are installed: add {port} to ports"
        if all(suggestion.lines != lines for suggestion in guesses.suggestions):
            guesses.suggestions.append(Suggestion(reason, lines))


def _services(text: str) -> dict[str, Any]:
    """The services of a compose file; empty when it is not one."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    reader = YAML(typ="safe", pure=True)
    try:
        document = reader.load(text)
    except (YAMLError, ValueError, TypeError, RecursionError, AttributeError, KeyError):
        return {}  # what berth cannot read here it says nothing about
    services = document.get("services") if isinstance(document, dict) else None
    found = services if isinstance(services, dict) else {}
    return {str(name): service for name, service in list(found.items())[:30]}


def _dockerfile(project: Project, guesses: Guesses) -> None:
    for line in project.text("Dockerfile").splitlines():
        match = re.match(r"\s*EXPOSE\s+(\d{1,5})(?:/tcp)?\b", line, re.IGNORECASE)
        if match and 1 <= int(match[1]) <= 65535:
            guesses.exposed = int(match[1])
            return


def look_at_ignored_files(project: Project, guesses: Guesses, ignored: list[str]) -> None:
    """Note the files that git ignores and a new workspace will lack. ``ignored`` are those of .env and its kin."""
    listed = set(project.text(".worktreeinclude").split("\n"))
    guesses.ignored_files = [name for name in ignored if name not in listed]
