"""Makes the container of a sandbox, starts it and waits until every app is ready (sandboxes.md 4.2, 5.1).

The container is created, the boot document copied in, then it is started attached. What it prints is read here line by
line; only lines in column 0 are believed, an app cannot write one.
"""

from __future__ import annotations

import io
import json
import os
import select
import shutil
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import berth
from berth.errors import BerthError
from berth.guest.sandbox import grants
from berth.guest.sandbox.policy import Document
from berth.ops.sandboxes import records
from berth.ops.sandboxes.resolve import Resolved
from berth.ops.setup.context import Context
from berth.registry_sandboxes import Sandbox
from berth.spec import sandbox as spec
from berth.spec.boot import Placed, compile_document
from berth.spec.findings import escape
from berth.tools import proc
from berth.tools.engine import containers
from berth.tools.engine.client import Engine

TAIL = 40
REFUSED = 78
PACKAGE = os.path.dirname(os.path.abspath(berth.__file__))
GUEST_PARTS = ("__init__.py", "guest", "sdk")


class Settings(NamedTuple):
    """What the flags of sandboxes.md 4.1 say."""

    engine: str | None = None
    image: str | None = None
    allow_unenforced: bool = False
    env_file: str | None = None
    timeout_seconds: float = 60.0


def directory_inside(resolved: Resolved, directory: str, name: str, *, dev: bool) -> str:
    """Where an app lies in the container (sandboxes.md 11.2)."""
    if not dev:
        return f"/app/apps/{name}"
    relative = os.path.relpath(directory, resolved.root)
    return "/workspace" if relative == "." else f"/workspace/{relative}"


def document(resolved: Resolved, *, container: str, kind: str, allow_unenforced: bool) -> Document:
    """The compiled boot document."""
    dev = kind in grants.DEV_KINDS
    placed = [
        Placed(app.manifest, directory_inside(resolved, app.directory, app.manifest.name, dev=dev))
        for app in resolved.apps
    ]
    return compile_document(placed, sandbox=container, kind=kind, allow_unenforced=allow_unenforced)


def archive(made: Document) -> bytes:
    """The boot document as a tar stream for the engine's copy: uid 0, gid 0, mode 0400."""
    data = json.dumps(made.as_dict()).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        directory = tarfile.TarInfo("etc/berth")
        directory.type, directory.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(directory)
        entry = tarfile.TarInfo("etc/berth/boot.json")
        entry.size, entry.mode = len(data), 0o400
        tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def secrets_directory(ctx: Context, row: Sandbox) -> str:
    """Where the host keeps a sandbox's secrets while it exists."""
    return os.path.join(ctx.home, "run", row.container, "secrets")


def write_secrets(ctx: Context, row: Sandbox, resolved: Resolved, *, env_file: str | None) -> str | None:
    """Write the values of listed secrets (0600 in 0700); the directory, or None when nobody lists any.

    A name without a value is one warning.
    """
    listed = list(dict.fromkeys(name for app in resolved.manifests for name in app.secrets))
    if not listed:
        return None
    values = {**ctx.environ, **read_env_file(env_file)}
    directory = secrets_directory(ctx, row)
    remove_secrets(ctx, row)
    os.makedirs(directory, mode=0o700)
    for name in listed:
        if name not in values:
            ctx.say.warning(f"secret {name} has no value: not in --env-file and not in the environment")
            continue
        descriptor = os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(values[name].encode("utf-8", "surrogateescape"))
    return directory


def read_env_file(path: str | None) -> dict[str, str]:
    """``NAME=value`` lines; blank ones and those that begin with ``#`` are skipped. Raises env_file_invalid."""
    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BerthError(f"{path}: {error}", code="env_file_invalid") from error
    values = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip() or "\0" in line:
            raise BerthError(f"{path}:{number}: not NAME=value", code="env_file_invalid")
        values[name.strip()] = value
    return values


def remove_secrets(ctx: Context, row: Sandbox) -> None:
    """Remove the secrets of a sandbox from the host."""
    shutil.rmtree(os.path.dirname(secrets_directory(ctx, row)), ignore_errors=True)


def guest_mounts() -> list[spec.Mount]:
    """The installed package's guest parts, read-only."""
    return [
        spec.Mount("bind", os.path.join(PACKAGE, part), f"{spec.GUEST}/{part}", readonly=True) for part in GUEST_PARTS
    ]


def volume_mounts(row: Sandbox) -> list[spec.Mount]:
    """``/context``, its index and the state volumes."""
    context, index = records.context_volumes(row)
    states = zip(records.state_volumes(row), row.app_names, strict=True)
    return [
        spec.Mount("volume", context, "/context"),
        spec.Mount("volume", index, "/var/lib/berth/index"),
        *(spec.Mount("volume", volume, grants.state_of(name)) for volume, name in states),
    ]


def create(
    ctx: Context,
    engine: Engine,
    row: Sandbox,
    resolved: Resolved,
    *,
    made: Document,
    image: str,
    mounts: Sequence[spec.Mount],
) -> None:
    """Create volumes and container and copy the boot document in. What was made is removed when a step fails."""
    records.create_volumes(engine, row, [mount.source for mount in mounts if mount.kind == "volume"])

    def words(*, sysctls: bool) -> list[str]:
        return spec.options(
            resolved.manifests,
            engine=engine.name,
            container=row.container,
            marks=records.marks(row),
            mounts=mounts,
            workdir=made.apps[0].dir,
            cpus=os.cpu_count() or 1,
            sysctls=sysctls,
        )

    identifier = containers.create(engine, words(sysctls=True), image, spec.COMMAND)
    records.sandboxes(ctx).update(row.uuid, container_id=identifier)
    try:
        containers.copy_in(engine, row.container, "/", archive(made))
    except BaseException:
        containers.remove(engine, identifier)
        raise


class Attached:
    """A started container and its output; ``lines`` are the last 40 it printed."""

    def __init__(self, engine: Engine, row: Sandbox, *, sink: Callable[[bytes], None] | None = None) -> None:
        self._sink = sink
        self._rest = b""
        self.lines: list[str] = []
        self.events: list[Mapping[str, object]] = []
        reader, writer = os.pipe()
        try:
            # A group of its own, ended by KILL alone: no signal of ours is ever passed on to the container.
            words = ["container", "start", "--attach", row.container]
            self.pid = engine.spawn(words, descriptors=(proc.DEVNULL, writer, writer))
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self.descriptor = reader

    def read(self) -> bool:
        """Take what is there; False at the end of the output."""
        block = os.read(self.descriptor, 65536)
        if self._sink is not None and block:
            self._sink(block)
        lines = (self._rest + block).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip("\r")
            self.lines = [*self.lines[-TAIL + 1 :], text]
            if text.startswith("{"):
                self.events.append(_event(text))
        return bool(block)

    def wait(self, seconds: float) -> bool:
        """Wait for output at most ``seconds``; False when there was none."""
        return bool(select.select([self.descriptor], [], [], max(0.0, seconds))[0])

    def detach(self) -> None:
        """End the engine's client; the container goes on."""
        if self.descriptor < 0:
            return
        os.close(self.descriptor)
        self.descriptor = -1
        proc.kill_group(self.pid)
        os.waitpid(self.pid, 0)


def _event(text: str) -> Mapping[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def await_ready(attached: Attached, *, seconds: float) -> None:
    """Return once every app is ready. Raises boot_failed with the log's end: refused, exited, or the deadline."""
    deadline = time.monotonic() + seconds
    seen = 0
    while True:
        for event in attached.events[seen:]:
            kind = event.get("event")
            if kind == "sandbox_ready":
                return
            if kind == "capability_enforcement_refused":
                _drain(attached)
                raise _failed(f"{_app_of(event)}refused: {event.get('reason')}", attached)
            if kind == "app_exited":
                raise _failed(
                    f"{_app_of(event)}exited with code {event.get('exit_code')} before it was ready", attached
                )
        seen = len(attached.events)
        left = deadline - time.monotonic()
        if left <= 0:
            raise _failed(f"not every app was ready within {seconds:g} s", attached)
        if attached.wait(left) and not attached.read() and seen == len(attached.events):
            raise _failed("the container ended before its apps were ready", attached)


def _drain(attached: Attached) -> None:
    while attached.wait(0.3) and attached.read():
        continue


def _app_of(event: Mapping[str, object]) -> str:
    return f'app "{event["app"]}" ' if event.get("app") else "the sandbox "


def _failed(reason: str, attached: Attached) -> BerthError:
    lines = "\n".join("  " + escape(line) for line in attached.lines)
    return BerthError(f"{reason}\n{lines}" if lines else reason, code="boot_failed", hint="see its log above")
