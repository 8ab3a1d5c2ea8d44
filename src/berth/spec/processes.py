"""Check the process definitions of berth.yaml against the declared keys, and what only shows in their context (3.4)."""

from __future__ import annotations

from berth.spec import keys
from berth.spec.keys import Key
from berth.spec.names import is_process_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from berth.spec.complaints import Checker
    from berth.spec.config import Config

    Path = tuple[str | int, ...]

_REFUSED_KEYS = ("BERTH_", "GIT_DIR", "GIT_WORK_TREE")
PROBES = ("readiness_probe", "liveness_probe")


def check_processes(checker: Checker, value: Any, config: Config) -> dict[str, dict[str, Any]]:
    """Check all definitions and return them as written, without null fields."""
    path = ("processes",)
    found = {}
    for name, body in checker.mapping(value, path).items():
        here = (*path, name)
        if not is_process_name(name):
            checker.complain(
                here, f"{name!r} is no process name: letters, digits, _ . -, not starting with . or -", of_key=True
            )
        if not isinstance(body, dict):
            checker.complain(here, "must be a mapping")
            continue
        found[name] = body
    ours = config.runtime.supervisor == "berth"
    for name, body in found.items():
        _definition(checker, (*path, name), body, config, strict=ours)
    _dependencies(checker, path, found)
    return {name: {key: item for key, item in body.items() if item is not None} for name, body in found.items()}


def _definition(checker: Checker, path: Path, body: dict[str, Any], config: Config, *, strict: bool) -> None:
    _environment(checker, (*path, "environment"), body.get("environment"))
    for key in PROBES:
        _probe(checker, (*path, key), body.get(key), config)
    if not strict:
        return
    _keys(checker, path, body, keys.PROCESS)
    if body.get("command") is None and body.get("entrypoint") is None:
        checker.complain(path, "needs a command or an entrypoint", of_key=True)
    if body.get("entrypoint") == []:
        checker.complain((*path, "entrypoint"), "must not be empty")
    _pattern(checker, (*path, "ready_log_line"), body.get("ready_log_line"))
    _dollars(checker, path, body)


def _keys(checker: Checker, path: Path, body: Mapping[str, Any], known: Mapping[str, Key]) -> None:
    """Every key of a mapping is declared, not refused, and of its type."""
    usable = sorted(name for name, key in known.items() if key.standing != keys.REFUSED)
    for name, value in body.items():
        here = (*path, name)
        key = known.get(name)
        if key is None:
            if not name.startswith("x-"):
                checker.complain(here, f'unknown key "{name}"; allowed: {", ".join(usable)}', of_key=True)
        elif key.standing == keys.REFUSED:
            checker.complain(here, f'"{name}" is not supported; use {key.text}', of_key=True)
        elif value is not None:
            _value(checker, here, value, key)


def _value(checker: Checker, path: Path, value: Any, key: Key) -> None:
    check = _CHECKS[key.type]
    check(checker, path, value, key)


def _mapping(checker: Checker, path: Path, value: Any, key: Key) -> None:
    body = checker.mapping(value, path)
    if key.inner is keys.DEPENDENCY:
        for name, inner in body.items():
            _keys(checker, (*path, name), checker.mapping(inner, (*path, name)), keys.DEPENDENCY)
    elif key.inner is not None:
        _keys(checker, path, body, key.inner)
    else:
        for name, item in body.items():
            if isinstance(item, dict | list) or item is None:
                checker.complain((*path, name), "must be a single value")


def _string(checker: Checker, path: Path, value: Any, key: Key) -> None:
    text = checker.string(value, path)
    if text is not None and "\0" in text:
        checker.complain(path, "must not contain NUL")


def _command(checker: Checker, path: Path, value: Any, key: Key) -> None:
    # ``command: true`` names a program, though YAML reads a boolean; ``spec.render`` writes it as text.
    if not isinstance(value, bool):
        _string(checker, path, value, key)


def _strings(checker: Checker, path: Path, value: Any, key: Key) -> None:
    for number, item in enumerate(checker.items(value, path)):
        _string(checker, (*path, number), item, key)
        if item is None:
            checker.complain((*path, number), "must be a string, not null")


def _string_or_strings(checker: Checker, path: Path, value: Any, key: Key) -> None:
    if isinstance(value, list):
        _strings(checker, path, value, key)
    else:
        _string(checker, path, value, key)


def _integer(checker: Checker, path: Path, value: Any, key: Key) -> None:
    least = int(key.least) if key.least is not None else -(2**31)
    checker.integer(value, path, least=least, most=int(key.most) if key.most is not None else None)


def _number(checker: Checker, path: Path, value: Any, key: Key) -> None:
    checker.number(value, path, least=key.least if key.least is not None else 0)


def _boolean(checker: Checker, path: Path, value: Any, key: Key) -> None:
    checker.boolean(value, path)


def _choice(checker: Checker, path: Path, value: Any, key: Key) -> None:
    checker.choice(value, path, key.words)


def _codes(checker: Checker, path: Path, value: Any, key: Key) -> None:
    for number, item in enumerate(checker.items(value, path)):
        if checker.integer(item, (*path, number), least=0, most=255) is None and item is None:
            checker.complain((*path, number), "must be a whole number, not null")


def _port(checker: Checker, path: Path, value: Any, key: Key) -> None:
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("$") or not text.isascii() or not text.isdigit():
            if not text.startswith("$"):
                checker.complain(path, f"must be a port or a reference to BERTH_PORT_<NAME>, not {value!r}")
            return
        value = int(text)
    checker.integer(value, path, least=1, most=65535)


def _path(checker: Checker, path: Path, value: Any, key: Key) -> None:
    checker.relative_path(value, path)


def _anything(checker: Checker, path: Path, value: Any, key: Key) -> None:
    """Nothing to check."""


_CHECKS = {
    keys.STRING: _string,
    keys.COMMAND: _command,
    keys.STRINGS: _strings,
    keys.STRING_OR_STRINGS: _string_or_strings,
    keys.INTEGER: _integer,
    keys.SECONDS: _number,
    keys.BOOLEAN: _boolean,
    keys.MAPPING: _mapping,
    keys.ANY: _anything,
    keys.CODES: _codes,
    keys.ENVIRONMENT: _anything,  # checked for both supervisors by _environment
    keys.CHOICE: _choice,
    keys.PORT: _port,
    keys.PATH: _path,
}


def _environment(checker: Checker, path: Path, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, list):
        checker.complain(path, "must be a list")
        return
    for number, item in enumerate(value):
        here = (*path, number)
        text = item if isinstance(item, str) else None
        name, equals, _ = (text or "").partition("=")
        if text is None or not equals or not name or "\0" in text:
            checker.complain(here, "must be a string KEY=VALUE")
        elif name.upper().startswith(_REFUSED_KEYS):
            checker.complain(here, f"{name} is berth's or git's own and cannot be set")


def _probe(checker: Checker, path: Path, value: Any, config: Config) -> None:
    if not isinstance(value, dict):
        if value is not None and config.runtime.supervisor != "berth":
            checker.complain(path, "must be a mapping")
        return
    ways = [name for name in ("exec", "http_get") if value.get(name) is not None]
    if len(ways) != 1:
        checker.complain(path, "needs exactly one of exec and http_get", of_key=not ways)
        return
    body = value[ways[0]]
    if not isinstance(body, dict):
        return
    if ways[0] == "exec":
        if body.get("command") is None:
            checker.complain((*path, "exec"), "needs a command")
        return
    ports = [name for name in ("port", "num_port") if body.get(name) is not None]
    if not ports:
        checker.complain((*path, "http_get"), "needs a port")
    for name in ports:
        text = str(body[name])
        if config.runtime.backend == "container" and "BERTH_HOST_PORT_" in text:
            used = text.strip("${}")
            instead = used.replace("BERTH_HOST_PORT_", "BERTH_PORT_")
            checker.complain((*path, "http_get", name), f"{used} is the host's port; a probe inside uses {instead}")


def _pattern(checker: Checker, path: Path, value: Any) -> None:
    if not isinstance(value, str):
        return
    import re

    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError):
        checker.notes.append(
            f"berth.yaml: {'.'.join(map(str, path))}: no regular expression, so taken literally: {value}"
        )


def _dollars(checker: Checker, path: Path, body: Mapping[str, Any]) -> None:
    """``$$`` reaches the shell as written; process-compose alone would have made it ``$``."""
    places = [("command", body.get("command"))]
    for key in (*PROBES, "shutdown"):
        inner = body.get(key)
        inner = inner.get("exec") if isinstance(inner, dict) and key in PROBES else inner
        if isinstance(inner, dict):
            places.append((f"{key}.command", inner.get("command")))
    for key, text in places:
        if isinstance(text, str) and "$$" in text:
            name = ".".join(map(str, (*path, key)))
            checker.notes.append(f"berth.yaml: {name}: $$ reaches the shell as written (its pid), not as $")


def _dependencies(checker: Checker, path: Path, found: Mapping[str, dict[str, Any]]) -> None:
    graph: dict[str, list[str]] = {}
    for name, body in found.items():
        wanted = body.get("depends_on")
        graph[name] = []
        if not isinstance(wanted, dict):
            continue
        for other, inner in wanted.items():
            here = (*path, name, "depends_on", other)
            if other not in found:
                known = ", ".join(sorted(found))
                checker.complain(here, f"{other!r} is no declared process; declared: {known}", of_key=True)
                continue
            graph[name].append(other)
            condition = inner.get("condition") if isinstance(inner, dict) else None
            if (
                condition == "process_healthy"
                and not isinstance(found[other].get("readiness_probe"), dict)
                and not isinstance(found[other].get("liveness_probe"), dict)
            ):
                checker.complain(here, f"process_healthy needs a readiness_probe on {other!r}")
            if condition == "process_log_ready" and found[other].get("ready_log_line") is None:
                checker.complain(here, f"process_log_ready needs a ready_log_line on {other!r}")
    cycle = _cycle(graph)
    if cycle:
        checker.complain((*path, cycle[0], "depends_on"), f"depends on itself: {' → '.join(cycle)}")


def _cycle(graph: Mapping[str, list[str]]) -> list[str] | None:
    """One cycle, its first name again at the end; None when there is none."""
    done: set[str] = set()
    for start in graph:
        trail: list[str] = []
        stack = [(start, iter(graph[start]))] if start not in done else []
        trail = [start] if stack else []
        while stack:
            name, others = stack[-1]
            other = next(others, None)
            if other is None:
                stack.pop()
                trail.pop()
                done.add(name)
            elif other in trail:
                return [*trail[trail.index(other) :], other]
            elif other not in done:
                stack.append((other, iter(graph[other])))
                trail.append(other)
    return None
