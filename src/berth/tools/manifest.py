"""Reads a ``berth.yml``: one descriptor, one hash, a small and strict YAML (sandboxes.md 2.2).

The parser's events are taken one by one, so that anchors, tags, depth, size and duplicates end the reading where they
appear. Plain scalars follow YAML 1.2's core schema, except that yes, no, on and off are booleans as they were in 1.1:
a manifest that means different things to different readers is refused where a string is due.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import stat
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from berth.spec.findings import Issue, ManifestError, Path, Place, Source, escape
from berth.spec.manifest import Validated, validate

NAME = "berth.yml"
MAX_BYTES, MAX_DEPTH, MAX_NODES = 256 * 1024, 20, 10_000

_NULL = ("", "~", "null", "Null", "NULL")
_BOOLEANS = {
    form: value
    for word, value in (("true", True), ("yes", True), ("on", True), ("false", False), ("no", False), ("off", False))
    for form in (word, word.capitalize(), word.upper())
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})")
_BASED = re.compile(r"0o[0-7]{1,20}|0x[0-9a-fA-F]{1,16}")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")  # octal to one reader, decimal to another: a string here
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


def load(directory: str, *, shown: str | None = None) -> Validated:
    """The validated manifest of the app in ``directory``; ``shown`` is its path in messages.

    Raises ManifestError: with issues when it is wrong, without when it cannot be read.
    """
    path = os.path.join(directory, NAME)
    source = parse(read_once(path, shown=shown or path), file=shown or path)
    return validate(source, entry_problem=lambda entry: entry_problem(directory, entry))


def read_once(path: str, *, shown: str) -> bytes:
    """The bytes of a regular file that is no symlink, read through one descriptor; at most one byte over the limit."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = "it is a symlink" if error.errno == errno.ELOOP else error.strerror
        raise ManifestError(f"could not read {escape(shown)}: {reason}", issues=[], code="io_error") from error


def entry_problem(directory: str, entry: str) -> str | None:
    """Why ``entry`` is no entry file of the app in ``directory``: a regular file, not reached by leaving it."""
    root = os.path.realpath(directory)
    resolved = os.path.realpath(os.path.join(root, entry))
    try:
        mode = os.stat(resolved).st_mode
    except OSError as error:
        return f'"{entry}": {error.strerror}'
    if not resolved.startswith(root.rstrip("/") + "/"):
        return f'"{entry}" leaves the app directory'
    return None if stat.S_ISREG(mode) else f'"{entry}" is not a regular file'


def parse(data: bytes, *, file: str) -> Source:
    """The one document in ``data``; raises ManifestError for the first thing that cannot be read."""
    if len(data) > MAX_BYTES:
        _refuse(file, None, f"is larger than {MAX_BYTES // 1024} KiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n")
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1)
        _refuse(file, (line + 1, column + 1), "is not UTF-8")
    builder = _Builder(file)
    yaml = YAML(typ="safe", pure=True)
    try:
        for event in yaml.parse(io.StringIO(text)):
            builder.take(event)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else None
        _refuse(file, place, f"is not YAML: {error.problem or error.context}")
    except ReaderError as error:
        before = text[: error.position]
        place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
        _refuse(file, place, f"is not YAML: {error.reason}")
    except (YAMLError, ValueError, OverflowError, RecursionError) as error:
        # The scanner passes what an escape like \UFFFFFFFF names to chr() as it is.
        _refuse(file, builder.place, f"is not YAML after this: {error}")
    digest = hashlib.sha256(data).hexdigest()
    return Source(file=file, sha256=digest, value=builder.value, places=builder.places, keys=builder.keys)


def _refuse(file: str, place: Place | None, message: str, path: Path = ()) -> NoReturn:
    raise ManifestError.invalid(file, [Issue(file, place, path, message)])


class _Open:
    """A collection that has not ended: its value, its path, and the key that waits for a value."""

    __slots__ = ("key", "path", "value")

    def __init__(self, value: dict[str, Any] | list[Any], path: Path) -> None:
        self.value = value
        self.path = path
        self.key: str | None = None


class _Builder:
    """Turns parser events into plain values and places."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.value: Any = None
        self.place: Place = (1, 1)  # of the last event
        self.places: dict[Path, Place] = {}
        self.keys: dict[Path, Place] = {}
        self._open: list[_Open] = []
        self._documents = 0
        self._nodes = 0

    def take(self, event: Event) -> None:
        """One event; raises ManifestError for what a manifest must not contain."""
        place = self.place = (event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._refuse(place, "holds more than one document")
        elif isinstance(event, AliasEvent):
            self._refuse(place, "holds an alias")
        elif isinstance(event, ScalarEvent | SequenceStartEvent | MappingStartEvent):
            self._node(event, place)
        elif isinstance(event, SequenceEndEvent | MappingEndEvent):
            self._open.pop()

    def _node(self, event: ScalarEvent | SequenceStartEvent | MappingStartEvent, place: Place) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._refuse(place, f"holds more than {MAX_NODES} values")
        if event.anchor is not None:
            self._refuse(place, "holds an anchor")
        if event.tag is not None:
            self._refuse(place, "holds a tag")
        if self._open and isinstance(self._open[-1].value, dict) and self._open[-1].key is None:
            self._key(event, place)
            return
        path = self._next_path()
        self.places[path] = place
        if isinstance(event, ScalarEvent):
            self._put(resolve(event.value) if event.style is None else event.value)
            return
        opened = _Open([] if isinstance(event, SequenceStartEvent) else {}, path)
        self._put(opened.value)
        self._open.append(opened)
        if len(self._open) > MAX_DEPTH:
            self._refuse(place, f"is nested deeper than {MAX_DEPTH}")

    def _key(self, event: ScalarEvent | SequenceStartEvent | MappingStartEvent, place: Place) -> None:
        here = self._open[-1]
        if not isinstance(event, ScalarEvent):
            self._refuse(place, "holds a key that is no string")
        key = resolve(event.value) if event.style is None else event.value
        if event.style is None and event.value == "<<":
            self._refuse(place, "holds a merge key")
        if not isinstance(key, str):
            self._refuse(place, f'holds the key "{event.value}", which is no string; quote it')
        path = (*here.path, key)
        if key in here.value:
            self._refuse(place, "is there twice", path)
        self.keys[path] = place
        here.key = key

    def _next_path(self) -> Path:
        if not self._open:
            return ()
        here = self._open[-1]
        return (*here.path, len(here.value) if here.key is None else here.key)

    def _put(self, value: Any) -> None:
        if not self._open:
            self.value = value
            return
        here = self._open[-1]
        if isinstance(here.value, list):
            here.value.append(value)
        elif here.key is not None:
            here.value[here.key] = value
            here.key = None

    def _refuse(self, place: Place, message: str, path: Path = ()) -> NoReturn:
        _refuse(self.file, place, message, path)


def resolve(text: str) -> Any:
    """The value of a plain scalar: None, bool, int, float or str."""
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if len(text) <= 64 and _FLOAT.fullmatch(text) and not _LEADING_ZERO.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text
