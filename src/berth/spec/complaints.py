"""Collecting every complaint about a document, and telling them all at once, one line each, in file order (3.2)."""

from __future__ import annotations

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Protocol

    Path = tuple[str | int, ...]

    class Positioned(Protocol):
        """A document with positions, as ``tools.yaml`` reads it. ``complaints`` were filed while it was read."""

        data: Any
        complaints: list[Complaint]

        def position(self, path: Path, *, key: bool = False) -> tuple[int, int]:
            """Line and column, from 1, of the value at ``path`` or of its key."""

        def text(self, path: Path) -> str | None:
            """The scalar at ``path`` as it is written."""


HINT = "berth schema config"
LONGEST_SHOWN = 60
SOME_LARGE_NUMBER = 10**9  # a bound that nobody needs to be told of


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


def told(complaints: Iterable[Complaint], *, file: str) -> list[str]:
    """The complaints as lines, in file order, each once."""
    ordered = sorted(complaints, key=lambda complaint: (complaint.line, complaint.column))
    return list(dict.fromkeys(complaint.text(file) for complaint in ordered))


def invalid(complaints: Iterable[Complaint], *, file: str) -> BerthError:
    """The one error that tells all complaints."""
    return BerthError("\n".join(told(complaints, file=file)), code="config_invalid", hint=HINT)


def dotted(path: Iterable[str | int]) -> str:
    """A path as people write it: ``processes.web.environment[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def one_line(text: str) -> str:
    """``text`` with everything that could break a line or a terminal written as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


class Checker:
    """Looks at one value after the other and files what is wrong; every look returns a usable value.

    A null value is the default everywhere. ``notes`` are remarks that fail nothing.
    """

    def __init__(self, document: Positioned) -> None:
        self.document = document
        self.complaints = list(document.complaints)
        self.notes: list[Complaint] = []

    def complain(self, path: Path, problem: str) -> None:
        """File what is wrong with the value at ``path``."""
        self.complaints.append(Complaint(*self.document.position(path), dotted(path), problem))

    def forbid(self, path: Path, problem: str) -> None:
        """File that the key at ``path`` may not be there."""
        self.complaints.append(Complaint(*self.document.position(path, key=True), dotted(path), problem))

    def note(self, path: Path, remark: str) -> None:
        """File a remark."""
        self.notes.append(Complaint(*self.document.position(path), dotted(path), remark))

    def mapping(self, value: Any, path: Path, *, allowed: Iterable[str] | None = None) -> dict[str, Any]:
        """A mapping; with ``allowed`` every other key is unknown."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.complain(path, f"must be a mapping, not {kind(value)}")
            return {}
        if allowed is not None:
            known = sorted(allowed)
            for key in value:
                if key not in known:
                    self.unknown((*path, key), known)
        return value

    def unknown(self, path: Path, allowed: Iterable[str]) -> None:
        """File that the key at ``path`` is none of the ``allowed`` ones; its holder is the field."""
        problem = f'unknown key "{excerpt(str(path[-1]))}"; allowed: {", ".join(allowed)}'
        self.complaints.append(Complaint(*self.document.position(path, key=True), dotted(path[:-1]), problem))

    def items(self, value: Any, path: Path) -> list[Any]:
        """A list."""
        if value is None:
            return []
        if not isinstance(value, list):
            self.complain(path, f"must be a list, not {kind(value)}")
            return []
        return value

    def string(self, value: Any, path: Path, *, default: str | None = None) -> str | None:
        """A string without NUL."""
        if value is None:
            return default
        if not isinstance(value, str):
            self.complain(path, f"must be a string, not {kind(value)}")
            return default
        if "\0" in value:
            self.complain(path, "must not contain NUL")
            return default
        return value

    def script(self, value: Any, path: Path) -> str | None:
        """A shell command. ``true`` and ``false`` are commands too, though YAML reads a boolean."""
        return self.document.text(path) if isinstance(value, bool) else self.string(value, path)

    def choice(self, value: Any, path: Path, words: tuple[str, ...], *, default: str | None = None) -> str | None:
        """One of ``words``."""
        found = self.string(value, path, default=default)
        if found is not None and value is not None and found not in words:
            self.complain(path, f"must be {' or '.join(words)}, not {excerpt(found)!r}")
            return default
        return found

    def boolean(self, value: Any, path: Path) -> bool | None:
        """true or false."""
        if value is not None and not isinstance(value, bool):
            self.complain(path, f"must be true or false, not {kind(value)}")
            return None
        return value

    def integer(
        self, value: Any, path: Path, *, least: int, most: int | None = None, default: int | None = None
    ) -> int | None:
        """A whole number within bounds."""
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            self.complain(path, f"must be a whole number, not {kind(value)}")
            return default
        if value < least or (most is not None and value > most):
            unbounded = most is None or (value < least and most >= SOME_LARGE_NUMBER)
            bound = f"at least {least}" if unbounded else f"between {least} and {most}"
            self.complain(path, f"must be {bound}, not {number(value)}")
            return default
        return value

    def number(self, value: Any, path: Path, *, least: float, most: float) -> float | None:
        """A finite number within bounds; a whole one comes back as an int."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.complain(path, f"must be a number, not {kind(value)}")
            return None
        if not least <= value <= most:  # false for not-a-number, too
            bound = f"between {least:g} and {most:g}" if value > most else f"at least {least:g}"
            self.complain(path, f"must be {bound}, not {number(value)}")
            return None
        return int(value) if value == int(value) else value

    def shaped(self, value: Any, path: Path, rule: Callable[[str], bool], shape: str) -> str | None:
        """A string for which ``rule`` holds; ``shape`` says the rule."""
        found = self.string(value, path)
        if found is not None and not rule(found):
            self.complain(path, f"must be {shape}, not {excerpt(found)!r}")
            return None
        return found

    def path(self, value: Any, path: Path, rule: Callable[[str], str | None]) -> str | None:
        """A path in which ``rule`` finds no problem, as it is written."""
        found = self.string(value, path)
        problem = rule(found) if found is not None else None
        if problem is not None:
            self.complain(path, f"{excerpt(found or '')!r} {problem}")
            return None
        return found


def kind(value: Any) -> str:
    """What a value is, in the words of YAML."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {number(value)}"
    if isinstance(value, str):
        return f"the string {excerpt(value)!r}"
    return "a list" if isinstance(value, list) else "a mapping"


def number(value: float) -> str:
    """A number as it is shown."""
    return excerpt(str(value))


def excerpt(text: str) -> str:
    """The beginning of a text that may be long."""
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"
