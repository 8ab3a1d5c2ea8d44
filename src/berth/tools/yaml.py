"""Read one YAML 1.2 document into plain values with the position of everything (workspaces.md 3.2).

ruamel.yaml turns text into events; the values are built here, iteratively and with limits, because positions, duplicate
keys, alias bombs and the core schema (``no`` is a string) are what users trip over. No tag beyond the core ones.
"""

from __future__ import annotations

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Path = tuple[str | int, ...]
    Position = tuple[int, int]

_CORE = "tag:yaml.org,2002:"
_DIGITS = frozenset("0123456789")
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_LONGEST_NUMBER = 400


class Limits:
    """What a document may hold.

    ``most_bytes``, ``deepest`` nesting, ``most_aliases`` references, ``most_nodes`` after expansion; ``merge_below`` is
    the top-level key below which ``<<`` merges, or None; ``plain`` refuses anchors, aliases and every tag.
    """

    __slots__ = ("deepest", "merge_below", "most_aliases", "most_bytes", "most_nodes", "plain")

    def __init__(
        self,
        *,
        most_bytes: int,
        deepest: int,
        most_aliases: int = 0,
        most_nodes: int = 100_000,
        merge_below: str | None = None,
        plain: bool = False,
    ) -> None:
        self.most_bytes = most_bytes
        self.deepest = deepest
        self.most_aliases = most_aliases
        self.most_nodes = most_nodes
        self.merge_below = merge_below
        self.plain = plain


CONFIGURATION = Limits(most_bytes=1 << 20, deepest=50, most_aliases=100, merge_below="processes")


class Issue:
    """One complaint: where (1-based line and column) and what."""

    __slots__ = ("column", "line", "path", "problem")

    def __init__(self, position: Position, path: Path, problem: str) -> None:
        self.line, self.column = position
        self.path = path
        self.problem = problem


class Document:
    """``data`` is the value (None for an empty document); ``issues`` were found on the way.

    ``values`` and ``keys`` map paths to 1-based (line, column); ``written`` maps paths of plain scalars to their text.
    """

    __slots__ = ("data", "issues", "keys", "values", "written")

    def __init__(self) -> None:
        self.data: Any = None
        self.values: dict[Path, Position] = {}
        self.keys: dict[Path, Position] = {}
        self.written: dict[Path, str] = {}
        self.issues: list[Issue] = []

    def position(self, path: Path, *, key: bool = False) -> Position:
        """The position of the key or value at ``path``, else of the nearest part of it that has one."""
        if key and path in self.keys:
            return self.keys[path]
        while path not in self.values and path:
            if path in self.keys:
                return self.keys[path]
            path = path[:-1]
        return self.values.get(path, (1, 1))


def load(raw: bytes, *, file: str, limits: Limits = CONFIGURATION) -> Document:
    """Read ``raw``. Raises config_invalid: ``<file>:<line>:<column>: …``, one line for each complaint."""
    document = read(raw, limits=limits)
    if document.issues:
        raise BerthError(
            "\n".join(f"{file}:{issue.line}:{issue.column}: {shown(issue)}" for issue in document.issues),
            code="config_invalid",
            hint="berth schema config",
        )
    return document


def shown(issue: Issue) -> str:
    """``<field>: <problem>``, or the problem alone where there is no field."""
    return f"{dotted(issue.path)}: {issue.problem}" if issue.path else issue.problem


def dotted(path: Path) -> str:
    """A path as people write it: ``processes.web.environment[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read(raw: bytes, *, limits: Limits) -> Document:
    """Read ``raw`` and collect complaints instead of raising them."""
    document = Document()
    if len(raw) > limits.most_bytes:
        document.issues.append(Issue((1, 1), (), f"larger than {limits.most_bytes} bytes"))
        return document
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        document.issues.append(Issue((line, column), (), "not UTF-8"))
        return document
    if not text.strip():
        return document
    _Builder(document, limits).build(text)
    return document


class _Node:
    """A collection under construction."""

    __slots__ = ("anchor", "key", "merged", "path", "size", "value")

    def __init__(self, value: dict[str, Any] | list[Any], path: Path, anchor: str | None) -> None:
        self.value = value
        self.path = path
        self.anchor = anchor
        self.key: str | None = None  # of a mapping: the key that waits for its value
        self.merged: list[dict[str, Any]] = []
        self.size = 1


class _Stop(Exception):
    """The document is beyond a limit; the complaint is noted."""


class _Builder:
    def __init__(self, document: Document, limits: Limits) -> None:
        self.document = document
        self.limits = limits
        self.stack: list[_Node] = []
        self.anchors: dict[str, tuple[Any, int] | None] = {}
        self.aliases = 0
        self.nodes = 0
        self.documents = 0

    def build(self, text: str) -> None:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        loader = YAML(typ="safe", pure=True)
        try:
            for event in loader.parse(text):
                self.handle(event)
        except _Stop:
            return
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            position = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
            self.document.issues.append(Issue(position, (), f"not valid YAML: {_words(error)}"))
        except (YAMLError, ValueError, RecursionError) as error:
            position = _reader_position(text, error)
            self.document.issues.append(Issue(position, (), f"not valid YAML: {' '.join(str(error).split())[:200]}"))

    def handle(self, event: Any) -> None:
        kind = type(event).__name__
        handler = getattr(self, "on_" + kind, None)
        if handler is not None:
            handler(event, (event.start_mark.line + 1, event.start_mark.column + 1))

    # -- events -------------------------------------------------------------------------------------------------

    def on_DocumentStartEvent(self, event: Any, position: Position) -> None:  # noqa: N802  # ruamel's event names
        self.documents += 1
        if self.documents > 1:
            self.stop(position, "more than one document")

    def on_ScalarEvent(self, event: Any, position: Position) -> None:  # noqa: N802
        self.count(position, 1)
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            self.note_key(top, event, position)
            return
        path = self.next_path()
        value = self.scalar(event, path, position)
        self.remember(event.anchor, value, 1, position, path)
        self.place(value, position, 1)

    def on_AliasEvent(self, event: Any, position: Position) -> None:  # noqa: N802
        path = self.next_path()
        if self.limits.plain:
            self.stop(position, "aliases are not allowed", path)
        self.aliases += 1
        if self.aliases > self.limits.most_aliases:
            self.stop(position, f"more than {self.limits.most_aliases} aliases")
        if event.anchor not in self.anchors:
            self.stop(position, f"no anchor &{event.anchor} before this", path)
        known = self.anchors[event.anchor]
        if known is None:
            self.stop(position, f"*{event.anchor} contains itself", path)
        assert known is not None
        value, size = known
        self.count(position, size)
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            self.stop(position, "a key must be a plain word")
        self.place(value, position, size)

    def on_SequenceStartEvent(self, event: Any, position: Position) -> None:  # noqa: N802
        self.open([], event, position)

    def on_MappingStartEvent(self, event: Any, position: Position) -> None:  # noqa: N802
        self.open({}, event, position)

    def on_SequenceEndEvent(self, event: Any, position: Position) -> None:  # noqa: N802
        self.close()

    def on_MappingEndEvent(self, event: Any, position: Position) -> None:  # noqa: N802
        self.close()

    # -- building -----------------------------------------------------------------------------------------------

    def open(self, value: dict[str, Any] | list[Any], event: Any, position: Position) -> None:
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            self.stop(position, "a key must be a plain word", top.path)
        path = self.next_path()
        if len(self.stack) >= self.limits.deepest:
            self.stop(position, f"nested deeper than {self.limits.deepest}")
        self.count(position, 1)
        self.check_tag(event, ("seq", "map"), path, position)
        if event.anchor is not None:
            self.remember_open(event.anchor, position, path)
        self.document.values.setdefault(path, position)
        self.stack.append(_Node(value, path, event.anchor))

    def close(self) -> None:
        node = self.stack.pop()
        if node.merged and isinstance(node.value, dict):
            for other in node.merged:
                for key, value in other.items():
                    node.value.setdefault(key, value)
        if node.anchor is not None:
            self.anchors[node.anchor] = (node.value, node.size)
        position = self.document.values.get(node.path, (1, 1))
        self.place(node.value, position, node.size)

    def next_path(self) -> Path:
        if not self.stack:
            return ()
        top = self.stack[-1]
        return (*top.path, len(top.value)) if isinstance(top.value, list) else (*top.path, top.key or "")

    def place(self, value: Any, position: Position, size: int) -> None:
        if not self.stack:
            self.document.data = value
            self.document.values.setdefault((), position)
            return
        top = self.stack[-1]
        top.size += size
        if isinstance(top.value, list):
            self.document.values.setdefault((*top.path, len(top.value)), position)
            top.value.append(value)
            return
        key, top.key = top.key, None
        assert key is not None
        path = (*top.path, key)
        if key == "<<" and self.merges(top.path):
            self.merge(top, value, position, path)
        elif key in top.value:
            self.document.issues.append(Issue(self.document.keys[(*path, "again")], path, "the key stands here twice"))
        else:
            self.document.values.setdefault(path, position)
            top.value[key] = value

    def merges(self, path: Path) -> bool:
        return self.limits.merge_below is not None and path[:1] == (self.limits.merge_below,)

    def merge(self, top: _Node, value: Any, position: Position, path: Path) -> None:
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            self.document.issues.append(Issue(position, path, "merges a mapping, or a list of mappings"))
            return
        top.merged += sources

    def note_key(self, top: _Node, event: Any, position: Position) -> None:
        if event.anchor is not None and self.limits.plain:
            self.stop(position, "anchors are not allowed", top.path)
        top.key = event.value
        path = (*top.path, event.value)
        if path in self.document.keys:
            self.document.keys[(*path, "again")] = position
        self.document.keys.setdefault(path, position)

    def remember(self, anchor: str | None, value: Any, size: int, position: Position, path: Path) -> None:
        if anchor is not None:
            self.remember_open(anchor, position, path)
            self.anchors[anchor] = (value, size)

    def remember_open(self, anchor: str, position: Position, path: Path) -> None:
        if self.limits.plain:
            self.stop(position, "anchors are not allowed", path)
        self.anchors[anchor] = None

    def count(self, position: Position, number: int) -> None:
        self.nodes += number
        if self.nodes > self.limits.most_nodes:
            self.stop(position, f"more than {self.limits.most_nodes} values")

    def stop(self, position: Position, problem: str, path: Path = ()) -> None:
        self.document.issues.append(Issue(position, path, problem))
        raise _Stop

    def check_tag(self, event: Any, core: tuple[str, ...], path: Path, position: Position) -> str | None:
        tag = None if event.tag is None else str(event.tag)
        if tag is None or tag == "!":
            return tag
        if self.limits.plain or tag not in {_CORE + name for name in core}:
            self.document.issues.append(Issue(position, path, f"the tag {tag} is not allowed"))
        return tag

    def scalar(self, event: Any, path: Path, position: Position) -> Any:
        tag = self.check_tag(event, ("str", "int", "float", "bool", "null"), path, position)
        text = str(event.value)
        is_plain = event.style is None
        if tag in ("!", _CORE + "str") or (tag is None and not is_plain):
            return text
        if is_plain:
            self.document.written[path] = text
        return self.resolved(text, path, position)

    def resolved(self, text: str, path: Path, position: Position) -> Any:
        """The core schema's value of a plain scalar."""
        try:
            return resolve(text)
        except ValueError:
            self.document.issues.append(Issue(position, path, "the number is too long"))
            return None


def resolve(text: str) -> Any:
    """A plain scalar by YAML 1.2's core schema. Raises ValueError for a number of absurd length."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text[0] not in "+-.0123456789":
        return text
    if text[:2] == "0o" and len(text) > 2 and frozenset("01234567").issuperset(text[2:]):
        return int(_bounded(text[2:]), 8)
    if text[:2] == "0x" and len(text) > 2 and frozenset("0123456789abcdefABCDEF").issuperset(text[2:]):
        return int(_bounded(text[2:]), 16)
    unsigned = text[1:] if text[0] in "+-" else text
    if unsigned and _DIGITS.issuperset(unsigned):
        return int(_bounded(text))
    if unsigned in (".inf", ".Inf", ".INF"):
        return float("-inf") if text[0] == "-" else float("inf")
    if text in (".nan", ".NaN", ".NAN"):
        return float("nan")
    return float(text) if _is_float(unsigned) else text


def _bounded(text: str) -> str:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(text[:20])
    return text


def _is_float(unsigned: str) -> bool:
    """``( \\. [0-9]+ | [0-9]+ ( \\. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?``"""
    mantissa, mark, exponent = unsigned.replace("E", "e").partition("e")
    if mark:
        exponent = exponent[1:] if exponent[:1] in ("+", "-") else exponent
        if not exponent or not _DIGITS.issuperset(exponent):
            return False
    whole, _, fraction = mantissa.partition(".")
    return bool(whole or fraction) and _DIGITS.issuperset(whole) and _DIGITS.issuperset(fraction)


def _words(error: Any) -> str:
    return " ".join(str(error.problem or error.context or error).split())[:200]


def _reader_position(text: str, error: Exception) -> Position:
    at = getattr(error, "position", None)
    if not isinstance(at, int):
        return (1, 1)
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1
