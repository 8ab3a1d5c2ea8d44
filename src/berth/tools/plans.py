"""The prepared plan: what ``berth run`` needs, written by the last holder of the workspace lock (workspaces.md 8.8).

One file per workspace below ``<home>/plans``, named by device and inode of its root directory (hex), 0600::

    berth-plan NUL <berth's version> NUL <field> NUL <value> … NUL

Fields are NUL-separated because JSON alone would cost more than half an interpreter start. A plan holds while its
stamps do: the files it was made from, unchanged. It is never inside the workspace, where a container's processes
could write it. HOT: read by ``run``, ``status``, ``plan``, ``attach``.
"""

from __future__ import annotations

import os

from berth import __version__
from berth.tools import steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MAGIC = "berth-plan"
FRESH_SECONDS = 2.0  # a file changed more recently may change again within its timestamp's grain
ENGINE_VARIABLES = ("DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST")
_LISTS = ("engine", "processes", "ports")


class PreparedPlan:
    """Everything decided for a run.

    ``workspace_id``, ``path`` (canonical), ``slug``, ``lock_key``, ``backend`` are strings; ``environment`` maps the
    injected variables and ``env``; ``engine`` is the engine command (empty in native mode); ``processes`` and
    ``ports`` are names, for completion; ``document`` is the JSON text that ``berth plan`` prints.
    ``stamps`` maps what was looked at to what was seen.
    """

    __slots__ = (
        "backend",
        "document",
        "engine",
        "environment",
        "git_dir",
        "host_view",
        "lock_key",
        "path",
        "ports",
        "processes",
        "slug",
        "stamps",
        "workspace_id",
    )

    def __init__(
        self,
        *,
        workspace_id: str,
        path: str,
        slug: str,
        git_dir: str,
        lock_key: str,
        backend: str,
        engine: Sequence[str],
        environment: Mapping[str, str],
        host_view: Mapping[str, str] | None = None,
        processes: Sequence[str],
        ports: Sequence[str],
        document: str,
        stamps: Mapping[str, str],
    ) -> None:
        self.workspace_id = workspace_id
        self.path = path
        self.slug = slug
        self.git_dir = git_dir
        self.lock_key = lock_key
        self.backend = backend
        self.engine = list(engine)
        self.environment = dict(environment)
        self.host_view = dict(host_view or {})
        self.processes = list(processes)
        self.ports = list(ports)
        self.document = document
        self.stamps = dict(stamps)

    def holds(self, environ: Mapping[str, str]) -> bool:
        """True while everything the plan was made from is as it was."""
        return self.stamps == stamps(self.path, self.git_dir, self.backend, environ)


def plan_name(path: str) -> str | None:
    """The file name of the plan of the workspace at ``path``, or None when there is no directory."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return f"{facts.st_dev:x}-{facts.st_ino:x}"


def stamps(path: str, git_dir: str, backend: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What a plan depends on, as it is now: configuration, HEAD, marker, ``.git``, and what selects the engine."""
    found = {
        "config": config_stamp(os.path.join(path, "berth.yaml")),
        "head": _content(os.path.join(git_dir, "HEAD")),
        "reftable": _content(os.path.join(git_dir, "reftable", "tables.list")),
        "marker": _content(os.path.join(path, ".berth", "identity.json")),
        "git": _content(os.path.join(path, ".git")),
    }
    if backend == "container":
        found.update({name: environ.get(name, "") for name in ENGINE_VARIABLES})
    return found


def config_stamp(path: str) -> str:
    """Device, inode, size, mtime and ctime of the file, or ``absent``."""
    try:
        facts = os.stat(path)
    except OSError:
        return "absent"
    return stamp_of(facts)


def stamp_of(facts: os.stat_result) -> str:
    """The stamp of a file from its ``stat``."""
    return f"{facts.st_dev}:{facts.st_ino}:{facts.st_size}:{facts.st_mtime_ns}:{facts.st_ctime_ns}"


def is_fresh(path: str, now: float) -> bool:
    """True when the file changed less than two seconds before ``now``: no plan may rest on it yet."""
    try:
        facts = os.stat(path)
    except OSError:
        return False
    return now - max(facts.st_mtime, facts.st_ctime) < FRESH_SECONDS


def load(home: str, path: str) -> PreparedPlan | None:
    """The plan of the workspace at ``path``, or None when there is none that this berth understands."""
    name = plan_name(path)
    if name is None:
        return None
    try:
        with open(os.path.join(home, "plans", name), "rb") as file:
            words = file.read().decode("utf-8", "surrogateescape").split("\0")
    except OSError:
        return None
    if words[:2] != [MAGIC, __version__] or words[-1] != "" or len(words) % 2 == 0:
        return None
    plan = _decode(words[2:-1])
    return plan if plan is not None and plan.path == path else None


def save(home: str, plan: PreparedPlan) -> str | None:
    """Write the plan, whole or not at all, and return its file name; None when its directory is gone."""
    name = plan_name(plan.path)
    if name is None:
        return None
    words = [MAGIC, __version__]
    for field in ("workspace_id", "path", "slug", "git_dir", "lock_key", "backend", "document"):
        words += [field, getattr(plan, field)]
    for field in _LISTS:
        for value in getattr(plan, field):
            words += [field, value]
    for prefix, mapping in (("environment", plan.environment), ("host", plan.host_view), ("stamp", plan.stamps)):
        for key, value in mapping.items():
            words += [f"{prefix}:{key}", value]
    directory = os.path.join(home, "plans")
    os.makedirs(directory, mode=0o700, exist_ok=True)
    draft = os.path.join(directory, f".{name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write("\0".join([*words, ""]).encode("utf-8", "surrogateescape"))
        steps.reach("before the plan is replaced")
        os.rename(draft, os.path.join(directory, name))
    except BaseException:
        os.unlink(draft)
        raise
    return name


def delete(home: str, name: str | None) -> None:
    """Delete a plan by its file name; one that is gone already is fine."""
    if name is None:
        return
    steps.reach("before the plan is deleted")
    try:
        os.unlink(os.path.join(home, "plans", name))
    except FileNotFoundError:
        return


def _content(path: str) -> str:
    """The content of a small regular file, or what it is instead; never follows a link, never waits."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return f"errno {error.errno}"
    try:
        return os.read(descriptor, 65536).decode("utf-8", "surrogateescape").replace("\0", "\\0")
    except OSError as error:
        return f"errno {error.errno}"
    finally:
        os.close(descriptor)


def _decode(words: Sequence[str]) -> PreparedPlan | None:
    single: dict[str, str] = {}
    lists: dict[str, list[str]] = {name: [] for name in _LISTS}
    environment: dict[str, str] = {}
    host_view: dict[str, str] = {}
    seen: dict[str, str] = {}
    for field, value in zip(words[::2], words[1::2], strict=True):
        prefix, colon, key = field.partition(":")
        if prefix == "environment" and colon:
            environment[key] = value
        elif prefix == "host" and colon:
            host_view[key] = value
        elif prefix == "stamp" and colon:
            seen[key] = value
        elif field in lists:
            lists[field].append(value)
        else:
            single[field] = value
    fields: dict[str, Any] = {**single, **lists, "environment": environment, "host_view": host_view, "stamps": seen}
    try:
        return PreparedPlan(**fields)
    except TypeError:
        return None  # another version's fields
