"""Real engines for tests: which are here, the environment they need, an image, and proof that nothing is left.

``BERTH_REQUIRE_ENGINES`` (comma-separated kinds) turns "not here" from a skip into a failure; CI sets it. The kinds
are docker and podman for root, podman-rootless for anyone else: scripts/engines brings all of them up.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from berth.tools.engine.client import Engine

KINDS = ("docker", "podman", "podman-rootless")
IMAGE = "berth-base:local"
# Captured at import, before the session's guard replaces HOME: rootless Podman keeps its storage there.
_ORIGINAL = {key: value for key, value in os.environ.items() if key in ("HOME", "USER") or key.startswith("XDG_")}


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment in which the engines of this user work."""
    return {**os.environ, **_ORIGINAL, **(extra or {})}


def required() -> set[str]:
    return {word for word in os.environ.get("BERTH_REQUIRE_ENGINES", "").split(",") if word}


REQUIRED = required()  # captured at import: the session's guard removes BERTH_* from the environment


def command(kind: str) -> str:
    """The engine's name as berth.yaml spells it."""
    return kind.partition("-")[0]


def for_this_user(kind: str) -> bool:
    return kind != "podman-rootless" if os.getuid() == 0 else kind == "podman-rootless"


# For what no engine does differently: one engine is enough, and a third of the time.
on_one_engine = pytest.mark.parametrize("kind", ["docker" if os.getuid() == 0 else "podman-rootless"], indirect=True)


@cache
def why_not(kind: str) -> str | None:
    """Why that engine cannot be used by this user on this host, or None."""
    if not for_this_user(kind):
        return f"{kind} is tested as {'an unprivileged user' if os.getuid() == 0 else 'root'}"
    try:
        found = subprocess.run(
            [command(kind), "image", "inspect", IMAGE], env=environment(), capture_output=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command(kind)}: {error}"
    return None if found.returncode == 0 else f"{found.stderr.decode().strip()} (scripts/engines up)"


def require(kind: str) -> Engine:
    """The engine of that kind; skips with the reason where it is not here, fails where it is required."""
    reason = why_not(kind)
    if reason is not None:
        if kind in REQUIRED and for_this_user(kind):
            pytest.fail(f"{kind} is required: {reason}")
        pytest.skip(reason)
    return Engine(command(kind), environ=environment())


def inventory(engine: Engine) -> dict[str, set[str]]:
    """What the engine holds: containers, networks, volumes, images by id or name."""
    return {
        "containers": set(engine.call(["container", "ls", "-a", "-q", "--no-trunc"]).text.split()),
        "networks": set(engine.call(["network", "ls", "-q"]).text.split()),
        "volumes": set(engine.call(["volume", "ls", "-q"]).text.split()),
        "images": set(engine.call(["image", "ls", "-q", "--no-trunc"]).text.split()),
    }


def nothing_left(engine: Engine) -> Iterator[None]:
    """Around a test: fails when a container with berth's test label, network, volume or image stays behind.

    Other sessions may use the same engine, so only what carries the label of this process counts as ours.
    """
    yield
    left = engine.call(["container", "ls", "-a", "-q", "--filter", f"label={LABEL}={os.getpid()}"]).text.split()
    if left:
        discard(engine, *left)
    assert not left, f"left behind: {left}"


LABEL = "dev.berth.test"


def discard(engine: Engine, *names: str) -> None:
    """Remove containers at once, running or not."""
    at_once = ["-t", "0"] if engine.name == "podman" else []  # Docker's rm -f kills, Podman's asks first
    engine.attempt(["container", "rm", "-f", *at_once, *names])


def labelled(extra: list[str] | None = None) -> list[str]:
    """Options that mark a container as made by this test process."""
    return ["--label", f"{LABEL}={os.getpid()}", *(extra or [])]
