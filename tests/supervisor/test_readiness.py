"""Probes and ready lines (supervisor.md 5 and 7), with real servers and real clocks."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from berth.tools import supervisor
from support.supervisor import Supervisor, alive, answer, free_port, http_get, until

Start = Callable[..., Supervisor]
SLEEP = "exec sleep 1000"
# Section 5: the pause, two check durations, and what a loaded test machine needs on top.
SLACK = 0.4


def test_readiness_is_seen_as_soon_as_it_is_true_whatever_the_period(supervise: Start) -> None:
    port = free_port()
    one = supervise(
        {"web": {"command": answer(port, delay=0.6), "readiness_probe": {**http_get(port), "period_seconds": 10}}}
    )
    assert one.wait(timeout=8).word == "settled"
    seen = time.time()
    listening = float(one.prints("web", "listening at").split()[-1])
    assert seen - listening < 0.1 + SLACK
    assert one.state("web")["is_ready"] == "Ready"


def test_an_initial_delay_delays_only_the_counting(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": SLEEP,
                "readiness_probe": {"exec": {"command": "true"}, "initial_delay_seconds": 30, "period_seconds": 10},
            }
        }
    )
    begun = time.monotonic()
    assert one.wait(timeout=8).word == "settled"
    assert time.monotonic() - begun < 0.3 + SLACK


def test_each_further_success_that_is_asked_takes_a_tenth_of_a_second(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": SLEEP,
                "readiness_probe": {"exec": {"command": "echo x >> checks"}, "success_threshold": 4},
            }
        }
    )
    begun = time.monotonic()
    assert one.wait(timeout=8).word == "settled"
    assert time.monotonic() - begun < 0.3 + 3 * 0.1 + SLACK
    assert (one.root / "checks").read_text() == "x\n" * 4


def test_early_failures_do_not_count_and_the_threshold_stops_the_process(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": SLEEP,
                "readiness_probe": {
                    "exec": {"command": "echo check >> checks; echo not today; exit 3"},
                    "period_seconds": 0.5,
                    "failure_threshold": 2,
                },
            }
        }
    )
    pid = one.reaches("a", "Running")["pid"]
    begun = time.monotonic()
    verdict = one.wait(timeout=8)
    took = time.monotonic() - begun
    assert verdict.word == "failed"
    assert 0.7 < took < 1.0 + SLACK
    assert "exit code 3: not today" in str(verdict.processes[0]["verdict_reason"])
    assert len((one.root / "checks").read_text().split()) > 3
    state = one.reaches("a", "Completed")
    assert state["reason"] == "readiness"
    assert not alive(int(str(pid)))
    assert one.moves("a") == ["Launching", "Running", "Terminating", "Completed"]


def test_after_it_was_ready_it_may_go_back_and_forth(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": SLEEP,
                "readiness_probe": {
                    "exec": {"command": "test -e ok"},
                    "period_seconds": 0.1,
                    "failure_threshold": 1000,
                },
            }
        }
    )
    for _ in range(2):
        (one.root / "ok").touch()
        until(lambda: one.state("a")["is_ready"] == "Ready")
        (one.root / "ok").unlink()
        until(lambda: one.state("a")["is_ready"] == "Not Ready")
    assert one.state("a")["restarts"] == 0


def test_liveness_at_its_threshold_restarts_by_policy(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": "touch live; echo $$; exec sleep 1000",
                "liveness_probe": {"exec": {"command": "test -e live"}, "period_seconds": 0.1, "failure_threshold": 2},
                "availability": {"restart": "on_failure", "backoff_seconds": 1},
            }
        }
    )
    one.prints("a", "\n")
    time.sleep(0.3)
    assert one.state("a")["restarts"] == 0
    (one.root / "live").unlink()
    until(lambda: one.state("a")["restarts"] == 1)
    one.reaches("a", "Running")
    assert "liveness" in one.history()
    assert one.moves("a")[:5] == ["Launching", "Running", "Restarting", "Pending", "Launching"]


@pytest.mark.parametrize(
    ("status", "wanted", "passes"), [(200, None, True), (302, None, True), (404, None, False), (404, 404, True)]
)
def test_the_status_decides(supervise: Start, status: int, wanted: int | None, passes: bool) -> None:
    port = free_port()
    more = {} if wanted is None else {"status_code": wanted}
    one = supervise(
        {
            "a": {
                "command": answer(port, status=status),
                "readiness_probe": {**http_get(port, **more), "period_seconds": 0.3, "failure_threshold": 2},
            }
        }
    )
    assert one.wait(timeout=8).word == ("settled" if passes else "failed")


@pytest.mark.parametrize(("bound", "host"), [("::1", "localhost"), ("127.0.0.1", "localhost"), ("::1", "::1")])
def test_localhost_is_tried_on_both_loopbacks(supervise: Start, bound: str, host: str) -> None:
    if bound == "::1":
        with socket.socket(socket.AF_INET6) as probe:
            try:
                probe.bind(("::1", 0))
            except OSError:
                pytest.skip("no IPv6 loopback")
    port = free_port()
    one = supervise({"a": {"command": answer(port, host=bound), "readiness_probe": http_get(port, host)}})
    assert one.wait(timeout=8).word == "settled"


def test_a_server_on_the_other_family_is_not_reached_by_an_address(supervise: Start) -> None:
    port = free_port()
    one = supervise(
        {
            "a": {
                "command": answer(port),
                "readiness_probe": {**http_get(port, "::1"), "period_seconds": 0.2, "failure_threshold": 2},
            }
        }
    )
    assert one.wait(timeout=8).word == "failed"


def test_a_server_that_never_answers_holds_nobody_up(supervise: Start) -> None:
    silent, fine = free_port(), free_port()
    one = supervise(
        {
            "a": {"command": answer(silent, status=0), "readiness_probe": {**http_get(silent), "timeout_seconds": 20}},
            "b": {"command": answer(fine), "readiness_probe": http_get(fine)},
        }
    )
    assert one.wait("b", timeout=5).word == "settled"
    assert one.wait("a", timeout=0.5).word == "wait"
    assert one.down() < 2


def test_a_check_that_hangs_is_killed_with_its_group_at_its_timeout(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": SLEEP,
                "readiness_probe": {
                    "exec": {"command": "sleep 776 & echo $! >> sleepers; sleep 777"},
                    "timeout_seconds": 0.3,
                    "period_seconds": 0.5,
                    "failure_threshold": 2,
                },
            }
        }
    )
    assert one.wait(timeout=8).word == "failed"
    one.reaches("a", "Completed")
    sleepers = [int(line) for line in (one.root / "sleepers").read_text().split()]
    assert len(sleepers) >= 2
    until(lambda: not any(alive(pid) for pid in sleepers))


def test_at_most_one_check_is_in_flight(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": SLEEP,
                "readiness_probe": {
                    "exec": {"command": "mkdir busy || echo twice >> twice; sleep 0.3; rmdir busy; exit 1"},
                    "timeout_seconds": 2,
                    "period_seconds": 0.1,
                    "failure_threshold": 4,
                },
            }
        }
    )
    assert one.wait(timeout=8).word == "failed"
    assert not (one.root / "twice").exists()


def test_an_answer_from_the_previous_incarnation_is_dropped(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": SLEEP,
                "readiness_probe": {
                    "exec": {"command": "test -e first || { touch first; sleep 0.5; exit 0; }; exit 1"},
                    "timeout_seconds": 5,
                },
            }
        }
    )
    until(lambda: (one.root / "first").exists())
    one.ask("POST", "/process/restart/a")
    time.sleep(0.8)
    assert one.state("a")["is_ready"] == "Not Ready"


def test_a_probe_runs_in_the_process_s_environment_and_directory(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": SLEEP,
                "working_dir": "/tmp",
                "environment": ["WORD=hello"],
                "readiness_probe": {
                    "exec": {"command": 'test "$WORD $BERTH_PROCESS $(pwd)" = "hello a /tmp"'},
                },
            },
            "b": {
                "command": SLEEP,
                "readiness_probe": {"exec": {"command": 'test "$(pwd)" = /usr', "working_dir": "/usr"}},
            },
        }
    )
    assert one.wait(timeout=5).word == "settled"


def test_a_step_of_the_clock_has_no_effect(supervise: Start) -> None:
    """Monotonic time only: nothing in the guest's timing asks the wall clock."""
    guest = os.path.join(os.path.dirname(__file__), "..", "..", "src", "berth", "guest")
    for module in (
        "core/loop.py",
        "services/probes.py",
        "services/ladder.py",
        "services/down.py",
        "services/checks.py",
    ):
        with open(os.path.join(guest, module), encoding="utf-8") as file:
            assert "time.time" not in file.read(), module


def test_a_ready_line_makes_it_ready_as_it_is_printed(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": "echo starting; sleep 0.4; date +'up at %s.%N'; exec sleep 1000",
                "ready_log_line": "^up at [0-9.]+$",
            }
        }
    )
    assert one.state("a")["is_ready"] == "Not Ready"
    assert one.wait(timeout=8).word == "settled"
    seen = time.time()
    printed = float(one.output("a").split()[-1])
    assert seen - printed < SLACK


@pytest.mark.parametrize(
    ("line", "printed"),
    [("ready (1+1", "ready (1+1"), ("prompt>", "prompt>"), (r"listening on \d+", "x listening on 80 y\n")],
    ids=["a literal that is no expression", "a line without its end", "an expression inside a line"],
)
def test_what_is_searched_in_the_output(supervise: Start, line: str, printed: str) -> None:
    one = supervise({"a": {"command": f"printf '%s' '{printed}'; exec sleep 1000", "ready_log_line": line}})
    assert one.wait(timeout=5).word == "settled"


def test_a_line_of_the_previous_run_does_not_make_the_next_one_ready(supervise: Start) -> None:
    one = supervise(
        {
            "a": {
                "command": "test -e second || { touch second; echo ready; sleep 0.3; exit 1; }; exec sleep 1000",
                "ready_log_line": "ready",
                "availability": {"restart": "on_failure", "backoff_seconds": 1},
            }
        }
    )
    assert one.wait(timeout=5).word == "settled"
    until(lambda: one.state("a")["restarts"] == 1 and one.state("a")["status"] == "Running")
    time.sleep(0.2)
    assert one.state("a")["is_ready"] == "Not Ready"
    assert one.output("a") == "ready\n"


def test_one_that_ends_before_it_was_ready_has_failed_whatever_its_code(supervise: Start) -> None:
    one = supervise(
        {
            "a": {"command": "exit 0", "readiness_probe": {"exec": {"command": "false"}}},
            "b": {"command": "echo almost; exit 0", "ready_log_line": "ready"},
            "c": {"command": "echo ready; exit 0", "ready_log_line": "ready"},
        }
    )
    for name, word in (("a", "failed"), ("b", "failed"), ("c", "settled")):
        assert one.wait(name, timeout=5).word == word, name


def test_the_answer_is_found_by_a_slow_reader_of_much_output(supervise: Start) -> None:
    noise = (
        f"{sys.executable} -I -S -c \"print('x' * 99 + chr(10), end='') or [print('y' * 99) for _ in range(200000)]\""
    )
    one = supervise({"a": {"command": f"{noise}; echo the line; exec sleep 1000", "ready_log_line": "^the line$"}})
    assert one.wait(timeout=30).word == "settled"


def test_https_is_asked_without_a_look_at_the_certificate(supervise: Start, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    pem = tmp_path / "pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=nobody"),
            *("-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "cert")),
        ],
        check=True,
        capture_output=True,
    )
    pem.write_text((tmp_path / "key").read_text() + (tmp_path / "cert").read_text())
    port = free_port()
    serve = tmp_path / "serve.py"
    serve.write_text(
        "import http.server as h, ssl, sys\n"
        "server = h.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), h.SimpleHTTPRequestHandler)\n"
        "context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\ncontext.load_cert_chain(sys.argv[2])\n"
        "server.socket = context.wrap_socket(server.socket, server_side=True)\nserver.serve_forever()\n"
    )
    probe = http_get(port, scheme="https")
    one = supervise(
        {
            "a": {"command": f"exec {sys.executable} {serve} {port} {pem}", "readiness_probe": probe},
            "b": {
                "command": answer(other := free_port()),
                "readiness_probe": {**http_get(other, scheme="https"), "period_seconds": 0.3, "failure_threshold": 2},
            },
        }
    )
    assert one.wait("a", timeout=10).word == "settled"
    assert one.wait("b", timeout=10).word == "failed"
    assert "TLS" in one.history()


def test_a_name_is_looked_up_without_holding_anybody_up(supervise: Start) -> None:
    port = free_port()
    one = supervise(
        {
            "a": {"command": answer(port), "readiness_probe": http_get(port, socket.gethostname())},
            "b": {
                "command": SLEEP,
                "readiness_probe": {
                    **http_get(port, "no-such-host.invalid"),
                    "period_seconds": 0.3,
                    "failure_threshold": 2,
                    "timeout_seconds": 5,
                },
            },
        }
    )
    begun = time.monotonic()
    assert one.state("a")["name"] == "a"
    assert time.monotonic() - begun < 1
    assert one.wait("b", timeout=20).word == "failed"
    assert "no-such-host.invalid" in str(one.state("b")["verdict_reason"])


def test_a_line_that_was_printed_before_the_search_began_is_found(supervise: Start, tmp_path: Path) -> None:
    """The output may be in the log before the supervisor, kept from the processor, begins to watch it."""
    copy = tmp_path / "guest"
    shutil.copytree(supervisor.guest_directory(), copy)
    growth = copy / "services" / "growth.py"
    late = growth.read_text().replace(
        "self._fd = os.open(path", "__import__('time').sleep(0.5); self._fd = os.open(path"
    )
    assert late != growth.read_text()
    growth.write_text(late)
    one = supervise({"a": {"command": "echo ready; exec sleep 1000", "ready_log_line": "ready"}}, begin=False)
    one.guest = str(copy)
    one.start()
    assert one.wait(timeout=5).word == "settled"
