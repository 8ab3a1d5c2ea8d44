"""Containers of one engine: find by exact name and labels, create, start, exec, copy in, stop, remove.

A container is ours only if its name and every expected label match; anything else is left alone. Absence is an empty
list from an engine that answered, never an error. What a container is for is the caller's matter.
"""

from __future__ import annotations

from berth.errors import BerthError
from berth.tools.engine.client import CALL_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from berth.tools.engine.client import Engine
    from berth.tools.proc import Result

# So that 126 and 127 mean the same on every engine: not the engine but a shell executes the command.
EXEC_SHELL = ("sh", "-c", 'exec "$@"', "sh")
STOP_SECONDS = 10


class Container:
    """One container as it was inspected.

    ``name`` without the leading slash; ``running``; ``exit_code`` of the last run; ``pid`` of its init on the engine's
    machine (0 when stopped); ``image`` the id of its image; ``user`` as given to ``create``; ``document`` is all the
    engine said.
    """

    __slots__ = ("document", "exit_code", "id", "image", "labels", "name", "pid", "running", "user")

    def __init__(self, document: Mapping[str, Any]) -> None:
        state, config = document["State"], document["Config"]
        self.document = document
        self.id = str(document["Id"])
        self.name = str(document["Name"]).removeprefix("/")
        self.labels: dict[str, str] = dict(config.get("Labels") or {})
        self.running = bool(state["Running"])
        self.exit_code = int(state.get("ExitCode", 0))
        self.pid = int(state.get("Pid", 0)) if self.running else 0
        self.image = str(document.get("Image", "")).removeprefix("sha256:")
        self.user = str(config.get("User") or "")


def find(engine: Engine, name: str) -> Container | None:
    """The container of exactly that name, or None when the engine has none. Raises engine_unavailable."""
    listed = ["container", "ls", "-a", "-q", "--no-trunc", "--filter", f"name={name}"]
    for found in _inspected(engine, listed):
        if found.name == name:
            return found
    return None


def find_labelled(engine: Engine, labels: Mapping[str, str]) -> list[Container]:
    """Every container, running or not, that carries all ``labels``; an empty value asks for the label alone."""
    words = ["container", "ls", "-a", "-q", "--no-trunc"]
    for key, value in labels.items():
        words += ["--filter", f"label={key}={value}" if value else f"label={key}"]
    return _inspected(engine, words)


def peek(engine: Engine, names: Sequence[str]) -> list[Container]:
    """Those of ``names`` that one call finds; what is missing here is not proven to be absent: ask ``find``.

    Raises engine_unavailable only where there is no such program.
    """
    result = engine.attempt(["container", "inspect", *names])
    return [one for one in _documents(result) or () if one.name in names]


def _inspected(engine: Engine, listing: Sequence[str]) -> list[Container]:
    """List, then inspect what was listed; one that vanished in between is looked for once more."""
    while True:
        identifiers = engine.call(listing).text.split()
        if not identifiers:
            return []
        result = engine.attempt(["container", "inspect", *identifiers])
        if result.code == 0:
            return _parsed(engine, result)
        if engine.call(listing).text.split() == identifiers:
            raise engine.failure(result)


def _parsed(engine: Engine, result: Result) -> list[Container]:
    found = _documents(result)
    if found is None:
        raise engine.failure(result)
    return found


def _documents(result: Result) -> list[Container] | None:
    """What an inspection printed; None when that is no such thing."""
    import json

    try:
        return [Container(document) for document in json.loads(result.stdout)]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def require_labels(found: Container, expected: Mapping[str, str]) -> None:
    """Raise container_mismatch, naming what differs, unless ``found`` carries every expected label."""
    for key, value in expected.items():
        if found.labels.get(key) != value:
            seen = f"is {found.labels[key]}" if key in found.labels else "is absent"
            raise BerthError(
                f"the container {found.name} is not the one that is expected: its label {key} {seen}",
                code="container_mismatch",
                hint=f"look at the container {found.name}; berth leaves it alone",
            )


def create(engine: Engine, options: Sequence[str], image: str, command: Sequence[str]) -> str:
    """Create a container that is never pulled for, and return its id. Raises engine_unavailable."""
    result = engine.call(["container", "create", *options, image, *command])
    return result.text.split()[-1]


def start(engine: Engine, name: str) -> None:
    """Start a created or stopped container."""
    engine.call(["container", "start", name])


def stop(engine: Engine, name: str, *, seconds: int = STOP_SECONDS) -> None:
    """Ask a container to stop and wait until it has; KILL after ``seconds``. Raises stop_failed if it still runs."""
    result = engine.attempt(["container", "stop", "-t", str(seconds), name], timeout=None)
    found = find(engine, name)
    if found is not None and found.running:
        said = result.complaint or f"exit code {result.code}"
        raise BerthError(
            f"the container {name} still runs after {engine.name} stop: {said}",
            code="stop_failed",
            hint=f"{engine.name} container inspect {name}",
        )


def remove(engine: Engine, name: str) -> None:
    """Remove a stopped container and its anonymous volumes; one that is gone already is fine."""
    result = engine.attempt(["container", "rm", "-v", name])
    if result.code != 0 and find(engine, name) is not None:
        raise engine.failure(result)


def exec_words(
    name: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    workdir: str | None = None,
    user: str | None = None,
    interactive: bool = False,
    terminal: bool = False,
    shell: bool = True,
) -> list[str]:
    """The words of an exec in the running container ``name``; ``argv`` is not parsed again.

    ``shell``: through ``sh``, so that a command that cannot be executed ends with 126 or 127 on every engine.
    """
    words = ["exec"]
    if workdir is not None:
        words += ["--workdir", workdir]
    if user is not None:
        words += ["--user", user]
    if interactive:
        words.append("-i")
        if terminal:
            words.append("-t")
    for key, value in env.items():
        words += ["--env", f"{key}={value}"]
    return [*words, name, *(EXEC_SHELL if shell else ()), *argv]


def copy_in(engine: Engine, name: str, directory: str, archive: bytes, *, timeout: float | None = CALL_SECONDS) -> None:
    """Unpack a tar ``archive`` into ``directory`` of a container, which need not run."""
    engine.call(["container", "cp", "-", f"{name}:{directory}"], stdin=archive, timeout=timeout)


def logs(engine: Engine, name: str, *, tail: int) -> list[str]:
    """The last ``tail`` lines a container wrote, stdout and stderr together, as text."""
    result = engine.attempt(["container", "logs", "--tail", str(tail), name])
    written = result.stdout + result.stderr
    return written.decode("utf-8", "replace").splitlines()[-tail:]
