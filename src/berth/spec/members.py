"""Which directories a workspace root selects: pnpm's ``packages`` and uv's ``members`` (sandboxes.md 4.1). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence


def selects(patterns: Sequence[str], exclude: Sequence[str], relative: str) -> bool:
    """True when ``relative`` (segments joined by ``/``, ``.`` for the root) is a member.

    ``*`` stays inside one segment, ``**`` is any segments; a pattern with ``!`` subtracts, as does ``exclude``.
    """
    chosen = any(_fits(pattern, relative) for pattern in patterns if not pattern.startswith("!"))
    removed = [pattern[1:] for pattern in patterns if pattern.startswith("!")] + list(exclude)
    return chosen and not any(_fits(pattern, relative) for pattern in removed)


def _fits(pattern: str, relative: str) -> bool:
    segments = [segment for segment in pattern.split("/") if segment not in ("", ".")]
    expression = ""
    for segment in segments:
        expression += "(?:[^/]+/)*" if segment == "**" else _segment(segment) + "/"
    return re.fullmatch(expression, "" if relative == "." else relative + "/") is not None


def _segment(segment: str) -> str:
    words = {"*": "[^/]*", "?": "[^/]"}
    return "".join(words.get(char) or re.escape(char) for char in segment)
