"""The state table of supervisor.md 3, row by row, and the conditions of section 2."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections.abc import Callable

import pytest

from support.supervisor import Supervisor, alive, answer, free_port, http_get, until

Start = Callable[..., Supervisor]
SLEEP = "exec sleep 1000"


def after(name: str, condition: str) -> dict[str, object]:
    return {"depends_on": {name: {"condition": condition}}}


def test_a_disabled_process_is_not_started_but_a_start_request_starts_it(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP, "disabled": True}, "b": {"command": SLEEP}})
    assert one.wait().word == "settled"
    assert one.state("a")["status"] == "Disabled"
    assert one.ask("POST", "/process/start/a")[0] == 200
    one.reaches("a", "Running")
    assert one.moves("a") == ["Pending", "Launching", "Running"]


def test_a_dependent_waits_pending_until_every_condition_holds(supervise: Start) -> None:
    port = free_port()
    one = supervise(
        {
            "web": {"command": answer(port, delay=0.5), "readiness_probe": http_get(port)},
            "once": {"command": "sleep 0.2"},
            "b": {
                "command": SLEEP,
                "depends_on": {
                    "web": {"condition": "process_healthy"},
                    "once": {"condition": "process_completed_successfully"},
                },
            },
        }
    )
    assert one.state("b")["status"] == "Pending"
    assert one.wait().word == "settled"
    history = one.history()
    assert history.index(" b: Pending") > history.index("web: Ready")
    assert history.index(" b: Pending") > history.index("once: Running -> Completed")


@pytest.mark.parametrize(
    ("condition", "command", "outcome"),
    [
        ("process_started", "exit 1", "Completed"),
        ("process_completed", "exit 1", "Completed"),
        ("process_completed_successfully", "exit 0", "Completed"),
        ("process_completed_successfully", "exit 1", "Skipped"),
    ],
)
def test_a_condition_on_an_ended_dependency(supervise: Start, condition: str, command: str, outcome: str) -> None:
    one = supervise({"a": {"command": command}, "b": {"command": "exit 0", **after("a", condition)}})
    one.reaches("b", outcome)


def test_an_exit_code_that_is_declared_a_success_is_one(supervise: Start) -> None:
    one = supervise(
        {
            "a": {"command": "exit 7", "success_exit_codes": [7]},
            "b": {"command": SLEEP, **after("a", "process_completed_successfully")},
        }
    )
    assert one.wait().word == "settled"
    one.reaches("b", "Running")


def test_a_dependent_is_skipped_when_its_condition_can_no_longer_hold(supervise: Start) -> None:
    one = supervise(
        {
            "missing": {"entrypoint": ["/no/such/program"]},
            "off": {"command": SLEEP, "disabled": True},
            "brief": {"command": "exit 0", "ready_log_line": "never"},
            "after-missing": {"command": SLEEP, **after("missing", "process_started")},
            "after-off": {"command": SLEEP, **after("off", "process_started")},
            "after-brief": {"command": SLEEP, **after("brief", "process_log_ready")},
            "after-skipped": {"command": SLEEP, **after("after-off", "process_completed")},
        }
    )
    for name in ("after-missing", "after-off", "after-brief", "after-skipped"):
        one.reaches(name, "Skipped")
    verdicts = {str(item["name"]): item["verdict"] for item in one.wait().processes}
    assert verdicts["after-off"] == "settled"
    assert verdicts["after-skipped"] == "settled"
    assert verdicts["after-missing"] == "failed"
    assert verdicts["after-brief"] == "failed"


def test_a_dependent_of_a_process_that_is_stopped_on_request_is_skipped_and_settled(supervise: Start) -> None:
    one = supervise(
        {
            "a": {"command": SLEEP, "ready_log_line": "never"},
            "b": {"command": SLEEP, **after("a", "process_log_ready")},
        }
    )
    one.reaches("a", "Running")
    assert one.ask("PATCH", "/process/stop/a")[0] == 200
    one.reaches("b", "Skipped")
    assert one.wait().word == "settled"


def test_a_stop_terminates_and_completes(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}})
    one.reaches("a", "Running")
    pid = one.state("a")["pid"]
    assert one.ask("PATCH", "/process/stop/a")[0] == 200
    state = one.state("a")
    assert (state["status"], state["exit_code"], state["reason"]) == ("Completed", 143, "stop")
    assert one.moves("a")[-2:] == ["Terminating", "Completed"]
    assert not alive(int(str(pid)))


def test_an_end_by_signal_is_128_and_its_number(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}})
    os.kill(int(str(one.reaches("a", "Running")["pid"])), signal.SIGKILL)
    state = one.reaches("a", "Completed")
    assert (state["exit_code"], state["reason"]) == (137, "exit")
    assert one.wait("a").word == "failed"


def test_it_restarts_after_the_back_off_and_gives_up_after_max_restarts(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": "date +%s.%N; exit 3",
                "availability": {"restart": "on_failure", "backoff_seconds": 1, "max_restarts": 2},
            }
        }
    )
    state = one.reaches("a", "Completed")
    assert (state["restarts"], state["exit_code"]) == (2, 3)
    assert one.moves("a") == [
        *(["Launching", "Running", "Restarting", "Pending"] * 2),
        *("Launching", "Running", "Completed"),
    ]
    times = [float(line) for line in one.output("a").split()]
    assert len(times) == 3
    assert all(1.0 <= later - earlier < 4 for earlier, later in itertools.pairwise(times))
    assert one.wait("a").word == "failed"


def test_on_failure_leaves_a_success_alone_and_always_does_not(supervise: Start) -> None:
    one = supervise(
        {
            "a": {"command": "exit 0", "availability": {"restart": "on_failure"}},
            "b": {"command": "exit 0", "availability": {"restart": "always", "backoff_seconds": 1}},
        }
    )
    one.reaches("a", "Completed")
    until(lambda: one.state("b")["restarts"] == 1)
    assert one.state("a")["restarts"] == 0


@pytest.mark.parametrize(
    ("definition", "code"),
    [
        ({"entrypoint": ["no-such-program-anywhere"]}, 127),
        ({"entrypoint": ["/etc/passwd"]}, 126),
        ({"command": "true", "working_dir": "/no/such/directory"}, 127),
    ],
)
def test_what_cannot_be_executed_is_an_error_with_its_reason_in_the_log(
    supervise: Start, definition: dict[str, object], code: int
) -> None:
    one = supervise({"a": definition, "b": {"command": SLEEP}})
    state = one.reaches("a", "Error")
    assert state["exit_code"] == code
    assert str(state["error"])
    one.prints("a", str(state["error"]))
    assert one.wait("a").word == "failed"
    one.reaches("b", "Running")


def test_start_on_a_running_and_stop_on_an_ended_process_change_nothing(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}, "b": {"command": "exit 0"}})
    pid = one.reaches("a", "Running")["pid"]
    one.reaches("b", "Completed")
    assert one.ask("POST", "/process/start/a")[0] == 200
    assert one.ask("PATCH", "/process/stop/b")[0] == 200
    assert one.state("a")["pid"] == pid
    assert one.state("b")["reason"] == "exit"
    assert one.moves("a") == ["Launching", "Running"]


def test_an_ended_process_starts_again_with_a_fresh_log(supervise: Start) -> None:
    one = supervise({"a": {"command": "echo run $$"}})
    one.reaches("a", "Completed")
    first = one.prints("a", "run")
    one.ask("POST", "/process/restart/a")
    assert one.wait("a").word == "settled"
    until(lambda: "run" in one.output("a") and one.output("a") != first)
    assert one.output("a").count("run") == 1


def test_a_restart_of_a_running_process_replaces_it(supervise: Start) -> None:
    one = supervise({"a": {"command": "trap 'sleep 0.3; exit 0' TERM; echo up; while :; do sleep 0.05; done"}})
    one.prints("a", "up")
    pid = one.state("a")["pid"]
    begun = time.monotonic()
    assert one.ask("POST", "/process/restart/a")[0] == 200
    assert time.monotonic() - begun >= 0.3
    assert not alive(int(str(pid)))
    state = one.reaches("a", "Running")
    assert state["pid"] != pid
    assert one.moves("a") == ["Launching", "Running", "Terminating", "Completed", "Pending", "Launching", "Running"]


def test_a_restart_of_a_dependency_leaves_its_dependents_alone(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}, "b": {"command": SLEEP, **after("a", "process_started")}})
    pid = one.reaches("b", "Running")["pid"]
    one.ask("POST", "/process/restart/a")
    one.reaches("a", "Running")
    assert one.state("b")["pid"] == pid


def test_a_dependency_that_is_unready_for_a_moment_delays_its_dependent_and_skips_nobody(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": SLEEP,
                "readiness_probe": {
                    "exec": {"command": "test -e ready"},
                    "period_seconds": 0.2,
                    "failure_threshold": 1000,
                },
            },
            "slow": {"command": "until test -e go; do sleep 0.02; done"},
            "b": {
                "command": SLEEP,
                "depends_on": {
                    "a": {"condition": "process_healthy"},
                    "slow": {"condition": "process_completed"},
                },
            },
        }
    )
    ready = one.root / "ready"
    ready.touch()
    until(lambda: one.state("a")["is_ready"] == "Ready")
    ready.unlink()
    until(lambda: one.state("a")["is_ready"] == "Not Ready")
    (one.root / "go").touch()
    one.reaches("slow", "Completed")
    assert one.state("b")["status"] == "Pending"
    ready.touch()
    one.reaches("b", "Running")


def test_a_stop_of_a_pending_process_takes_effect_at_once(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}, "b": {"command": SLEEP, **after("a", "process_completed")}})
    one.reaches("a", "Running")
    assert one.ask("PATCH", "/process/stop/b")[0] == 200
    state = one.state("b")
    assert (state["status"], state["reason"]) == ("Completed", "stop")
    one.ask("PATCH", "/process/stop/a")
    assert one.state("b")["status"] == "Completed"


def test_a_stop_during_the_back_off_ends_it_for_good(supervise: Start) -> None:
    one = supervise({"a": {"command": "echo x; exit 1", "availability": {"restart": "always", "backoff_seconds": 1}}})
    one.reaches("a", "Restarting")
    assert one.ask("PATCH", "/process/stop/a")[0] == 200
    assert one.state("a")["status"] == "Completed"
    time.sleep(1.2)
    assert one.output("a") == "x\n"
    assert one.wait("a").word == "settled"


def test_each_transition_is_one_line_with_its_time_states_and_reason(supervise: Start) -> None:
    one = supervise({"a": {"command": "exit 4"}})
    one.reaches("a", "Completed")
    lines = [line for line in one.history().splitlines() if " a: " in line]
    assert len(lines) == 3
    assert lines[-1].split(" ", 1)[1] == "a: Running -> Completed (exit code 4)"
    assert lines[-1].startswith("20")


def test_replicas_are_copies_with_a_number_and_a_dependent_waits_for_all(supervise: Start) -> None:
    one = supervise(
        {
            "w": {
                "command": 'echo "$PC_PROC_NAME $PC_REPLICA_NUM $BERTH_PROCESS"; sleep 0.$PC_REPLICA_NUM',
                "replicas": 3,
            },
            "b": {"command": "exit 0", **after("w", "process_completed_successfully")},
        }
    )
    one.reaches("b", "Completed")
    for number in range(3):
        assert one.prints(f"w-{number}", "\n") == f"w {number} w-{number}\n"
        assert one.history().index(f"w-{number}: Running -> Completed") < one.history().index(" b: Pending")


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        ("exit_on_end", {"command": "sleep 0.2", "availability": {"exit_on_end": True}}),
        ("exit_on_failure", {"command": "sleep 0.2; exit 5", "availability": {"restart": "exit_on_failure"}}),
        (
            "exit_on_skipped",
            {
                "command": "true",
                "availability": {"exit_on_skipped": True},
                "depends_on": {"bad": {"condition": "process_completed_successfully"}},
            },
        ),
    ],
)
def test_the_declared_end_of_one_is_the_end_of_all(supervise: Start, name: str, definition: dict[str, object]) -> None:
    one = supervise({"a": definition, "bad": {"command": "sleep 0.2; exit 1"}, "other": {"command": SLEEP}})
    assert one.child is not None
    assert one.child.wait(10) == 0
    record = json.loads((one.run / "pc.exit").read_text())
    assert record["reason"] == name
    assert record["process"] == "a"
    assert record["code"] == (5 if name == "exit_on_failure" else 0)
    assert record["time"].endswith("Z")
    assert "stopping everything" in one.history()
    assert one.tagged() == []
    assert not (one.run / "pc.sock").exists()


def test_when_all_have_ended_the_supervisor_stays(supervise: Start) -> None:
    one = supervise({"a": {"command": "echo said"}})
    one.reaches("a", "Completed")
    time.sleep(0.3)
    assert one.state("a")["status"] == "Completed"
    assert one.prints("a", "said") == "said\n"
