"""Collecting every complaint about a document, each with its path; positions are added when they are told."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Path = tuple[str | int, ...]


class Complaint:
    """What is wrong at ``path``; ``of_key`` when the key itself is the trouble."""

    __slots__ = ("of_key", "path", "problem")

    def __init__(self, path: Path, problem: str, *, of_key: bool = False) -> None:
        self.path = path
        self.problem = problem
        self.of_key = of_key


class Checker:
    """Looks at one value after the other and remembers what is wrong; every look returns a usable value."""

    def __init__(self) -> None:
        self.complaints: list[Complaint] = []
        self.notes: list[str] = []

    def complain(self, path: Path, problem: str, *, of_key: bool = False) -> None:
        """Note that something is wrong."""
        self.complaints.append(Complaint(path, problem, of_key=of_key))

    def mapping(
        self, value: Any, path: Path, *, allowed: Iterable[str] | None = None, extra: str = ""
    ) -> dict[str, Any]:
        """A mapping; with ``allowed`` every other key is unknown, but for those that start with ``extra``."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.complain(path, f"must be a mapping, not {kind(value)}")
            return {}
        if allowed is not None:
            known = sorted(allowed)
            for key in value:
                if key not in known and not (extra and key.startswith(extra)):
                    self.complain((*path, key), f'unknown key "{key}"; allowed: {", ".join(known)}', of_key=True)
        return value

    def items(self, value: Any, path: Path) -> list[Any]:
        """A list."""
        if value is None:
            return []
        if not isinstance(value, list):
            self.complain(path, f"must be a list, not {kind(value)}")
            return []
        return value

    def strings(self, value: Any, path: Path) -> list[str]:
        """A list of strings; blank entries are kept."""
        found = []
        for number, item in enumerate(self.items(value, path)):
            if isinstance(item, str):
                found.append(item)
            elif item is not None:
                self.complain((*path, number), f"must be a string, not {kind(item)}")
        return found

    def string(self, value: Any, path: Path, *, default: str | None = None) -> str | None:
        """A string."""
        if value is None:
            return default
        if not isinstance(value, str):
            self.complain(path, f"must be a string, not {kind(value)}")
            return default
        return value

    def choice(self, value: Any, path: Path, words: tuple[str, ...], *, default: str | None = None) -> str | None:
        """One of ``words``."""
        found = self.string(value, path, default=default)
        if found is not None and value is not None and found not in words:
            self.complain(path, f"must be {' or '.join(words)}, not {found!r}")
            return default
        return found

    def boolean(self, value: Any, path: Path, *, default: bool = False) -> bool:
        """true or false."""
        if value is None:
            return default
        if not isinstance(value, bool):
            self.complain(path, f"must be true or false, not {kind(value)}")
            return default
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
            bound = f"between {least} and {most}" if most is not None else f"at least {least}"
            self.complain(path, f"must be {bound}, not {value}")
            return default
        return value

    def number(self, value: Any, path: Path, *, least: float, default: float | None = None) -> float | None:
        """A finite number."""
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.complain(path, f"must be a number, not {kind(value)}")
            return default
        if value < least:
            self.complain(path, f"must be at least {least:g}, not {value}")
            return default
        return value

    def shaped(self, value: Any, path: Path, rule: Callable[[str], bool], shape: str) -> str | None:
        """A string for which ``rule`` holds; ``shape`` says the rule."""
        found = self.string(value, path)
        if found is not None and not rule(found):
            self.complain(path, f"must be {shape}, not {found!r}")
            return None
        return found

    def relative_path(self, value: Any, path: Path) -> str | None:
        """A path inside the repository, cleaned (3.3)."""
        found = self.string(value, path)
        if found is None:
            return None
        problem = path_problem(found)
        if problem is not None:
            self.complain(path, f"{found!r} {problem}")
            return None
        return clean(found)


def kind(value: Any) -> str:
    """What a value is, in the words of YAML."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    return "a list" if isinstance(value, list) else "a mapping"


def clean(path: str) -> str:
    """``path`` without empty and ``.`` components."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def path_problem(path: str) -> str | None:
    """Why ``path`` is not a path inside the repository; None when it is (3.3)."""
    if path.startswith("/"):
        return "must be relative to the repository, not absolute"
    if any(char in path for char in "\\:\0"):
        return "must not contain \\, : or NUL"
    parts = clean(path).split("/")
    if ".." in parts:
        return "must not contain a .. component"
    if parts == [""]:
        return "must name something inside the repository"
    if parts[0] in (".git", ".berth"):
        return f"must not be {parts[0]} or anything below it"
    return None
