"""One line of RPC to a request, one answer to a line (sandboxes.md 7.3). Pure; strict where JSON readers differ.

Cost is bounded by the length of the line: depth is found by replacing innermost pairs, never by recursion.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple, Union

    Id = Union[str, int, None]

MAX_LINE = 8 * 1024 * 1024
MAX_NESTING = 100
MAX_DIGITS = 4300  # what Python itself converts; longer ones cost quadratic time
MAX_HOPS = 16
KEYS = frozenset(("id", "export", "input", "hops"))
_STRING = re.compile(rb'"[^"]*"')
_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ROUND = bytes.maketrans(b"{}", b"[]")


class BadRequest(Exception):
    """A line that is no request. ``id`` is echoed when it was readable, else None."""

    def __init__(self, message: str, id: Id = None) -> None:  # noqa: A002  # the protocol's word
        super().__init__(message)
        self.id = id


class Request:
    """One call: ``id`` as it came, ``export``, ``input`` (any JSON value), ``hops`` so far."""

    __slots__ = ("export", "hops", "id", "input")

    def __init__(self, id: Union[str, int], export: str, input: Any, hops: int) -> None:  # noqa: A002
        self.id = id
        self.export = export
        self.input = input
        self.hops = hops


def parse(line: bytes) -> Request:
    """The request in ``line`` (without its line feed); raises BadRequest."""
    value = decode(line)
    if type(value) is not dict:
        raise BadRequest("a request is a JSON object")
    number = value.get("id")
    if not isinstance(number, (str, int)) or isinstance(number, bool):
        raise BadRequest("id must be a string or an integer" if "id" in value else "id is missing")
    unknown = sorted(set(value) - KEYS)
    if unknown:
        raise BadRequest(f"unknown key {unknown[0][:64]!a}", number)
    export = value.get("export")
    if type(export) is not str:
        raise BadRequest("export must be a string" if "export" in value else "export is missing", number)
    hops = value.get("hops", 0)
    if type(hops) is not int or hops < 0:
        raise BadRequest("hops must be an integer of at least 0", number)
    return Request(number, export, value.get("input", {}), hops)


def decode(line: bytes) -> Any:
    """The JSON value of a line; raises BadRequest for everything sandboxes.md 7.3 refuses."""
    if _too_deep(line):
        raise BadRequest(f"nested deeper than {MAX_NESTING}")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise BadRequest("not UTF-8") from None
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"not JSON: {error}") from None
    if _SURROGATE.search(line):
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise BadRequest("a lone surrogate in a string") from None
    return value


def _too_deep(line: bytes) -> bool:
    if line.count(b"[") + line.count(b"{") <= MAX_NESTING:
        return False
    plain = line.replace(b"\\\\", b"").replace(b'\\"', b"")  # then a string ends at the next quote
    rest = _STRING.sub(b"", plain).translate(_ROUND, _BRACKETS)
    for _level in range(MAX_NESTING):
        shorter = rest.replace(b"[]", b"")
        if len(shorter) == len(rest):
            break
        rest = shorter
    return bool(rest)


def _pairs(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice")
    return value


def _constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _float(word: str) -> float:
    value = float(word)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return value


def _int(word: str) -> int:
    if len(word) > MAX_DIGITS:
        raise ValueError("a number has too many digits")
    return int(word)


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float, parse_int=_int)


def request_line(id: Union[str, int], export: str, input: Any, *, hops: int = 0) -> bytes:  # noqa: A002
    """A call as a line. ValueError and TypeError when ``input`` is no JSON value."""
    return encode({"id": id, "export": export, "input": input, **({"hops": hops} if hops else {})})


def encode(value: Any) -> bytes:
    """A JSON value as one line of UTF-8. ValueError (lone surrogates, NaN, too deep) and TypeError otherwise."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8") + b"\n"
    except RecursionError:
        raise ValueError("nested too deeply") from None


def error_line(id: Id, code: str, message: str, *, extra: Optional[Dict[str, str]] = None) -> bytes:  # noqa: A002
    """An error as a line; what no JSON string can hold is escaped."""
    readable = {key: _readable(text) for key, text in {"message": message, **(extra or {})}.items()}
    return encode({"id": id, "error": {"code": code, **readable}})


def _readable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
