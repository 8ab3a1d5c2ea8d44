"""Names: slugs, port names and the variables made of them, process names. HOT: no regular expressions."""

from __future__ import annotations

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set

SLUG_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
LONGEST_SLUG = 63
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_DIGITS = frozenset("0123456789")
SLUG_RULE = "1 to 63 characters from a-z 0-9 - _, not starting with -"


def is_slug(word: str) -> bool:
    """True for a valid slug."""
    return 0 < len(word) <= LONGEST_SLUG and word[0] != "-" and SLUG_LETTERS.issuperset(word)


def checked_slug(word: str) -> str:
    """``word`` without one trailing ``/``, if it is a slug. Raises invalid_slug."""
    slug = word.removesuffix("/")
    if not is_slug(slug):
        raise BerthError(f"{word!r} is not a slug", code="invalid_slug", hint=f"a slug is {SLUG_RULE}")
    return slug


def slug_from_directory(name: str, *, taken: Set[str]) -> str:
    """A free slug for an adopted directory: lower-cased, other characters ``-``, outer ``-`` trimmed (7.4)."""
    slug = "".join(char if char in SLUG_LETTERS else "-" for char in name.lower())
    slug = slug.strip("-")[:LONGEST_SLUG] or "ws"
    number, candidate = 1, slug
    while candidate in taken:
        number += 1
        suffix = f"-{number}"
        candidate = slug[: LONGEST_SLUG - len(suffix)] + suffix
    return candidate


def is_port_name(word: str) -> bool:
    """``^[A-Za-z][A-Za-z0-9_.-]*$``."""
    return bool(word) and word[0] in _LETTERS and (_LETTERS | _DIGITS | frozenset("_.-")).issuperset(word)


def variable_name(port: str) -> str:
    """The ``<NAME>`` of BERTH_PORT_<NAME>: upper-cased, ``-`` and ``.`` turned into ``_``."""
    return port.upper().replace("-", "_").replace(".", "_")


def is_process_name(word: str) -> bool:
    """``^[A-Za-z0-9_][A-Za-z0-9_.-]*$``."""
    letters = _LETTERS | _DIGITS | {"_"}
    return bool(word) and word[0] in letters and (letters | frozenset(".-")).issuperset(word)
