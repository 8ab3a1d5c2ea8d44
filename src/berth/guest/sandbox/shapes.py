"""Do input and output fit the manifest's flat maps? (sandboxes.md 2.1, 7.3). Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

    Fields = Optional[Dict[str, str]]

KINDS = {
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list, tuple),
}


class Misfit(Exception):
    """A value that the manifest does not describe. ``str()`` names the field."""


def check_input(fields: Fields, value: Any) -> Dict[str, Any]:
    """``value`` as keyword arguments; optional fields that are null are left out. Raises Misfit."""
    if not isinstance(value, dict):
        raise Misfit("input must be an object")
    if fields is None:
        return value
    for name in value:
        if name not in fields:
            raise Misfit(f'input has an unknown field "{name[:64]}"')
    return _picked(fields, value, "input")


def check_output(fields: Fields, value: Any) -> Any:
    """``value`` as it is sent: unknown fields dropped, optional ones that are None left out. Raises Misfit."""
    if fields is None:
        return value
    if value is None and all(kind.endswith("?") for kind in fields.values()):
        return None
    if not isinstance(value, dict):
        raise Misfit(f"output must be an object with {', '.join(fields) or 'no fields'}, not {type(value).__name__}")
    return _picked(fields, value, "output")


def _picked(fields: Dict[str, str], value: Dict[str, Any], side: str) -> Dict[str, Any]:
    picked = {}
    for name, declared in fields.items():
        kind = declared.rstrip("?")
        given = value.get(name)
        if given is None:
            if declared == kind:
                raise Misfit(f'{side} field "{name}" is missing' if name not in value else _expected(side, name, kind))
            continue
        if not _is(given, kind):
            raise Misfit(_expected(side, name, kind))
        picked[name] = given
    return picked


def _is(value: Any, kind: str) -> bool:
    if kind == "number" and isinstance(value, bool):
        return False
    return isinstance(value, KINDS[kind])


def _expected(side: str, name: str, kind: str) -> str:
    article = "an" if kind[0] in "ao" else "a"
    return f'{side} field "{name}" must be {article} {kind}'
