"""YAML read with limits: bytes in, plain data with the position of every key and value out (workspaces.md 3.2).

ruamel.yaml scans and parses; composing is done here, because limits, duplicate keys, merge keys, foreign tags and
the 1.2 core schema must hold before anything is expanded. What a document means is not this module's business.
"""

from __future__ import annotations

from berth.errors import BerthError
from berth.spec.complaints import Complaint, dotted, excerpt, invalid
from berth.spec.scalars import Unrepresentable, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, NoReturn

CORE = "tag:yaml.org,2002:"
SCALAR_TAGS = frozenset(("null", "bool", "int", "float", "str"))

# What a berth.yaml may hold (workspaces.md 3.2). Aliases count as what they stand for.
MOST_BYTES = 1024 * 1024
MOST_NODES = 100_000
MOST_ALIASES = 100
DEEPEST = 50
MERGE_BELOW = "processes"  # the top-level key inside which << merges


class Malformed(BerthError):
    """The text is no acceptable YAML; reading ends at ``line`` and ``column`` (from 1). ``problem`` says why."""

    def __init__(self, file: str, line: int, column: int, problem: str) -> None:
        error = invalid([Complaint(line, column, "", problem)], file=file)
        super().__init__(error.message, code=error.code, hint=error.hint)
        self.line = line
        self.column = column
        self.problem = problem


class _Node:
    """A composed node. ``size`` counts the nodes and ``height`` the levels of collections in it, aliases expanded."""

    __slots__ = ("column", "height", "line", "size")

    def __init__(self, line: int, column: int) -> None:
        self.line = line
        self.column = column
        self.size = 1
        self.height = 0


class _Scalar(_Node):
    __slots__ = ("text", "value")

    def __init__(self, line: int, column: int, text: str, value: str | int | float | bool | None) -> None:
        super().__init__(line, column)
        self.text = text
        self.value = value


class _Sequence(_Node):
    __slots__ = ("items",)

    def __init__(self, line: int, column: int) -> None:
        super().__init__(line, column)
        self.height = 1
        self.items: list[_Node] = []


class _Mapping(_Node):
    """``entries`` maps each key's text to the key's and the value's node, merged ones included."""

    __slots__ = ("entries",)

    def __init__(self, line: int, column: int) -> None:
        super().__init__(line, column)
        self.height = 1
        self.entries: dict[str, tuple[_Node, _Node]] = {}


class Document:
    """One document: ``data`` is plain (dict with text keys, list, str, int, float, bool, None), aliases expanded.

    ``complaints`` are the faults after which reading could go on (duplicate keys, foreign tags, …); whoever
    interprets the data tells them together with its own. ``file`` is the name used in messages.
    """

    def __init__(self, file: str, root: _Node | None, complaints: list[Complaint]) -> None:
        self.file = file
        self.complaints = complaints
        self._root = root
        self.data: Any = None if root is None else _plain(root)

    def position(self, path: Sequence[str | int], *, key: bool = False) -> tuple[int, int]:
        """Line and column, from 1, of the value at ``path`` (or of its key); of the nearest holder if it is absent."""
        if self._root is None:
            return 1, 1
        node = place = self._root
        for number, step in enumerate(path, start=1):
            found = _child(node, step)
            if found is None:
                break
            named, node = found
            place = named if key and number == len(path) else node
        return place.line, place.column

    def text(self, path: Sequence[str | int]) -> str | None:
        """The scalar at ``path`` as it is written (``1.10``, ``yes``), or None if there is no scalar."""
        node = self._root
        for step in path:
            found = _child(node, step) if node is not None else None
            node = found[1] if found is not None else None
        return node.text if isinstance(node, _Scalar) else None


def load(raw: bytes, *, file: str) -> Document:
    """Read one document from ``raw``. An empty file is a document whose data is None.

    Raises Malformed (code config_invalid) where reading cannot go on: syntax, encoding, a limit.
    """
    if len(raw) > MOST_BYTES:
        raise Malformed(file, 1, 1, f"larger than {MOST_BYTES // 1024} KiB")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        raise Malformed(file, *_end_of(before), "is not UTF-8") from None
    composer = _Composer(file, text)
    return Document(file, composer.document(), composer.complaints)


class _Composer:
    """Turns ruamel.yaml's events into nodes, and stops at the first event that passes a limit."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.complaints: list[Complaint] = []
        self._events = self._parsed(text)
        self._anchors: dict[str, _Node | None] = {}  # None while its node is being read
        self._nodes = 0
        self._aliases = 0
        self._place = (1, 1)  # of the last event

    def _parsed(self, text: str) -> Iterator[Any]:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            for event in YAML(typ="safe", pure=True).parse(text):
                self._place = _mark(event)
                yield event
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            words = ", ".join(part for part in (error.context, error.problem) if part)
            line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
            raise Malformed(self.file, line, column, f"invalid YAML: {words}") from None
        except YAMLError as error:
            # A character that YAML forbids: the scanner knows its index only.
            position = getattr(error, "position", 0)
            line, column = _end_of(text[:position] if isinstance(position, int) else "")
            raise Malformed(self.file, line, column, f"invalid YAML: {error!s}".partition("\n")[0]) from None
        except (OverflowError, ValueError):
            # The scanner passes what an escape like \\UFFFFFFFF names to chr() as it is.
            raise Malformed(self.file, *self._place, "invalid YAML: after this an escape is no character") from None

    def document(self) -> _Node | None:
        """The root of the one document, or None for an empty stream."""
        root = None
        documents = 0
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    self._stop(event, "more than one document")
            elif kind not in ("StreamStartEvent", "StreamEndEvent", "DocumentEndEvent"):
                root = self._node(event, (), 1)
        return root

    def _node(self, event: Any, path: tuple[str | int, ...], depth: int) -> _Node:
        kind = type(event).__name__
        if kind == "AliasEvent":
            node = self._alias(event, depth)
        else:
            if event.anchor is not None:
                self._anchors[event.anchor] = None
            self._count(event, 1, depth - 1 if kind == "ScalarEvent" else depth)
            node = self._collection_or_scalar(kind, event, path, depth)
            if event.anchor is not None:
                self._anchors[event.anchor] = node
        return node

    def _collection_or_scalar(self, kind: str, event: Any, path: tuple[str | int, ...], depth: int) -> _Node:
        if kind == "ScalarEvent":
            return self._scalar(event, path)
        line, column = _mark(event)
        if kind == "SequenceStartEvent":
            self._check_tag(event, "seq", path)
            sequence = _Sequence(line, column)
            for number, item in enumerate(self._until("SequenceEndEvent")):
                child = self._node(item, (*path, number), depth + 1)
                sequence.items.append(child)
                _grow(sequence, child)
            return sequence
        self._check_tag(event, "map", path)
        mapping = _Mapping(line, column)
        self._fill(mapping, path, depth)
        return mapping

    def _until(self, end: str) -> Iterator[Any]:
        for event in self._events:
            if type(event).__name__ == end:
                return
            yield event

    def _fill(self, mapping: _Mapping, path: tuple[str | int, ...], depth: int) -> None:
        merges: list[_Node] = []
        seen_merge = False
        for event in self._until("MappingEndEvent"):
            key = self._node(event, path, depth + 1)
            text = key.text if isinstance(key, _Scalar) else ""
            value = self._node(next(self._events), (*path, text), depth + 1)
            _grow(mapping, key)
            _grow(mapping, value)
            if not isinstance(key, _Scalar):
                self._complain(key, path, "a key must be a plain word, not a list or a mapping")
            elif self._is_merge(event, text):
                if seen_merge:
                    self._complain(key, path, 'duplicate key "<<"')
                elif path[:1] != (MERGE_BELOW,):
                    self._complain(key, path, f"merge keys (<<) work inside {MERGE_BELOW} only")
                else:
                    merges = self._merged(value, path)
                seen_merge = True
            elif text in mapping.entries:
                first = mapping.entries[text][0]
                self._complain(key, path, f'duplicate key "{excerpt(text)}" (first in line {first.line})')
            else:
                mapping.entries[text] = (key, value)
        # Explicit keys win, then the earlier of several merged mappings.
        for source in merges:
            if isinstance(source, _Mapping):
                for text, entry in source.entries.items():
                    mapping.entries.setdefault(text, entry)

    @staticmethod
    def _is_merge(event: Any, text: str) -> bool:
        return text == "<<" and type(event).__name__ == "ScalarEvent" and event.implicit[0]

    def _merged(self, value: _Node, path: tuple[str | int, ...]) -> list[_Node]:
        sources = value.items if isinstance(value, _Sequence) else [value]
        if not all(isinstance(source, _Mapping) for source in sources):
            self._complain(value, (*path, "<<"), "must be a mapping or a list of mappings")
        return sources

    def _alias(self, event: Any, depth: int) -> _Node:
        self._aliases += 1
        if self._aliases > MOST_ALIASES:
            self._stop(event, f"more than {MOST_ALIASES} aliases")
        if event.anchor not in self._anchors:
            self._stop(event, f"unknown anchor *{excerpt(event.anchor)}")
        node = self._anchors[event.anchor]
        if node is None:
            self._stop(event, f"*{excerpt(event.anchor)} refers to itself")
        self._count(event, node.size, depth + node.height - 1)
        return node

    def _count(self, event: Any, nodes: int, depth: int) -> None:
        self._nodes += nodes
        if self._nodes > MOST_NODES:
            self._stop(event, f"more than {MOST_NODES} values")
        if depth > DEEPEST:
            self._stop(event, f"nested deeper than {DEEPEST} levels")

    def _scalar(self, event: Any, path: tuple[str | int, ...]) -> _Scalar:
        line, column = _mark(event)
        text = event.value
        node = _Scalar(line, column, text, text)
        if any("\ud800" <= char <= "\udfff" for char in text):
            # JSON writes a character beyond U+FFFF as two escapes, and JSON is YAML.
            pairs = text.encode("utf-16", "surrogatepass")
            text = pairs.decode("utf-16", "replace")
            if text.encode("utf-16") != pairs:
                self._complain(node, path, "half a surrogate pair is no character")
            node.text = node.value = text
        tag = self._scalar_tag(event, path)
        try:
            node.value = resolve(text, tag)
        except Unrepresentable as error:
            self._complain(node, path, str(error))
        return node

    def _scalar_tag(self, event: Any, path: tuple[str | int, ...]) -> str | None:
        """``str``, ``int``, … or None where the text itself decides."""
        if event.tag is None:
            return None if event.implicit[0] else "str"
        if event.tag == "!":
            return "str"
        name: str = event.tag.removeprefix(CORE)
        if event.tag.startswith(CORE) and name in SCALAR_TAGS:
            return name
        self._complain_at(event, path, f"tag {excerpt(event.tag)} is not one of YAML's core schema")
        return "str"

    def _check_tag(self, event: Any, wanted: str, path: tuple[str | int, ...]) -> None:
        if event.tag not in (None, "!", CORE + wanted):
            self._complain_at(event, path, f"tag {excerpt(event.tag)} is not one of YAML's core schema")

    def _complain(self, node: _Node, path: tuple[str | int, ...], problem: str) -> None:
        self.complaints.append(Complaint(node.line, node.column, dotted(path), problem))

    def _complain_at(self, event: Any, path: tuple[str | int, ...], problem: str) -> None:
        self.complaints.append(Complaint(*_mark(event), dotted(path), problem))

    def _stop(self, event: Any, problem: str) -> NoReturn:
        raise Malformed(self.file, *_mark(event), problem)


def _grow(holder: _Node, child: _Node) -> None:
    holder.size += child.size
    holder.height = max(holder.height, child.height + 1)


def _mark(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _end_of(text: str) -> tuple[int, int]:
    """Line and column, from 1, of what follows ``text``."""
    return text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1


def _child(node: _Node, step: str | int) -> tuple[_Node, _Node] | None:
    """The key's node (for an item of a list the item itself) and the value's."""
    if isinstance(node, _Mapping) and isinstance(step, str):
        return node.entries.get(step)
    if isinstance(node, _Sequence) and isinstance(step, int) and 0 <= step < len(node.items):
        return node.items[step], node.items[step]
    return None


def _plain(node: _Node) -> Any:
    """The data below ``node``; every alias becomes a copy of its own, within the limit of nodes."""
    if isinstance(node, _Mapping):
        return {text: _plain(value) for text, (_, value) in node.entries.items()}
    if isinstance(node, _Sequence):
        return [_plain(item) for item in node.items]
    assert isinstance(node, _Scalar)
    return node.value
