"""One container engine: the environment of its calls, their limits, why one failed, and which daemon answers.

Causes are found by looking (is the program there, does its socket accept), never by the words of an error, because
they differ between versions. It knows no containers and starts nothing but the engine's own client.
"""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.tools import proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

NAMES = ("docker", "podman")
CALL_SECONDS = 30.0
PROBE_SECONDS = 3.0
# What a caller of another workspace or a compose project carries never reaches the engine (workspaces.md 9.1):
# Podman's monitor of a container inherits it, and would count as a process of that other workspace.
_REMOVED = ("BERTH_", "COMPOSE_")


class Facts:
    """What an engine says of itself: ``identity`` (engine_id of 9.1), ``version``, ``rootless``, ``system``."""

    __slots__ = ("identity", "rootless", "system", "version")

    def __init__(self, *, identity: str, version: str, rootless: bool, system: str) -> None:
        self.identity = identity
        self.version = version
        self.rootless = rootless
        self.system = system


class Engine:
    """``docker`` or ``podman`` as the caller's own ``environ`` selects it."""

    def __init__(self, name: str, *, environ: Mapping[str, str]) -> None:
        if name not in NAMES:
            raise ValueError(f"no such engine: {name}")
        self.name = name
        self.env = engine_environment(environ)
        self._facts: Facts | None = None

    # -- calls --------------------------------------------------------------------------------------------------

    def call(
        self,
        words: Sequence[str],
        *,
        stdin: bytes | int = proc.DEVNULL,
        timeout: float | None = CALL_SECONDS,
        stderr: int = proc.PIPE,
    ) -> proc.Result:
        """Run the engine's client with ``words`` and return its result; only exit code 0 is success.

        ``timeout`` in seconds, None for no limit. Raises engine_unavailable with arguments, output and the cause.
        """
        result = self.attempt(words, stdin=stdin, timeout=timeout, stderr=stderr)
        if result.timed_out or result.code != 0:
            raise self.failure(result, timeout)
        return result

    def attempt(
        self,
        words: Sequence[str],
        *,
        stdin: bytes | int = proc.DEVNULL,
        timeout: float | None = CALL_SECONDS,
        stderr: int = proc.PIPE,
    ) -> proc.Result:
        """Like ``call``, but a failing exit code is the caller's matter. Raises engine_unavailable: not installed."""
        return self.start(words, stdin=stdin, stderr=stderr).finish(timeout)

    def start(
        self,
        words: Sequence[str],
        *,
        stdin: bytes | int = proc.DEVNULL,
        stderr: int = proc.PIPE,
        sink: Callable[[bytes], None] | None = None,
    ) -> proc.Child:
        """Start a call whose result is collected later; ``sink`` takes its output as it comes, instead."""
        with raised_limit():
            try:
                return proc.start([self.name, *words], env=self.env, cwd="/", stdin=stdin, stderr=stderr, sink=sink)
            except proc.ExecFailed as error:
                raise self._not_installed(error) from None

    def spawn(
        self,
        words: Sequence[str],
        *,
        descriptors: tuple[int, int, int],
        group: bool = True,
        foreground: int | None = None,
    ) -> int:
        """Start a call on the given descriptors and return its pid (``run``)."""
        with raised_limit():
            try:
                return proc.spawn(
                    [self.name, *words],
                    env=self.env,
                    cwd="/",
                    descriptors=descriptors,
                    group=group,
                    foreground=foreground,
                )
            except proc.ExecFailed as error:
                raise self._not_installed(error) from None

    # -- why a call failed --------------------------------------------------------------------------------------

    def failure(self, result: proc.Result, timeout: float | None = CALL_SECONDS) -> BerthError:
        """The error for a call that failed: what was called, what it said, and what to do about the cause."""
        words = " ".join(result.argv)
        if result.timed_out:
            said = f"no answer within {timeout:.0f} s" if timeout is not None else "no answer"
        else:
            said = result.complaint or result.text.strip() or f"exit code {result.code}"
        return BerthError(f"{words} failed: {said}", code="engine_unavailable", hint=self.remedy())

    def remedy(self) -> str | None:
        """What to do when the engine does not answer, or None when its endpoint does accept connections."""
        endpoint = self.endpoint()
        if endpoint is None:
            return f"{self.name} info says whether {self.name} works for this user at all"
        state = endpoint_state(endpoint)
        if state == "denied":
            return f"get access to {endpoint} (join its group, or use a rootless engine)"
        if state == "down":
            return f"start the {self.name} daemon, nothing accepts connections at {endpoint}"
        return None

    def endpoint(self) -> str | None:
        """Where the client connects to, as a URL; None for Podman without a service."""
        if self.name == "podman":
            return self.env.get("CONTAINER_HOST") or None
        if self.env.get("DOCKER_HOST"):
            return self.env["DOCKER_HOST"]
        asked = self.attempt(["context", "inspect", "--format", "{{.Endpoints.docker.Host}}"], timeout=PROBE_SECONDS)
        return asked.text.strip() if asked.code == 0 and asked.text.strip() else "unix:///var/run/docker.sock"

    @property
    def is_local(self) -> bool:
        """True where the engine's processes are this kernel's: containers can be seen in /proc, mounts are shared."""
        if not os.path.isdir("/proc/self"):
            return False
        variable = "CONTAINER_HOST" if self.name == "podman" else "DOCKER_HOST"
        url = self.env.get(variable, "")
        return not url or url.startswith("unix:")

    def _not_installed(self, error: proc.ExecFailed) -> BerthError:
        import errno

        if error.errno == errno.ENOENT:
            return BerthError(
                f"{self.name} is not installed: there is no such program on PATH",
                code="engine_unavailable",
                hint=f"install {self.name}, or set runtime.engine in a new workspace's berth.yaml",
            )
        return BerthError(error.message, code="engine_unavailable", hint=f"check the {self.name} on PATH")

    # -- who it is ----------------------------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:
        """What the engine says of itself; asked once. Raises engine_unavailable."""
        if self._facts is None:
            self._facts = self._ask_facts()
        return self._facts

    def require_answer(self, *, timeout: float = CALL_SECONDS) -> None:
        """Raise engine_unavailable unless the engine answers now, within ``timeout`` seconds."""
        self._facts = self._ask_facts(timeout)

    def require_identity(self, recorded: str | None) -> None:
        """Raise engine_mismatch unless this engine is the ``recorded`` one; None was never recorded and passes."""
        if recorded is not None and recorded != self.facts.identity:
            raise BerthError(
                f"the container is on another {self.name} engine: {recorded} is recorded, "
                f"{self.facts.identity} answers",
                code="engine_mismatch",
                hint="select the recorded engine (DOCKER_HOST, DOCKER_CONTEXT, CONTAINER_HOST, or the user)",
            )

    def _ask_facts(self, timeout: float = CALL_SECONDS) -> Facts:
        import json

        result = self.call(["info", "--format", "{{json .}}"], timeout=timeout)
        try:
            answer = json.loads(result.stdout)
            return _docker_facts(answer) if self.name == "docker" else _podman_facts(answer)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self.failure(result) from None


def _docker_facts(answer: dict[str, Any]) -> Facts:
    """Older clients exit with 0 and no ID when the daemon is away: that is a ValueError here."""
    if not answer.get("ID"):
        raise ValueError("no daemon behind the client")
    options = answer.get("SecurityOptions") or []
    return Facts(
        identity=str(answer["ID"]),
        version=str(answer.get("ServerVersion", "")),
        rootless=any("rootless" in str(option) for option in options),
        system=str(answer.get("OSType", "linux")),
    )


def _podman_facts(answer: dict[str, Any]) -> Facts:
    host, store = answer["host"], answer["store"]
    return Facts(
        identity=f"{host['hostname']}:{store['graphRoot']}",
        version=str(answer.get("version", {}).get("Version", "")),
        rootless=bool(host["security"]["rootless"]),
        system=str(host.get("os", "linux")),
    )


def engine_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's ``environ`` as an engine's client gets it (workspaces.md 4.4, 9.1)."""
    kept = proc.inherited_environment(environ)
    return {key: value for key, value in kept.items() if not key.startswith(_REMOVED)}


def endpoint_state(url: str) -> str:
    """``answers``, ``denied``, ``down`` or, for what cannot be tried (ssh), ``unknown``."""
    import socket

    scheme, _, rest = url.partition("://")
    try:
        if scheme == "unix":
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(PROBE_SECONDS)
                probe.connect(rest)
        elif scheme in ("tcp", "http", "https"):
            host, _, port = rest.partition("/")[0].rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS).close()
        else:
            return "unknown"
    except PermissionError:
        return "denied"
    except (OSError, ValueError):
        return "down"
    return "answers"


class raised_limit:  # noqa: N801  # reads as what it is: with raised_limit()
    """While an engine's client is started the soft RLIMIT_LOCKS is the hard one.

    Podman hands its caller's limits on to the container, whose processes would all carry the caller's tag.
    """

    def __enter__(self) -> None:
        import resource

        self._before: tuple[int, int] | None = None
        try:
            soft, hard = resource.getrlimit(proc.RLIMIT_LOCKS)
            if soft != hard:
                resource.setrlimit(proc.RLIMIT_LOCKS, (hard, hard))
                self._before = (soft, hard)
        except (ValueError, OSError):
            return  # no such limit here (macOS): then there are no tags either

    def __exit__(self, *_: object) -> None:
        import resource

        if self._before is not None:
            resource.setrlimit(proc.RLIMIT_LOCKS, self._before)
