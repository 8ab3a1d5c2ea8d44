"""What berth.yaml says: every field checked, all complaints at once, each with file:line:column (workspaces.md 3).

The checks are plain code and not pydantic models: importing pydantic alone costs as long as eight interpreter starts,
which is all that ``berth new`` may take beyond git. What the fields are for stands in ``spec.fields``.
"""

from __future__ import annotations

from berth.spec.complaints import Checker, excerpt, invalid, told
from berth.spec.environment import GIT_LOCATION, expand_problems, injected_names
from berth.spec.fields import FIELDS, GC, HIGHEST_PORT, HOOKS, LONGEST_SECONDS, RUNTIME
from berth.spec.names import is_port_name, variable_name
from berth.spec.paths import cleaned, repository_path_problem, worktree_root_problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from berth.spec.complaints import Path, Positioned

NATIVE_FIELDS = ("backend", "supervisor")
RESERVED_PORTS = ("pc", "range")
REFUSED_PREFIXES = ("BERTH_", "GIT_DIR", "GIT_WORK_TREE")
DEFAULT_SHUTDOWN_SECONDS = 15
MOST = 2**53  # beyond, a number in JSON is not the same everywhere
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_NAME = _LETTERS | frozenset("0123456789")


class Runtime:
    """The ``runtime`` mapping. ``backend`` is native or container, ``supervisor`` berth or process-compose.

    ``engine`` and ``image`` are set in container mode only; the others also there only where the file sets them.
    """

    __slots__ = ("backend", "cpus", "engine", "image", "memory", "pids", "supervisor", "user")

    def __init__(self, backend: str = "native", supervisor: str = "berth") -> None:
        self.backend = backend
        self.supervisor = supervisor
        self.engine: str | None = None
        self.image: str | None = None
        self.user: str | None = None
        self.memory: str | None = None
        self.cpus: float | None = None
        self.pids: int | None = None

    @property
    def in_container(self) -> bool:
        return self.backend == "container"


class Hooks:
    """``setup`` and ``teardown`` scripts without blank ones; ``timeout_seconds`` for each, or None."""

    __slots__ = ("setup", "teardown", "timeout_seconds")

    def __init__(self, setup: tuple[str, ...], teardown: tuple[str, ...], timeout_seconds: int | None) -> None:
        self.setup = setup
        self.teardown = teardown
        self.timeout_seconds = timeout_seconds


class Gc:
    """The limits of ``gc``; 0 is off."""

    __slots__ = ("idle_stop_hours", "max_workspaces", "remove_after_days")

    def __init__(self, idle_stop_hours: int, remove_after_days: int, max_workspaces: int) -> None:
        self.idle_stop_hours = idle_stop_hours
        self.remove_after_days = remove_after_days
        self.max_workspaces = max_workspaces


class Config:
    """A valid berth.yaml. ``parse`` makes it and nobody changes it.

    ``ports`` in the order of declaration; ``listen`` port name → port inside; ``env`` as written, references and all;
    ``processes`` name → definition as written, without null fields; ``notes`` are lines worth telling.
    """

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

    base: str
    worktree_root: str | None
    runtime: Runtime
    ports: tuple[str, ...]
    listen: dict[str, int]
    env: dict[str, str]
    env_file: str | None
    copy_dirs: tuple[str, ...]
    hooks: Hooks
    processes: dict[str, dict[str, Any]]
    gc: Gc
    shutdown_timeout_seconds: int
    notes: tuple[str, ...]

    def timeout_of(self, process: str) -> float:
        """T of a declared process in seconds (3.2)."""
        shutdown = self.processes[process].get("shutdown")
        own = shutdown.get("timeout_seconds") if isinstance(shutdown, dict) else None
        return float(own if isinstance(own, int | float) and own > 0 else self.shutdown_timeout_seconds)

    @property
    def longest_timeout_seconds(self) -> float:
        """The largest T of the workspace."""
        return max(map(self.timeout_of, self.processes), default=float(self.shutdown_timeout_seconds))


def parse(document: Positioned, *, file: str) -> Config:
    """Check a document. Raises config_invalid with one line ``<file>:<line>:<column>: <field>: <problem>`` each."""
    from berth.spec.processes import check_processes

    checker = Checker(document)
    data = checker.mapping(document.data, (), allowed=FIELDS)
    _version(checker, data.get("version"))
    config = Config()
    config.base = checker.shaped(data.get("base"), ("base",), _is_base, "a ref that does not start with -") or "main"
    root = checker.path(data.get("worktree_root"), ("worktree_root",), worktree_root_problem)
    config.worktree_root = cleaned(root) if root is not None else None
    config.runtime = _runtime(checker, data.get("runtime"))
    config.ports = _ports(checker, data.get("ports"))
    config.listen = _listen(checker, data, config)
    config.env = _env(checker, data.get("env"), config)
    env_file = checker.path(data.get("env_file"), ("env_file",), repository_path_problem)
    config.env_file = cleaned(env_file) if env_file is not None else None
    config.copy_dirs = _copy_dirs(checker, data.get("copy_dirs"))
    config.hooks = _hooks(checker, data.get("hooks"))
    config.gc = _gc(checker, data.get("gc"))
    path = ("shutdown_timeout_seconds",)
    seconds = checker.integer(data.get(*path), path, least=0, most=LONGEST_SECONDS)
    config.shutdown_timeout_seconds = seconds or DEFAULT_SHUTDOWN_SECONDS
    config.processes = check_processes(checker, data.get("processes"), config)
    config.notes = tuple(told(checker.notes, file=file))
    if checker.complaints:
        raise invalid(checker.complaints, file=file)
    return config


def _version(checker: Checker, value: Any) -> None:
    if value is not None and (type(value) is not int or value != 1):
        checker.complain(("version",), "must be 1")


def _is_base(name: str) -> bool:
    return bool(name.strip()) and not name.startswith("-")


def _runtime(checker: Checker, value: Any) -> Runtime:
    path = ("runtime",)
    data = checker.mapping(value, path, allowed=RUNTIME)
    runtime = Runtime(
        checker.choice(data.get("backend"), (*path, "backend"), ("native", "container")) or "native",
        checker.choice(data.get("supervisor"), (*path, "supervisor"), ("berth", "process-compose")) or "berth",
    )
    if runtime.in_container:
        _container(checker, runtime, data, path)
    elif data.get("backend") in (None, "native"):
        for key in RUNTIME:
            if data.get(key) is not None and key not in NATIVE_FIELDS:
                checker.forbid((*path, key), "is only for backend: container")
    return runtime


def _container(checker: Checker, runtime: Runtime, data: dict[str, Any], path: Path) -> None:
    runtime.engine = checker.choice(data.get("engine"), (*path, "engine"), ("docker", "podman"), default="docker")
    if data.get("image") is None:
        checker.complain((*path, "image"), "is required with backend: container")
    runtime.image = checker.shaped(
        data.get("image"), (*path, "image"), _is_image, "an image without white space that does not start with -"
    )
    runtime.user = checker.shaped(
        _as_text(checker, data, (*path, "user")), (*path, "user"), _is_user, "a user that does not start with -"
    )
    runtime.memory = checker.shaped(
        _as_text(checker, data, (*path, "memory")),
        (*path, "memory"),
        _is_memory,
        "a number of bytes, with b, k, m or g if you like",
    )
    runtime.cpus = checker.number(data.get("cpus"), (*path, "cpus"), least=0, most=MOST) or None
    runtime.pids = checker.integer(data.get("pids"), (*path, "pids"), least=0, most=MOST) or None


def _as_text(checker: Checker, data: dict[str, Any], path: Path) -> Any:
    """A whole number written without quotes is meant as text, as it is written."""
    value = data.get(str(path[-1]))
    return checker.document.text(path) if isinstance(value, int) and not isinstance(value, bool) else value


def _is_image(text: str) -> bool:
    return bool(text) and not text.startswith("-") and not any(char.isspace() for char in text)


def _is_user(text: str) -> bool:
    return bool(text.strip()) and not text.startswith("-")


def _is_memory(text: str) -> bool:
    """``^[1-9][0-9]*[bBkKmMgG]?$``"""
    digits = text[:-1] if text[-1:] in tuple("bBkKmMgG") else text
    return digits.isascii() and digits.isdigit() and digits[0] != "0"


def _ports(checker: Checker, value: Any) -> tuple[str, ...]:
    seen: dict[str, str] = {}
    for number, name in enumerate(checker.items(value, ("ports",))):
        here = ("ports", number)
        if name is None:
            checker.complain(here, "must be a string, not null")
        found = checker.shaped(name, here, is_port_name, "letters, digits, _ . - beginning with a letter")
        if found is None:
            continue
        if found.lower() in RESERVED_PORTS:
            checker.complain(here, f"{found!r} is reserved")
        elif variable_name(found) in seen:
            other, variable = seen[variable_name(found)], variable_name(found)
            checker.complain(
                here, f"{excerpt(found)!r} and {excerpt(other)!r} both give BERTH_PORT_{excerpt(variable)}"
            )
        else:
            seen[variable_name(found)] = found
    return tuple(seen.values())


def _listen(checker: Checker, data: dict[str, Any], config: Config) -> dict[str, int]:
    value = data.get("listen")
    if not config.runtime.in_container:
        if value not in (None, {}):
            checker.forbid(("listen",), "is only for backend: container")
        return {}
    mapping = checker.mapping(value, ("listen",))
    used: dict[int, str] = {}
    for name, port in mapping.items():
        here = ("listen", name)
        if name not in config.ports:
            declared = ", ".join(config.ports) or "none"
            checker.forbid(here, f"is not one of ports: {declared}")
            continue
        number = checker.integer(port, here, least=1, most=HIGHEST_PORT)
        if number is None:
            if port is None:
                checker.complain(here, "must be a port number, not null")
        elif number in used:
            checker.complain(here, f"{number} is already the port of {used[number]}")
        else:
            used[number] = name
    for name in config.ports:
        if name not in mapping and (value is None or isinstance(value, dict)):
            where = ("listen",) if value is not None else ("ports",)
            checker.complain(where, f"listen.{name} is required with backend: container")
    return {name: number for number, name in used.items()}


def _env(checker: Checker, value: Any, config: Config) -> dict[str, str]:
    found = {}
    for key, item in checker.mapping(value, ("env",)).items():
        here = ("env", key)
        problem = _key_problem(key, in_container=config.runtime.in_container)
        if problem is not None:
            checker.forbid(here, problem)
        elif isinstance(item, dict | list):
            checker.complain(here, f"must be a single value, not {'a list' if isinstance(item, list) else 'a mapping'}")
        else:
            # As written: 1.10 stays 1.10, yes stays yes.
            text = item if isinstance(item, str) else checker.document.text(here) or ""
            if any(char in text for char in "\0\r\n"):
                checker.complain(here, "must not contain NUL, CR or LF")
            else:
                found[key] = text
    for key, problem in expand_problems(found, injected_names(config.ports)):
        checker.complain(("env", key), problem)
    return found


def _key_problem(key: str, *, in_container: bool) -> str | None:
    if not key or key[0] not in _LETTERS or not _NAME.issuperset(key):
        return "is no name of a variable: letters, digits and _, not beginning with a digit"
    if key.upper().startswith(REFUSED_PREFIXES) or key in GIT_LOCATION:
        return "is berth's or git's own and cannot be set"
    if in_container and _is_git_setting(key):
        return "is set by berth inside the container"
    return None


def _is_git_setting(key: str) -> bool:
    """GIT_CONFIG_COUNT, GIT_CONFIG_KEY_<n>, GIT_CONFIG_VALUE_<n>."""
    number = key.removeprefix("GIT_CONFIG_KEY_").removeprefix("GIT_CONFIG_VALUE_")
    return key == "GIT_CONFIG_COUNT" or (number != key and number.isdigit())


def _copy_dirs(checker: Checker, value: Any) -> tuple[str, ...]:
    found = []
    for number, item in enumerate(checker.items(value, ("copy_dirs",))):
        here = ("copy_dirs", number)
        if item is None:
            checker.complain(here, "must be a string, not null")
        path = checker.path(item, here, repository_path_problem)
        if path is not None:
            found.append(cleaned(path))
    return tuple(dict.fromkeys(found))


def _hooks(checker: Checker, value: Any) -> Hooks:
    path = ("hooks",)
    data = checker.mapping(value, path, allowed=HOOKS)
    return Hooks(
        _scripts(checker, data.get("setup"), (*path, "setup")),
        _scripts(checker, data.get("teardown"), (*path, "teardown")),
        checker.integer(data.get("timeout_seconds"), (*path, "timeout_seconds"), least=1, most=MOST),
    )


def _scripts(checker: Checker, value: Any, path: Path) -> tuple[str, ...]:
    items = enumerate(checker.items(value, path))
    found = [checker.script(item, (*path, number)) for number, item in items]
    return tuple(script for script in found if script is not None and script.strip())


def _gc(checker: Checker, value: Any) -> Gc:
    path = ("gc",)
    data = checker.mapping(value, path, allowed=GC)
    return Gc(**{key: checker.integer(data.get(key), (*path, key), least=0, most=MOST) or 0 for key in GC})
