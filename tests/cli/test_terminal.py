"""Terminal manners on a real pseudo-terminal, in a pipe, and with nobody listening (workspaces.md 2.1)."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping
from pathlib import Path

from support.cli import PROGRAM, Berth
from support.repos import commit, git

ESCAPE = "\x1b["


def on_a_terminal(
    berth: Berth, *words: str, columns: int = 80, env: Mapping[str, str] | None = None, timeout: float = 60
) -> tuple[int, str]:
    """Run berth with a pseudo-terminal as its three streams; its exit code and the screen's text."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [*PROGRAM, *words],
        cwd=berth.cwd,
        env={**berth.environment({"TERM": "xterm"}), **(env or {})},
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    shown = bytearray()
    try:
        while True:
            try:
                block = os.read(leader, 65536)
            except OSError:  # the last holder of the other side has gone
                break
            if not block:
                break
            shown += block
        code = process.wait(timeout)
    finally:
        os.close(leader)
    return code, shown.decode("utf-8", "replace").replace("\r\n", "\n")


def test_tables_are_aligned_and_headed_on_a_terminal_and_tabs_in_a_pipe(berth: Berth) -> None:
    berth.ok("new", "short")
    berth.ok("new", "a-much-longer-name")
    code, screen = on_a_terminal(berth, "ls", env={"NO_COLOR": "1"})
    assert code == 0
    lines = screen.splitlines()
    column = lines[0].index("BRANCH")
    assert all(line[column:].startswith("berth/") for line in lines[1:])
    assert "\t" not in screen
    piped = berth.ok("ls").out
    assert piped.splitlines()[0] == "SLUG\tBRANCH\tSTATUS\tPORTS\tPATH"
    assert ESCAPE not in piped


COLOURS: list[tuple[tuple[str, ...], dict[str, str], bool]] = [
    ((), {}, True),
    ((), {"NO_COLOR": "1"}, False),
    ((), {"NO_COLOR": ""}, True),
    ((), {"TERM": "dumb"}, False),
    ((), {"TERM": "dumb", "CLICOLOR_FORCE": "1"}, True),
    (("--no-color",), {"CLICOLOR_FORCE": "1"}, False),
    ((), {"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, False),
    (("--json",), {"CLICOLOR_FORCE": "1"}, False),
]


def test_colour_follows_flag_variables_and_terminal(berth: Berth) -> None:
    berth.ok("new", "a")
    for words, env, coloured in COLOURS:
        _, screen = on_a_terminal(berth, "ls", *words, env=env)
        assert (ESCAPE in screen) is coloured, (words, env, screen)


def test_colour_can_be_forced_into_a_pipe(berth: Berth) -> None:
    berth.ok("new", "a")
    assert ESCAPE not in berth.ok("ls").out
    error = berth("status", "nope", env={"CLICOLOR_FORCE": "1"})
    assert ESCAPE in error.err
    assert error.err.count("\n") == 2, "message and hint"


def test_wide_characters_are_aligned(berth: Berth, repo: Path) -> None:
    berth.ok("new", "a")
    berth.ok("new", "b")
    git(berth.path("a"), "checkout", "-q", "-b", "功能/é")
    _, screen = on_a_terminal(berth, "ls", env={"NO_COLOR": "1"})
    rows = {line.split()[0]: line for line in screen.splitlines()}
    # Each of the two wide characters takes two columns, so the same column is two characters further left.
    assert rows["a"].index("stopped") == rows["b"].index("stopped") - 2


def test_a_long_step_spins_on_a_terminal_and_leaves_a_clean_line(berth: Berth, repo: Path) -> None:
    commit(repo, {"berth.yaml": "hooks: {setup: ['sleep 1.2']}\n"})
    code, screen = on_a_terminal(berth, "new", "slow")
    assert code == 0
    assert re.search("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", screen)
    assert screen.rstrip("\n").endswith(str(berth.path("slow")))
    code, quiet = on_a_terminal(berth, "new", "quiet", "-q")
    assert code == 0
    assert not re.search("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", quiet)


def test_without_a_terminal_there_is_no_spinner(berth: Berth, repo: Path) -> None:
    commit(repo, {"berth.yaml": "hooks: {setup: ['sleep 0.8']}\n"})
    outcome = berth.ok("new", "slow")
    assert outcome.err == ""


def with_nobody_reading(berth: Berth, *words: str) -> tuple[int, bytes]:
    """Exit code and stderr of a command whose stdout has no reader."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*PROGRAM, *words],
            cwd=berth.cwd,
            env=berth.environment(),
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writer)
    return done.returncode, done.stderr


def test_a_reader_that_has_gone_ends_a_command_silently_with_141(berth: Berth) -> None:
    berth.ok("new", "a")
    for words in (("ls",), ("status", "a"), ("plan", "a"), ("agents",), ("-h",), ("ls", "--json")):
        assert with_nobody_reading(berth, *words) == (141, b""), words


def test_the_action_is_completed_though_nobody_reads(berth: Berth) -> None:
    assert with_nobody_reading(berth, "new", "a")[0] == 141
    assert berth.doc("status", "a")["phase"] == "ready"


def test_odd_locales_and_sizes_change_nothing(berth: Berth) -> None:
    berth.ok("new", "a")
    git(berth.path("a"), "checkout", "-q", "-b", "功能/é")
    for env in ({"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"COLUMNS": "0"}, {"SHELL": "/bin/日本"}):
        document = berth.ok("status", "a", "--json", env=env).json
        assert document["branch"] == "功能/é"
        assert "功能/é" in berth.ok("ls", env=env).out


def test_no_command_waits_for_an_open_silent_stdin(berth: Berth) -> None:
    reader, writer = os.pipe()
    try:
        for words in (
            ("new", "a"),
            ("status", "a"),
            ("ls",),
            ("run", "-w", "a", "--", "true"),
            ("init",),
            ("done", "a"),
        ):
            done = subprocess.run(
                [*PROGRAM, *words],
                cwd=berth.cwd,
                env=berth.environment(),
                stdin=reader,
                capture_output=True,
                check=False,
                timeout=60,
            )
            assert done.returncode == 0, done.stderr
    finally:
        os.close(reader)
        os.close(writer)
