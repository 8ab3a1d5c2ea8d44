"""What several apps cannot have at once: names, private directories, shared resources (sandboxes.md 3.1).

Checked before anything is built. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from berth.errors import BerthError
from berth.guest.sandbox import grants
from berth.spec.app import Manifest
from berth.spec.capabilities import Capability, is_egress, is_terminal, problem
from berth.spec.findings import Issue, ManifestError, escape

SHARED: tuple[tuple[str, Callable[[Capability], bool]], ...] = (
    ("browser:*", lambda c: c.namespace == "browser"),
    ("terminal:*", lambda c: c.namespace == "terminal"),
    ("network:peer:*", lambda c: c.family == ("network", "peer")),
    ("browser:navigate:* or network:host:*", is_egress),
)


def check(apps: Sequence[Manifest]) -> None:
    """Return when the ordered ``apps`` can share a sandbox; BerthError naming the apps, ManifestError for a path."""
    _check_names(apps)
    _check_private_directories(apps)
    clashes = [*_shared_clashes(apps), *_port_clashes(apps)]
    if clashes:
        raise BerthError("\n".join(clashes), code="config_invalid")


def _check_names(apps: Sequence[Manifest]) -> None:
    if len(apps) > grants.MAX_APPS:
        raise BerthError(f"{len(apps)} apps, a sandbox holds at most {grants.MAX_APPS}", code="config_invalid")
    for app in apps:
        files = [other.file for other in apps if other.name == app.name]
        if len(files) > 1:
            raise BerthError(
                f'{len(files)} apps are named "{app.name}": {escape(", ".join(files))}', code="config_invalid"
            )


def _check_private_directories(apps: Sequence[Manifest]) -> None:
    names = tuple(app.name for app in apps)
    for app in apps:
        issues = [
            Issue(app.file, place, path, reason)
            for capability, (path, place) in zip(app.capabilities, app.declared_at, strict=True)
            if (reason := problem(str(capability), app.name, names))
        ]
        if issues:
            raise ManifestError.invalid(app.file, issues)


def _shared_clashes(apps: Sequence[Manifest]) -> list[str]:
    found = []
    for shown, counts in SHARED:
        declaring = [app.name for app in apps if any(counts(c) for c in app.capabilities)]
        if len(declaring) > 1:
            found.append(f"at most one app per sandbox may declare {shown}; declared by: {', '.join(declaring)}")
    return found


def _port_clashes(apps: Sequence[Manifest]) -> list[str]:
    binding: dict[int, list[str]] = {}
    for app in apps:
        ports = {int(c.scope) for c in app.capabilities if c.family == ("network", "bind")}
        ports |= {grants.TERMINAL_PORT for c in app.capabilities if is_terminal(c)}
        for port in sorted(ports):
            binding.setdefault(port, []).append(app.name)
    return [
        f"at most one app per sandbox may bind port {port}; declared by: {', '.join(names)}"
        for port, names in sorted(binding.items())
        if len(names) > 1
    ]
