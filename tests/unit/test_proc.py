"""The one door to processes."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path

import pytest

from berth.tools import proc
from support.cli import alive, await_true

ENV = dict(os.environ)
C_LIBRARYS_OWN = 0b11 << 31  # signals 32 and 33: nobody can set their disposition, so it stays as it was inherited


def test_output_exit_code_and_signal_come_back() -> None:
    result = proc.run(["sh", "-c", "cat; echo err >&2; exit 3"], env=ENV, stdin=b"x" * 300_000)
    assert (result.code, len(result.stdout), result.complaint, result.signal) == (3, 300_000, "err", None)
    result = proc.run(["sh", "-c", "kill -TERM $$"], env=ENV)
    assert (result.code, result.signal) == (128 + signal.SIGTERM, signal.SIGTERM)


def test_a_time_limit_ends_the_whole_group_and_no_pipe_is_waited_for(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    began = time.monotonic()
    result = proc.run(["sh", "-c", f"sleep 300 & echo $! >'{pid_file}'; wait"], env=ENV, timeout=0.5)
    assert result.timed_out
    assert time.monotonic() - began < 5
    await_true(lambda: not alive(int(pid_file.read_text())))


def test_a_grandchild_that_holds_the_pipe_delays_nothing() -> None:
    began = time.monotonic()
    result = proc.run(["sh", "-c", "sleep 20 & echo $!"], env=ENV)
    assert time.monotonic() - began < 10
    os.kill(int(result.text), signal.SIGKILL)


def test_an_exception_meanwhile_ends_the_child() -> None:
    def stop(number: int, frame: object) -> None:
        raise InterruptedError

    child = proc.start(["sleep", "300"], env=ENV)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(InterruptedError):
            child.finish()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not alive(child.pid)


@pytest.mark.parametrize(
    ("argv", "cwd", "said"),
    [
        (["no-such-program"], None, "cannot run no-such-program: No such file or directory"),
        (["/"], None, "cannot run /: Permission denied"),
        (["true"], "/no/such/place", "cannot run true in /no/such/place: No such file or directory"),
    ],
)
def test_a_program_that_cannot_be_executed_is_named(argv: list[str], cwd: str | None, said: str) -> None:
    with pytest.raises(proc.ExecFailed) as caught:
        proc.run(argv, env=ENV, cwd=cwd)
    assert caught.value.message == said
    assert caught.value.code == "exec_failed"


def test_an_environment_that_is_too_large_names_its_largest_variable() -> None:
    with pytest.raises(proc.ExecFailed, match="largest variable is HUGE"):
        proc.run(["true"], env={**ENV, "HUGE": "x" * 3_000_000})


def test_nothing_but_the_three_streams_is_inherited_and_the_mask_is_empty() -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        result = proc.run(["sh", "-c", "ls /proc/$$/fd; grep -E 'Sig(Blk|Ign)' /proc/$$/status"], env=ENV)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        os.close(reader)
        os.close(writer)
    words = result.text.split()
    assert words[:6] == ["0", "1", "2", "SigBlk:", "0" * 16, "SigIgn:"]
    assert int(words[6], 16) & ~C_LIBRARYS_OWN == 0


def test_the_tag_is_the_soft_limit_of_locks() -> None:
    hard = resource.getrlimit(proc.RLIMIT_LOCKS)[1]
    assert hard == resource.RLIM_INFINITY, "the test host can carry tags"
    result = proc.run(["cat", "/proc/self/limits"], env=ENV, tag=0x123456)
    (line,) = [line for line in result.text.splitlines() if line.startswith("Max file locks")]
    assert line.split()[3] == str(0x123456)


def test_output_can_be_passed_on_as_it_arrives() -> None:
    blocks: list[bytes] = []
    proc.start(["sh", "-c", "echo out; echo err >&2"], env=ENV, sink=blocks.append).finish(10)
    assert b"".join(blocks) == b"out\nerr\n"


def test_git_location_variables_are_removed_and_others_kept() -> None:
    environ = {"GIT_DIR": "x", "GIT_INDEX_FILE": "y", "GIT_LFS_SKIP_SMUDGE": "1", "PATH": "p"}
    assert proc.inherited_environment(environ) == {"GIT_LFS_SKIP_SMUDGE": "1", "PATH": "p"}
