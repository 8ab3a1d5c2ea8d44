"""How a supervisor begins: lock, configuration, socket, what it inherits and hands on (supervisor.md 1)."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.guest.core import procfs, wire
from berth.tools import supervisor
from support.supervisor import Supervisor, until

Start = Callable[..., Supervisor]
SLEEP = "exec sleep 1000"


def refused(one: Supervisor) -> tuple[int, str]:
    """(exit status, what it says) of a start that must fail."""
    supervisor.make_token(str(one.run))
    ended = subprocess.run(
        [
            *(sys.executable, "-I", "-S", supervisor.guest_directory(), "supervise", "--config", str(one.config)),
            *("--socket", str(one.run / "pc.sock"), "--token-file", str(one.run / "pc.token"), "--log", str(one.log)),
        ],
        cwd=one.root,
        env=one.environment,
        capture_output=True,
        text=True,
        timeout=20,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


def test_a_second_supervisor_exits_with_3_without_touching_the_first(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}})
    before = (one.run / "pc.sock").stat().st_ino, (one.run / "pc.pid").read_text()
    status, said = refused(one)
    assert status == 3
    assert "pc.lock" in said
    assert ((one.run / "pc.sock").stat().st_ino, (one.run / "pc.pid").read_text()) == before
    one.reaches("a", "Running")


def test_a_stale_socket_and_lock_file_are_no_obstacle(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}})
    os.kill(one.pid, signal.SIGKILL)
    assert one.child is not None
    one.child.wait()
    assert (one.run / "pc.sock").exists()
    for entry in one.tagged():
        os.kill(entry.pid, signal.SIGKILL)
    one.start()
    assert one.ask("GET", "/live")[0] == 200


BAD = {
    "no JSON": "version: 0.5",
    "cut": '{"processes": {"a": ',
    "not a mapping": "[]",
    "no processes": '{"processes": {}}',
    "a process that is none": '{"processes": {"a": 5}}',
    "nothing to run": '{"processes": {"a": {}}}',
    "a number of words": '{"processes": {"a": {"command": ["x"]}}}',
    "an unknown dependency": '{"processes": {"a": {"command": "x", "depends_on": {"b": {}}}}}',
    "a name with a slash": '{"processes": {"../a": {"command": "x"}}}',
    "a probe of both kinds": '{"processes": {"a": {"command": "x", "readiness_probe": {"exec": {"command": "x"}, '
    '"http_get": {"port": 1}}}}}',
    "a port that is none": '{"processes": {"a": {"command": "x", "readiness_probe": {"http_get": {"port": 70000}}}}}',
    "not a number": '{"processes": {"a": {"command": "x", "availability": {"backoff_seconds": "soon"}}}}',
    "nested without end": "[" * 100000,
    "an infinite number": '{"processes": {"a": {"command": "x", "shutdown": {"timeout_seconds": 1e999}}}}',
    "an environment that is a mapping": '{"processes": {"a": {"command": "x", "environment": {"A": "b"}}}}',
    "a NUL": '{"processes": {"a": {"command": "x\\u0000y"}}}',
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_bad_configuration_is_one_line_and_a_status_never_a_traceback(supervise: Start, text: str) -> None:
    one = supervise({}, begin=False)
    one.config.write_text(text)
    status, said = refused(one)
    assert status == 1
    assert said.count("\n") == 1
    assert str(one.config) in said
    assert "not started" in one.history()
    assert not (one.run / "pc.sock").exists()


def test_a_token_file_that_holds_none_is_refused(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}}, begin=False)
    supervisor.make_token(str(one.run))
    (one.run / "pc.token").write_text("short\n")
    ended = subprocess.run(
        [
            *(sys.executable, "-I", "-S", supervisor.guest_directory(), "supervise", "--config", str(one.config)),
            *("--socket", str(one.run / "pc.sock"), "--token-file", str(one.run / "pc.token"), "--log", str(one.log)),
        ],
        cwd=one.root,
        env=one.environment,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert ended.returncode == 1
    assert "pc.token" in ended.stderr


def test_wrong_arguments_are_a_usage_error() -> None:
    guest = supervisor.guest_directory()
    for arguments in (["supervise"], ["supervise", "--config"], ["nonsense"], []):
        ended = subprocess.run(
            [sys.executable, "-I", "-S", guest, *arguments], capture_output=True, text=True, check=False, timeout=20
        )
        assert ended.returncode == 2, arguments
        assert "Traceback" not in ended.stderr


def test_it_leads_a_session_holds_no_terminal_and_inherits_nothing(supervise: Start) -> None:
    with open(os.devnull) as extra:
        os.set_inheritable(extra.fileno(), True)
        one = supervise({"a": {"command": "ls -l /proc/self/fd | wc -l; exec sleep 1000"}}, begin=False)
        one.start(pass_fds=(extra.fileno(),))
        one.reaches("a", "Running")
        assert {os.readlink(f"/proc/{one.pid}/fd/{number}") for number in range(3)} == {os.devnull}
        assert os.getsid(one.pid) == one.pid
        assert os.readlink(f"/proc/{one.pid}/cwd") == str(one.root)
        # 0, 1, 2, the directory that ls reads, and the line of the total
        assert one.prints("a", "\n").split() == ["5"]


def test_pc_pid_says_which_supervisor_runs(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}})
    found = wire.decode_pid((one.run / "pc.pid").read_text())
    assert found == (one.pid, procfs.start_time(one.pid), procfs.boot_id(), "berth", wire.INTERFACE_VERSION)


def test_every_process_carries_its_tag_whatever_it_does(supervise: Start) -> None:
    clears = "setsid env -i sleep 555 & exec sleep 1000"
    one = supervise({"b": {"command": clears}, "a": {"command": SLEEP}})
    one.reaches("a", "Running")

    def numbers() -> list[int]:
        return sorted(wire.split_tag(procfs.tag(entry.pid) or 0)[1] for entry in one.tagged())

    until(lambda: len(numbers()) == 6)
    assert numbers() == [0, 1, 2, 2, wire.KEEPER_NUMBER, wire.KEEPER_NUMBER]
    assert (procfs.tag(one.pid) or 0) >> 15 == wire.workspace_part(one.workspace_id)


def test_a_lower_hard_limit_means_no_tag_and_is_said_once(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}, "b": {"command": SLEEP}}, begin=False)
    one.start(preexec_fn=lambda: resource.setrlimit(10, (1000, 1000)))
    assert one.wait().word == "settled"
    assert one.history().count("processes carry no tag") == 1
    pid = int(str(one.state("a")["pid"]))
    assert procfs.tag(pid) == 1000
    one.down()


def test_children_get_default_signals_an_empty_mask_and_the_caller_s_umask_and_limits(supervise: Start) -> None:
    def before() -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
        os.umask(0o027)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    one = supervise(
        {"a": {"command": "grep -E '^Sig(Blk|Ign)' /proc/self/status; umask; ulimit -c; ps -o pid=,sid= $$"}},
        begin=False,
    )
    one.start(preexec_fn=before)
    one.reaches("a", "Completed")
    words = one.prints("a", "\n").split()
    assert words[1] == "0" * 16
    assert int(words[3], 16) & ~(0b11 << 31) == 0, "signals 32 and 33 are the C library's own"
    assert words[4:6] == ["0027", "0"]
    assert words[6] == words[7]


def test_the_environment_is_the_supervisor_s_then_the_definition_s(supervise: Start) -> None:
    one = supervise({}, begin=False)
    one.environment |= {"FROM": "outside", "KEPT": "1", "BERTH_LEASE": "x", "PC_PROC_NAME": "wrong"}
    one.write(
        {
            "environment": ["SHARED=yes", "FROM=top"],
            "processes": {"a": {"command": "env", "environment": ["FROM=process", "EQ=a=b", "FROM=last"]}},
        }
    )
    one.start()
    one.reaches("a", "Completed")
    found = dict(line.split("=", 1) for line in one.prints("a", "\n").splitlines())
    assert (found["FROM"], found["KEPT"], found["SHARED"], found["EQ"]) == ("last", "1", "yes", "a=b")
    assert (found["BERTH_SUPERVISED"], found["BERTH_PROCESS"]) == (one.workspace_id, "a")
    assert (found["PC_PROC_NAME"], found["PC_REPLICA_NUM"]) == ("a", "0")
    assert "BERTH_LEASE" not in found


def test_an_entrypoint_is_argv_and_its_command_is_split_like_a_shell_would(supervise: Start) -> None:
    one = supervise(
        {
            "a": {"entrypoint": ["printf", "[%s]", "a b"], "command": "'c d' e\\ f $HOME"},
            "b": {"command": "printf '[%s]' \"$1\" '$$'"},
        }
    )
    assert one.prints("a", "HOME") == "[a b][c d][e f][$HOME]"
    one.prints("b", "[")


def test_the_program_runs_from_a_copy_and_survives_the_loss_of_its_files(supervise: Start, tmp_path: Path) -> None:
    copy = tmp_path / "guest"
    shutil.copytree(supervisor.guest_directory(), copy, ignore=shutil.ignore_patterns("__pycache__"))
    one = supervise({"a": {"command": SLEEP}}, begin=False)
    supervisor.make_token(str(one.run))
    child = subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", str(copy), "supervise", "--config", str(one.config), "--socket"),
            *(str(one.run / "pc.sock"), "--token-file", str(one.run / "pc.token"), "--log", str(one.log)),
        ],
        cwd=one.root,
        env=one.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    one.child = child
    until(lambda: (one.run / "pc.sock").exists())
    assert one.wait().word == "settled"
    shutil.rmtree(copy)
    one.ask("POST", "/process/restart/a")
    assert one.wait().word == "settled"
    one.down()
    assert "internal error" not in one.history()


def test_with_the_token_on_standard_input_it_detaches_once_it_answers(supervise: Start) -> None:
    one = supervise({"a": {"command": "exec sleep 1000"}}, begin=False)
    token = supervisor.make_token(str(one.run))
    arguments = ["supervise", "--config", str(one.config), "--socket", str(one.run / "pc.sock")]
    ended = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            supervisor.guest_directory(),
            *arguments,
            "--token-file",
            "-",
            "--log",
            str(one.log),
        ],
        cwd=one.root,
        env=one.environment,
        input=token + "\n",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    found = wire.decode_pid(ended.stdout)
    assert found is not None
    assert procfs.start_time(found[0]) == found[1]
    assert one.ask("GET", "/live")[0] == 200
    assert os.getsid(found[0]) == found[0]
    assert not (one.run / "pc.pid").exists()
    again = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            supervisor.guest_directory(),
            *arguments,
            "--token-file",
            "-",
            "--log",
            str(one.log),
        ],
        cwd=one.root,
        env=one.environment,
        input=token + "\n",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert again.returncode == 3
    supervisor.stop_project(one.control, timeout_seconds=10)
    until(lambda: procfs.read(found[0]) is None)


def test_a_long_path_is_no_obstacle(supervise: Start, tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*(["d" * 60] * 4))
    deep.mkdir(parents=True)
    one = Supervisor(deep, {"a": {"command": SLEEP}})
    try:
        one.start()
        assert len(str(one.run / "pc.sock")) > 240
        assert one.wait().word == "settled"
        one.down()
    finally:
        one.destroy()


def test_the_host_starts_it_and_says_why_it_could_not(tmp_path: Path) -> None:
    one = Supervisor(tmp_path, {"a": {"command": SLEEP}})
    environment = {**os.environ, "PC_DISABLE_TUI": "1", "BERTH_LEASE": "x"}
    options = {
        "workspace": str(tmp_path),
        "workspace_id": one.workspace_id,
        "env": environment,
        "config": str(one.config),
        "log": str(one.log),
    }
    pid = supervisor.start(str(one.run), **options)  # type: ignore[arg-type]
    try:
        assert supervisor.wait(one.control, timeout_seconds=5).word == "settled"
        assert procfs.variable(pid, "PC_DISABLE_TUI") is None
        assert procfs.variable(pid, "BERTH_LEASE") is None
        assert procfs.variable(pid, wire.MARKER) == one.workspace_id
        with pytest.raises(BerthError, match="another supervisor") as second:
            supervisor.start(str(one.run), **options)  # type: ignore[arg-type]
        assert second.value.code == "supervisor_failed"
        supervisor.stop_project(one.control, timeout_seconds=5)
        assert os.waitpid(pid, 0)[1] == 0
        one.config.write_text("{")
        with pytest.raises(BerthError, match=r"(?s)pc\.yaml.*not started"):
            supervisor.start(str(one.run), **options)  # type: ignore[arg-type]
    finally:
        one.destroy()


def test_a_start_takes_no_longer_than_its_interpreter_s_few_imports(supervise: Start) -> None:
    """The set of modules is pinned instead of a time: what an import costs stands in performance.md."""
    guest = supervisor.guest_directory()
    code = (
        f"import sys; sys.path.append({os.path.dirname(guest)!r}); before = set(sys.modules)\n"
        "import guest.services.supervise\n"
        "print(*sorted(name for name in set(sys.modules) - before if not name.startswith('guest')))"
    )
    said = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = "re json socket selectors signal enum subprocess typing collections functools dataclasses logging hashlib"
    assert not set(said.split()) & set(heavy.split()), said


def test_an_idle_supervisor_makes_no_system_call(supervise: Start, tmp_path: Path) -> None:
    """Section 9: no wake-up when nothing is due, also right after it was asked for something."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    one = supervise({"a": {"command": "echo x; exec sleep 1000"}, "b": {"command": "exit 0"}})
    assert one.wait().word == "settled"
    one.prints("a", "x")
    time.sleep(1.3)  # the trimming's watch is armed again a second after a write
    assert one.state("a")["status"] == "Running"
    trace = tmp_path / "trace"
    subprocess.run(
        ["timeout", "7", "strace", "-f", "-o", str(trace), "-p", str(one.pid)], stderr=subprocess.DEVNULL, check=False
    )
    lines = trace.read_text().splitlines()
    assert len(lines) == 1, lines
    assert "epoll_wait" in lines[0]
