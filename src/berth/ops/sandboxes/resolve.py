"""From words on a command line to apps that may share a sandbox: checks 1 to 5 of sandboxes.md 4.1.

Starts no process and asks no engine; everything that can be wrong with files is said before.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from berth.errors import BerthError
from berth.guest.sandbox import grants
from berth.spec import clashes
from berth.spec.app import Manifest
from berth.spec.findings import Issue, ManifestError, escape
from berth.spec.members import selects
from berth.tools import manifest as manifests

PNPM, PYPROJECT = "pnpm-workspace.yaml", "pyproject.toml"
LATER = "is not supported yet"


class Found(NamedTuple):
    """An app: its manifest and its directory on the host, links resolved."""

    manifest: Manifest
    directory: str


class Resolved(NamedTuple):
    """The ordered apps, primary first, the root they lie in, and the manifests' warnings."""

    root: str
    apps: list[Found]
    warnings: list[Issue]

    @property
    def manifests(self) -> list[Manifest]:
        return [app.manifest for app in self.apps]

    @property
    def names(self) -> list[str]:
        return [app.manifest.name for app in self.apps]


class Root(NamedTuple):
    """A workspace root and what its marker says."""

    path: str
    marker: str
    patterns: list[str]
    exclude: list[str]


def for_dev(cwd: str, companions: str | None) -> Resolved:
    """The app in ``cwd`` with ``companions`` (comma-separated, relative to the workspace root). Raises BerthError."""
    primary = os.path.realpath(cwd)
    if not os.path.lexists(os.path.join(primary, manifests.NAME)):
        raise BerthError(
            f"{primary} holds no {manifests.NAME}",
            code="config_invalid",
            hint="change to an app's directory, or make one: berth app init <name>",
        )
    words = _split(companions)
    root = find_root(primary)
    if words:
        root = _required(root, primary)
    base = root.path if root is not None else primary
    directories = [primary, *(_companion(base, word) for word in words)]
    resolved = _resolved(base, directories)
    _require_readable(base, directories)
    return resolved


def for_os(cwd: str, apps: str | Sequence[str] | None) -> Resolved:
    """The apps in directories relative to ``cwd``, the first one primary; needs no root. Raises BerthError."""
    words = _split(apps) if apps is None or isinstance(apps, str) else [word for word in apps if word.strip()]
    if not words:
        raise BerthError("no apps given", code="usage", hint="--apps=<dir>,<dir>; the first is the primary")
    directories = []
    for word in words:
        path = os.path.realpath(os.path.join(cwd, word))
        _require_app(path, word)
        directories.append(path)
    return _resolved(directories[0], directories)


def _split(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def find_root(start: str) -> Root | None:
    """The nearest ancestor of ``start``, itself included, with a workspace marker, or None."""
    here = start
    while True:
        found = _marked(here)
        if found is not None:
            return found
        parent = os.path.dirname(here)
        if parent == here:
            return None
        here = parent


def _marked(directory: str) -> Root | None:
    pnpm, pyproject = os.path.join(directory, PNPM), os.path.join(directory, PYPROJECT)
    if os.path.isfile(pnpm):
        value = manifests.parse(manifests.read_once(pnpm, shown=pnpm), file=pnpm).value
        return Root(directory, pnpm, _strings(value, "packages"), [])
    if os.path.isfile(pyproject):
        workspace = _uv_workspace(pyproject)
        if isinstance(workspace, dict) and "members" in workspace:
            return Root(directory, pyproject, _strings(workspace, "members"), _strings(workspace, "exclude"))
    return None


def _uv_workspace(path: str) -> object:
    import tomllib

    try:
        with open(path, "rb") as file:
            tool = tomllib.load(file).get("tool", {})
    except (OSError, ValueError) as error:
        raise BerthError(f"{path}: {error}", code="config_invalid") from error
    uv = tool.get("uv", {}) if isinstance(tool, dict) else {}
    return uv.get("workspace") if isinstance(uv, dict) else None


def _strings(value: object, key: str) -> list[str]:
    entries = value.get(key) if isinstance(value, dict) else None
    return [entry for entry in entries if isinstance(entry, str)] if isinstance(entries, list) else []


def _required(root: Root | None, primary: str) -> Root:
    if root is None:
        raise BerthError(
            f"no workspace root above {primary}: --apps needs one",
            code="config_invalid",
            hint=f"write a {PNPM} with packages, or a {PYPROJECT} with [tool.uv.workspace] members",
        )
    relative = os.path.relpath(primary, root.path)
    if not selects(root.patterns, root.exclude, relative):
        raise BerthError(
            f"{relative} is no member of the workspace {root.path}",
            code="config_invalid",
            hint=f"add it to {root.marker}",
        )
    return root


def _companion(root: str, word: str) -> str:
    path = os.path.realpath(os.path.join(root, word))
    if not grants.covers(root, path):
        raise BerthError(f"{word} lies outside the workspace root {root}", code="config_invalid")
    _require_app(path, word)
    return path


def _require_app(path: str, word: str) -> None:
    if not os.path.isdir(path):
        raise BerthError(f"{escape(word)} is no directory ({escape(path)})", code="config_invalid")
    if not os.path.lexists(os.path.join(path, manifests.NAME)):
        raise BerthError(f"{escape(word)} holds no {manifests.NAME}", code="config_invalid")


def _resolved(root: str, directories: Sequence[str]) -> Resolved:
    """Every manifest read, all their issues at once, then what the apps cannot have together."""
    found, warnings, errors = [], [], []
    for directory in directories:
        shown = os.path.join(_shown(root, directory), manifests.NAME)
        try:
            validated = manifests.load(directory, shown=shown)
        except ManifestError as error:
            errors.append(error)
        else:
            found.append(Found(validated.manifest, directory))
            warnings += validated.warnings
    if errors:
        raise _together(errors)
    clashes.check([app.manifest for app in found])
    _refuse_later(found)
    return Resolved(root, found, warnings)


def _shown(root: str, directory: str) -> str:
    return os.path.relpath(directory, root) if grants.covers(root, directory) and directory != root else directory


def _together(errors: list[ManifestError]) -> ManifestError:
    if len(errors) == 1:
        return errors[0]
    issues = [issue for error in errors for issue in error.issues]
    return ManifestError("\n".join(error.message for error in errors), issues=issues, code=errors[0].code)


def _refuse_later(apps: Sequence[Found]) -> None:
    """What the compiler accepts and this version cannot hold yet is refused, never left out silently."""
    for app in apps:
        name = app.manifest.name
        if app.manifest.on_install:
            raise BerthError(f'"{name}" declares on_install, which {LATER}', code="config_invalid")
        for capability in app.manifest.capabilities:
            if capability.family in (("network", "host"), ("browser", "navigate")):
                raise BerthError(
                    f'"{name}" declares {capability}, which needs the egress broker: it {LATER}',
                    code="config_invalid",
                )


def _require_readable(root: str, directories: Sequence[str]) -> None:
    """Apps run as uids that share no group with the caller: the root and the way to each app must be open to others."""
    wanted = {root}
    for directory in directories:
        while grants.covers(root, directory):
            wanted.add(directory)
            directory = os.path.dirname(directory)
    for path in sorted(wanted):
        if stat.S_IMODE(os.stat(path).st_mode) & 0o005 != 0o005:
            raise BerthError(
                f"{path} cannot be read by the apps, which run as other users",
                code="config_invalid",
                hint=f"chmod o+rX {path}",
            )
