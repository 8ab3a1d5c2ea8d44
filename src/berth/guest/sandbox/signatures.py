"""Do a handler's parameters say what the manifest says? And from a fitting input to its arguments (sandboxes.md 12.1).

Both lists, the declared and the registered one, must be identical: a difference ends the app with both in the message.
"""

from __future__ import annotations

import inspect
import typing

from berth.guest.sandbox.shapes import Misfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Dict, List, Optional

    from berth.guest.sandbox.declared import Declared

WORDS = {str: "string", int: "number", float: "number", bool: "boolean", dict: "object", list: "array"}


class Mismatch(Exception):
    """Manifest and code disagree; ``str()`` has both sides."""


class Parameter:
    """One parameter of a handler: its manifest spelling, the Python type, and whether it has a default."""

    __slots__ = ("has_default", "kind", "spelling")

    def __init__(self, spelling: str, kind: Any, *, has_default: bool) -> None:
        self.spelling = spelling
        self.kind = kind
        self.has_default = has_default


def compare(declared: Declared, exports: List[Dict[str, Any]]) -> None:
    """Raise Mismatch unless ``declared`` (code) equals ``exports`` (manifest), names and inputs."""
    if declared.twice:
        raise Mismatch(f"registered twice: {', '.join(sorted(set(declared.twice)))}")
    manifest = sorted(export["name"] for export in exports)
    code = sorted(declared.exports)
    if manifest != code:
        raise Mismatch(f"exports differ: the manifest declares {_list(manifest)}, the code registers {_list(code)}")
    problems = []
    for export in exports:
        if export["input"] is None:
            continue
        written = {name: p.spelling for name, p in parameters(declared.exports[export["name"]]).items()}
        if written != export["input"]:
            problems.append(
                f"{export['name']}: the manifest declares {_map(export['input'])}, the code takes {_map(written)}"
            )
    if problems:
        raise Mismatch("inputs differ: " + "; ".join(problems))


def parameters(function: Callable[..., Any]) -> Dict[str, Parameter]:
    """The parameters of a handler by name, in order. Raises Mismatch for one that no manifest could describe."""
    name = function.__name__
    try:
        hints = typing.get_type_hints(function)
    except Exception as error:
        raise Mismatch(f"{name}: its annotations cannot be read: {error}") from error
    found = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise Mismatch(f"{name}: parameter {parameter} cannot be called by keyword")
        if parameter.name not in hints:
            raise Mismatch(f"{name}: parameter {parameter.name} has no annotation")
        kind, optional = _unwrapped(hints[parameter.name])
        if kind not in WORDS:
            raise Mismatch(f"{name}: parameter {parameter.name} must be one of {', '.join(k.__name__ for k in WORDS)}")
        has_default = parameter.default is not parameter.empty
        spelling = WORDS[kind] + ("?" if optional or has_default else "")
        found[parameter.name] = Parameter(spelling, kind, has_default=has_default)
    return found


def _unwrapped(hint: Any) -> "tuple[Any, bool]":
    """(type, optional) of an annotation: ``Optional[X]``, ``X | None``, ``List[X]`` and the like taken off."""
    arguments = typing.get_args(hint)
    if type(None) in arguments:
        rest = [one for one in arguments if one is not type(None)]
        return (_plain(rest[0]), True) if len(rest) == 1 else (None, True)
    return _plain(hint), False


def _plain(hint: Any) -> Any:
    return typing.get_origin(hint) or hint


def binder(
    function: Callable[..., Any], fields: Optional[Dict[str, str]]
) -> Callable[[Dict[str, Any]], Dict[str, Any]]:
    """A function from a fitting input to keyword arguments; raises Misfit for a number that is no integer."""
    if fields is None:
        return dict
    known = parameters(function)

    def bind(values: Dict[str, Any]) -> Dict[str, Any]:
        arguments = {name: _converted(name, known[name].kind, value) for name, value in values.items()}
        for name, parameter in known.items():
            if name not in arguments and not parameter.has_default:
                arguments[name] = None  # Optional without a default: left out means None
        return arguments

    return bind


def _converted(name: str, kind: Any, value: Any) -> Any:
    if kind is int and type(value) is float:
        if not value.is_integer():
            raise Misfit(f'input field "{name}" must be an integral number')
        return int(value)
    if kind is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Misfit(f'input field "{name}" is too large') from None
    return value


def _list(names: List[str]) -> str:
    return f"[{', '.join(names)}]"


def _map(fields: Dict[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {kind}" for name, kind in fields.items()) + "}"
