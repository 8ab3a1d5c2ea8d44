"""What ``doctor`` says of the engine and the image that a configuration names (workspaces.md 12)."""

from __future__ import annotations

from berth.tools.engine import images
from berth.tools.engine.client import Engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CHECK_SECONDS = 5.0  # each; 10 s for both


def engine_detail(name: str, *, environ: Mapping[str, str]) -> str:
    """Version and kind of the engine. Raises engine_unavailable."""
    engine = Engine(name, environ=environ)
    engine.require_answer(timeout=CHECK_SECONDS)
    return f"{name} {engine.facts.version}, {'rootless' if engine.facts.rootless else 'not rootless'}"


def image_detail(name: str, image: str, *, environ: Mapping[str, str]) -> str:
    """The image, which is there and of Linux. Raises image_missing, image_unsuitable, engine_unavailable."""
    images.require_linux_image(Engine(name, environ=environ), image, timeout=CHECK_SECONDS)
    return image
