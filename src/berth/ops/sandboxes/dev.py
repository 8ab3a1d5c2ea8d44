"""``dev``: apps from their sources in one container, for as long as this command runs (sandboxes.md 4.2).

The container's output goes through verbatim. A change of sources restarts it, a change of a manifest is checked first
and then recreates it; what is wrong leaves the old sandbox running.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from berth.errors import BerthError, Interrupted
from berth.guest.sandbox import grants
from berth.ops.sandboxes import audit, checks, engines, records, starting
from berth.ops.sandboxes.resident import require_name
from berth.ops.sandboxes.resolve import Resolved
from berth.ops.sandboxes.starting import Settings
from berth.ops.setup.context import Context
from berth.registry_sandboxes import Sandbox
from berth.spec import sandbox as spec
from berth.tools.engine import containers
from berth.tools.engine.client import Engine

STOP_SECONDS = 10
WATCH_SECONDS = 0.2
DEV_DIRECTORY = os.path.join(".berth", "dev-workspace")
SKIPPED = frozenset(("__pycache__", ".git", "node_modules"))


class Dev:
    """One run of ``dev``. ``resolve`` runs checks 1 to 5 again; ``sink`` gets the container's output."""

    def __init__(
        self,
        ctx: Context,
        resolved: Resolved,
        *,
        name: str | None,
        settings: Settings,
        resolve: Callable[[], Resolved],
        sink: Callable[[bytes], None],
    ) -> None:
        self._ctx = ctx
        self._resolved = resolved
        self._settings = settings
        self._resolve = resolve
        self._sink = sink
        self._name = require_name(name or resolved.names[0])
        self._container = f"berth-dev-{self._name}"
        self._attached: starting.Attached | None = None
        self._was_up = False

    def run(self, *, fresh: bool, watch: bool) -> int:
        """Serve until a signal (0) or, without ``watch``, until the primary ends (1). Raises BerthError and, before
        the sandbox was up, Interrupted."""
        require_no_sockets(self._resolved.root)
        self._engine = engines.choose(self._settings.engine, environ=self._ctx.environ)
        self._image = engines.base_image(self._settings.image, environ=self._ctx.environ)
        image_id = engines.require_image(self._engine, self._image)
        if self._engine.facts.rootless:
            require_no_mounts(self._resolved.root)
        self._row = self._claim()
        try:
            records.remove_container(self._engine, self._row)  # a dead owner's
            checks.enforcement(self._ctx, self._engine, self._image, image_id, self._settings)
            if fresh:
                self._start_fresh()
            self._boot()
            return self._serve(watch=watch)
        except Interrupted:
            if not self._was_up:
                raise
            return 0
        finally:
            self._clean_up()

    def _claim(self) -> Sandbox:
        return records.claim(
            self._ctx,
            self._engine,
            records.new_row(
                self._ctx,
                kind="dev",
                name=self._name,
                container=self._container,
                engine=self._engine,
                image=self._image,
                root=self._resolved.root,
                apps=tuple((app.manifest.name, app.directory) for app in self._resolved.apps),
                unenforced=self._settings.allow_unenforced,
            ),
        )

    # -- start --------------------------------------------------------------------------------------------------

    def _boot(self) -> None:
        """Create, start, wait until ready."""
        made = starting.document(
            self._resolved,
            container=self._container,
            kind="dev",
            allow_unenforced=self._settings.allow_unenforced,
        )
        make_workspace(self._resolved.root)
        secrets = starting.write_secrets(self._ctx, self._row, self._resolved, env_file=self._settings.env_file)
        starting.create(
            self._ctx,
            self._engine,
            self._row,
            self._resolved,
            made=made,
            image=self._image,
            mounts=self._mounts(secrets),
        )
        self._attach()
        action = "unenforced_boot" if self._settings.allow_unenforced else "boot"
        audit.record(self._ctx, action, self._row, command="dev", apps=self._resolved.names)

    def _mounts(self, secrets: str | None) -> list[spec.Mount]:
        root = self._resolved.root
        mounts = [
            spec.Mount("bind", root, "/workspace", readonly=True, recursive=False),
            spec.Mount("bind", os.path.join(root, DEV_DIRECTORY), grants.DEV_WORKSPACE),
            *starting.guest_mounts(),
            *starting.volume_mounts(self._row),
        ]
        return [*mounts, spec.Mount("bind", secrets, spec.SECRETS, readonly=True)] if secrets is not None else mounts

    def _attach(self) -> None:
        self._detach()
        self._attached = starting.Attached(self._engine, self._row, sink=self._sink)
        starting.await_ready(self._attached, seconds=self._settings.timeout_seconds)
        self._was_up = True
        if self._settings.allow_unenforced:
            checks.warn_unenforced(self._ctx)
        self._ctx.say.waiting(f"ready: {', '.join(self._resolved.names)} ({self._container})")

    def _detach(self) -> None:
        if self._attached is not None:
            self._attached.detach()
            self._attached = None

    # -- while it runs ------------------------------------------------------------------------------------------

    def _serve(self, *, watch: bool) -> int:
        sources, manifests = self._seen()
        while True:
            if self._attached is None:
                time.sleep(WATCH_SECONDS)
            elif self._attached.wait(WATCH_SECONDS) and not self._attached.read():
                self._tell_end()
                if not watch:
                    return 1
            if not watch:
                continue
            now_sources, now_manifests = self._seen()
            if now_manifests != manifests:
                self._recreate()
            elif now_sources != sources:
                self._restart()
            if (now_sources, now_manifests) != (sources, manifests):
                sources, manifests = self._seen()

    def _tell_end(self) -> None:
        self._detach()
        found = containers.find(self._engine, self._container)
        code = found.exit_code if found is not None else "unknown"
        self._ctx.say.waiting(f"{self._resolved.names[0]} exited with code {code}")

    def _restart(self) -> None:
        self._ctx.say.waiting("sources changed: restarting")
        self._detach()
        containers.stop(self._engine, self._container, seconds=STOP_SECONDS)
        self._survive(self._attach)

    def _recreate(self) -> None:
        try:
            resolved = self._resolve()
        except BerthError as error:
            self._ctx.say.warning(error.message)
            return
        self._ctx.say.waiting("manifest changed: recreating")
        self._detach()
        records.remove_container(self._engine, self._row)
        self._resolved = resolved
        self._row = self._claim()
        self._survive(self._boot)

    def _survive(self, start: Callable[[], None]) -> None:
        """A start that fails is told; the next change tries again."""
        try:
            start()
        except BerthError as error:
            self._detach()
            self._ctx.say.warning(error.message)

    def _seen(self) -> tuple[object, object]:
        """Stamps of all sources, and of all manifests."""
        sources, manifests = [], []
        for app in self._resolved.apps:
            manifests.append(_stamp(os.path.join(app.directory, "berth.yml")))
            for directory, names, files in os.walk(os.path.join(app.directory, "src")):
                names[:] = [name for name in names if name not in SKIPPED]
                sources += [(path, _stamp(path)) for path in (os.path.join(directory, name) for name in sorted(files))]
        return sources, manifests

    # -- end ----------------------------------------------------------------------------------------------------

    def _start_fresh(self) -> None:
        records.remove_volumes(self._engine, self._row, records.state_volumes(self._row))
        empty_workspace(self._engine, self._resolved.root, self._image)

    def _clean_up(self) -> None:
        """The container and its /context go, state volumes stay; the row stays with them, without an owner."""
        self._detach()
        records.remove_container(self._engine, self._row)
        records.remove_volumes(self._engine, self._row, records.context_volumes(self._row))
        starting.remove_secrets(self._ctx, self._row)
        records.sandboxes(self._ctx).update(self._row.uuid, owner_pid=None, owner_start=None, container_id=None)
        audit.record(self._ctx, "stop", self._row, command="dev")


def _stamp(path: str) -> object:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def make_workspace(root: str) -> None:
    """``<root>/.berth/dev-workspace``, 2775 when it is made, and a .gitignore for all of ``.berth``."""
    base = os.path.join(root, ".berth")
    os.makedirs(base, mode=0o755, exist_ok=True)
    ignore = os.path.join(base, ".gitignore")
    if not os.path.lexists(ignore):
        with open(ignore, "w", encoding="ascii") as file:
            file.write("*\n")
    directory = os.path.join(root, DEV_DIRECTORY)
    if not os.path.lexists(directory):
        os.mkdir(directory)
        os.chmod(directory, 0o2775)  # noqa: S103  # the contract's mode: apps share it as a group


def empty_workspace(engine: Engine, root: str, image: str) -> None:
    """Empty the dev workspace through a container: its files belong to the apps' uids."""
    directory = os.path.join(root, DEV_DIRECTORY)
    if not os.path.isdir(directory):
        return
    mount = spec.mount_words(spec.Mount("bind", directory, "/emptied"))
    words = ["run", "--rm", "--network", "none", "--pull", "never", "--user", "0:0", "--mount", mount]
    engine.call([*words, "--entrypoint", "find", image, "/emptied", "-mindepth", "1", "-delete"])


def require_no_mounts(root: str) -> None:
    """Refuse a root with a mount below it where the engine is rootless: the kernel refuses it the non-recursive bind,
    and a recursive one would leave that mount writable (sandboxes.md 11.2)."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            below = [line.split()[4] for line in file if line.split()[4].startswith(root.rstrip("/") + "/")]
    except FileNotFoundError:
        return  # no Linux here: the engine's machine has mounts of its own
    if below:
        raise BerthError(
            f"{below[0]} is a mount below {root}, which a rootless engine cannot bind read-only",
            code="config_invalid",
            hint=f"unmount it, or move the app out of {root}",
        )


def require_no_sockets(root: str) -> None:
    """Refuse a root with a unix socket in it that any app could connect to (sandboxes.md 15.2)."""
    import stat

    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if name not in (".git", "node_modules")]
        for name in files:
            path = os.path.join(directory, name)
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                continue  # it went away while we looked
            if stat.S_ISSOCK(mode) and mode & 0o002:
                raise BerthError(
                    f"{path} is a socket that every app could connect to",
                    code="config_invalid",
                    hint=f"move it out of {root}, or chmod o-w {path}",
                )
