"""What a YAML scalar means in the 1.2 core schema: ``no`` is text, ``0o17`` is fifteen (workspaces.md 3.2)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

Scalar = str | int | float | bool | None

NULLS = frozenset(("", "~", "null", "Null", "NULL"))
BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
INFINITIES = frozenset((".inf", ".Inf", ".INF"))
NOT_A_NUMBER = frozenset((".nan", ".NaN", ".NAN"))
LONGEST_NUMBER = 400  # characters; longer ones would make the conversion itself expensive
_DIGITS = frozenset("0123456789")


class Unrepresentable(ValueError):
    """A tag asks for a type which the text is not of; the message is the complaint."""


def resolve(text: str, tag: str | None) -> Scalar:
    """The value of a scalar: by its ``tag`` (null, bool, int, float, str), or by its text where that is None."""
    if tag == "str":
        return text
    if tag is not None:
        return _tagged(text, tag)
    if text in NULLS:
        return None
    if text in BOOLEANS:
        return BOOLEANS[text]
    if text[0] not in "+-.0123456789" or len(text) > LONGEST_NUMBER:
        return text
    whole = _whole(text)
    if whole is not None:
        return whole
    number = _number(text)
    return text if number is None else number


def _tagged(text: str, tag: str) -> Scalar:
    readers: dict[str, Callable[[str], Scalar]] = {"bool": BOOLEANS.get, "int": _whole, "float": _number}
    if tag == "null" and text in NULLS:
        return None
    value = readers[tag](text) if tag in readers and len(text) <= LONGEST_NUMBER else None
    if value is None:
        raise Unrepresentable(f"tagged !!{tag}, but it is none")
    return value


def _whole(text: str) -> int | None:
    """``[-+]?[0-9]+``, ``0o[0-7]+`` or ``0x[0-9a-fA-F]+``."""
    base = {"0o": 8, "0x": 16}.get(text[:2])
    digits = text[2:] if base else text[1:] if text[:1] in ("+", "-") else text
    allowed = {8: frozenset("01234567"), 16: frozenset("0123456789abcdefABCDEF")}.get(base or 10, _DIGITS)
    if not digits or not allowed.issuperset(digits):
        return None
    value = int(digits, base or 10)
    return -value if text[0] == "-" else value


def _number(text: str) -> float | None:
    """``[-+]?(\\.[0-9]+|[0-9]+(\\.[0-9]*)?)([eE][-+]?[0-9]+)?``, an infinity, or not a number."""
    if text in NOT_A_NUMBER:
        return float("nan")
    sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if rest in INFINITIES:
        return float(f"{sign}inf")
    mantissa, exponent_sign, exponent = rest.replace("E", "e", 1).partition("e")
    before, _, after = mantissa.partition(".")
    if not (before or after) or not _DIGITS.issuperset(before + after):
        return None
    if exponent_sign:
        digits = exponent[1:] if exponent[:1] in ("+", "-") else exponent
        if not digits or not _DIGITS.issuperset(digits):
            return None
    return float(text)
