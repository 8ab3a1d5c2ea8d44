"""A parsed ``berth.yml`` to a ``Manifest``: every rule of sandboxes.md 2.1, all issues at once, nothing converted.

Pure: the one question about the disk, whether the entry file is there, is answered by a function that is passed in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NamedTuple

from berth.guest.sandbox import grants
from berth.spec.app import Export, Manifest, Resources
from berth.spec.capabilities import Capability, parse, problem
from berth.spec.findings import Findings, Issue, Path, Place, Reader, Source, kind_of

VERSION = re.compile(r"(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)", re.ASCII)
SCHEMA_VERSION = 1
MAX_ENTRIES = 256
MIN_MEMORY_MB, MAX_PIDS, MAX_COUNT = 16, 4_194_304, 2**31 - 1
RESERVED_KEYS = ("expose", "governs", "governance", "on_agent_ready")
KNOWN_KEYS = (
    "name", "version", "schema_version", "description", "runtime", "entry", "interpreter", "capabilities", "exports",
    "on_install", "test", "resources", "secrets",
)  # fmt: skip
_EXPORT_KEYS = ("name", "description", "input", "output", "example", "check")
_RESOURCE_KEYS = ("cpu", "memory_mb", "gpu", "pids")


class Validated(NamedTuple):
    """A valid manifest, and what it declares without effect."""

    manifest: Manifest
    warnings: list[Issue]


def validate(source: Source, *, entry_problem: Callable[[str], str | None]) -> Validated:
    """The manifest of ``source``; raises ManifestError with every issue, and nothing else.

    ``entry_problem`` says why a relative path is no entry file of this app, or None.
    """
    found = Findings(source)
    if type(source.value) is not dict:
        found.issue((), f"must be a mapping, not {kind_of(source.value)}")
        found.raise_if_any()
    root = Reader(found, (), source.value)
    _check_schema(root)
    found.raise_if_any()
    _refuse_nul(found, (), source.value)
    _note_unknown(root)
    manifest = _manifest(root, source, entry_problem)
    found.raise_if_any()
    return Validated(manifest, found.warnings)


def _check_schema(root: Reader) -> None:
    version = root.take("schema_version", int, "an integer", SCHEMA_VERSION)
    if version > SCHEMA_VERSION:
        root.issue("schema_version", f"is {version}, this berth knows {SCHEMA_VERSION}: upgrade berth")
    elif version != SCHEMA_VERSION:
        root.issue("schema_version", f"must be {SCHEMA_VERSION}")


def _refuse_nul(found: Findings, path: Path, value: object) -> None:
    if type(value) is str and "\0" in value:
        found.issue(path, "contains a NUL")
    elif type(value) is list:
        for index, entry in enumerate(value):
            _refuse_nul(found, (*path, index), entry)
    elif type(value) is dict:
        for key, entry in value.items():
            if "\0" in key:
                found.key_issue((*path, key), "is a key that contains a NUL")
            _refuse_nul(found, (*path, key), entry)


def _note_unknown(root: Reader) -> None:
    for key in root.values:
        if key in RESERVED_KEYS:
            root.found.warn((key,), "is reserved and has no effect")
        elif key not in KNOWN_KEYS:
            root.found.warn((key,), "is not known and has no effect")


def _manifest(root: Reader, source: Source, entry_problem: Callable[[str], str | None]) -> Manifest:
    name = _name(root)
    version = _version(root)
    if root.text("runtime", "python") != "python":
        root.issue("runtime", "must be python")
    entry = root.text("entry", "src/app.py")
    reason = _entry_spelling(entry) or entry_problem(entry)
    if reason:
        root.issue("entry", reason)
    interpreter = root.text("interpreter", "/usr/bin/python3")
    if not grants.is_interpreter(interpreter):
        root.issue("interpreter", "must be /usr/… or /opt/<dir>/…/bin/<file>, without empty, . or .. segments")
    capabilities = _capabilities(root, name)
    return Manifest(
        name=name,
        version=version,
        file=source.file,
        sha256=source.sha256,
        description=root.described(),
        entry=entry,
        interpreter=interpreter,
        capabilities=tuple(capabilities),
        declared_at=tuple(capabilities.values()),
        exports=tuple(_exports(root)),
        on_install=tuple(_commands(root, "on_install")),
        test=tuple(_commands(root, "test")),
        resources=_resources(root),
        secrets=tuple(_secrets(root)),
    )


def _name(root: Reader) -> str:
    root.require("name")
    name = root.text("name")
    if name in grants.RESERVED_NAMES:
        root.issue("name", f'"{name}" is reserved')
    elif not grants.is_app_name(name):
        root.issue("name", "must be a lower-case letter, then up to 30 lower-case letters, digits or hyphens")
    return name


def _version(root: Reader) -> str:
    root.require("version")
    version = root.text("version")
    if VERSION.fullmatch(version) is None:
        root.issue("version", "must be <major>.<minor>.<patch>, decimal and without leading zeros")
    return version


def _entry_spelling(entry: str) -> str | None:
    if not grants.is_canonical("/" + entry) or not grants.is_plain(entry):
        return "must be a relative path inside the app directory, without empty, . or .. segments"
    return None


def _capabilities(root: Reader, name: str) -> dict[Capability, tuple[Path, Place | None]]:
    """The declared capabilities in order, each with the path and place of its first entry."""
    found: dict[Capability, tuple[Path, Place | None]] = {}
    _limit(root, "capabilities")
    for path, text in root.strings("capabilities"):
        reason = problem(text, name)
        capability = parse(text)
        if reason:
            root.found.issue(path, reason)
        elif capability:
            found.setdefault(capability, (path, root.found.source.places.get(path)))
    return found


def _limit(root: Reader, key: str) -> None:
    value = root.values.get(key)
    if type(value) is list and len(value) > MAX_ENTRIES:
        root.issue(key, f"has {len(value)} entries, at most {MAX_ENTRIES} are allowed")


def _exports(root: Reader) -> list[Export]:
    _limit(root, "exports")
    exports: list[Export] = []
    names: set[str] = set()
    for index, value in enumerate(root.take("exports", list, "a list", [])):
        path = ("exports", index)
        if type(value) is not dict:
            root.found.issue(path, f"must be a mapping, not {kind_of(value)}")
            continue
        entry = Reader(root.found, path, value)
        export = _export(entry)
        if export.name in names:
            entry.issue("name", f'"{export.name}" is declared twice')
        names.add(export.name)
        exports.append(export)
    return exports


def _export(entry: Reader) -> Export:
    entry.only(*_EXPORT_KEYS)
    entry.require("name")
    name = entry.text("name")
    if not grants.EXPORT_NAME.fullmatch(name):
        entry.issue("name", "must be a lower-case letter, then up to 30 lower-case letters, digits or underscores")
    example = entry.take("example", dict, "a mapping", None)
    if not _is_json(example):
        entry.issue("example", "holds a number that JSON does not have")
    return Export(
        name=name,
        description=entry.described(),
        input=_fields(entry, "input"),
        output=_fields(entry, "output"),
        example=example,
        check=entry.take("check", bool, "a boolean", True),
    )


def _is_json(value: object) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is dict:
        return all(_is_json(entry) for entry in value.values())
    return type(value) is not list or all(_is_json(entry) for entry in value)


def _fields(entry: Reader, key: str) -> dict[str, str] | None:
    values = entry.take(key, dict, "a mapping", None)
    if values is None:
        return None
    for name, kind in values.items():
        path = (*entry.path, key, name)
        if not grants.FIELD_NAME.fullmatch(name):
            entry.found.key_issue(path, "is no field name: a letter or _, then up to 63 letters, digits or _")
        elif type(kind) is not str:
            entry.found.issue(path, f"must be a string, not {kind_of(kind)}")
        elif kind.removesuffix("?") not in grants.FIELD_TYPES:
            entry.found.issue(path, "must be string, number, boolean, object or array, optional when followed by ?")
    return dict(values)


def _commands(root: Reader, key: str) -> list[str]:
    commands = []
    for path, command in root.strings(key):
        if not command.strip():
            root.found.issue(path, "is blank")
        commands.append(command)
    return commands


def _resources(root: Reader) -> Resources:
    entry = Reader(root.found, ("resources",), root.take("resources", dict, "a mapping", {}))
    entry.only(*_RESOURCE_KEYS)
    cpu = entry.take("cpu", (int, float), "a number", None)
    if cpu is not None and not (math.isfinite(cpu) and cpu > 0):
        entry.issue("cpu", "must be more than 0")
    return Resources(
        cpu=cpu,
        memory_mb=_count(entry, "memory_mb", MIN_MEMORY_MB, MAX_COUNT),
        gpu=_count(entry, "gpu", 1, MAX_COUNT),
        pids=_count(entry, "pids", grants.MIN_PIDS, MAX_PIDS),
    )


def _count(entry: Reader, key: str, low: int, high: int) -> int | None:
    value: int | None = entry.take(key, int, "an integer", None)
    if value is not None and not low <= value <= high:
        entry.issue(key, f"must be at least {low}" if value < low else f"must be at most {high}")
    return value


def _secrets(root: Reader) -> list[str]:
    names: dict[str, None] = {}
    for path, name in root.strings("secrets"):
        if not grants.SECRET_NAME.fullmatch(name):
            root.found.issue(path, "must be a letter or _, then up to 127 letters, digits or _")
        elif not grants.is_secret_name(name):
            root.found.issue(path, f'"{name}" is a name that steers programs')
        names[name] = None
    return list(names)
