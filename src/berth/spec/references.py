"""References to injected variables in the strings of ``processes`` (workspaces.md 3.5). Pure text in, text out.

``${BERTH_X}`` and ``$BERTH_X`` of known names are replaced, once; everything else is literal. The values of ``env``
know the braces only and are expanded in ``spec.environment``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX = "BERTH_"
_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")


def replaced(text: str, variables: Mapping[str, str]) -> str:
    """``text`` with every reference to one of ``variables`` replaced by its value; values are not looked at again."""
    found: list[str] = []
    position = 0
    for start, end, name in _references(text):
        if name in variables:
            found += (text[position:start], variables[name])
            position = end
    return "".join((*found, text[position:]))


def names(text: str) -> list[str]:
    """The names of all BERTH_ variables that ``text`` refers to, known or not."""
    return [name for _, _, name in _references(text)]


def _references(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and name of every ``$BERTH_X`` and ``${BERTH_X}``."""
    start = text.find("$")
    while start >= 0:
        brace = text.startswith("{", start + 1)
        begin = end = start + 1 + brace
        if text.startswith(PREFIX, begin):
            while end < len(text) and text[end] in _WORD:
                end += 1
            if not brace or text.startswith("}", end):
                yield start, end + brace, text[begin:end]
        start = text.find("$", start + 1)
