"""``os up``, ``os down``, ``os status``: sandboxes that stay when the command has returned (sandboxes.md 4.5).

Their image has the production layout: every app in ``/app/apps/<name>``, root-owned, guest and boot document inside.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

from berth.errors import BerthError
from berth.guest.sandbox import grants
from berth.guest.sandbox.policy import Document
from berth.ops.sandboxes import audit, checks, engines, records, starting
from berth.ops.sandboxes.resolve import Resolved
from berth.ops.sandboxes.starting import Settings
from berth.ops.setup.context import Context
from berth.registry import timestamp
from berth.registry_sandboxes import Sandbox
from berth.spec import sandbox as spec
from berth.tools.engine import containers, images
from berth.tools.engine.client import Engine

NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
LEFT_OUT = frozenset((".git", ".berth", "node_modules", ".venv", "__pycache__"))
STATUS_SECONDS = 10.0


class Up(NamedTuple):
    """What ``os up`` did: the row, and whether it ran already."""

    row: Sandbox
    was_running: bool


def up(
    ctx: Context,
    resolved: Resolved,
    *,
    name: str | None,
    settings: Settings,
    kind: str = "os",
) -> Up:
    """Build, start and wait until every app is ready; what was made is removed when that fails."""
    name = require_name(name or resolved.names[0])
    container = f"berth-os-{name}"
    engine = engines.choose(settings.engine, environ=ctx.environ)
    base = engines.base_image(settings.image, environ=ctx.environ)
    present = records.sandboxes(ctx).by_container(container)
    if present is not None and _already_up(ctx, present, resolved):
        return Up(present, was_running=True)
    base_id = engines.require_image(engine, base)
    row = records.claim(
        ctx,
        engine,
        records.new_row(
            ctx,
            kind=kind,
            name=name,
            container=container,
            engine=engine,
            image=f"berth-os/{name}:latest",
            root=resolved.apps[0].directory,
            apps=tuple((app.manifest.name, app.directory) for app in resolved.apps),
            unenforced=settings.allow_unenforced,
        ),
    )
    fresh = present is None
    try:
        records.find_ours(engine, row)  # a foreign container is seen before anything is built
        checks.enforcement(ctx, engine, base, base_id, settings)
        _start(ctx, engine, row, resolved, base=base, settings=settings)
    except BaseException as error:
        if not (isinstance(error, BerthError) and error.code == "sandbox_exists"):
            audit.record(ctx, "boot", row, decision="failed", reason=_first_line(error), command=f"{kind} up")
            destroy(ctx, engine, row, volumes=fresh)
        if fresh:
            records.sandboxes(ctx).delete(row.uuid)
        raise
    return Up(row, was_running=False)


def _first_line(error: BaseException) -> str:
    return str(getattr(error, "message", error)).partition("\n")[0]


def require_name(name: str) -> str:
    """Raise usage unless ``name`` may name a sandbox."""
    if NAME.fullmatch(name) is None:
        raise BerthError(f"{name!a} is no sandbox name: a-z, then up to 30 of a-z 0-9 -", code="usage")
    return name


def _already_up(ctx: Context, row: Sandbox, resolved: Resolved) -> bool:
    """True when it runs; a stopped one is removed with a warning; kept volumes want the same apps."""
    if row.root != resolved.apps[0].directory:
        return False  # claim says whose it is
    engine = Engine(row.engine, environ=ctx.environ)
    found = records.find_ours(engine, row)
    if found is not None and found.running:
        return True
    if found is not None:
        ctx.say.warning(f"{row.container} was stopped; it is removed and made anew")
        records.remove_container(engine, row)
    kept = images.volumes(engine, {spec.LABEL: row.uuid})
    if kept and row.app_names != resolved.names:
        raise BerthError(
            f"{row.name} has kept volumes of the apps {', '.join(row.app_names)}; "
            f"these are {', '.join(resolved.names)}",
            code="sandbox_exists",
            hint=f"the same apps in the same order, or berth os down {row.name}",
        )
    return False


def _start(ctx: Context, engine: Engine, row: Sandbox, resolved: Resolved, *, base: str, settings: Settings) -> None:
    made = starting.document(
        resolved, container=row.container, kind=row.kind, allow_unenforced=settings.allow_unenforced
    )
    ctx.say.step("building the image")
    build(engine, row, resolved, made, base=base)
    secrets = starting.write_secrets(ctx, row, resolved, env_file=settings.env_file)
    mounts = [spec.Mount("volume", f"{row.container}.workspace", "/workspace"), *starting.volume_mounts(row)]
    if secrets is not None:
        mounts.append(spec.Mount("bind", secrets, spec.SECRETS, readonly=True))
    ctx.say.step("starting the apps")
    starting.create(ctx, engine, row, resolved, made=made, image=row.image, mounts=mounts)
    attached = starting.Attached(engine, row)
    try:
        starting.await_ready(attached, seconds=settings.timeout_seconds)
    finally:
        attached.detach()
    action = "unenforced_boot" if settings.allow_unenforced else "boot"
    audit.record(ctx, action, row, command=f"{row.kind} up", apps=row.app_names)
    if settings.allow_unenforced:
        checks.warn_unenforced(ctx)


def build(engine: Engine, row: Sandbox, resolved: Resolved, made: Document, *, base: str) -> None:
    """The production image: guest, apps and boot document on the base image, all owned by root."""
    with tempfile.TemporaryDirectory(prefix="berth-image-") as stage:
        os.mkdir(os.path.join(stage, "berth"))
        for part in starting.GUEST_PARTS:
            stage_tree(os.path.join(starting.PACKAGE, part), os.path.join(stage, "berth", part))
        for app in resolved.apps:
            stage_tree(app.directory, os.path.join(stage, "apps", app.manifest.name))
        _write(os.path.join(stage, "boot.json"), json.dumps(made.as_dict()), 0o400)
        _write(
            os.path.join(stage, "Dockerfile"),
            f"FROM {base}\nUSER root\nCOPY berth {spec.GUEST}\nCOPY apps /app/apps\nCOPY boot.json {spec.DOCUMENT}\n",
            0o644,
        )
        options = [word for key, value in records.marks(row).items() for word in ("--label", f"{key}={value}")]
        if engine.name == "podman":
            options.append("--pull-never")
        images.build(engine, stage, tag=row.image, options=options, stderr=-1)


def _write(path: str, text: str, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)


def stage_tree(source: str, target: str) -> None:
    """Copy regular files, directories and links that stay inside (sandboxes.md 11.2): 0755, or 0644 where not
    executable. Raises config_invalid for a link that leaves ``source``."""
    if os.path.isfile(source):
        _stage_file(source, target)
        return
    base = os.path.realpath(source)
    for directory, names, files in os.walk(source):
        names[:] = sorted(name for name in names if name not in LEFT_OUT)
        here = os.path.join(target, os.path.relpath(directory, source))
        os.makedirs(here, mode=0o755, exist_ok=True)
        os.chmod(here, 0o755)  # noqa: S103  # apps read it as other users
        for name in [*names, *sorted(files)]:
            path = os.path.join(directory, name)
            if os.path.islink(path):
                _stage_link(path, os.path.join(here, name), base)
            elif name in files and not name.endswith(".pyc") and stat.S_ISREG(os.lstat(path).st_mode):
                _stage_file(path, os.path.join(here, name))


def _stage_file(source: str, target: str) -> None:
    shutil.copyfile(source, target)
    os.chmod(target, 0o755 if os.stat(source).st_mode & 0o111 else 0o644)


def _stage_link(path: str, target: str, base: str) -> None:
    to = os.readlink(path)
    if os.path.isabs(to) or not grants.covers(base, os.path.realpath(path)):
        raise BerthError(f"{path} is a link that leaves the app directory ({to})", code="config_invalid")
    os.symlink(to, target)


# -- down -----------------------------------------------------------------------------------------------------------


def down(ctx: Context, name: str, *, keep_volumes: bool) -> Sandbox:
    """Stop and remove everything of a sandbox; with ``keep_volumes`` volumes and record stay. sandbox_not_found."""
    row = find(ctx, name)
    engine = Engine(row.engine, environ=ctx.environ)
    engine.require_answer()
    destroy(ctx, engine, row, volumes=not keep_volumes)
    audit.record(ctx, "stop", row, command="os down")
    if keep_volumes:
        records.sandboxes(ctx).update(row.uuid, container_id=None)
    else:
        records.sandboxes(ctx).delete(row.uuid)
    return row


def destroy(ctx: Context, engine: Engine, row: Sandbox, *, volumes: bool) -> None:
    """Remove container, image, secrets and, if asked, the volumes of ``row``. What is foreign is left and raises."""
    records.remove_container(engine, row)
    images.remove_image(engine, row.image)
    starting.remove_secrets(ctx, row)
    if volumes:
        names = [f"{row.container}.workspace", *records.context_volumes(row), *records.state_volumes(row)]
        records.remove_volumes(engine, row, names)


def find(ctx: Context, name: str) -> Sandbox:
    """The row of ``berth os`` called ``name``. Raises sandbox_not_found."""
    for row in records.sandboxes(ctx).all():
        if row.kind in ("os", "boot") and row.name == name:
            return row
    raise BerthError(f"no sandbox {name}", code="sandbox_not_found", hint="berth os status")


# -- status ---------------------------------------------------------------------------------------------------------


def status(ctx: Context, name: str | None) -> list[dict[str, Any]]:
    """The objects of ``os status --json``; every resident sandbox, or the one called ``name``."""
    if name is not None:
        return [view(ctx, find(ctx, name))]
    return [view(ctx, row) for row in records.sandboxes(ctx).all() if row.kind in ("os", "boot")]


def view(ctx: Context, row: Sandbox) -> dict[str, Any]:
    """One sandbox as it is now."""
    engine = Engine(row.engine, environ=ctx.environ)
    found = containers.find(engine, row.container)
    if found is not None and found.labels.get(spec.LABEL) != row.uuid:
        found = None
    state = "missing" if found is None else "running" if found.running else "stopped"
    inside = _inside(engine, row) if state == "running" else {}
    apps = inside.get("apps") or [_unknown_app(app, number) for number, app in enumerate(row.app_names)]
    return {
        "name": row.name,
        "container": row.container,
        "state": state,
        "engine": row.engine,
        "image": row.image,
        "started_at": timestamp(inside["started_at"]) if "started_at" in inside else None,
        "unenforced": row.unenforced,
        "apps": apps,
    }


def _unknown_app(name: str, number: int) -> dict[str, Any]:
    return {
        "name": name,
        "uid": grants.FIRST_UID + number,
        "pid": None,
        "state": "exited",
        "exit_code": None,
        "enforcement": "none",
        "missing": [],
    }


def _inside(engine: Engine, row: Sandbox) -> dict[str, Any]:
    """What the supervisor wrote down; nothing when it cannot be read just now."""
    words = containers.exec_words(row.container, ["cat", "/run/berth/status.json"], env={}, user="0:0", shell=False)
    result = engine.attempt(words, timeout=STATUS_SECONDS)
    try:
        value = json.loads(result.stdout)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def apps_line(apps: Sequence[dict[str, Any]]) -> str:
    """The names, in order."""
    return " ".join(str(app["name"]) for app in apps)
