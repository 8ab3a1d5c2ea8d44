"""JSON in both directions without the ``json`` package, whose imports cost two interpreter starts.

The C scanner is the one ``json`` uses; where it cannot be had, ``json`` itself is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    def encode_basestring_ascii(text: str) -> str: ...
    def make_scanner(context: object) -> Callable[[str, int], tuple[object, int]]: ...
else:
    try:
        from _json import encode_basestring_ascii, make_scanner
    except ImportError:  # another implementation than CPython
        from json.encoder import encode_basestring_ascii
        from json.scanner import make_scanner

_BLANKS = " \t\r\n"


class _Context:
    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}


def loads(text: str) -> object:
    """The value of a JSON document. Raises ValueError."""
    try:
        value, end = make_scanner(_Context)(text, len(text) - len(text.lstrip(_BLANKS)))
        if not text[end:].strip(_BLANKS):
            return value
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (StopIteration, ValueError, SystemError):  # SystemError: before 3.12 it looks for a json that is not loaded
        pass
    import json  # a bad document is worth the price of a good message

    return json.loads(text)


def dumps(value: object) -> str:
    """``value`` as JSON, ASCII only: mappings with string keys, lists, tuples, strings, numbers, booleans, None."""
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{dumps(str(key))}:{dumps(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(dumps(item) for item in value) + "]"
    raise TypeError(f"cannot be JSON: {type(value).__name__}")
