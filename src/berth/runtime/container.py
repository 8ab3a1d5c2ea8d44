"""The container back end: one reusable container per workspace, in which everything of it runs (workspaces.md 9).

It differs from the native back end in where things are: the supervisor is started by exec and reached through the bind
mount, what escaped it is ended from inside, and a stop ends with the container's. What a state means, what is waited
for and what a failure says is the same code.
"""

from __future__ import annotations

import os
import time

from berth.errors import BerthError
from berth.guest.core import wire
from berth.runtime import controls
from berth.runtime.base import Stopped
from berth.runtime.box import START_SECONDS, Box
from berth.runtime.box_state import GUEST_SECONDS, Boxed, look, observe_containers, survivors_of, sweep_document
from berth.runtime.hooks import judge_hook
from berth.runtime.native import DEFAULT_TIMEOUT_SECONDS, READY_SECONDS, Native
from berth.runtime.state import LOST, RUNNING, SILENT, UNKNOWN
from berth.spec import container as spec
from berth.tools import supervisor
from berth.tools.control import Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from berth.registry import Workspace
    from berth.runtime.base import Launch, Observation, Say

STOP_GRACE_SECONDS = 2.0  # after T the supervisor has this long to say that all is stopped (9.4)
KILL_SECONDS = 5.0  # for the exec that ends a hook
FOLLOW_SECONDS = 1.0  # between two looks at whether the supervisor still runs
METADATA = ".berth"
ENGINE_FAILURES = (1, 125, 126, 255)  # what the engines' clients exit with when not the command, but they failed


class Container(Native):
    """The runtime of one container workspace; the protocol is ``runtime.base.Runtime``.

    ``record`` writes columns of the row; a verb that may create the container passes it.
    """

    def __init__(
        self,
        home: str,
        row: Workspace,
        *,
        environ: Mapping[str, str],
        say: Say,
        record: Callable[..., Workspace] | None = None,
    ) -> None:
        super().__init__(home, row, environ=environ, say=say)
        self._box = Box(home, row, environ=environ, record=record)

    # -- state --------------------------------------------------------------------------------------------------

    def look(self) -> Boxed:
        """What is found of this workspace now."""
        return look(self._box)

    def require_known(self) -> Boxed:
        """The state, unless it cannot be told. Raises state_unknown, engine_*, container_mismatch."""
        found = self.look()
        if found.kind == UNKNOWN:
            detail = found.detail or ""
            if "process state unknown" not in detail:
                detail = f"process state unknown: {detail}"
            raise BerthError(
                detail,
                code="state_unknown",
                hint=f"{self._box.engine.name} stop {self._box.name} ends whatever it is, then berth down",
            )
        return found

    def ready(self) -> list[str]:
        """Create the container, start it, check what its image offers; returns lasting warnings."""
        return self._box.ensure()

    # -- ending -------------------------------------------------------------------------------------------------

    def sweep(self) -> list[dict[str, Any]]:
        """End, from inside, what a lost supervisor or a hook left; commands of ``run`` are not touched."""
        found = self.require_known()
        if found.kind == RUNNING:
            return []
        ended = self._end_inside(found) if found.runs and found.kind in (LOST, SILENT) else []
        if not found.runs:
            self._box.forget_init()
        self._clear_remains()
        return ended

    def _end_inside(self, found: Boxed, *, at_once: bool = False) -> list[dict[str, Any]]:
        """Step 2 of 8.6 by the guest; where that cannot be done the container is stopped."""
        limit = 0.0 if at_once else max(self._timeouts().values(), default=DEFAULT_TIMEOUT_SECONDS)
        words = self._box.guest("sweep", "end", sweep_document(self._box))
        result = self._box.exec(words, env={}, timeout=limit + GUEST_SECONDS)
        ended = survivors_of(result.stdout)
        if result.code != 0 or result.timed_out:
            self._box.stop()
            known = {one["pid"] for one in ended}
            ended += [{**one, "signal": "KILL"} for one in found.left if one["pid"] not in known]
        return ended

    def down(self, timeout_seconds: float) -> Stopped:
        """Project stop, then the container's (9.4). Raises state_unknown, stop_failed, engine_*."""
        found = self.require_known()
        stopped = [str(process["name"]) for process in found.processes if process["pid"] is not None]
        terminated: list[dict[str, Any]] = []
        if found.kind == RUNNING and found.control is not None:
            try:
                supervisor.stop_project(found.control, timeout_seconds=timeout_seconds + STOP_GRACE_SECONDS)
            except (Unreachable, BerthError):
                pass  # the stop of the container ends what did not end by itself
        elif found.runs and found.left:
            terminated = self._end_inside(found)
        self._box.stop()
        self._clear_remains()
        return Stopped(was_running=found.kind == RUNNING, stopped=stopped, terminated=terminated)

    def _clear_remains(self) -> None:
        """What a supervisor that is gone left, on both sides of the mount."""
        from berth.tools.below import unlink_below

        controls.clear_remains(self._box.control_directory)
        for name in (wire.SOCKET_FILE, wire.EXIT_FILE):
            try:
                unlink_below(self._row.path, (METADATA, "run", name))
            except OSError:
                continue  # another user's, or a link that code inside planted: the next start says so

    def destroy(self) -> None:
        """Remove container and control directory."""
        self._box.remove()
        super().destroy()

    # -- starting -----------------------------------------------------------------------------------------------

    def up(self, launch: Launch) -> None:
        """Exactly one supervisor afterwards, and every process settled. Raises what 8.3, 8.4 and 9 name."""
        found = self.require_known()
        if found.kind == RUNNING:
            self._warn_of_another_definition(launch)
        else:
            if not found.runs:
                super().refuse_foreign_listeners()
                self._box.forget_init()
            for warning in self.ready():
                self._say.warning(warning)
            if found.kind in (LOST, SILENT):
                self.sweep()
            self._start(launch)
        for warning in self._box.lost_mounts():
            self._say.warning(warning)
        self.wait(READY_SECONDS)

    def refuse_foreign_listeners(self) -> None:
        """A running container owns its publications; nothing to test (6)."""

    def _definition(self) -> dict[str, dict[str, object]]:
        return controls.definition_in(self._box.control_directory)

    def _definition_file(self) -> bytes | None:
        return controls.definition_file_in(self._box.control_directory)

    def _start(self, launch: Launch) -> None:
        directory = controls.make_directory(self._home, self._row)
        self._place_files(launch)
        token = supervisor.make_token(directory)
        words = self._box.guest(
            "supervise",
            *("--config", f"{spec.ROOT}/{METADATA}/{controls.DEFINITION}"),
            *("--socket", f"{spec.CONTROL}/{wire.SOCKET_FILE}"),
            *("--token-file", "-"),
            *("--log", f"{spec.ROOT}/{METADATA}/{controls.SUPERVISOR_LOG}"),
        )
        env = {**launch.env, wire.MARKER: self._row.id}
        result = self._box.exec(words, env=env, timeout=START_SECONDS, stdin=f"{token}\n".encode())
        said = result.text.strip()
        if result.timed_out or result.code != 0 or wire.decode_pid(said) is None:
            self._box.engine.require_answer()
            why = result.complaint or said or f"exit code {result.code}"
            raise self._start_failure("no answer in time" if result.timed_out else why)
        from berth.tools.files import replace_file

        replace_file(os.path.join(directory, wire.PID_FILE), f"{said}\n".encode(), mode=0o600)

    def _place_files(self, launch: Launch) -> None:
        """The definition, where the supervisor reads it and where berth believes it, and the directories it needs."""
        from berth.tools.below import directory_below, replace_below
        from berth.tools.files import replace_file

        owner = self._box.init_user()
        owner = owner if owner is not None and owner != os.geteuid() and os.geteuid() == 0 else None
        if owner is not None:
            # Root's checkout, another user's processes: they pass through .berth to what is theirs in it.
            directory_below(self._row.path, (METADATA,), mode=0o711)
            directory_below(self._row.path, (METADATA, "data"), mode=0o700, owner=owner)
        for name in ("run", "logs"):
            directory_below(self._row.path, (METADATA, name), mode=0o700, owner=owner)
        replace_below(self._row.path, (METADATA, controls.DEFINITION), launch.definition, mode=0o600, owner=owner)
        own = os.path.join(self._box.control_directory, controls.DEFINITION)
        replace_file(own, launch.definition, mode=0o600)

    def _start_failure(self, reason: str) -> BerthError:
        from berth.tools import logs

        log = f"{METADATA}/{controls.SUPERVISOR_LOG}"
        lines: list[str] = []
        try:
            descriptor = logs.open_below(self._row.path, log)
        except (FileNotFoundError, BerthError):
            pass  # it did not come to write one
        else:
            with open(descriptor, "rb"):
                offset = logs.tail_offset(descriptor, 10)
                lines = list(logs.follow(descriptor, offset=offset, has_ended=lambda: True))
        said = "".join(f"\n  {line}" for line in lines)
        where = os.path.join(self._row.path, log)
        return BerthError(f"the supervisor did not start: {reason}; its log {where}:{said}", code="supervisor_failed")

    # -- one process --------------------------------------------------------------------------------------------

    def _end_named(self, process: str) -> None:
        """Nothing to do: inside a container the supervisor sees every descendant, whatever it did."""

    def _observe(self) -> list[Observation]:
        return observe_containers(self._home, [self._row], environ=self._environ)

    # -- hooks --------------------------------------------------------------------------------------------------

    def hook(self, script: str, *, kind: str, env: Mapping[str, str], timeout_seconds: float | None) -> None:
        """Run one script inside; on a timeout or cancel a second exec ends it, or else the container is stopped."""
        from berth.tools.engine.containers import exec_words

        if not self._box.is_running():
            self.ready()  # teardown runs after down
        nonce = os.urandom(16).hex()
        argv = self._box.guest("hook", nonce, self._row.id, "sh", "-c", script)
        words = exec_words(self._box.name, argv, env=env, workdir=spec.ROOT)
        child = self._box.engine.start(words, sink=self._say.raw_story)
        try:
            result = child.finish(timeout_seconds)
        except BaseException:
            self._kill_hook(nonce)
            raise
        if result.timed_out:
            self._kill_hook(nonce)
        elif result.code in ENGINE_FAILURES:
            self._box.engine.require_answer()
        judge_hook(self._row, result, script, kind=kind, timeout_seconds=timeout_seconds)

    def _kill_hook(self, nonce: str) -> None:
        """Killing the engine's client ended nothing inside."""
        try:
            result = self._box.exec(self._box.guest("kill", nonce), env={}, timeout=KILL_SECONDS)
            if result.code == 0 and not result.timed_out:
                return
        except BerthError:
            pass  # no client: the stop below says why
        self._box.stop()

    # -- logs ---------------------------------------------------------------------------------------------------

    def _ended(self) -> Callable[[], bool]:
        """Whether the supervisor is gone, asked at most once a second."""
        from berth.tools.control import ANSWERING, state

        control = self.look().control
        last = [time.monotonic(), control is None]

        def ask() -> bool:
            now = time.monotonic()
            if control is not None and now - last[0] >= FOLLOW_SECONDS:
                last[:] = [now, state(control).kind != ANSWERING]
            return bool(last[1])

        return ask
