"""Check the process definitions of berth.yaml against the declared keys, and what only shows in context (3.4)."""

from __future__ import annotations

from berth.spec import keys, references
from berth.spec.complaints import excerpt, kind
from berth.spec.dependencies import check_dependencies
from berth.spec.environment import injected_names
from berth.spec.fields import HIGHEST_PORT, LONGEST_SECONDS
from berth.spec.keys import Key
from berth.spec.names import is_process_name
from berth.spec.paths import repository_path_problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from berth.spec.complaints import Checker, Path
    from berth.spec.config import Config

REFUSED_PREFIXES = ("BERTH_", "GIT_DIR", "GIT_WORK_TREE")
PROBES = ("readiness_probe", "liveness_probe")
LONGEST_NAME = 200  # its log file's name, with a replica's number, must fit into 255 bytes
MOST = 2**31


def check_processes(checker: Checker, value: Any, config: Config) -> dict[str, dict[str, Any]]:
    """Check all definitions and return them as written, without null fields."""
    path = ("processes",)
    found = {}
    for name, body in checker.mapping(value, path).items():
        here = (*path, name)
        if not is_process_name(name) or len(name) > LONGEST_NAME:
            checker.forbid(here, "is no process name: letters, digits, _ . -, not beginning with . or -")
        if isinstance(body, dict):
            found[name] = body
        else:
            checker.complain(here, f"must be a mapping, not {kind(body)}")
    for name, body in found.items():
        _Definition(checker, config, (*path, name)).check(body)
    check_dependencies(checker, path, found)
    _check_replicas(checker, path, found)
    return {name: {key: item for key, item in body.items() if item is not None} for name, body in found.items()}


def _check_replicas(checker: Checker, path: Path, found: Mapping[str, dict[str, Any]]) -> None:
    """The copies of one process must not be called like another one."""
    for name, body in found.items():
        replicas = body.get("replicas")
        if isinstance(replicas, int) and 1 < replicas <= (keys.PROCESS["replicas"].most or 0):
            for clash in sorted({f"{name}-{number}" for number in range(replicas)} & found.keys()):
                checker.complain((*path, name, "replicas"), f"a copy would be called {clash}, as another process is")


class _Definition:
    """The checks of one definition. With process-compose's own supervisor only 3.4's first points are checked."""

    def __init__(self, checker: Checker, config: Config, path: Path) -> None:
        self.checker = checker
        self.path = path
        self.ours = config.runtime.supervisor == "berth"
        self.in_container = config.runtime.in_container
        # Stand-ins: what a reference becomes is not known before the workspace is.
        self.variables = dict.fromkeys(injected_names(config.ports), "/workspace")
        self.variables.update(BERTH_SLUG="slug", BERTH_BRANCH="branch")
        self.variables.update((name, "1") for name in self.variables if "_PORT_" in name)

    def check(self, body: dict[str, Any]) -> None:
        self._keys(self.path, body, keys.PROCESS)
        for name in PROBES:
            self._probe((*self.path, name), body.get(name))
        self._pattern((*self.path, "ready_log_line"), body.get("ready_log_line"))
        if self.ours:
            self._what_runs(body)
            self._dollars(body)

    def _keys(self, path: Path, body: Any, known: Mapping[str, Key]) -> None:
        """Every key of a mapping is declared and, for our supervisor, not refused and of its type."""
        usable = sorted(name for name, key in known.items() if not self._is_refused(key))
        for name, value in self.checker.mapping(body, path).items():
            here = (*path, name)
            key = known.get(name)
            if key is None:
                if not name.startswith("x-"):
                    self.checker.unknown(here, [*usable, "x-*"])
            elif self._is_refused(key):
                self.checker.forbid(here, f"is not supported by berth's supervisor; use {key.text}")
            elif value is not None:
                self._known(here, value, key)

    def _is_refused(self, key: Key) -> bool:
        return self.ours and key.standing == keys.REFUSED

    def _known(self, path: Path, value: Any, key: Key) -> None:
        if key.inner is keys.DEPENDENCY:
            for other, inner in self.checker.mapping(value, path).items():
                self._keys((*path, other), inner, keys.DEPENDENCY)
        elif key.inner is not None:
            self._keys(path, value, key.inner)
        elif self.ours or key.type in (keys.ENVIRONMENT, keys.FILES, keys.PORT, keys.PORT_NUMBER):
            _CHECKS[key.type](self, path, value, key)

    def _string(self, path: Path, value: Any, key: Key) -> None:
        text = self.checker.string(value, path)
        if text is not None and key.type == keys.HTTP_TEXT and ("\r" in text or "\n" in text):
            self.checker.complain(path, "must not contain a line break")

    def _command(self, path: Path, value: Any, key: Key) -> None:
        self.checker.script(value, path)

    def _strings(self, path: Path, value: Any, key: Key) -> None:
        for number, item in enumerate(self.checker.items(value, path)):
            if item is None:
                self.checker.complain((*path, number), "must be a string, not null")
            self.checker.string(item, (*path, number))

    def _files(self, path: Path, value: Any, key: Key) -> None:
        if isinstance(value, list):
            self._strings(path, value, key)
        else:
            self.checker.string(value, path)
        if not self.in_container:
            return
        # The host reads them, and what runs inside may have written this: nothing beyond the workspace.
        for name in value if isinstance(value, list) else [value]:
            inside = references.replaced(name, self.variables) if isinstance(name, str) else ""
            if inside.removeprefix("/workspace/").startswith("/") or ".." in inside.split("/"):
                self.checker.complain(path, "must lie inside the workspace")

    def _integer(self, path: Path, value: Any, key: Key) -> None:
        least, most = int(key.least or 0), int(key.most) if key.most is not None else MOST
        self.checker.integer(value, path, least=least, most=most)

    def _number(self, path: Path, value: Any, key: Key) -> None:
        self.checker.number(value, path, least=key.least or 0, most=LONGEST_SECONDS)

    def _boolean(self, path: Path, value: Any, key: Key) -> None:
        self.checker.boolean(value, path)

    def _choice(self, path: Path, value: Any, key: Key) -> None:
        self.checker.choice(value, path, key.words)

    def _codes(self, path: Path, value: Any, key: Key) -> None:
        for number, item in enumerate(self.checker.items(value, path)):
            if item is None:
                self.checker.complain((*path, number), "must be a whole number, not null")
            self.checker.integer(item, (*path, number), least=0, most=255)

    def _headers(self, path: Path, value: Any, key: Key) -> None:
        for name, item in self.checker.mapping(value, path).items():
            here = (*path, name)
            if isinstance(item, dict | list) or item is None:
                self.checker.complain(here, f"must be a single value, not {kind(item)}")
            elif any(char in name + str(item) for char in "\r\n\0"):
                self.checker.complain(here, "must not contain a line break or NUL")

    def _port_number(self, path: Path, value: Any, key: Key) -> None:
        self.checker.integer(value, path, least=1, most=HIGHEST_PORT)

    def _port(self, path: Path, value: Any, key: Key) -> None:
        if not isinstance(value, str):
            self._port_number(path, value, key)
            return
        foreign = [name for name in references.names(value) if name.startswith("BERTH_HOST_PORT_")]
        if foreign and self.in_container and self.ours:
            right = foreign[0].replace("BERTH_HOST_PORT_", "BERTH_PORT_", 1)
            self.checker.complain(path, f"{foreign[0]} is the host's port; a probe in the container uses {right}")
            return
        text = references.replaced(value, self.variables)
        if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= HIGHEST_PORT):
            known = ", ".join(name for name in self.variables if name.startswith("BERTH_PORT_")) or "none"
            wanted = f"must be a port from 1 to {HIGHEST_PORT} or a reference to one"
            self.checker.complain(path, f"{wanted}, not {excerpt(value)!r}; known: {known}")

    def _path(self, path: Path, value: Any, key: Key) -> None:
        self.checker.path(value, path, lambda text: repository_path_problem(references.replaced(text, self.variables)))

    def _environment(self, path: Path, value: Any, key: Key) -> None:
        if not isinstance(value, list):
            self.checker.complain(path, "must be a list")
            return
        for number, item in enumerate(value):
            name, equals, _ = item.partition("=") if isinstance(item, str) else ("", "", "")
            if not name or not equals or "\0" in item:
                self.checker.complain((*path, number), "must be a string KEY=VALUE")
            elif name.startswith(REFUSED_PREFIXES):
                self.checker.complain((*path, number), f"{excerpt(name)} is berth's or git's own and cannot be set")

    def _probe(self, path: Path, value: Any) -> None:
        """What a probe must have; the types of what it has are checked with the keys."""
        if not isinstance(value, dict):
            return
        ways = [name for name in ("exec", "http_get") if value.get(name) is not None]
        if len(ways) != 1:
            self.checker.complain(path, "needs exactly one of exec and http_get")
            return
        way, body = ways[0], value[ways[0]]
        if not isinstance(body, dict) or not self.ours:
            return
        if way == "exec" and _is_blank(body.get("command")):
            self.checker.complain((*path, way), "needs a command")
        if way == "http_get" and body.get("port") is None and body.get("num_port") is None:
            self.checker.complain((*path, way), "needs a port")

    def _what_runs(self, body: Mapping[str, Any]) -> None:
        command, entrypoint = body.get("command"), body.get("entrypoint")
        if entrypoint is None:
            if _is_blank(command):
                self.checker.complain(self.path, "needs a command or an entrypoint")
        elif entrypoint == []:
            self.checker.complain((*self.path, "entrypoint"), "must not be empty")
        elif isinstance(command, str):
            self._arguments((*self.path, "command"), command)

    def _arguments(self, path: Path, command: str) -> None:
        """With an entrypoint the command is split like a shell would, but no shell runs."""
        import shlex

        try:
            words = shlex.split(command)
        except ValueError as error:
            self.checker.complain(path, f"cannot be split into arguments: {error}")
            return
        if any("$" in word for word in words):
            self.checker.note(path, "follows an entrypoint, so no shell expands its $")

    def _pattern(self, path: Path, value: Any) -> None:
        if not isinstance(value, str):
            return
        import re
        import warnings

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                re.compile(value)
        except (re.error, RecursionError, OverflowError) as error:
            self.checker.note(path, f"is no regular expression ({error}), so it is taken literally")

    def _dollars(self, body: Mapping[str, Any]) -> None:
        """``$$`` reaches the shell as written (its pid); process-compose alone would have made it ``$``."""
        places: list[Path] = [("command",), ("shutdown", "command")]
        places += [(probe, "exec", "command") for probe in PROBES]
        for place in places:
            text: Any = body
            for step in place:
                text = text.get(step) if isinstance(text, dict) else None
            if isinstance(text, str) and "$$" in text:
                self.checker.note((*self.path, *place), "$$ reaches the shell as it is written, not as $")


def _is_blank(command: Any) -> bool:
    return command is None or (isinstance(command, str) and not command.strip())


_CHECKS = {
    keys.STRING: _Definition._string,
    keys.HTTP_TEXT: _Definition._string,
    keys.COMMAND: _Definition._command,
    keys.STRINGS: _Definition._strings,
    keys.FILES: _Definition._files,
    keys.INTEGER: _Definition._integer,
    keys.SECONDS: _Definition._number,
    keys.BOOLEAN: _Definition._boolean,
    keys.HEADERS: _Definition._headers,
    keys.CODES: _Definition._codes,
    keys.ENVIRONMENT: _Definition._environment,
    keys.CHOICE: _Definition._choice,
    keys.PORT: _Definition._port,
    keys.PORT_NUMBER: _Definition._port_number,
    keys.PATH: _Definition._path,
}
