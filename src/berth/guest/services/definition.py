"""The rendered configuration read into definitions: one for each process, replicas counted out.

The host has checked and expanded everything (spec.config). Here nothing is clamped or guessed: what cannot be used is a
ConfigError with the process and the key, never a traceback.
"""

from __future__ import annotations

import os

from ..core import codec, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from . import tls

DEFAULT_SHUTDOWN_SECONDS = 15.0
CONDITIONS = (
    "process_started",
    "process_healthy",
    "process_completed",
    "process_completed_successfully",
    "process_log_ready",
)
POLICIES = ("no", "on_failure", "always", "exit_on_failure")


class ConfigError(Exception):
    """The configuration cannot be used; the text says where and why."""


class Table:
    """A mapping of the configuration with its place in it, for messages."""

    def __init__(self, value: object, place: str) -> None:
        if not isinstance(value, dict):
            raise ConfigError(f"{place}: must be a mapping")
        self.values = value
        self.place = place

    def table(self, key: str) -> Table | None:
        value = self.values.get(key)
        return None if value is None else Table(value, f"{self.place}.{key}")

    def text(self, key: str, default: str = "") -> str:
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (str, int, float)) or "\0" in str(value):
            raise ConfigError(f"{self.place}.{key}: must be a string")
        return str(value)

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise ConfigError(f"{self.place}.{key}: must be true or false")

    def number(self, key: str, default: float, least: float = 0, most: float = 1e9) -> float:
        value = self.values.get(key)
        if value is None:
            return default
        try:
            found = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
        except ValueError:
            found = None
        if found is None or not least <= found <= most:
            raise ConfigError(f"{self.place}.{key}: must be a number from {least:g} to {most:g}")
        return found

    def whole(self, key: str, default: int, least: int = 0, most: int = 1 << 31) -> int:
        found = self.number(key, default, least, most)
        if found != int(found):
            raise ConfigError(f"{self.place}.{key}: must be a whole number")
        return int(found)

    def words(self, key: str) -> list[str]:
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(word, str) and "\0" not in word for word in value):
            raise ConfigError(f"{self.place}.{key}: must be a list of strings")
        return value


class ProbeSpec:
    """One probe: ``command`` for exec, else the parts of http_get. Times in seconds."""

    def __init__(self, table: Table) -> None:
        self.initial_delay = table.number("initial_delay_seconds", 0)
        self.period = table.number("period_seconds", 10, 0.001)
        self.timeout = table.number("timeout_seconds", 1, 0.001)
        self.success_threshold = table.whole("success_threshold", 1, 1)
        self.failure_threshold = table.whole("failure_threshold", 3, 1)
        self.command: str | None = None
        run, get = table.table("exec"), table.table("http_get")
        if (run is None) == (get is None):
            raise ConfigError(f"{table.place}: needs exactly one of exec and http_get")
        if run is not None:
            self.command = run.text("command")
            self.working_dir = run.text("working_dir") or None
        elif get is not None:
            self.host = get.text("host") or "127.0.0.1"
            self.port = get.whole("num_port", 0, 0, 65535) or get.whole("port", 80, 1, 65535)
            self.scheme = get.text("scheme", "http").lower() or "http"
            if self.scheme not in ("http", "https"):
                raise ConfigError(f"{get.place}.scheme: must be http or https")
            self.channel = _channels() if self.scheme == "https" else None
            path = get.text("path", "/") or "/"
            self.path = path if path.startswith("/") else "/" + path
            headers = get.table("headers")
            self.headers = {str(key): str(value) for key, value in headers.values.items()} if headers else {}
            for item in (self.path, self.host, *self.headers, *self.headers.values()):
                if "\r" in item or "\n" in item:
                    raise ConfigError(f"{get.place}: a line break in {item!r}")
            self.status_code = get.whole("status_code", 0, 0, 599)


class Definition:
    """One process as it is to be run. ``number`` is its place among the sorted names, from 1 (its tag)."""

    def __init__(self, name: str, table: Table, *, base_name: str, replica: int, number: int) -> None:
        self.name = name
        self.base_name = base_name
        self.replica = replica
        self.number = number
        self.command = table.text("command")
        self.entrypoint = table.words("entrypoint")
        if not self.command.strip() and not self.entrypoint:
            raise ConfigError(f"{table.place}: needs a command or an entrypoint")
        self.working_dir = table.text("working_dir") or None
        self.environment = assignments(table, "environment")
        self.wanted = _dependencies(table)
        self.depends_on: dict[str, str] = {}  # names of processes, replicas counted out, to conditions
        self.description = table.text("description")
        self.namespace = table.text("namespace") or "default"
        self.is_tty = table.flag("is_tty")
        self.disabled = table.flag("disabled") or table.flag("is_disabled")
        self.is_daemon = table.flag("is_daemon")
        self.launch_timeout = table.number("launch_timeout_seconds", 5, 0.001)
        self.log_location = table.text("log_location") or f"{wire.LOGS_DIRECTORY}/{name}.log"
        codes = table.values.get("success_exit_codes") or []
        if not isinstance(codes, list) or not all(isinstance(code, int) for code in codes):
            raise ConfigError(f"{table.place}.success_exit_codes: must be a list of whole numbers")
        self.success_codes = frozenset((0, *codes))
        self._read_availability(table)
        self._read_shutdown(table)
        readiness, liveness = table.table("readiness_probe"), table.table("liveness_probe")
        self.readiness = ProbeSpec(readiness) if readiness is not None else None
        self.liveness = ProbeSpec(liveness) if liveness is not None else None
        self.ready_log_line = table.text("ready_log_line")
        self.ready_pattern = _pattern(self.ready_log_line) if self.ready_log_line else None

    def _read_availability(self, table: Table) -> None:
        part = table.table("availability") or Table({}, table.place)
        self.policy = part.text("restart", "no") or "no"
        if self.policy not in POLICIES:
            raise ConfigError(f"{part.place}.restart: must be one of {', '.join(POLICIES)}")
        self.backoff = part.number("backoff_seconds", 1, 0.001)
        self.max_restarts = part.whole("max_restarts", 0)
        self.exit_on_end = part.flag("exit_on_end")
        self.exit_on_skipped = part.flag("exit_on_skipped")

    def _read_shutdown(self, table: Table) -> None:
        part = table.table("shutdown") or Table({}, table.place)
        self.shutdown_command = part.text("command")
        self.shutdown_timeout = part.number("timeout_seconds", 0) or DEFAULT_SHUTDOWN_SECONDS
        self.shutdown_signal = part.whole("signal", 15, 0, 31) or 15
        self.parent_only = part.flag("parent_only")

    @property
    def declares_readiness(self) -> bool:
        return self.readiness is not None or self.ready_pattern is not None

    def wants_restart(self, *, failed: bool, restarts: int) -> bool:
        """Whether its policy asks for another start after ``restarts`` of them."""
        wanted = self.policy == "always" or (self.policy == "on_failure" and failed)
        return wanted and (not self.max_restarts or restarts < self.max_restarts)

    def argv(self) -> list[str]:
        """The words to execute; the first one may still have to be looked up on PATH. Raises ValueError."""
        if not self.entrypoint:
            return ["/bin/sh", "-c", self.command]
        if not self.command:
            return list(self.entrypoint)
        import shlex

        return [*self.entrypoint, *shlex.split(self.command)]


def load(path: str) -> list[Definition]:
    """The definitions of a rendered configuration, sorted by name. Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            document = codec.loads(file.read().decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot be read: {os.strerror(error.errno or 0)}") from None
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return definitions(document)


def definitions(document: object) -> list[Definition]:
    """The definitions of a configuration document, sorted by name. Raises ConfigError."""
    top = Table(document, "configuration")
    processes = top.table("processes")
    if processes is None or not processes.values:
        raise ConfigError("configuration: no processes")
    shared = assignments(top, "environment")
    found: dict[str, Definition] = {}
    replicas: dict[str, list[str]] = {}
    for number, base_name in enumerate(sorted(processes.values), 1):
        table = Table(processes.values[base_name], f"processes.{base_name}")
        if not base_name or "/" in base_name or "\0" in base_name or base_name in (".", ".."):
            raise ConfigError(f"processes: {base_name!r} cannot be a process's name")
        count = table.whole("replicas", 1, 1, 1000)
        for replica in range(count):
            name = base_name if count == 1 else f"{base_name}-{replica}"
            if name in found:
                raise ConfigError(f"{table.place}: a second process named {name}")
            definition = Definition(name, table, base_name=base_name, replica=replica, number=number)
            definition.environment[:0] = shared
            found[name] = definition
            replicas.setdefault(base_name, []).append(name)
    for definition in found.values():
        for wanted, condition in definition.wanted.items():
            if wanted not in replicas:
                raise ConfigError(f"processes.{definition.base_name}.depends_on: no process named {wanted}")
            definition.depends_on.update(dict.fromkeys(replicas[wanted], condition))
    return [found[name] for name in sorted(found)]


def assignments(table: Table, key: str) -> list[tuple[str, str]]:
    """A list of ``KEY=VALUE`` as pairs, in order."""
    pairs = []
    for item in table.words(key):
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise ConfigError(f"{table.place}.{key}: {item!r} is not KEY=VALUE")
        pairs.append((name, value))
    return pairs


def _dependencies(table: Table) -> dict[str, str]:
    part = table.table("depends_on")
    wanted = {}
    for name, value in part.values.items() if part is not None else ():
        condition = Table(value or {}, f"{table.place}.depends_on.{name}").text("condition") or CONDITIONS[0]
        if condition not in CONDITIONS:
            raise ConfigError(f"{table.place}.depends_on.{name}: unknown condition {condition}")
        wanted[name] = condition
    return wanted


def _channels() -> Callable[[str], tls.Channel]:
    """TLS costs memory, so only who asks for it pays; at load, because an upgrade may replace the files later."""
    from . import tls

    return tls.Channel


def _pattern(text: str) -> re.Pattern[bytes]:
    """A regular expression, or the literal text where it is none."""
    import re

    try:
        return re.compile(os.fsencode(text))
    except (re.error, OverflowError, RecursionError):
        return re.compile(re.escape(os.fsencode(text)))
