"""One command in front of the user: streams, codes, signals, job control on a real terminal (workspaces.md 8.8)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from berth.tools import procfs
from support.processes import environment, eventually
from support.terminal import PROMPT, RUNNER, shell


def run(*argv: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", RUNNER, *argv]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=60, check=False, **options
    )  # type: ignore[call-overload,no-any-return]


@contextmanager
def running(*argv: str) -> Iterator[subprocess.Popen[str]]:
    """``RUNNER`` with a command, in a session of its own; whatever is left in that session is killed."""
    command = [sys.executable, "-c", RUNNER, *argv]
    child = subprocess.Popen(
        command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert child.stdout is not None
    try:
        yield child
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait(10)
        child.stdout.close()


def printed(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def test_arguments_streams_and_the_exit_code_pass_through(tmp_path: Path) -> None:
    """Five arguments exactly (C90)."""
    done = run("printf", "[%s]\n", "a b", "", "$(id)", "it's", "*")
    assert done.stdout == "[a b]\n[]\n[$(id)]\n[it's]\n[*]\n"
    done = run("sh", "-c", "cat; echo err >&2; exit 7", input="in")
    assert (done.returncode, done.stdout, done.stderr) == (7, "in", "err\n")


def test_a_signal_that_ended_the_command_gives_128_and_its_number() -> None:
    assert run("sh", "-c", "kill -9 $$").returncode == 137
    assert run("sh", "-c", "kill -INT $$").returncode == 130


def test_what_cannot_be_executed_gives_the_shells_two_codes(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    done = run("no-such-command-here")
    assert (done.returncode, done.stderr) == (127, "no-such-command-here: command not found\n")
    for path in (tmp_path / "plain", tmp_path):
        done = run(str(path))
        assert done.returncode == 126
        assert str(path) in done.stderr


def test_children_start_with_default_dispositions_an_empty_mask_and_the_callers_umask_and_limits() -> None:
    script = "grep -E 'SigBlk|SigIgn' /proc/self/status; umask; ulimit -n"

    def before() -> None:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        os.umask(0o027)
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (123, 200))

    done = run("sh", "-c", script, preexec_fn=before)
    words = done.stdout.split()
    assert words[:3] == ["SigBlk:", "0" * 16, "SigIgn:"], done.stderr
    assert int(words[3], 16) & ~(0b11 << 31) == 0, "signals 32 and 33 are the C library's own"
    assert words[4:] == ["0027", "123"]
    assert done.returncode == 0  # known although SIGCHLD was ignored


def test_closed_streams_are_empty_ones() -> None:
    done = subprocess.run(
        ["sh", "-c", '"$@" <&- 2>&-', "sh", sys.executable, "-c", RUNNER, "sh", "-c", "cat; echo over"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "over\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_to_berth_reaches_the_command_and_its_descendants(number: signal.Signals, code: int) -> None:
    name = number.name[3:]
    inner = f"trap 'echo child told; exit 0' {name}; echo up; while :; do sleep 0.05; done"
    script = f'trap "echo told; exit 3" {name}; sh -c "$0"'
    with running("sh", "-c", script, inner) as child:
        assert printed(child) == "up"
        child.send_signal(number)
        assert [printed(child), printed(child)] == ["child told", "told"]
        assert child.wait(10) == code


def test_kill_comes_five_seconds_after_the_signal() -> None:
    with running("sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.05; done") as child:
        pid = int(printed(child))
        begin = time.monotonic()
        child.terminate()
        assert child.wait(10) == 143
        assert 4.9 <= time.monotonic() - begin < 7
        eventually(lambda: procfs.start_time(pid) is None)


def test_a_second_signal_kills_at_once() -> None:
    with running("sh", "-c", "trap '' TERM INT; echo $$; while :; do sleep 0.05; done") as child:
        pid = int(printed(child))
        begin = time.monotonic()
        child.terminate()
        eventually(lambda: _has_taken(child.pid, signal.SIGTERM))
        child.send_signal(signal.SIGINT)
        assert child.wait(10) == 143
        assert time.monotonic() - begin < 3
        assert procfs.start_time(pid) is None


def _has_taken(pid: int, number: int) -> bool:
    """Whether no signal ``number`` is pending for ``pid`` any more."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    (pending,) = (int(row.split()[1], 16) for row in rows if row.startswith("ShdPnd:"))
    return not pending & (1 << (number - 1))


def test_what_ignores_the_signal_beside_a_willing_command_is_killed_too() -> None:
    """The leader exits on TERM, a child of it ignores TERM (C62)."""
    script = "sh -c 'trap \"\" TERM; echo $$; exec sleep 777' & trap 'exit 0' TERM; wait"
    with running("sh", "-c", script) as child:
        stubborn = int(printed(child))
        child.terminate()
        assert child.wait(10) == 143
        eventually(lambda: procfs.start_time(stubborn) is None)


def test_a_stray_stop_and_continue_end_nothing() -> None:
    with running("sh", "-c", "echo $$; exec sleep 1.5") as child:
        pid = int(printed(child))
        os.kill(pid, signal.SIGSTOP)
        os.kill(child.pid, signal.SIGCONT)
        os.kill(pid, signal.SIGCONT)
        assert child.wait(10) == 0


def test_quit_and_the_users_signals_are_passed_on_and_end_nothing() -> None:
    script = "trap 'echo one' USR1; trap 'echo quit; exit 4' QUIT; echo up; while :; do sleep 0.05; done"
    with running("sh", "-c", script) as child:
        assert printed(child) == "up"
        child.send_signal(signal.SIGUSR1)
        assert printed(child) == "one"
        child.send_signal(signal.SIGQUIT)
        assert printed(child) == "quit"
        assert child.wait(10) == 4


def test_a_command_left_running_in_the_background_does_not_hold_berth() -> None:
    begin = time.monotonic()
    done = run("sh", "-c", "sleep 30 >/dev/null 2>&1 & echo $!")
    os.kill(int(done.stdout), signal.SIGKILL)
    assert done.returncode == 0
    assert time.monotonic() - begin < 10


def test_nohup_is_respected() -> None:
    with running("sh", "-c", "echo up; sleep 0.7; echo over") as control:
        assert printed(control) == "up"
        control.send_signal(signal.SIGHUP)
        assert control.wait(10) == 129
    child = subprocess.Popen(
        ["nohup", sys.executable, "-c", RUNNER, "sh", "-c", "echo up; sleep 0.7; echo over"],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
    with child.stdout:
        assert printed(child) == "up"
        child.send_signal(signal.SIGHUP)
        assert printed(child) == "over"
        assert child.wait(10) == 0


def test_on_a_terminal_the_command_leads_the_foreground_group(tmp_path: Path) -> None:
    with shell(tmp_path) as terminal:
        terminal.command("$RUN sh -c 'echo pid=$$; sleep 0.3; ps -o pid=,pgid=,tpgid= -p $$'")
        terminal.expect("pid=")
        pid = terminal.expect("\n").strip()
        assert terminal.expect(PROMPT).split() == [pid, pid, pid]
        terminal.command("echo code=$?")
        terminal.expect("code=0")


@pytest.mark.parametrize("program", ["bash", "dash"])
def test_ctrl_c_ends_the_command_and_the_shell_goes_on(tmp_path: Path, program: str) -> None:
    with shell(tmp_path, program) as terminal:
        terminal.command("$RUN sleep 60")  # no shell: a dash that is about to fork loses the signal
        eventually(lambda: Path(f"/proc/{terminal.foreground}/comm").read_text() == "sleep\n")
        terminal.press("\x03")
        terminal.command("echo code=$?")
        terminal.expect("code=130\n")


def test_a_command_that_handles_ctrl_c_goes_on(tmp_path: Path) -> None:
    with shell(tmp_path) as terminal:
        # Whether the signal ends a `read` that waits is the shell's affair: it reads until it was given something.
        loop = "until read y; do :; done"
        terminal.command(f"""$RUN sh -c 'trap "echo caught" INT; echo up; {loop}; echo got $y; exit 5'""")
        terminal.expect("up\n")
        terminal.type("\x03")
        terminal.expect("caught\n")
        terminal.type("b\n")
        terminal.expect("got b\n")
        terminal.expect(PROMPT)
        terminal.command("echo code=$?")
        terminal.expect("code=5\n")


@pytest.mark.parametrize("program", ["bash", "dash"])
def test_ctrl_z_gives_the_shell_its_terminal_and_fg_gives_it_back(tmp_path: Path, program: str) -> None:
    with shell(tmp_path, program) as terminal:
        terminal.command("$RUN sh -c 'echo up; read x; echo got $x; read y; echo also $y'")
        terminal.expect("up\n")
        for word, answer in (("one", "got one\n"), ("two", "also two\n")):
            terminal.press("\x1a")
            terminal.command("jobs")
            terminal.expect("Stopped")
            terminal.expect(PROMPT)
            terminal.type("fg\n")
            eventually(lambda: terminal.foreground != terminal.pid and _is_sleeping(terminal.foreground))
            terminal.type(word + "\n")
            terminal.expect(answer)
        terminal.expect(PROMPT)
        assert terminal.foreground == terminal.pid


def _is_sleeping(group: int) -> bool:
    rows = Path(f"/proc/{group}/stat").read_text().rpartition(")")[2].split() if group > 0 else ["?"]
    return rows[0] == "S" and "sh" in procfs.command(group).split()[0]


def test_bg_lets_it_run_reading_stops_it_and_fg_feeds_it(tmp_path: Path) -> None:
    with shell(tmp_path) as terminal:
        terminal.command("$RUN sh -c 'sleep 1 & echo up; wait; echo asks; read x; echo got $x'")
        terminal.expect("up\n")
        terminal.press("\x1a")
        terminal.type("bg\n")
        terminal.expect("asks\n")
        assert terminal.foreground == terminal.pid
        terminal.type("wait -n; jobs\n")
        terminal.expect("Stopped")
        terminal.expect(PROMPT)
        terminal.type("fg\n")
        eventually(lambda: terminal.foreground != terminal.pid and _is_sleeping(terminal.foreground))
        terminal.type("food\n")
        terminal.expect("got food\n")
        terminal.expect(PROMPT)


def test_brought_to_the_front_while_running_it_gets_the_terminal_when_it_asks(tmp_path: Path) -> None:
    """The shell sends no SIGCONT to a job that runs already."""
    with shell(tmp_path) as terminal:
        terminal.command("$RUN sh -c 'sleep 1.5 & echo up; wait; echo asks; read x; echo got $x'")
        terminal.expect("up\n")
        terminal.press("\x1a")
        terminal.type("bg\n")
        terminal.expect(PROMPT)
        terminal.type("fg\n")
        terminal.expect("asks\n")
        eventually(lambda: _is_sleeping(terminal.foreground))
        terminal.type("food\n")
        terminal.expect("got food\n")
        terminal.expect(PROMPT)


def test_in_a_pipeline_it_stays_in_the_shells_group(tmp_path: Path) -> None:
    with shell(tmp_path) as terminal:
        terminal.command("$RUN sh -c 'ps -o pgid= -p $$; ps -o pgid= -p $PPID' | cat")
        one, two = terminal.expect(PROMPT).split()
        assert one == two
        terminal.command("""$RUN sh -c 'trap "echo told >&2" INT; echo up >&2; sleep 60; sleep 0.5; exit 9' | cat""")
        terminal.expect("up\n")
        terminal.type("\x03")
        shown = terminal.expect(PROMPT)
        assert shown.count("told") == 1  # the terminal told it; berth did not do so again


def test_started_in_the_background_it_leaves_the_terminal_alone(tmp_path: Path) -> None:
    """No SIGTTOU stop, nothing stolen (C84)."""
    with shell(tmp_path) as terminal:
        terminal.command("$RUN sh -c 'echo up; sleep 0.3; echo over' &")
        terminal.expect("up\n")
        assert terminal.foreground == terminal.pid
        terminal.expect("over\n")
        terminal.type("wait; echo code=$?\n")
        terminal.expect("code=0\n")
    with shell(tmp_path) as terminal:
        terminal.command("timeout 30 $RUN sh -c 'echo up; exit 6'; echo code=$?")
        terminal.expect("up\ncode=6\n")


def test_a_command_that_cannot_start_leaves_the_terminal_with_the_shell(tmp_path: Path) -> None:
    with shell(tmp_path) as terminal:
        terminal.command("$RUN no-such-command-here")
        terminal.expect("command not found\n")
        terminal.expect(PROMPT)
        terminal.command("echo code=$?")
        terminal.expect("code=127\n")


def test_a_kill_of_berth_reaches_the_command_on_its_terminal(tmp_path: Path) -> None:
    with shell(tmp_path) as terminal:
        terminal.command("$RUN sh -c 'trap \"echo told; exit 1\" TERM; echo $PPID up; while :; do sleep 0.05; done'")
        berth = int(terminal.expect(" up\n").split()[-1])
        os.kill(berth, signal.SIGTERM)
        terminal.expect("told\n")
        terminal.expect(PROMPT)
        terminal.command("echo code=$?")
        terminal.expect("code=143\n")
        assert terminal.foreground == terminal.pid


def test_a_closed_terminal_ends_it(tmp_path: Path) -> None:
    """Closing the terminal leaves nothing running or spinning (C65)."""
    with shell(tmp_path) as terminal:
        terminal.command("$RUN sh -c 'echo $$ $PPID up; sleep 60'")
        pids = [int(word) for word in terminal.expect(" up\n").split()[-2:]]
        os.killpg(terminal.pid, signal.SIGHUP)
        eventually(lambda: all(procfs.start_time(pid) is None for pid in pids))
