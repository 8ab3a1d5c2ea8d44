"""One protocol for the two back ends, native and container: what a verb may ask of a workspace's runtime."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, Protocol

    class Say(Protocol):
        """Somebody to tell the story to; ``raw_story`` takes the output of hooks as it comes."""

        def note(self, text: str) -> None: ...
        def warning(self, text: str) -> None: ...
        def raw_story(self, data: bytes) -> None: ...

    class Runtime(Protocol):
        """Where a workspace's hooks, services and commands run. Made for one registry row; keeps no state.

        Errors, all BerthError: state_unknown where it cannot tell what runs; stop_failed naming pids;
        supervisor_failed, process_failed, not_ready from ``up``; setup_failed, teardown_failed, hook_timeout from
        ``hook``; engine_* and image_* from the container back end.
        """

        def ready(self) -> list[str]:
            """Make the place where things run exist, and return lasting warnings (container: create, start, check)."""

        def require_known(self) -> object:
            """Raise state_unknown unless it is certain what runs."""

        def sweep(self) -> list[dict[str, Any]]:
            """End survivors and processes left behind; returns the ``terminated`` list of ``down``."""

        def up(self, launch: Launch) -> None:
            """Start the supervisor, unless it runs, and wait until every process is settled."""

        def down(self, timeout_seconds: float) -> Stopped:
            """Leave nothing running. ``timeout_seconds`` is the largest T of the workspace."""

        def destroy(self) -> None:
            """After ``down``: remove the place too, and what is left of the control files."""

        def hook(self, script: str, *, kind: str, env: Mapping[str, str], timeout_seconds: float | None) -> None:
            """Run one setup or teardown script (``kind``) to its end."""

        def steer(self, deed: str, process: str) -> dict[str, Any]:
            """``start``, ``stop`` or ``restart`` one process; returns its JSON object."""

        def wait(self, timeout_seconds: float) -> None:
            """Wait until every process is settled; raises process_failed, not_ready, not_running, state_unknown."""

        def wait_patiently(self, timeout_seconds: float) -> None:
            """As ``wait``, but first wait for the supervisor itself to be there."""

        def known_processes(self) -> list[str]:
            """The names of the processes that ``logs`` and ``steer`` know, sorted."""

        def lines(self, process: str, *, tail: int | None) -> Iterator[str]:
            """What the process wrote since it was last started, line by line."""

        def follow(self, process: str, *, tail: int | None) -> Iterator[str]:
            """The same, and then what it writes, until the supervisor stops."""


class Launch:
    """What ``up`` needs: the rendered ``definition`` (bytes of pc.yaml), the process ``names``, sorted, the variables
    ``env`` of the supervisor, and ``timeout_seconds``, the largest T.
    """

    __slots__ = ("definition", "env", "names", "timeout_seconds")

    def __init__(
        self, *, definition: bytes, names: Sequence[str], env: Mapping[str, str], timeout_seconds: float
    ) -> None:
        self.definition = definition
        self.names = list(names)
        self.env = dict(env)
        self.timeout_seconds = timeout_seconds


class Observation:
    """What runs in a workspace now.

    ``running``: the supervisor answers (True), it does not and nothing is hidden (False), or it cannot be told (None).
    ``processes`` are the JSON objects of workspaces.md 2.4; ``error`` says what is wrong, or None.
    """

    __slots__ = ("container", "error", "processes", "running", "warnings")

    def __init__(
        self,
        *,
        running: bool | None,
        processes: list[dict[str, Any]] | None = None,
        error: str | None = None,
        container: str | None = None,
        warnings: list[str] | None = None,
    ) -> None:
        self.running = running
        self.processes = processes or []
        self.error = error
        self.container = container
        self.warnings = warnings or []


class Stopped:
    """What ``down`` did: ``was_running``, the names of the ``stopped`` processes, and what it ``terminated`` itself."""

    __slots__ = ("stopped", "terminated", "was_running")

    def __init__(self, *, was_running: bool, stopped: list[str], terminated: list[dict[str, Any]]) -> None:
        self.was_running = was_running
        self.stopped = stopped
        self.terminated = terminated
