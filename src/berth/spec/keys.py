"""The one declaration of process definition keys: what each means, accepts, or why it is refused (supervisor.md 2).

Validation, the documentation table and the JSON Schema are made from it. The syntax is process-compose v1.122.0's.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

WORKS, CARRIED, REFUSED = "works", "accepted, no effect", "refused"

STRING, STRINGS, FILES = "string", "list of strings", "path or list of paths"
COMMAND, HTTP_TEXT, HEADERS = "shell command", "string in one line", "mapping of strings"
INTEGER, SECONDS, BOOLEAN, MAPPING, ANY = "whole number", "number of seconds", "boolean", "mapping", "anything"
CODES, ENVIRONMENT, CHOICE = "list of exit codes", "list of KEY=VALUE", "one of"
PORT, PORT_NUMBER, PATH = "port or reference", "port", "path"


class Key:
    """One key: its ``standing`` (WORKS, CARRIED, REFUSED), ``type``, ``default``, bounds, ``words`` of a CHOICE, the
    keys of a MAPPING (``inner``), an ``example``, and ``text``: its meaning, or what to write instead of a refused one.
    """

    __slots__ = ("default", "example", "inner", "least", "most", "standing", "text", "type", "words")

    def __init__(
        self,
        type_: str,
        text: str,
        *,
        example: Any = None,
        standing: str = WORKS,
        default: Any = None,
        least: float | None = None,
        most: float | None = None,
        words: tuple[str, ...] = (),
        inner: Mapping[str, Key] | None = None,
    ) -> None:
        self.type = type_
        self.text = text
        self.example = example
        self.standing = standing
        self.default = default
        self.least = least
        self.most = most
        self.words = words
        self.inner = inner


def _carried(type_: str, text: str, *, example: Any) -> Key:
    return Key(type_, text, standing=CARRIED, example=example)


def _refused(instead: str) -> Key:
    return Key(ANY, instead, standing=REFUSED)


PROCESS_COMPOSE = "runtime.supervisor: process-compose"

EXEC: dict[str, Key] = {
    "command": Key(COMMAND, "shell command; passes on exit code 0", example='pg_isready -p "$BERTH_PORT_PG"'),
    "working_dir": Key(STRING, "directory of the check; default: the process's", example="backend"),
}
HTTP_GET: dict[str, Key] = {
    "host": Key(HTTP_TEXT, "host; localhost is tried on IPv4 and IPv6", default="127.0.0.1", example="localhost"),
    "port": Key(PORT, "port, or a reference to `BERTH_PORT_<NAME>`", example="${BERTH_PORT_WEB}"),
    "num_port": Key(PORT_NUMBER, "the same as port, as a number", example=8080),
    "path": Key(HTTP_TEXT, "path of the request", default="/", example="/healthz"),
    "scheme": Key(
        CHOICE, "protocol; certificates are not checked", default="http", words=("http", "https"), example="https"
    ),
    "headers": Key(HEADERS, "headers of the request", example={"Accept": "application/json"}),
    "status_code": Key(INTEGER, "the status that passes; default: 200 to 399", least=100, most=599, example=204),
}
PROBE: dict[str, Key] = {
    "exec": Key(MAPPING, "a command", inner=EXEC, example={"command": "test -S run/app.sock"}),
    "http_get": Key(
        MAPPING,
        "an HTTP request; redirects are not followed, proxies never used",
        inner=HTTP_GET,
        example={"port": "${BERTH_PORT_WEB}", "path": "/healthz"},
    ),
    "initial_delay_seconds": Key(SECONDS, "failures before that do not count", default=0, least=0, example=5),
    "period_seconds": Key(SECONDS, "time between two checks", default=10, least=0.01, example=2),
    "timeout_seconds": Key(SECONDS, "a check that takes longer has failed", default=1, least=0.01, example=3),
    "success_threshold": Key(INTEGER, "successes in a row that make it pass", default=1, least=1, example=2),
    "failure_threshold": Key(
        INTEGER, "failures in a row at which the process is stopped", default=3, least=1, example=10
    ),
}
CONDITIONS = (
    "process_started",
    "process_healthy",
    "process_completed",
    "process_completed_successfully",
    "process_log_ready",
)
DEPENDENCY: dict[str, Key] = {
    "condition": Key(
        CHOICE,
        "what is awaited of the dependency",
        default="process_started",
        words=CONDITIONS,
        example="process_healthy",
    ),
}
AVAILABILITY: dict[str, Key] = {
    "restart": Key(
        CHOICE,
        "whether it is started again when it ends",
        default="no",
        words=("no", "on_failure", "always", "exit_on_failure"),
        example="on_failure",
    ),
    "backoff_seconds": Key(SECONDS, "pause before a restart", default=1, least=1, example=2),
    "max_restarts": Key(INTEGER, "restarts before it is given up; 0: no limit", default=0, least=0, example=5),
    "exit_on_end": Key(BOOLEAN, "its end ends everything", default=False, example=True),
    "exit_on_skipped": Key(BOOLEAN, "its being skipped ends everything", default=False, example=True),
}
SHUTDOWN: dict[str, Key] = {
    "command": Key(COMMAND, "shell command run before the signal", example="pg_ctl stop -m fast"),
    "timeout_seconds": Key(SECONDS, "T: KILL follows after it; default: shutdown_timeout_seconds", least=0, example=5),
    "signal": Key(INTEGER, "the signal that asks it to stop", default=15, least=1, most=31, example=2),
    "parent_only": Key(BOOLEAN, "signal only the process itself, not its group", default=False, example=True),
    "send_keys": _refused(f"a shutdown.command, or {PROCESS_COMPOSE}"),
}
PROCESS: dict[str, Key] = {
    "command": Key(
        COMMAND,
        "run by sh -c; with entrypoint: its arguments, split as a shell would",
        example='npm run dev -- --port "$BERTH_PORT_WEB"',
    ),
    "entrypoint": Key(
        STRINGS, "program and arguments, as they stand; command follows as arguments", example=["node", "server.mjs"]
    ),
    "working_dir": Key(STRING, "directory it runs in; default: the workspace", example="frontend"),
    "environment": Key(ENVIRONMENT, "variables, over the injected ones and env", example=["LOG_LEVEL=debug"]),
    "env_file": Key(FILES, "files of KEY=VALUE lines, read at up; environment wins", example=".env.local"),
    "depends_on": Key(
        MAPPING, "processes it waits for, by name", inner=DEPENDENCY, example={"pg": {"condition": "process_healthy"}}
    ),
    "availability": Key(
        MAPPING, "what happens when it ends", inner=AVAILABILITY, example={"restart": "on_failure", "max_restarts": 3}
    ),
    "readiness_probe": Key(
        MAPPING,
        "how it is known to be ready",
        inner=PROBE,
        example={"http_get": {"port": "${BERTH_PORT_WEB}", "path": "/"}},
    ),
    "liveness_probe": Key(
        MAPPING,
        "how it is known to be alive",
        inner=PROBE,
        example={"exec": {"command": "bin/alive"}, "period_seconds": 30},
    ),
    "ready_log_line": Key(
        STRING, "regular expression searched in its output, or a literal where it is none", example="listening on"
    ),
    "shutdown": Key(MAPPING, "how it is stopped", inner=SHUTDOWN, example={"signal": 2, "timeout_seconds": 5}),
    "success_exit_codes": Key(CODES, "exit codes that mean success, beside 0", example=[3]),
    "is_daemon": Key(
        BOOLEAN, "the command returns while its daemon lives on; the daemon is watched", default=False, example=True
    ),
    "launch_timeout_seconds": Key(SECONDS, "the daemon's command returns within it", default=5, least=0.01, example=10),
    "is_tty": Key(BOOLEAN, "its output is a pseudo-terminal of 80 × 24", default=False, example=True),
    "replicas": Key(INTEGER, "copies, named `<name>-0` …", default=1, least=1, most=500, example=2),
    "disabled": Key(BOOLEAN, "not started by up; berth start starts it", default=False, example=True),
    "is_disabled": Key(BOOLEAN, "the same as disabled", default=False, example=True),
    "log_location": Key(
        PATH,
        "its output goes there, relative to the workspace; default `.berth/logs/<name>.log`",
        example="logs/web.log",
    ),
    "description": _carried(STRING, "carried and shown", example="the web server"),
    "namespace": _carried(STRING, "carried and shown", example="backend"),
    "disable_ansi_colors": _carried(BOOLEAN, "already so: logs keep what the process wrote", example=True),
    "is_dotenv_disabled": _carried(BOOLEAN, "already so: no .env is read", example=True),
    "is_template_disabled": _carried(BOOLEAN, "already so: nothing is a template", example=True),
    "truncate_log": _carried(BOOLEAN, "already so: a log begins with its process", example=True),
    "extends": _refused(f"a YAML anchor and merge key (<<), or {PROCESS_COMPOSE}"),
    "is_elevated": _refused(f"a program that raises its own rights, or {PROCESS_COMPOSE}"),
    "is_foreground": _refused(f"berth run, or {PROCESS_COMPOSE}"),
    "is_interactive": _refused(f"berth run in a terminal, or {PROCESS_COMPOSE}"),
    "log_configuration": _refused(f"log_location, or {PROCESS_COMPOSE}"),
    "mcp": _refused(PROCESS_COMPOSE),
    "monitor_for": _refused(f"a liveness_probe, or {PROCESS_COMPOSE}"),
    "monitor_silence_threshold": _refused(f"a liveness_probe, or {PROCESS_COMPOSE}"),
    "schedule": _refused(f"a loop in the command, or {PROCESS_COMPOSE}"),
    "vars": _refused(f"environment, or {PROCESS_COMPOSE}"),
    "watch": _refused(f"the tool's own watch mode, or {PROCESS_COMPOSE}"),
}


def table() -> list[tuple[str, str, str, str]]:
    """The documentation table: (dotted key, standing, type and default, meaning or what to write instead)."""
    return list(_rows("", PROCESS))


def _rows(prefix: str, keys: Mapping[str, Key]) -> Iterator[tuple[str, str, str, str]]:
    for name, key in keys.items():
        dotted = f"{prefix}{name}"
        kind = ", ".join(f"`{word}`" for word in key.words) if key.type == CHOICE else key.type
        if key.least is not None and key.most is not None:
            kind += f" {key.least:g}–{key.most:g}"
        elif key.least is not None:
            kind += f" ≥ {key.least:g}"
        if key.default is not None:
            kind += f"; default {shown(key.default)}"
        yield dotted, key.standing, "" if key.standing == REFUSED else kind, key.text
        if key.inner is not None:
            inner = f"{dotted}.<name>." if key.inner is DEPENDENCY else f"{dotted}."
            yield from _rows(inner, key.inner)


def shown(value: Any) -> str:
    """A default as YAML would have it, in code marks."""
    import json

    return f"`{value if isinstance(value, str) else json.dumps(value)}`"
