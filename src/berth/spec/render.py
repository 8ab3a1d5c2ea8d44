"""Render ``.berth/pc.yaml``: the definitions with references replaced and environments complete (workspaces.md 8.3).

The result is JSON, which is YAML, and a valid process-compose file. The same input gives the same bytes, so that a
running supervisor's definition can be compared with the present one.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from berth.spec.config import Config

VERSION = "0.5"
_SHELL_STRINGS = frozenset(("command",))
_PORT_KEYS = frozenset(("port", "num_port"))
_CARRIED_AS_WRITTEN = frozenset(("environment", "env_file", "description", "namespace"))
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")


class Rendered:
    """``text`` is the file's bytes, ``timeout_seconds`` the largest T."""

    __slots__ = ("text", "timeout_seconds")

    def __init__(self, text: bytes, timeout_seconds: float) -> None:
        self.text = text
        self.timeout_seconds = timeout_seconds


def render(
    config: Config, *, variables: Mapping[str, str], working_dir: str, read_file: Callable[[str], str]
) -> Rendered:
    """Render ``config`` for a runtime's view: ``variables`` are the injected ones and ``env`` as seen there.

    ``read_file`` gives the text of a process's env_file by its path as written.
    """
    import json

    processes = {}
    longest = 0.0
    known = {name: value for name, value in variables.items() if name.startswith("BERTH_")}
    for name in sorted(config.processes):
        body = _substituted(config.processes[name], known)
        body.setdefault("working_dir", working_dir)
        body["environment"] = _environment(body, variables, read_file, known)
        body.pop("env_file", None)
        shutdown = body["shutdown"] = dict(body.get("shutdown") or {})
        seconds = shutdown.get("timeout_seconds") or config.shutdown_timeout_seconds
        shutdown["timeout_seconds"] = seconds
        longest = max(longest, float(seconds))
        processes[name] = body
    document = {"version": VERSION, "processes": processes}
    text = json.dumps(document, indent=1, ensure_ascii=True).encode()
    return Rendered(text, longest)


def _environment(
    body: Mapping[str, Any], variables: Mapping[str, str], read_file: Callable[[str], str], known: Mapping[str, str]
) -> list[str]:
    """Injected variables and ``env``, then the process's env_file, then its ``environment``; sorted, later wins."""
    merged = dict(variables)
    files = body.get("env_file") or []
    for name in [files] if isinstance(files, str) else files:
        merged.update(_parsed(read_file(_replaced(name, known))))
    for entry in body.get("environment") or []:
        key, _, value = entry.partition("=")
        merged[key] = _replaced(value, known)
    return [f"{key}={merged[key]}" for key in sorted(merged)]


def _parsed(text: str) -> dict[str, str]:
    from io import StringIO

    from dotenv import dotenv_values

    return {key: value or "" for key, value in dotenv_values(stream=StringIO(text), interpolate=False).items()}


def _substituted(value: Any, known: Mapping[str, str], key: str = "") -> Any:
    """References replaced once in every string but shell strings; a port that is all digits becomes a number (3.5)."""
    if isinstance(value, dict):
        return {
            name: item if name in _CARRIED_AS_WRITTEN else _substituted(item, known, name)
            for name, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_substituted(item, known, "") for item in value]
    if isinstance(value, str) and key not in _SHELL_STRINGS:
        replaced = _replaced(value, known)
        return int(replaced) if key in _PORT_KEYS and replaced.isascii() and replaced.isdigit() else replaced
    return value


def _replaced(text: str, known: Mapping[str, str]) -> str:
    """``${BERTH_X}`` and ``$BERTH_X`` of known names replaced, once; everything else is literal."""
    first, *parts = text.split("$")
    for part in parts:
        if part.startswith("{BERTH_"):
            name, brace, rest = part[1:].partition("}")
            if brace and name in known:
                first += known[name] + rest
                continue
        elif part.startswith("BERTH_"):
            end = next((at for at, char in enumerate(part) if char not in _NAME), len(part))
            if part[:end] in known:
                first += known[part[:end]] + part[end:]
                continue
        first += "$" + part
    return first
