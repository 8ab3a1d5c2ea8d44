"""Random definitions, exits, restarts, stops and probes against the state table of supervisor.md 3.

The model knows the table and what was asked; the supervisor's own log and answers are held against it.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from berth.guest.core import procfs, wire
from support.supervisor import Supervisor

NAMES = ("a", "b", "c")
# supervisor.md 3, row by row, written again from the contract: not the guest's own table.
ROWS = {
    ("Disabled", "Pending"),
    ("Pending", "Launching"),
    ("Launching", "Running"),
    ("Pending", "Skipped"),
    ("Pending", "Completed"),
    ("Running", "Terminating"),
    ("Terminating", "Completed"),
    ("Running", "Restarting"),
    ("Restarting", "Pending"),
    ("Restarting", "Terminating"),
    ("Restarting", "Completed"),
    ("Running", "Completed"),
    ("Launching", "Error"),
    ("Launching", "Terminating"),
    ("Completed", "Pending"),
    ("Skipped", "Pending"),
    ("Error", "Pending"),
}
ENDED = ("Disabled", "Completed", "Skipped", "Error")

definitions = st.fixed_dictionaries(
    {
        "restart": st.sampled_from(["no", "on_failure", "always"]),
        "disabled": st.booleans(),
        "stubborn": st.booleans(),
        "probed": st.booleans(),
        "condition": st.sampled_from([None, "process_started", "process_completed", "process_completed_successfully"]),
    }
)


def definition(name: str, drawn: dict[str, object], before: str | None) -> dict[str, object]:
    """A process that writes a line a start, and ends with the code in ``<name>.exit`` as soon as that is there."""
    trap = "trap '' TERM; " if drawn["stubborn"] else ""
    result: dict[str, object] = {
        "command": f"{trap}echo started; while :; do if test -e {name}.exit; then code=$(cat {name}.exit);"
        f" rm {name}.exit; exit $code; fi; sleep 0.02; done",
        "availability": {"restart": drawn["restart"], "backoff_seconds": 0.1, "max_restarts": 3},
        "shutdown": {"timeout_seconds": 0.3},
        "disabled": drawn["disabled"],
    }
    if drawn["probed"]:
        result["readiness_probe"] = {
            "exec": {"command": f"! test -e {name}.unready"},
            "period_seconds": 0.1,
            "failure_threshold": 2,
        }
    if before is not None and drawn["condition"] is not None:
        result["depends_on"] = {before: {"condition": drawn["condition"]}}
    return result


class Supervision(RuleBasedStateMachine):
    """What a user can do, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.one: Supervisor | None = None

    @initialize(drawn=st.lists(definitions, min_size=3, max_size=3))
    def begin(self, drawn: list[dict[str, object]]) -> None:
        processes = {
            name: definition(name, each, NAMES[index - 1] if index else None)
            for index, (name, each) in enumerate(zip(NAMES, drawn, strict=True))
        }
        self.one = Supervisor(Path(self.directory.name), processes)
        self.one.start()

    @property
    def running(self) -> Supervisor:
        assert self.one is not None
        return self.one

    @rule(name=st.sampled_from(NAMES), code=st.sampled_from([0, 1, 7]))
    def ends(self, name: str, code: int) -> None:
        if self.running.state(name)["status"] == "Running":
            (self.running.root / f"{name}.exit.new").write_text(f"{code}\n")
            (self.running.root / f"{name}.exit.new").rename(self.running.root / f"{name}.exit")

    @rule(name=st.sampled_from(NAMES))
    def is_killed(self, name: str) -> None:
        pid = int(str(self.running.state(name)["pid"]))
        if pid:
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                return

    @rule(name=st.sampled_from(NAMES))
    def turns_unready(self, name: str) -> None:
        (self.running.root / f"{name}.unready").touch()
        time.sleep(0.15)
        (self.running.root / f"{name}.unready").unlink(missing_ok=True)

    @rule(name=st.sampled_from(NAMES))
    def start(self, name: str) -> None:
        before = self.running.state(name)["status"]
        assert self.running.ask("POST", f"/process/start/{name}")[0] == 200
        if before in ENDED:
            assert self.running.moves(name).count("Pending") > 0

    @rule(name=st.sampled_from(NAMES))
    def stop(self, name: str) -> None:
        assert self.running.ask("PATCH", f"/process/stop/{name}")[0] == 200
        assert self.running.state(name)["status"] in ENDED
        assert not self.copies(name)

    @rule(name=st.sampled_from(NAMES))
    def restart(self, name: str) -> None:
        assert self.running.ask("POST", f"/process/restart/{name}")[0] == 200

    @rule()
    def rest(self) -> None:
        time.sleep(0.15)

    def copies(self, name: str) -> list[procfs.Entry]:
        """Shells that run the command of ``name``: leaders, one a copy."""
        number = NAMES.index(name) + 1
        tag = wire.tag(self.running.workspace_id, number)
        return [
            entry
            for entry in procfs.alive(procfs.below(self.running.pid).values())
            if entry.sid == entry.pid and procfs.tag(entry.pid) == tag and f"{name}.exit" in procfs.command(entry.pid)
        ]

    @invariant()
    def there_is_one_copy_at_most(self) -> None:
        if self.one is not None:
            for name in NAMES:
                found = [entry for entry in self.copies(name) if "started" in procfs.command(entry.pid)]
                assert len(found) <= 1, (name, found)

    @invariant()
    def every_move_is_in_the_table(self) -> None:
        if self.one is None:
            return
        history = self.one.history()
        assert "internal error" not in history, history
        for line in history.splitlines():
            if " -> " in line:
                name, states = line.split(" ", 1)[1].split(": ", 1)
                before, after = states.split(" (")[0].split(" -> ")
                assert (before, after) in ROWS, line
                assert name in NAMES

    @invariant()
    def what_is_answered_is_consistent(self) -> None:
        if self.one is None:
            return
        _, document = self.one.ask("GET", "/processes")
        assert isinstance(document, dict)
        for item in document["data"]:
            if item["status"] in ENDED:
                assert item["pid"] == 0, item
                assert item["verdict"] in ("settled", "failed"), item
            if item["status"] in ("Running", "Terminating"):
                assert item["pid"] > 0, item
            if item["is_ready"] == "Ready":
                assert item["status"] == "Running", item

    def teardown(self) -> None:
        if self.one is not None:
            try:
                assert self.one.down() < 3
                assert self.one.tagged() == []
            finally:
                self.one.destroy()
        self.directory.cleanup()


Supervision.TestCase.settings = settings(
    max_examples=int(os.environ.get("BERTH_MODEL_EXAMPLES", "12")),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)
TestSupervision = pytest.mark.timeout(600)(Supervision.TestCase)
