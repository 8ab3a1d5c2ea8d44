"""JSON Schemas (draft 2020-12) of what berth reads and prints: berth.yaml, and the documents of workspaces.md 2.4.

Objects stay open: later versions may add keys and never remove one. Imported by ``schema`` and ``--schema`` alone.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def names() -> list[str]:
    """The names of all schemas: berth.yaml, the shared objects, then every command in alphabetical order."""
    return [*_OBJECTS, *sorted(_COMMANDS.keys() - _OBJECTS.keys())]


def schema(name: str) -> Schema:
    """The JSON Schema called ``name``. Raises KeyError for a name that is not in ``names()``."""
    build = _OBJECTS.get(name) or _COMMANDS[name]
    return {"$schema": DIALECT, "title": name, **build()}


def _text(description: str = "", **more: Any) -> Schema:
    return {"type": "string", **({"description": description} if description else {}), **more}


def _number(description: str = "", **more: Any) -> Schema:
    return {"type": "integer", **({"description": description} if description else {}), **more}


def _flag(description: str = "") -> Schema:
    return {"type": "boolean", **({"description": description} if description else {})}


def _or_null(inner: Schema) -> Schema:
    if isinstance(inner.get("type"), str):
        return {**inner, "type": [inner["type"], "null"]}
    return {"anyOf": [inner, {"type": "null"}]}


def _list(item: Schema, description: str = "") -> Schema:
    return {"type": "array", **({"description": description} if description else {}), "items": item}


def _map(item: Schema, description: str = "") -> Schema:
    return {"type": "object", **({"description": description} if description else {}), "additionalProperties": item}


def _object(keys: dict[str, Schema], *, optional: tuple[str, ...] = (), description: str = "") -> Schema:
    return {
        **({"description": description} if description else {}),
        "type": "object",
        "properties": keys,
        "required": [key for key in keys if key not in optional],
    }


_PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
_TIME = _text("RFC 3339, UTC", pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?Z$")
_SLUG = _text("name of the workspace in its repository", pattern="^[a-z0-9_][a-z0-9_-]{0,62}$")
_PATH = _text("absolute path", pattern="^/")
STATUSES = (
    "Disabled", "Pending", "Launching", "Running", "Launched", "Restarting", "Terminating", "Completed", "Skipped",
    "Error", "Foreground", "Scheduled", "Watching", "Survivor",
)  # fmt: skip
PHASES = ("creating", "preparing", "ready", "running", "stopped", "failed", "removing")
GC_KINDS = (
    "reclaim", "idle_stop", "remove_merged", "evict", "reclaim_contract", "orphan_container", "orphan_run",
    "leftover_plan", "leftover_guest", "leftover", "sandbox")  # fmt: skip


def _config() -> Schema:
    from berth.spec.schema_config import config_schema

    return config_schema()


def _error() -> Schema:
    from berth.errors import EXIT_STATUS

    inner = _object(
        {
            "code": {"enum": sorted((*EXIT_STATUS, "interrupted")), "description": "closed vocabulary"},
            "message": _text("what is wrong, naming the path, pid or file:line:column"),
            "hint": _or_null(_text("the next step")),
        }
    )
    return _object({"error": inner}, description="what a failed command prints with --json")


def _plan() -> Schema:
    return _object(
        {
            "gateway_ports": _map(_PORT, "container: the port that is published, inside"),
            "backend": {"enum": ["native", "container"]},
            "engine": {"enum": ["docker", "podman", None]},
            "image": _or_null(_text()),
            "working_dir": _PATH,
            "data_dir": _PATH,
            "host_ports": _map(_PORT),
            "listen": _map(_PORT, "container: the port that the application listens on, inside"),
            "network_namespace": _flag("whether the workspace has a network of its own"),
            "security_sandbox": {"const": False},
        },
        description="where and how a run of the workspace happens",
    )


def _process() -> Schema:
    return _object(
        {
            "name": _text(),
            "status": {"enum": [*STATUSES]},
            "ready": {"enum": ["Ready", "Not Ready", "-"], "description": "- when it declares no readiness"},
            "healthy": _flag("it runs, and is ready where it declares readiness"),
            "pid": _or_null(_number()),
            "exit_code": _or_null(_number("128 + n after signal n")),
            "restarts": _number(minimum=0),
            "listening": _or_null(_list(_PORT, "TCP ports that it or a descendant listens on")),
        },
        description="a background process of a workspace",
    )


def _workspace(*, env: bool | None = None) -> Schema:
    """``env`` says whether the variables are always there, never, or (None) in some commands."""
    keys: dict[str, Schema] = {
        "id": _text(pattern="^[0-9a-f]{32}$"),
        "slug": _SLUG,
        "path": _PATH,
        "repo": _text("the primary checkout, or the bare repository's directory", pattern="^/"),
        "branch": _or_null(_text("the current branch; null when detached")),
        "ports": _map(_PORT, "host ports"),
        "urls": _map(_text()),
        "listen": _map(_PORT, "container: ports inside"),
        "env": _map(_text(), "variables as seen from the host"),
        "running": _or_null(_flag("the supervisor answers; null when that is unknown")),
        "dirty": _or_null(_flag("there is uncommitted work; null when that is unknown")),
        "processes": _list(_process(), "empty when nothing runs"),
        "created_at": _TIME,
        "last_used_at": _TIME,
        "phase": {"enum": [*PHASES]},
        "ownership": {"enum": ["berth-created", "adopted"]},
        "error": _or_null(_text("what is wrong with it")),
        "runtime": _plan(),
        "container": _text("container: its name", pattern="^berth-[0-9a-f]{32}$"),
        "warnings": _list(_text()),
    }
    if env is False:
        del keys["env"]
    optional = ("container",) if env else ("container", "env")
    return _object(keys, optional=optional, description="a workspace")


def _named(keys: dict[str, Schema]) -> Schema:
    return _object({"slug": _SLUG, "path": _PATH, **keys})


def _with_env() -> Schema:
    return _workspace(env=True)


def _without_env() -> Schema:
    return _workspace(env=False)


def _ls() -> Schema:
    states = {"enum": ["running", "stopped", "missing", "foreign", "unknown"]}
    sandbox = _object({"kind": _text(), "name": _text(), "state": states, "path": _PATH, "apps": _list(_text())})
    workspaces = _list(_workspace(env=False), "most recently used first")
    return _object({"workspaces": workspaces, "sandboxes": _list(sandbox, "with --all")}, optional=("sandboxes",))


def _ports() -> Schema:
    return _named({"ports": _map(_PORT), "listen": _map(_PORT), "urls": _map(_text())})


def _down() -> Schema:
    ended = _object(
        {
            "pid": _number(),
            "name": _or_null(_text("name of the process it belongs to")),
            "command": _text(),
            "signal": {"enum": ["TERM", "KILL"]},
        }
    )
    return _named(
        {
            "was_running": _flag(),
            "stopped": _list(_text(), "names of the processes that the supervisor stopped"),
            "terminated": _list(ended, "processes that had to be ended one by one"),
        }
    )


def _one_process() -> Schema:
    return _named({"process": _process()})


def _run() -> Schema:
    return _object(
        {
            "argv": _list(_text()),
            "exit_code": _number(),
            "signal": _or_null(_number("the signal that ended it")),
            "duration_seconds": {"type": "number", "minimum": 0},
        },
        description="printed after the command, whose own stdout goes to stderr",
    )


def _logs() -> Schema:
    return {
        "anyOf": [
            _object({"process": _text(), "lines": _list(_text())}),
            _object({"line": _text()}, description="with -f, one document a line"),
        ]
    }


def _done() -> Schema:
    return _named(
        {
            "ownership": {"enum": ["berth-created", "adopted"]},
            "checkout_removed": _flag(),
            "branch": _or_null(_text()),
            "branch_commit": _or_null(_text()),
            "branch_deleted": _flag(),
            "branches_kept": _list(_text()),
            "warnings": _list(_text()),
        }
    )


def _gc() -> Schema:
    action = _object(
        {
            "kind": {"enum": [*GC_KINDS]},
            "path": _text(),
            "slug": _or_null(_text()),
            "reason": _text(),
            "bytes": _number(minimum=0),
        }
    )
    return _object(
        {
            "dry_run": _flag(),
            "actions": _list(action),
            "bytes": _number(minimum=0),
            "warnings": _list(_text()),
        }
    )


def _doctor() -> Schema:
    status = {"enum": ["ok", "warn", "fail", "unknown"]}
    check = _object({"name": _text(), "ok": _flag(), "detail": _text(), "status": status}, optional=("status",))
    verdict = {"enum": ["active", "not-active", "unknown"]}
    sandbox = _object({"verdict": verdict, "reasons": _list(_text())})
    return _object({"ok": _flag(), "checks": _list(check), "sandbox": sandbox}, optional=("sandbox",))


def _open() -> Schema:
    return _object({"url": _text(), "address": _text(), "port": _PORT})


def _init() -> Schema:
    return _object({"file": {"const": "berth.yaml"}, "ok": {"const": True}, "skill": _text("path of the skill file")})


def _installed() -> Schema:
    entry = _object({"scope": {"enum": ["project", "user"]}, "agent": _text(), "path": _PATH, "changed": _flag()})
    return _object({"installed": _list(entry)})


def _hook_run() -> Schema:
    return _object({"path": _PATH, "workspace": _or_null(_workspace())})


def _agents() -> Schema:
    agent = _object(
        {
            "name": _text(),
            "display": _text(),
            "reads_shared": _flag(),
            "project_path": _text(),
            "user_path": _text(),
            "hook": _or_null(_text("the harness's event")),
            "hook_file": _or_null(_text()),
            "hook_opt_in": _flag(),
            "installed_project": _flag(),
            "installed_user": _flag(),
            "hook_installed": _flag(),
            "covers": _list(_text()),
            "note": _text(),
        }
    )
    return _object({"repo": _text(), "home": _text(), "agents": _list(agent)})


def _completion() -> Schema:
    return _object({"shell": {"enum": ["bash", "zsh", "fish"]}, "script": _text()})


def _version() -> Schema:
    return _object({"version": _text(), "commit": _or_null(_text()), "date": _or_null(_text())})


def _schema() -> Schema:
    return {
        "anyOf": [
            _object({"names": _list(_text())}, description="without a name"),
            _object({"$schema": {"const": DIALECT}}, description="with a name: the schema itself"),
        ]
    }


def _sandbox_app() -> Schema:
    return _object(
        {
            "name": _text(),
            "uid": _number(minimum=10000),
            "pid": _or_null(_number(minimum=1)),
            "state": {"enum": ["starting", "ready", "exited", "refused"]},
            "exit_code": _or_null(_number(minimum=0)),
            "enforcement": {"enum": ["full", "reduced", "none"]},
            "missing": _list(_text(), "what the kernel could not hold"),
        }
    )


def _os() -> Schema:
    sandbox = _object(
        {
            "name": _text(),
            "container": _text(),
            "state": {"enum": ["running", "stopped", "missing"]},
            "engine": {"enum": ["docker", "podman"]},
            "image": _text(),
            "started_at": _or_null(_TIME),
            "unenforced": _flag(),
            "apps": _list(_sandbox_app()),
        }
    )
    down = _object({"name": _text(), "container": _text(), "volumes_kept": _flag()})
    return {"anyOf": [_object({"sandboxes": _list(sandbox)}, description="up, status, ls"), down]}


def _dev() -> Schema:
    keys = {
        "format": {"const": 1},
        "sandbox": _text(),
        "kind": _text(),
        "allow_unenforced": _flag(),
        "apps": _list({"type": "object", "description": "the compiled policy of one app"}),
    }
    return _object(keys, description="the boot document of --print-policy; without it there is no document")


def _rpc() -> Schema:
    return {"description": "the export's result, null when it returns nothing"}


def _app() -> Schema:
    return _object({"path": _PATH})


_OBJECTS: dict[str, Callable[[], Schema]] = {
    "config": _config,
    "error": _error,
    "workspace": _workspace,
    "process": _process,
    "plan": _plan,
}
_COMMANDS: dict[str, Callable[[], Schema]] = {
    **dict.fromkeys(("new", "adopt", "attach", "status"), _with_env),
    **dict.fromkeys(("up", "reset", "wait"), _without_env),
    **dict.fromkeys(("start", "stop", "restart"), _one_process),
    **dict.fromkeys(("skill install", "hook install"), _installed),
    "ls": _ls,
    "ports": _ports,
    "plan": _plan,
    "down": _down,
    "run": _run,
    "logs": _logs,
    "done": _done,
    "gc": _gc,
    "doctor": _doctor,
    "open": _open,
    "init": _init,
    "hook run": _hook_run,
    "agents": _agents,
    "completion": _completion,
    "version": _version,
    "schema": _schema,
    "dev": _dev,
    "os": _os,
    "rpc": _rpc,
    "app": _app,
}
