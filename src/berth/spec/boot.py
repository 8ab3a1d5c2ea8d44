"""From valid manifests to the boot document: what each app may do, compiled (sandboxes.md 6.1).

Pure: which GPU devices exist and where an app's directory lies in the container is told. The result is checked with
the guest's own rules before it leaves, so that a document that would be refused at boot is never made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from berth.guest.sandbox import grants
from berth.guest.sandbox.policy import Document, check
from berth.spec.app import Export, Manifest
from berth.spec.capabilities import Capability, is_egress, is_terminal, split_invoke


class Placed(NamedTuple):
    """An app and the directory in the container at which its files lie."""

    manifest: Manifest
    directory: str


def compile_document(
    apps: Sequence[Placed],
    *,
    sandbox: str,
    kind: str,
    allow_unenforced: bool = False,
    gpu_devices: Sequence[str] = (),
) -> Document:
    """The boot document of the ordered ``apps``; ``kind`` is dev, mcp, test, os, boot or deploy.

    ``gpu_devices`` are the existing ``/dev/nvidia*``, ``/dev/dri``, ``/dev/kfd``. The apps' names are unique and their
    capabilities without clashes (``berth.spec.clashes``); PolicyError here is a bug of the caller's order of checks.
    """
    dev = kind in grants.DEV_KINDS
    objects = [_app(app, position, dev=dev, gpu_devices=gpu_devices) for position, app in enumerate(apps)]
    written = [path for app in objects for path in app["write"]]
    for app in objects:
        app["exec"] = ["/usr", *_executable(app, written, dev=dev)]
        app["callers"] = {o["name"]: o["invoke"][app["name"]] for o in objects if app["name"] in o["invoke"]}
    return check(
        {
            "format": grants.FORMAT,
            "sandbox": sandbox,
            "kind": kind,
            "allow_unenforced": allow_unenforced,
            "apps": objects,
        }
    )


def _app(app: Placed, position: int, *, dev: bool, gpu_devices: Sequence[str]) -> dict[str, Any]:
    manifest, directory = app
    capabilities = manifest.capabilities
    name = manifest.name
    connect_any = any(str(c) == "network:connect:*" for c in capabilities)
    egress = [c.scope for c in capabilities if is_egress(c)]
    terminal = any(is_terminal(c) for c in capabilities)
    bind = [int(scope) for scope in _scopes(capabilities, "network", "bind")]
    connect = [int(scope) for scope in _scopes(capabilities, "network", "connect") if scope != "*"]
    return {
        "name": name,
        "uid": grants.FIRST_UID + position,
        "dir": directory,
        "entry": manifest.entry,
        "interpreter": manifest.interpreter,
        "manifest_sha256": manifest.sha256,
        "capabilities": [str(c) for c in capabilities],
        "read": _once([*grants.own_reads(name, directory), *_paths(capabilities, "read", dev=dev)]),
        "write": _once(["/dev/null", *_paths(capabilities, "write", dev=dev)]),
        "write_private": [grants.home_of(name), grants.state_of(name)],
        "exec": [],
        "devices": [
            *(grants.TERMINAL_DEVICES if terminal else ()),
            *(gpu_devices if manifest.resources.gpu else ()),
        ],
        "proc_all": any(str(c) == "process:list:*" for c in capabilities),
        "connect": _once([*connect, *([grants.EGRESS_PORT] if egress else [])]),
        "connect_any": connect_any,
        "bind": _once([*bind, *([grants.TERMINAL_PORT] if terminal else [])]),
        "listen": connect_any or terminal or bool(bind),
        "invoke": _invoke(capabilities),
        "callers": {},
        "egress": _once(egress),
        "bus": {
            "publish": _once(_scopes(capabilities, "bus", "publish")) or None,
            "subscribe": _once(_scopes(capabilities, "bus", "subscribe")) or None,
        },
        "groups": [grants.SHARED_GID],
        "secrets": list(manifest.secrets),
        "limits": {
            "nproc": manifest.pids,
            "nofile": grants.NOFILE,
            "core": 0,
            "oom_score_adj": grants.OOM_COMPANION if position else grants.OOM_PRIMARY,
        },
        "on_install": len(manifest.on_install),
        "exports": [_export(export) for export in manifest.exports],
    }


def _export(export: Export) -> dict[str, Any]:
    described = {"description": export.description} if export.description else {}
    return {"name": export.name, **described, "input": export.input, "output": export.output}


def _scopes(capabilities: Sequence[Capability], namespace: str, action: str) -> Iterator[str]:
    return (c.scope for c in capabilities if c.family == (namespace, action))


def _paths(capabilities: Sequence[Capability], action: str, *, dev: bool) -> Iterator[str]:
    """The declared paths; in dev each beneath ``/workspace`` also where it lies in the dev workspace."""
    for path in _scopes(capabilities, "filesystem", action):
        yield path
        if dev and path.startswith("/workspace/") and not grants.overlaps(path, grants.DEV_WORKSPACE):
            yield grants.DEV_WORKSPACE + path.removeprefix("/workspace")


def _executable(app: dict[str, Any], written: list[str], *, dev: bool) -> list[str]:
    """The own directory and the interpreter's prefix, as far as no app can write there."""
    candidates = [app["dir"], grants.interpreter_prefix(app["interpreter"])]
    return [path for path in candidates if path != "/usr" and grants.may_execute(path, writes=written, dev=dev)]


def _invoke(capabilities: Sequence[Capability]) -> dict[str, str | list[str]]:
    """Target → ``*`` or its exports in order; the plain form wins when both are declared."""
    found: dict[str, list[str]] = {}
    for scope in _scopes(capabilities, "app", "invoke"):
        app, export = split_invoke(scope)
        found.setdefault(app, []).append(export)
    return {app: "*" if "*" in exports else _once(exports) for app, exports in found.items()}


def _once(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
