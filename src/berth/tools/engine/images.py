"""Images and volumes of one engine: what is there, what it is, builds with its own builder. Nothing is pulled."""

from __future__ import annotations

from berth.errors import BerthError
from berth.tools.engine.client import CALL_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.tools.engine.client import Engine

MISSING_HINT = "build it locally, berth never pulls: runtime/Dockerfile is the reference"


def image_id(engine: Engine, image: str) -> str | None:
    """The id of a local image without its ``sha256:``, or None when the engine has none of that name."""
    result = engine.attempt(["image", "inspect", "--format", "{{.Id}}", image])
    if result.code == 0 and not result.timed_out:
        return result.text.strip().removeprefix("sha256:")
    engine.require_answer()  # an engine that does not answer has not said that there is no image
    return None


def require_linux_image(engine: Engine, image: str, *, timeout: float = CALL_SECONDS) -> None:
    """Raise image_missing or image_unsuitable unless ``image`` is there and of Linux."""
    result = engine.attempt(["image", "inspect", "--format", "{{.Os}}", image], timeout=timeout)
    if result.timed_out or result.code != 0:
        engine.require_answer(timeout=timeout)
        raise BerthError(f"{engine.name} has no image {image}", code="image_missing", hint=MISSING_HINT)
    if result.text.strip() != "linux":
        raise BerthError(
            f"the image {image} is for {result.text.strip() or 'no known system'}, not for linux",
            code="image_unsuitable",
            hint=MISSING_HINT,
        )


def build(
    engine: Engine,
    context: str,
    *,
    tag: str,
    dockerfile: str | None = None,
    arguments: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    stderr: int,
    timeout: float | None = None,
) -> None:
    """Build ``context`` (an absolute directory) as ``tag``; what the builder prints on stderr goes to ``stderr``.

    Raises engine_unavailable with the builder's output.
    """
    words = ["build", "--tag", tag, *options]
    if dockerfile is not None:
        words += ["--file", dockerfile]
    for key, value in (arguments or {}).items():
        words += ["--build-arg", f"{key}={value}"]
    engine.call([*words, context], timeout=timeout, stderr=stderr)


def remove_image(engine: Engine, image: str) -> None:
    """Remove a local image; one that is gone already is fine."""
    result = engine.attempt(["image", "rm", image])
    if result.code != 0 and image_id(engine, image) is not None:
        raise engine.failure(result)


def create_volume(engine: Engine, name: str, *, labels: Mapping[str, str]) -> None:
    """Create a named volume with ``labels``."""
    marks = [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
    engine.call(["volume", "create", *marks, name])


def create_volumes(engine: Engine, names: Sequence[str], *, labels: Mapping[str, str]) -> None:
    """Create several named volumes with ``labels`` at the same time."""
    marks = [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
    started = [engine.start(["volume", "create", *marks, name]) for name in names]
    for result in [child.finish(CALL_SECONDS) for child in started]:
        if result.timed_out or result.code != 0:
            raise engine.failure(result)


def volumes(engine: Engine, labels: Mapping[str, str]) -> list[str]:
    """The names of the volumes that carry all ``labels``."""
    words = ["volume", "ls", "-q"]
    for key, value in labels.items():
        words += ["--filter", f"label={key}={value}" if value else f"label={key}"]
    return engine.call(words).text.split()


def remove_volume(engine: Engine, name: str) -> None:
    """Remove a named volume; one that is gone already is fine."""
    result = engine.attempt(["volume", "rm", name])
    if result.code != 0 and name in engine.call(["volume", "ls", "-q"]).text.split():
        raise engine.failure(result)
