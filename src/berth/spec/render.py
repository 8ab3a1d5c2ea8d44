"""Render ``.berth/pc.yaml``: the definitions with references replaced and environments complete (workspaces.md 8.3).

The result is JSON, which is YAML, and a valid process-compose file. The same input gives the same bytes, so that a
running supervisor's definition can be compared with the present one.
"""

from __future__ import annotations

from berth.errors import BerthError
from berth.spec.references import replaced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from berth.spec.config import Config

VERSION = "0.5"
LOGS = ".berth/logs"
# A process's env_file may be the one that berth writes (7.7); what berth injects is newer than what stands there.
OWN_PREFIXES = ("BERTH_", "GIT_DIR", "GIT_WORK_TREE")
# YAML readers take these for line breaks, refuse them or drop them, even between quotes; JSON leaves them as they are.
_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)}


class Rendered:
    """``text`` is the file's content (UTF-8), ``timeout_seconds`` the largest T."""

    __slots__ = ("text", "timeout_seconds")

    def __init__(self, text: bytes, timeout_seconds: float) -> None:
        self.text = text
        self.timeout_seconds = timeout_seconds


def render(
    config: Config, *, variables: Mapping[str, str], working_dir: str, read_file: Callable[[str], str]
) -> Rendered:
    """Render ``config`` for a runtime's view: ``variables`` are the injected ones and ``env`` as seen there.

    ``read_file`` gives the text of a process's env_file: an absolute path, or one relative to the workspace's root.
    Raises config_invalid for an env_file that cannot be understood, and whatever ``read_file`` raises.
    """
    import json

    view = _View(variables, working_dir, read_file)
    document: dict[str, Any] = {"version": VERSION}
    if config.runtime.supervisor == "process-compose":
        document["disable_env_expansion"] = True
    document["processes"] = {name: _process(name, config, view) for name in sorted(config.processes)}
    text = json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True).translate(_ESCAPED)
    return Rendered(text.encode(), config.longest_timeout_seconds)


class _View:
    """How the runtime sees the workspace."""

    def __init__(self, variables: Mapping[str, str], working_dir: str, read_file: Callable[[str], str]) -> None:
        self.variables = variables
        self.working_dir = working_dir
        self.read_file = read_file
        self.known = {name: value for name, value in variables.items() if name.startswith("BERTH_")}


def _process(name: str, config: Config, view: _View) -> dict[str, Any]:
    body: dict[str, Any] = _substituted(config.processes[name], view.known)
    body.setdefault("working_dir", view.working_dir)
    body["environment"] = _environment(body, view)
    body.pop("env_file", None)
    body["shutdown"] = {**(body.get("shutdown") or {}), "timeout_seconds": _number(config.timeout_of(name))}
    if config.runtime.supervisor == "process-compose":
        body.setdefault("log_location", f"{LOGS}/{name}.log")
        if "vars" not in body:  # its templates are asked for by nothing else
            body.setdefault("is_template_disabled", True)
    return body


def _number(seconds: float) -> float:
    return int(seconds) if seconds == int(seconds) else seconds


def _environment(body: Mapping[str, Any], view: _View) -> list[str]:
    """Injected variables, ``env`` and the process's env_file, sorted; then its ``environment``, whose entries win."""
    merged = dict(view.variables)
    files = body.get("env_file") or []
    for name in [files] if isinstance(files, str) else files:
        # In a container the host reads, which knows the workspace by another path.
        inside = name.removeprefix(f"{view.working_dir}/")
        merged.update(read_assignments(view.read_file(inside), name=inside))
    own: list[str] = body.get("environment") or []
    set_there = {entry.partition("=")[0] for entry in own}
    return [*(f"{key}={merged[key]}" for key in sorted(merged) if key not in set_there), *own]


def read_assignments(text: str, *, name: str) -> dict[str, str]:
    """The variables of an env file as python-dotenv reads it, without interpolation and without berth's own ones.

    Raises config_invalid with the line that is no assignment; ``name`` is the file's, for the message.
    """
    from io import StringIO

    from dotenv.parser import parse_stream

    found = {}
    for binding in parse_stream(StringIO(text)):
        if binding.error or "\0" in (binding.key or "") + (binding.value or ""):
            raise BerthError(
                f"env_file {name}:{binding.original.line}: not KEY=VALUE",
                code="config_invalid",
                hint="correct the line",
            )
        if binding.key and binding.value is not None and not binding.key.startswith(OWN_PREFIXES):
            found[binding.key] = binding.value
    return found


def _substituted(value: Any, known: Mapping[str, str], key: str = "") -> Any:
    """References replaced once in every string but shell strings; a ``port`` of digits becomes a number (3.5)."""
    if isinstance(value, dict):
        return {name: _substituted(item, known, name) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_substituted(item, known) for item in value]
    if key == "command":
        return _as_command(value)
    if isinstance(value, str):
        text = replaced(value, known)
        return int(text) if key == "port" and text.isascii() and text.isdigit() and len(text) <= 5 else text
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)  # infinities and not-a-number are no JSON
    return value


def _as_command(value: Any) -> Any:
    """``command: true`` is YAML's boolean and means the program."""
    return str(value).lower() if isinstance(value, bool) else value
