"""Which engine and which base image a sandbox uses, and that they are there (sandboxes.md 4.1, check 7)."""

from __future__ import annotations

from collections.abc import Mapping

from berth.errors import BerthError
from berth.guest.sandbox import grants
from berth.tools.engine import images
from berth.tools.engine.client import NAMES, Engine

DEFAULT_IMAGE = "berth-sandbox:local"
BUILD = "docker build --build-arg BASE_IMAGE=debian:bookworm-slim -t {image} sandbox"


def choose(name: str | None, *, environ: Mapping[str, str]) -> Engine:
    """The engine asked for, by flag or BERTH_ENGINE, else the first of docker, podman that answers.

    Raises usage and engine_unavailable.
    """
    wanted = name or environ.get("BERTH_ENGINE")
    if wanted:
        if wanted not in NAMES:
            raise BerthError(f"no engine {wanted}: docker or podman", code="usage")
        engine = Engine(wanted, environ=environ)
        engine.require_answer()
        return engine
    failures = []
    for candidate in NAMES:
        engine = Engine(candidate, environ=environ)
        try:
            engine.require_answer()
        except BerthError as error:
            failures.append(error.message)
        else:
            return engine
    raise BerthError(
        "neither docker nor podman answers: " + "; ".join(failures),
        code="engine_unavailable",
        hint="start one of them, or name one with --engine",
    )


def base_image(asked: str | None, *, environ: Mapping[str, str]) -> str:
    """The base image's reference. Raises usage for what an engine would read as an option."""
    image = asked or environ.get("BERTH_SANDBOX_IMAGE") or DEFAULT_IMAGE
    if image.startswith("-") or any(char.isspace() or not char.isprintable() for char in image):
        raise BerthError(f"{image!a} is no image reference", code="usage")
    return image


def require_other_uid(engine: Engine, uid: int) -> None:
    """Raise enforcement_refused where an app would be the caller: rootful ids are the host's (sandboxes.md 4.1, 7)."""
    if not engine.facts.rootless and grants.FIRST_UID <= uid < grants.FIRST_UID + grants.MAX_APPS:
        raise BerthError(
            f"your uid {uid} is one that an app gets with a rootful engine",
            code="enforcement_refused",
            hint="use a rootless engine, or another user",
        )


def require_image(engine: Engine, image: str) -> str:
    """The id of a local base image. Raises image_missing with the exact build command; nothing is pulled."""
    found = images.image_id(engine, image)
    if found is None:
        build = BUILD.format(image=image).replace("docker", engine.name, 1)
        raise BerthError(f"{engine.name} has no image {image}", code="image_missing", hint=f"build it: {build}")
    return found
