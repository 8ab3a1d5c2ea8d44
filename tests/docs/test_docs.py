"""The documentation against the program: nothing is missing, and what it shows runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from glob import glob
from pathlib import Path

import pytest

from berth.cli.app import App, Flags
from berth.cli.index import COMMANDS
from berth.cli.manual import man, markdown, process_keys, with_fields
from berth.errors import EXIT_STATUS
from support.cli import PROGRAM, ROOT, Berth
from support.repos import git, write

DOCS = ROOT / "docs"
PAGES = sorted(
    [
        *DOCS.rglob("*.md"),
        *(ROOT / "skills").rglob("*.md"),
        *(ROOT / "examples").glob("*/README.md"),
        *ROOT.glob("*.md"),
    ]
)
REFERENCE = {
    name: (DOCS / "reference" / f"{name}.md").read_text() for name in ("berth-yaml", "errors", "variables", "json")
}


# -- complete -------------------------------------------------------------------------------------------------------


def test_commands_and_man_page_are_those_of_the_parsers() -> None:
    app = App(Flags(), {})
    remedy = "write them anew with: python -m berth.cli.manual"
    assert (DOCS / "reference/commands.md").read_text() == markdown(app), remedy
    assert (DOCS / "man/berth.1").read_text() == man(app), remedy
    assert (DOCS / "reference/process-keys.md").read_text() == process_keys(), remedy


def test_every_command_is_in_the_json_reference() -> None:
    documented = set(re.findall(r"`([a-z]+)(?: [a-z]+)?`", REFERENCE["json"].partition("## Documents")[2]))
    assert set(COMMANDS) - documented == set()


def test_the_table_of_fields_is_that_of_the_schema() -> None:
    page = REFERENCE["berth-yaml"]
    assert page == with_fields(page), "write it anew with: python -m berth.cli.manual"


def test_every_error_code_is_documented_with_its_status_and_no_other() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d, ]+) \|", REFERENCE["errors"], re.MULTILINE))
    expected = {code: str(status) for code, status in EXIT_STATUS.items()}
    assert rows == {**expected, "interrupted": "129, 130, 143"}


def test_every_variable_of_workspaces_that_the_source_names_is_documented() -> None:
    package = ROOT / "src/berth"
    files = [path for path in package.rglob("*.py") if not {"sandbox", "sdk"} & set(path.relative_to(package).parts)]
    source = "\n".join(path.read_text() for path in files)
    named = set(re.findall(r"\bBERTH_[A-Z][A-Z_]*[A-Z]\b", source))
    ports = {name for name in named if re.match(r"BERTH_(HOST_)?PORT_", name) and name != "BERTH_PORT_RANGE"}
    for name in named - ports - {"BERTH_NAME", "BERTH_X", "BERTH_HOST_PORT", "BERTH_PORT"}:
        assert f"`{name}`" in REFERENCE["variables"], name


def test_every_link_leads_to_a_file() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_every_code_and_command_in_the_skill_exists() -> None:
    for page in (ROOT / "skills/berth").rglob("*.md"):
        text = page.read_text()
        for command in re.findall(r"(?:`|^|\()berth ([a-z]+)\b", text, re.MULTILINE):
            assert command in COMMANDS, command
    recovery = (ROOT / "skills/berth/references/recovery.md").read_text()
    for cell in re.findall(r"^\| (`[^|]+) \|", recovery, re.MULTILINE):
        for code in re.findall(r"`(\w+)`", cell):
            assert code in EXIT_STATUS, code
    for code in ("dirty", "not_preserved", "inside_run"):
        assert code in EXIT_STATUS


# -- what it shows runs ---------------------------------------------------------------------------------------------

BLOCK = re.compile(r"(?:<!-- (needs|not run): ([^>]*?) -->\n)?```sh\n(.*?)```", re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """The shell blocks of a page: what stands in the comment before it, its value, the script."""
    return BLOCK.findall(page.read_text())


def runnable(page: Path) -> str:
    """All shell blocks of a page that are to be run, as one script. Skips where a program is missing."""
    scripts = []
    for kind, value, script in blocks(page):
        if kind == "not run":
            continue
        for need in value.split() if kind == "needs" else ():
            if not any(shutil.which(name) or glob(name) for name in need.split("|")):
                pytest.skip(f"{need} is not installed")
        scripts.append(script)
    return "\n".join(scripts)


class Reader:
    """Somebody who types what a page shows, in an empty directory, with ``berth`` on PATH."""

    def __init__(self, berth: Berth, directory: Path) -> None:
        self.directory = directory
        program = " ".join(f"'{word}'" for word in PROGRAM)
        write(directory, {"bin/berth": f'#!/bin/sh\nexec {program} "$@"\n', "work/.keep": "", "home/.keep": ""})
        (directory / "bin/berth").chmod(0o755)
        (directory / "bin/python3").symlink_to(sys.executable)
        self.work = directory / "work"
        self.env = {
            **berth.environment(),
            "PATH": f"{directory}/bin:{os.environ['PATH']}",
            "HOME": str(directory / "home"),
            "SOURCE": str(ROOT),
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }

    def types(self, script: str) -> str:
        done = subprocess.run(
            ["sh", "-eu", "-c", script],
            cwd=self.work,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture
def reader(berth: Berth, tmp_path: Path) -> Reader:
    return Reader(berth, tmp_path / "reader")


@pytest.mark.parametrize(
    "page", [page for page in sorted((DOCS / "how-to").glob("*.md")) if blocks(page)], ids=lambda page: page.stem
)
def test_a_how_to_runs_as_it_is_written(reader: Reader, page: Path) -> None:
    reader.types(runnable(page))


def test_the_tutorial_runs_as_it_is_written(reader: Reader) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    told = reader.types(runnable(DOCS / "tutorial.md"))
    for line in ("red: visit 2\n", "blue: visit 1\n", "red: call 3\n", "red: call 1\n", "refused with 3\n"):
        assert line in told
    assert "done blue\nbranch deleted berth/blue\n" in told
    assert "done red\nbranch deleted berth/red\n" in told


def test_the_ten_lines_of_the_readme_run(reader: Reader) -> None:
    write(
        reader.work,
        {"Procfile": "web: exec python3 -m http.server $PORT --bind 127.0.0.1\n", "Makefile": "test: ; @true\n"},
    )
    git(reader.work, "init", "-q", "-b", "main")
    told = reader.types(runnable(ROOT / "README.md"))
    assert '"healthy": true' in told
    assert "done feature-a\nbranch deleted berth/feature-a\n" in told


def test_every_command_of_the_skill_runs(reader: Reader) -> None:
    shutil.copytree(ROOT / "examples/http-worker", reader.work, dirs_exist_ok=True)
    git(reader.work, "init", "-q", "-b", "main")
    git(reader.work, "add", "-A")
    git(reader.work, "commit", "-q", "-m", "start")
    told = reader.types(runnable(ROOT / "skills/berth/SKILL.md"))
    assert '"branch_deleted": true' in told


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "examples").iterdir() if path.is_dir()))
def test_the_readme_of_an_example_shows_only_commands_that_exist(name: str) -> None:
    for command in re.findall(r"\bberth ([a-z]+)\b", (ROOT / "examples" / name / "README.md").read_text()):
        assert command in COMMANDS
