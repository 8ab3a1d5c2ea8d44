"""Complaints about a file, collected and told all at once, one line each, in file order (workspaces.md 3.2)."""

from __future__ import annotations

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

HINT = "berth schema config"


class Complaint:
    """What is wrong at one place. ``line`` and ``column`` count from 1; ``field`` is a dotted path or empty."""

    __slots__ = ("column", "field", "line", "problem")

    def __init__(self, line: int, column: int, field: str, problem: str) -> None:
        self.line = line
        self.column = column
        self.field = field
        self.problem = problem

    def text(self, file: str) -> str:
        """``<file>:<line>:<column>: <field>: <problem>``, always one line."""
        field = f"{self.field}: " if self.field else ""
        return one_line(f"{file}:{self.line}:{self.column}: {field}{self.problem}")


def field_name(path: Iterable[str | int]) -> str:
    """A path of keys and indices as it is shown: ``hooks.setup[1]``."""
    name = ""
    for step in path:
        name += f"[{step}]" if isinstance(step, int) else f".{step}" if name else step
    return name


def invalid(file: str, complaints: Iterable[Complaint]) -> BerthError:
    """The one error that tells all complaints, in file order, each line once."""
    ordered = sorted(complaints, key=lambda complaint: (complaint.line, complaint.column))
    lines = dict.fromkeys(complaint.text(file) for complaint in ordered)
    return BerthError("\n".join(lines), code="config_invalid", hint=HINT)


def one_line(text: str) -> str:
    """``text`` with everything that could break a line or a terminal written as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
