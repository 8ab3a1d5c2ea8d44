"""What a workspace's container is: its name, labels, mounts, user, variables and the words of ``create`` (9.1 to 9.3).

Pure: it decides from facts that others found. Which engine's client gets the words is not known here.
"""

from __future__ import annotations

import os

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

ROOT = "/workspace"
DATA = "/workspace/.berth/data"
CONTROL = "/workspace/.berth/run"
COMMON = "/berth/git"
GUESTS = "/berth/guest"
HOME = "/tmp/berth-home"  # noqa: S108  # inside the container, where nobody else is
CACHE = f"{HOME}/.cache"
LABEL_WORKSPACE = "dev.berth.workspace"
LABEL_HOME = "dev.berth.home"
# Over the read-write common directory, read-only: hooks and configuration planted there would run on the host.
READ_ONLY_IN_COMMON = ("hooks", "config", "modules", "worktrees")
READ_ONLY_IN_ADMIN = ("commondir", "gitdir", "config.worktree", "modules")
# Without site and without what the image's environment says; bytecode goes where it can be written.
PYTHON_FLAGS = ("-I", "-S", "-X", f"pycache_prefix={CACHE}/pyc")


class Mount:
    """A bind: ``source`` on the host, ``target`` inside, ``writable``."""

    __slots__ = ("source", "target", "writable")

    def __init__(self, source: str, target: str, *, writable: bool) -> None:
        self.source = source
        self.target = target
        self.writable = writable

    @property
    def words(self) -> list[str]:
        """As ``create`` takes it; never relabelled."""
        mode = "" if self.writable else ",readonly"
        return ["--mount", f"type=bind,source={self.source},target={self.target}{mode}"]


def container_name(workspace_id: str) -> str:
    """The name of a workspace's container."""
    return f"berth-{workspace_id}"


def guest_program(guest: str) -> str:
    """Where the guest of that hash starts, inside."""
    return f"{GUESTS}/{guest}/guest"


def guest_words(guest: str, verb: str, *arguments: str) -> list[str]:
    """The argument list that runs a verb of the guest, inside."""
    return ["python3", *PYTHON_FLAGS, guest_program(guest), verb, *arguments]


def labels(*, workspace_id: str, path: str, spec: str, home_id: str) -> dict[str, str]:
    """The four labels that make a container ours (9.1); ``spec`` is the spec hash, ``home_id`` names this home."""
    import hashlib

    return {
        LABEL_WORKSPACE: workspace_id,
        "dev.berth.path": hashlib.sha256(os.fsencode(path)).hexdigest(),
        "dev.berth.spec": spec,
        LABEL_HOME: home_id,
    }


def require_mountable(*paths: str) -> None:
    """Raise unsupported_path for a path that a bind mount cannot be written with."""
    for path in paths:
        for character, name in ((",", "a comma"), ('"', "a double quote")):
            if character in path:
                raise BerthError(
                    f"{path} contains {name}, which a container's mount cannot name",
                    code="unsupported_path",
                    hint="move it, or use runtime.backend: native",
                )


def admin_name(git_dir: str) -> str:
    """The name of a linked worktree's admin directory. Raises unsupported_path when it is in no ``worktrees``."""
    parent, name = os.path.split(git_dir)
    if os.path.basename(parent) != "worktrees":
        raise BerthError(
            f"{git_dir} does not lie in a worktrees directory", code="unsupported_path", hint="adopt a linked worktree"
        )
    return name


def mounts(*, path: str, git_dir: str, common_dir: str, worktree_config: bool) -> list[Mount]:
    """Every bind of 9.2 but the guest's, outermost first. ``worktree_config``: the extension is on."""
    admin = admin_name(git_dir)
    found = [Mount(path, ROOT, writable=True), Mount(common_dir, COMMON, writable=True)]
    found += [Mount(f"{common_dir}/{name}", f"{COMMON}/{name}", writable=False) for name in READ_ONLY_IN_COMMON]
    if worktree_config:
        found.append(Mount(f"{common_dir}/config.worktree", f"{COMMON}/config.worktree", writable=False))
    inside = f"{COMMON}/worktrees/{admin}"
    found.append(Mount(git_dir, inside, writable=True))
    found.append(Mount(f"{path}/.git", f"{ROOT}/.git", writable=False))
    for name in READ_ONLY_IN_ADMIN:
        if worktree_config or name != "config.worktree":
            found.append(Mount(f"{git_dir}/{name}", f"{inside}/{name}", writable=False))
    return found


def user_words(
    *, engine: str, rootless: bool, is_linux: bool, user: str | None, uid: int, gid: int
) -> tuple[list[str], list[str]]:
    """(words of the user namespace, words of the user) as in 9.3."""
    keep = ["--userns=keep-id"] if engine == "podman" and rootless and is_linux else []
    if user is not None:
        return keep, ["--user", user]
    if not is_linux:
        return [], []
    if engine == "docker" and rootless:
        return [], ["--user", "0:0"]
    return keep, ["--user", f"{uid}:{gid}"]


def create_words(
    *,
    name: str,
    marks: Mapping[str, str],
    binds: Sequence[Mount],
    user: Sequence[str],
    limits: Mapping[str, Any],
    published: Mapping[str, tuple[int, int]],
    guests: str,
) -> list[str]:
    """The options of ``create``, in the order of 9.2. ``published``: name → (host port, gateway port)."""
    words = ["--name", name, "--pull=never", "--restart=no"]
    for key, value in marks.items():
        words += ["--label", f"{key}={value}"]
    words += ["--security-opt", "no-new-privileges:true", "--cap-drop", "ALL"]
    words += ["--sysctl", "net.ipv4.ip_unprivileged_port_start=0", "--workdir", ROOT]
    for bind in binds:
        words += bind.words
    words += user
    for key, option in (("memory", "--memory"), ("cpus", "--cpus"), ("pids", "--pids-limit")):
        if limits.get(key):
            words += [option, f"{limits[key]:g}" if isinstance(limits[key], float) else str(limits[key])]
    for _, (host, gateway) in sorted(published.items()):
        words += ["--publish", f"127.0.0.1:{host}:{gateway}/tcp"]
    return [*words, *Mount(guests, GUESTS, writable=False).words, "--entrypoint", "python3"]


def init_words(guest: str, gateways: Mapping[str, tuple[int, int]]) -> list[str]:
    """What follows the image: the guest's ``init`` with name → (gateway port, listen port)."""
    import json

    pairs = json.dumps({key: list(pair) for key, pair in sorted(gateways.items())}, separators=(",", ":"))
    return [*guest_words(guest, "init", "--gateways", pairs)[1:]]


def git_variables(git_dir: str, *, identity: Mapping[str, str]) -> dict[str, str]:
    """The variables of 4.1 that only a container gets; ``identity``: user.name and user.email as known to the host."""
    pairs = [("safe.directory", "*"), ("gc.auto", "0"), ("gc.worktreePruneExpire", "never")]
    pairs += [(key, identity[key]) for key in ("user.name", "user.email") if key in identity]
    found = {
        "GIT_DIR": f"{COMMON}/worktrees/{admin_name(git_dir)}",
        "GIT_WORK_TREE": ROOT,
        "HOME": HOME,
        "XDG_CACHE_HOME": CACHE,
        "GIT_CONFIG_COUNT": str(len(pairs)),
    }
    for number, (key, value) in enumerate(pairs):
        found[f"GIT_CONFIG_KEY_{number}"] = key
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return found
