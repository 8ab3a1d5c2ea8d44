"""What is wrong with a manifest: every issue with its place, in file order (sandboxes.md 2.3). Reads no file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from berth.errors import BerthError

MAX_DESCRIPTION = 1024

Path = tuple[str | int, ...]
Place = tuple[int, int]


class Source(NamedTuple):
    """A parsed ``berth.yml``: its value, and (line, column), from 1, of every value and of every key by path.

    ``file`` is the path to show, ``sha256`` the hash of the bytes that were parsed.
    """

    file: str
    sha256: str
    value: Any
    places: Mapping[Path, Place]
    keys: Mapping[Path, Place]


class Issue(NamedTuple):
    """One thing that is wrong, and where; ``place`` is None when that is not known."""

    file: str
    place: Place | None
    path: Path
    message: str

    def text(self, label: str = "") -> str:
        """``<file>:<line>:<column> <dotted.path>: <label><message>``, control characters escaped."""
        where = f"{self.file}:{self.place[0]}:{self.place[1]}" if self.place else self.file
        path = ".".join(map(str, self.path)) or "(root)"
        return escape(f"{where} {path}: {label}{self.message}")

    def as_dict(self) -> dict[str, Any]:
        """The same for ``--json``."""
        line, column = self.place or (None, None)
        return {
            "file": self.file,
            "line": line,
            "column": column,
            "path": list(self.path),
            "message": escape(self.message),
        }


class ManifestError(BerthError):
    """A manifest cannot be used. ``issues`` are all of them in file order; empty when the file could not be read."""

    def __init__(self, message: str, *, issues: list[Issue], code: str = "config_invalid") -> None:
        super().__init__(message, code=code)
        self.issues = issues

    @classmethod
    def invalid(cls, file: str, issues: list[Issue]) -> ManifestError:
        """The error of one file with at least one issue."""
        lines = [f"{escape(file)} is invalid", *(issue.text() for issue in issues)]
        return cls("\n".join(lines), issues=issues)


class Findings:
    """Collects issues and warnings of one file while it is looked at."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.warnings: list[Issue] = []
        self._issues: dict[Path, Issue] = {}

    def issue(self, path: Path, message: str) -> None:
        """Note what is wrong with the value at ``path``; the first issue of a value is the one that is told."""
        self._issues.setdefault(path, self._found(path, message))

    def key_issue(self, path: Path, message: str) -> None:
        """Note what is wrong with the key at the end of ``path``."""
        self._issues.setdefault(path, Issue(self.source.file, self.source.keys.get(path), path, message))

    def missing(self, path: Path) -> None:
        """Note a key that must be there; its place is that of the mapping it is missing from."""
        self._issues.setdefault(path, Issue(self.source.file, self.source.places.get(path[:-1]), path, "is required"))

    def warn(self, path: Path, message: str) -> None:
        """Note what is accepted and has no effect."""
        self.warnings.append(Issue(self.source.file, self.source.keys.get(path), path, message))

    def raise_if_any(self) -> None:
        """Raise ManifestError with all issues in file order when there are any."""
        if self._issues:
            issues = sorted(self._issues.values(), key=lambda issue: issue.place or (0, 0))
            raise ManifestError.invalid(self.source.file, issues)

    def _found(self, path: Path, message: str) -> Issue:
        place = self.source.places.get(path) or self.source.places.get(path[:-1])
        return Issue(self.source.file, place, path, message)


class Reader:
    """One mapping of the document; each reader returns a value of the right type, or the default after an issue."""

    def __init__(self, found: Findings, path: Path, values: dict[str, Any]) -> None:
        self.found = found
        self.path = path
        self.values = values

    def take(self, key: str, kind: type | tuple[type, ...], expected: str, default: Any) -> Any:
        """The value under ``key`` if it is exactly of ``kind`` (a boolean is no number)."""
        if key not in self.values:
            return default
        value = self.values[key]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if type(value) in kinds:
            return value
        self.found.issue((*self.path, key), f"must be {expected}, not {kind_of(value)}")
        return default

    def text(self, key: str, default: str = "") -> str:
        """The string under ``key``."""
        text: str = self.take(key, str, "a string", default)
        return text

    def described(self, key: str = "description") -> str:
        """A description of bounded length."""
        text = self.text(key)
        if len(text) > MAX_DESCRIPTION:
            self.issue(key, f"is longer than {MAX_DESCRIPTION} characters")
        return text

    def strings(self, key: str) -> list[tuple[Path, str]]:
        """The entries of a list of strings with their paths; an entry of another type is an issue."""
        good = []
        for index, value in enumerate(self.take(key, list, "a list", [])):
            path = (*self.path, key, index)
            if type(value) is str:
                good.append((path, value))
            else:
                self.found.issue(path, f"must be a string, not {kind_of(value)}")
        return good

    def issue(self, key: str, message: str) -> None:
        """Note what is wrong with the value under ``key``."""
        self.found.issue((*self.path, key), message)

    def require(self, key: str) -> None:
        """Note it when ``key`` is not there."""
        if key not in self.values:
            self.found.missing((*self.path, key))

    def only(self, *known: str) -> None:
        """An unknown key in a known mapping is an error: a typo there must not loosen or drop anything."""
        for key in self.values:
            if key not in known:
                self.found.key_issue((*self.path, key), f"is not known here; known are {', '.join(known)}")


def escape(text: str) -> str:
    """``text`` with what no terminal shows (controls, direction marks, lone surrogates) written as ``\\x1b``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def kind_of(value: object) -> str:
    """What a YAML value is called in a message."""
    names = {
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "a mapping",
    }
    return "null" if value is None else names[type(value)]
