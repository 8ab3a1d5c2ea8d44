"""The declared fields of berth.yaml: what each is for, an example, and its JSON Schema (workspaces.md 3.1).

The reference's table and ``berth schema config`` are made from this and from ``spec.keys``; ``spec.config`` checks, and
a test holds the two against each other.
"""

from __future__ import annotations

from berth.spec.keys import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PORT_NAME = "^[A-Za-z][A-Za-z0-9_.-]*$"
VARIABLE_NAME = "^[A-Za-z_][A-Za-z0-9_]*$"
PROCESS_NAME = "^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
MEMORY = "^[1-9][0-9]*[bBkKmMgG]?$"
CONTAINER = "container: "
HIGHEST_PORT = 65535
LONGEST_SECONDS = 10**9  # what the supervisor takes: thirty years

TEXT = {"type": "string", "minLength": 1}
NOT_AN_OPTION = {"type": "string", "pattern": "^[^-]"}
SCALAR = {"type": ["string", "number", "boolean", "null"]}
# true and false are commands; as YAML they are booleans.
SCRIPTS = {"type": "array", "items": {"type": ["string", "boolean", "null"]}}


class Field:
    """One field: ``type`` and ``default`` as told to people, ``schema`` for machines, ``inner`` fields of a mapping."""

    __slots__ = ("default", "example", "inner", "schema", "text", "type")

    def __init__(
        self,
        type_: str,
        text: str,
        *,
        example: Any,
        schema: dict[str, Any] | None = None,
        default: Any = None,
        inner: Mapping[str, Field] | None = None,
    ) -> None:
        self.type = type_
        self.text = text
        self.example = example
        self.schema = schema or {}
        self.default = default
        self.inner = inner


RUNTIME = {
    "backend": Field(
        "`native` or `container`",
        "where hooks, processes and commands run",
        default="native",
        example="container",
        schema={"enum": ["native", "container"]},
    ),
    "engine": Field(
        "`docker` or `podman`",
        CONTAINER + "the engine",
        default="docker",
        example="podman",
        schema={"enum": ["docker", "podman"]},
    ),
    "image": Field(
        "string",
        CONTAINER + "a local image, required; berth neither pulls nor builds",
        example="berth-runtime:local",
        schema={"type": "string", "pattern": "^[^-\\s]\\S*$"},
    ),
    "user": Field(
        "string",
        CONTAINER + "passed to `--user` as it is; default: see the how-to for your engine",
        example="1000:1000",
        schema={"type": ["string", "integer"], "pattern": "^[^-]"},
    ),
    "memory": Field(
        "string", CONTAINER + "limit of memory", example="2g", schema={"type": ["string", "integer"], "pattern": MEMORY}
    ),
    "cpus": Field(
        "number", CONTAINER + "limit of processors; 0: none", example=1.5, schema={"type": "number", "minimum": 0}
    ),
    "pids": Field(
        "int", CONTAINER + "limit of processes; 0: none", example=512, schema={"type": "integer", "minimum": 0}
    ),
    "supervisor": Field(
        "`berth` or `process-compose`",
        "what holds the processes; may change at any time",
        default="berth",
        example="process-compose",
        schema={"enum": ["berth", "process-compose"]},
    ),
}
HOOKS = {
    "setup": Field(
        "list of scripts",
        "run in order when a workspace is prepared and after every reset; must be repeatable; an entry may span lines",
        default=[],
        example=["npm ci"],
        schema=SCRIPTS,
    ),
    "teardown": Field(
        "list of scripts",
        "run by `berth done`",
        default=[],
        example=['dropdb "app_$BERTH_SLUG"'],
        schema=SCRIPTS,
    ),
    "timeout_seconds": Field(
        "int", "limit for each entry; default: none", example=600, schema={"type": "integer", "minimum": 1}
    ),
}
GC = {
    "idle_stop_hours": Field(
        "int",
        "`berth gc` stops a workspace that was not used for so long; 0: never",
        default=0,
        example=12,
        schema={"type": "integer", "minimum": 0},
    ),
    "remove_after_days": Field(
        "int",
        "`berth gc` removes a merged workspace that was not used for so long; 0: never",
        default=0,
        example=14,
        schema={"type": "integer", "minimum": 0},
    ),
    "max_workspaces": Field(
        "int",
        "`berth gc` removes the least recently used ones above this number, per repository; 0: never",
        default=0,
        example=10,
        schema={"type": "integer", "minimum": 0},
    ),
}
FIELDS = {
    "version": Field("int", "must be 1", default=1, example=1, schema={"const": 1}),
    "base": Field(
        "string",
        "branch, tag, remote branch or commit that `berth new` starts from",
        default="main",
        example="origin/main",
        schema=NOT_AN_OPTION,
    ),
    "worktree_root": Field(
        "path",
        "where workspaces go, absolute or relative to the primary checkout; default: `<its parent>/<its name>.berths`",
        example="../worktrees",
        schema=TEXT,
    ),
    "runtime": Field("mapping", "where the workspace runs", example={"backend": "native"}, inner=RUNTIME),
    "ports": Field(
        "list of names",
        "each workspace gets numbers of its own for them, in `BERTH_PORT_<NAME>`",
        default=[],
        example=["web", "pg"],
        schema={"type": "array", "items": {"type": "string", "pattern": PORT_NAME}, "uniqueItems": True},
    ),
    "listen": Field(
        "map name → port",
        CONTAINER + "the port that the application listens on inside, for every name of `ports`",
        default={},
        example={"web": 8080},
        schema={
            "type": "object",
            "patternProperties": {PORT_NAME: {"type": "integer", "minimum": 1, "maximum": HIGHEST_PORT}},
            "additionalProperties": False,
        },
    ),
    "env": Field(
        "map name → value",
        "variables for every hook, process and `berth run`; `${BERTH_…}` in a value is replaced, all else is literal",
        default={},
        example={"DATABASE_URL": "postgres://127.0.0.1:${BERTH_PORT_PG}/app"},
        schema={"type": "object", "patternProperties": {VARIABLE_NAME: SCALAR}, "additionalProperties": False},
    ),
    "env_file": Field(
        "path",
        "a file of the workspace that gets the variables too, in a block of its own",
        example=".env",
        schema=TEXT,
    ),
    "copy_dirs": Field(
        "list of paths",
        "copied from the primary checkout, copy-on-write where the file system can",
        default=[],
        example=["node_modules"],
        schema={"type": "array", "items": TEXT},
    ),
    "hooks": Field("mapping", "scripts around the life of a workspace", example={"setup": ["npm ci"]}, inner=HOOKS),
    "processes": Field(
        "map name → definition",
        "what `berth up` starts, in the syntax of process-compose",
        default={},
        example={"web": {"command": 'npm run dev -- --port "$BERTH_PORT_WEB"'}},
    ),
    "gc": Field("mapping", "what `berth gc` may do; all off at 0", example={"idle_stop_hours": 12}, inner=GC),
    "shutdown_timeout_seconds": Field(
        "int",
        "time to stop before KILL; a process's own `shutdown.timeout_seconds` goes before it; 0: the default",
        default=15,
        example=5,
        schema={"type": "integer", "minimum": 0},
    ),
}


def field_rows() -> list[tuple[str, str, str, str]]:
    """The reference's table: (dotted field, type, default, meaning)."""
    found = []
    for name, field in FIELDS.items():
        for dotted, one in (
            [(f"{name}.{inner}", one) for inner, one in field.inner.items()] if field.inner else [(name, field)]
        ):
            default = "" if one.default is None else shown(one.default)
            found.append((dotted, one.type, default, one.text))
    return found
