"""Help as a product: one screen, an example first, a suggestion for a typo, scripts that complete."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from berth.cli.agents import ACTIONS
from berth.cli.index import ALIASES, COMMANDS, GROUPS
from support.cli import Berth


def test_the_overview_fits_one_screen_and_names_every_command(berth: Berth) -> None:
    for words in (("-h",), ("--help",), ("help",)):
        lines = berth.ok(*words).out.splitlines()
        assert len(lines) <= 45
        assert max(map(len, lines)) <= 80
    text = berth.ok("-h").out
    assert {name for _, names in GROUPS for name in names} == set(COMMANDS)
    for name in COMMANDS:
        assert any(line.startswith("  ") and name in line.replace(",", " ").split() for line in text.splitlines()), name
    assert not berth.home.exists(), "help creates nothing"


@pytest.mark.parametrize("name", [*COMMANDS, *(f"{name} {action}" for name in ACTIONS for action in ACTIONS[name])])
def test_the_help_of_a_command_begins_with_an_example(berth: Berth, name: str) -> None:
    text = berth.ok(*name.split(), "-h").out
    assert text.startswith("usage: berth")
    if name not in ACTIONS:
        example, options = text.index("\nexample:\n"), text.index("options:")
        assert example < options
        assert "berth " + name.split()[0] in text[example:options]
    assert "--json" in text or name in ACTIONS


@pytest.mark.parametrize(
    ("typo", "meant"),
    [("stauts", "status"), ("dnoe", "done"), ("lst", "list"), ("skil", "skill"), ("comletion", "completion")],
)
def test_a_typo_is_answered_with_what_was_meant(berth: Berth, typo: str, meant: str) -> None:
    error = berth.fails("usage", typo)
    assert typo in error["message"]
    assert meant in error["hint"]
    assert meant in {*COMMANDS, *ALIASES}


def test_usage_errors_name_the_help_of_their_command(berth: Berth) -> None:
    for words in (
        ("up", "--nope"),
        ("new",),
        ("logs",),
        ("wait", "--timeout", "soon"),
        ("skill", "install", "--scope", "x"),
    ):
        name = " ".join(words[:2]) if words[0] == "skill" else words[0]
        assert f"berth {name} -h" in berth.fails("usage", *words)["hint"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_valid_for_its_shell(berth: Berth, shell: str, tmp_path: Path) -> None:
    outcome = berth.ok("completion", shell)
    document = berth.doc("completion", shell)
    assert list(document) == ["shell", "script"]
    assert document["script"].strip() == outcome.out.strip()
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(outcome.out)
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


ASK = """
source {script}
complete_line() {{
  COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMP_LINE="$*"; COMP_POINT=${{#COMP_LINE}}; COMPREPLY=()
  function=$(complete -p berth | sed 's/.*-F \\([^ ]*\\).*/\\1/')
  $function berth "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
  printf '%s\\n' "${{COMPREPLY[@]}}"
}}
complete_line {words}
"""


def completions(berth: Berth, tmp_path: Path, *words: str) -> list[str]:
    """What bash offers for the last of ``words``."""
    script = tmp_path / "completion.bash"
    if not script.exists():
        script.write_text(berth.ok("completion", "bash").out)
        (tmp_path / "bin").mkdir()
        from support.cli import PROGRAM

        program = " ".join(f"'{word}'" for word in PROGRAM)
        (tmp_path / "bin/berth").write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        (tmp_path / "bin/berth").chmod(0o755)
    quoted = " ".join(f"'{word}'" for word in ("berth", *words))
    env = berth.environment()
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK.format(script=script, words=quoted)],
        cwd=berth.cwd,
        env={**env, "PATH": f"{tmp_path}/bin:{env['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_commands_flags_and_live_slugs(berth: Berth, tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    berth.ok("new", "red")
    berth.ok("new", "blue")
    assert "status" in completions(berth, tmp_path, "sta")
    assert "--force" in completions(berth, tmp_path, "done", "--")
    assert set(completions(berth, tmp_path, "up", "")) >= {"red", "blue"}
    assert completions(berth, tmp_path, "up", "bl") == ["blue"]
    assert "install" in completions(berth, tmp_path, "skill", "")
