"""What berth.yaml says: every field checked, all complaints at once, each with file:line:column (workspaces.md 3).

The checks are plain code and not pydantic models: importing pydantic alone costs as long as eight interpreter starts,
which is all that ``berth new`` may take beyond git.
"""

from __future__ import annotations

from berth.errors import BerthError
from berth.spec.complaints import Checker, clean, path_problem
from berth.spec.environment import GIT_LOCATION, expand_problems, injected
from berth.spec.names import is_port_name, variable_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    class Positioned(Protocol):
        """A document with positions, as ``tools.yaml`` reads it."""

        data: Any
        written: dict[tuple[str | int, ...], str]

        def position(self, path: tuple[str | int, ...], *, key: bool = False) -> tuple[int, int]: ...


FIELDS = (
    "version",
    "base",
    "worktree_root",
    "runtime",
    "ports",
    "listen",
    "env",
    "env_file",
    "copy_dirs",
    "hooks",
    "processes",
    "gc",
    "shutdown_timeout_seconds",
)
RUNTIME_FIELDS = ("backend", "engine", "image", "user", "memory", "cpus", "pids", "supervisor")
NATIVE_FIELDS = ("backend", "supervisor")
HOOK_FIELDS = ("setup", "teardown", "timeout_seconds")
GC_FIELDS = ("idle_stop_hours", "remove_after_days", "max_workspaces")
RESERVED_PORTS = ("pc", "range")
REFUSED_PREFIXES = ("BERTH_", "GIT_DIR", "GIT_WORK_TREE")
DEFAULT_SHUTDOWN_SECONDS = 15
HIGHEST_PORT = 65535
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_NAME = _LETTERS | frozenset("0123456789")


class Runtime:
    """The ``runtime`` mapping: ``backend`` native or container, ``supervisor`` berth or process-compose; the rest is
    None in native mode."""

    __slots__ = RUNTIME_FIELDS

    def __init__(self) -> None:
        self.backend = "native"
        self.supervisor = "berth"
        self.engine: str | None = None
        self.image: str | None = None
        self.user: str | None = None
        self.memory: str | None = None
        self.cpus: float | None = None
        self.pids: int | None = None


class Hooks:
    """``setup`` and ``teardown`` scripts without blank ones; ``timeout_seconds`` for each, or None."""

    __slots__ = HOOK_FIELDS

    def __init__(self) -> None:
        self.setup: tuple[str, ...] = ()
        self.teardown: tuple[str, ...] = ()
        self.timeout_seconds: int | None = None


class Gc:
    """The limits of ``gc``; 0 is off."""

    __slots__ = GC_FIELDS

    def __init__(self) -> None:
        self.idle_stop_hours = 0
        self.remove_after_days = 0
        self.max_workspaces = 0


class Config:
    """A berth.yaml. ``processes`` maps names to their checked definitions as written; ``notes`` are worth telling."""

    __slots__ = (
        "base",
        "copy_dirs",
        "env",
        "env_file",
        "gc",
        "hooks",
        "listen",
        "notes",
        "ports",
        "processes",
        "runtime",
        "shutdown_timeout_seconds",
        "worktree_root",
    )

    def __init__(self) -> None:
        self.base = "main"
        self.worktree_root: str | None = None
        self.runtime = Runtime()
        self.ports: tuple[str, ...] = ()
        self.listen: dict[str, int] = {}
        self.env: dict[str, str] = {}
        self.env_file: str | None = None
        self.copy_dirs: tuple[str, ...] = ()
        self.hooks = Hooks()
        self.processes: dict[str, dict[str, Any]] = {}
        self.gc = Gc()
        self.shutdown_timeout_seconds = DEFAULT_SHUTDOWN_SECONDS
        self.notes: tuple[str, ...] = ()


def parse(document: Positioned, *, file: str) -> Config:
    """Check a document. Raises config_invalid with one line ``<file>:<line>:<column>: <field>: <problem>`` each."""
    from berth.spec.processes import check_processes

    checker = Checker()
    config = Config()
    data = checker.mapping(document.data, (), allowed=FIELDS)
    _version(checker, data.get("version"))
    _base(checker, config, data)
    _runtime(checker, config, data.get("runtime"))
    _ports(checker, config, data.get("ports"))
    _listen(checker, config, data.get("listen"))
    _env(checker, config, data.get("env"), document.written)
    config.env_file = checker.relative_path(data.get("env_file"), ("env_file",))
    _copy_dirs(checker, config, data.get("copy_dirs"))
    _hooks(checker, config, data.get("hooks"))
    _gc(checker, config, data.get("gc"))
    seconds = checker.integer(data.get("shutdown_timeout_seconds"), ("shutdown_timeout_seconds",), least=0, default=0)
    config.shutdown_timeout_seconds = seconds or DEFAULT_SHUTDOWN_SECONDS
    config.processes = check_processes(checker, data.get("processes"), config)
    config.notes = tuple(checker.notes)
    if checker.complaints:
        raise _invalid(checker, document, file)
    return config


def _invalid(checker: Checker, document: Positioned, file: str) -> BerthError:
    from berth.spec.complaints import Complaint

    def place(complaint: Complaint) -> tuple[int, int]:
        return document.position(complaint.path, key=complaint.of_key)

    lines = []
    for complaint in sorted(checker.complaints, key=place):
        line, column = place(complaint)
        path = complaint.path[:-1] if complaint.of_key else complaint.path
        field = f"{dotted(path)}: " if path else ""
        lines.append(f"{file}:{line}:{column}: {field}{complaint.problem}")
    return BerthError("\n".join(lines), code="config_invalid", hint="berth schema config")


def dotted(path: tuple[str | int, ...]) -> str:
    """A path as people write it: ``processes.web.environment[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _version(checker: Checker, value: Any) -> None:
    if value is not None and (isinstance(value, bool) or value != 1):
        checker.complain(("version",), f"must be 1, not {value!r}")


def _base(checker: Checker, config: Config, data: Mapping[str, Any]) -> None:
    def usable(name: str) -> bool:
        return bool(name) and not name.startswith("-") and "\0" not in name

    config.base = checker.shaped(data.get("base"), ("base",), usable, "a ref that does not start with -") or "main"
    root = checker.string(data.get("worktree_root"), ("worktree_root",))
    if root is None:
        return
    problem = "must not be empty" if not root else None
    if root.startswith("/"):
        problem = "must not contain NUL, CR or LF" if set(root) & set("\0\r\n") else None
    elif root:
        problem = path_problem(root)
    if problem is not None:
        checker.complain(("worktree_root",), f"{root!r} {problem}")
    else:
        config.worktree_root = root if root.startswith("/") else clean(root)


def _runtime(checker: Checker, config: Config, value: Any) -> None:
    path = ("runtime",)
    data = checker.mapping(value, path, allowed=RUNTIME_FIELDS)
    runtime = config.runtime
    runtime.backend = checker.choice(data.get("backend"), (*path, "backend"), ("native", "container")) or "native"
    supervisors = ("berth", "process-compose")
    runtime.supervisor = checker.choice(data.get("supervisor"), (*path, "supervisor"), supervisors) or "berth"
    if runtime.backend == "native":
        for key in RUNTIME_FIELDS:
            if data.get(key) is not None and key not in NATIVE_FIELDS:
                checker.complain((*path, key), f'"{key}" is only for backend: container', of_key=True)
        return
    runtime.engine = checker.choice(data.get("engine"), (*path, "engine"), ("docker", "podman"), default="docker")
    if data.get("image") is None:
        checker.complain((*path, "image") if "image" in data else path, "image is required with backend: container")
    runtime.image = checker.shaped(
        data.get("image"), (*path, "image"), _is_image, "an image without white space that does not start with -"
    )
    runtime.user = checker.shaped(data.get("user"), (*path, "user"), _is_user, "a user that does not start with -")
    runtime.memory = checker.shaped(
        _as_text(data.get("memory")), (*path, "memory"), _is_memory, "a number with b, k, m or g, like 512m"
    )
    runtime.cpus = checker.number(data.get("cpus"), (*path, "cpus"), least=0) or None
    runtime.pids = checker.integer(data.get("pids"), (*path, "pids"), least=0) or None


def _as_text(value: Any) -> Any:
    """A whole number written without quotes is meant as text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _is_image(text: str) -> bool:
    return bool(text) and not text.startswith("-") and not any(char.isspace() for char in text) and "\0" not in text


def _is_user(text: str) -> bool:
    return bool(text) and not text.startswith("-") and "\0" not in text


def _is_memory(text: str) -> bool:
    number = text[:-1] if text[-1:] in tuple("bBkKmMgG") else text
    return number.isascii() and number.isdigit() and number[0] != "0"


def _ports(checker: Checker, config: Config, value: Any) -> None:
    path = ("ports",)
    seen: dict[str, str] = {}
    for number, name in enumerate(checker.items(value, path)):
        here = (*path, number)
        found = checker.shaped(name, here, is_port_name, "letters, digits, _ . - beginning with a letter")
        if found is None:
            if name is None:
                checker.complain(here, "must be a string, not null")
            continue
        if found.lower() in RESERVED_PORTS:
            checker.complain(here, f"{found!r} is reserved")
        elif variable_name(found) in seen:
            checker.complain(
                here, f"{found!r} and {seen[variable_name(found)]!r} both give BERTH_PORT_{variable_name(found)}"
            )
        else:
            seen[variable_name(found)] = found
    config.ports = tuple(seen.values())


def _listen(checker: Checker, config: Config, value: Any) -> None:
    path = ("listen",)
    data = checker.mapping(value, path)
    if config.runtime.backend == "native":
        if data:
            checker.complain(path, "listen is only for backend: container", of_key=True)
        return
    used: dict[int, str] = {}
    for name, port in data.items():
        here = (*path, name)
        if name not in config.ports:
            checker.complain(here, f"{name!r} is not one of ports: {', '.join(config.ports) or 'none'}", of_key=True)
            continue
        number = checker.integer(port, here, least=1, most=HIGHEST_PORT)
        if number is None:
            if port is None:
                checker.complain(here, "must be a port number, not null")
        elif number in used:
            checker.complain(here, f"{number} is already the port of {used[number]!r}")
        else:
            used[number] = name
    config.listen = {name: number for number, name in used.items()}
    for name in config.ports:
        if name not in data:
            where = path if value is not None else ("ports",)
            checker.complain(where, f"listen.{name} is required with backend: container")


def _env(checker: Checker, config: Config, value: Any, written: Mapping[tuple[str | int, ...], str]) -> None:
    path = ("env",)
    for key, item in checker.mapping(value, path).items():
        here = (*path, key)
        problem = _key_problem(key, config)
        if problem is not None:
            checker.complain(here, problem, of_key=True)
            continue
        if isinstance(item, dict | list):
            checker.complain(here, "must be a single value, not a list or mapping")
            continue
        text = item if isinstance(item, str) else written.get(here, "" if item is None else str(item))
        if any(char in text for char in "\0\r\n"):
            checker.complain(here, "must not contain NUL, CR or LF")
            continue
        config.env[key] = text
    known = injected(workspace="", root="", slug="", branch="", ports=dict.fromkeys(config.ports, 0))
    for key, problem in expand_problems(config.env, known):
        checker.complain((*path, key), problem)


def _key_problem(key: str, config: Config) -> str | None:
    if not key or key[0] not in _LETTERS or not _NAME.issuperset(key):
        return f"{key!r} is no name of a variable"
    upper = key.upper()
    if upper.startswith(REFUSED_PREFIXES) or key in GIT_LOCATION:
        return f"{key} is berth's or git's own and cannot be set"
    if config.runtime.backend == "container" and upper.startswith(
        ("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")
    ):
        return f"{key} is set by berth inside the container"
    return None


def _copy_dirs(checker: Checker, config: Config, value: Any) -> None:
    path = ("copy_dirs",)
    found = []
    for number, item in enumerate(checker.items(value, path)):
        cleaned = checker.relative_path(item, (*path, number))
        if cleaned is not None:
            found.append(cleaned)
        elif item is None:
            checker.complain((*path, number), "must be a string, not null")
    config.copy_dirs = tuple(found)


def _hooks(checker: Checker, config: Config, value: Any) -> None:
    path = ("hooks",)
    data = checker.mapping(value, path, allowed=HOOK_FIELDS)
    for key in ("setup", "teardown"):
        lines = checker.strings(data.get(key), (*path, key))
        for number, line in enumerate(lines):
            if "\0" in line:
                checker.complain((*path, key, number), "must not contain NUL")
        setattr(config.hooks, key, tuple(line for line in lines if line.strip()))
    config.hooks.timeout_seconds = checker.integer(data.get("timeout_seconds"), (*path, "timeout_seconds"), least=1)


def _gc(checker: Checker, config: Config, value: Any) -> None:
    path = ("gc",)
    data = checker.mapping(value, path, allowed=GC_FIELDS)
    for key in GC_FIELDS:
        setattr(config.gc, key, checker.integer(data.get(key), (*path, key), least=0, default=0))
