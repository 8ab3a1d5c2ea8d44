"""Guesses written out as a berth.yaml: sure ones as live lines, the others as comments with their reason. Pure."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.init.guesses import Guesses, Process, Step

SCHEMA_FILE = ".berth/config.schema.json"
_PLAIN = re.compile(r"[A-Za-z./][A-Za-z0-9_./$\"'=%+,()-]*(?: [A-Za-z0-9_./$\"'=%+,()<>|;&:-]+)*")
_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))

HEAD = """\
# What a workspace of this repository needs. `berth plan` checks this file, `berth schema config` describes every key.
# Only a committed berth.yaml counts: each workspace reads the one of its own checkout.
version: 1
"""
PORTS = """
# Names of ports; every workspace gets numbers of its own for them.
"""
ENV = """
# Variables for hooks, processes and `berth run`. For the port `web`, BERTH_PORT_WEB is the number to listen on and
# BERTH_HOST_PORT_WEB the number that the host reaches it by: the same in native mode, different in containers.
"""
FILES = """
# env_file: .env.berth           # also write the variables to a file that git ignores, for tools that read one
"""
COPIES = "# copy_dirs: [{0}]     # copy from the primary checkout, copy-on-write where the file system can"
HOOKS = """
# setup runs once for every workspace and after each `berth reset`, so each line must be repeatable; teardown runs in
# `berth done`.
"""
RUNTIME = """
runtime:
  backend: native
"""
PROCESSES = """
# What `berth up` starts and waits for.
"""
GC = """
# `berth gc`, only when it is called; 0 = never.
gc:
  idle_stop_hours: 0
  remove_after_days: 0
  max_workspaces: 0
"""
EXAMPLES = """
# Example, native: a web server and the PostgreSQL server that it needs.
#
# ports: [web, pg]
# env:
#   DATABASE_URL: postgres://127.0.0.1:${BERTH_PORT_PG}/app
# hooks:
#   setup:
#     - test -d "$BERTH_DATA_DIR/pg" || initdb -D "$BERTH_DATA_DIR/pg" --auth=trust --encoding=UTF8
# processes:
#   pg:
#     command: exec postgres -D "$BERTH_DATA_DIR/pg" -p "$BERTH_PORT_PG" -k ''
#     readiness_probe: {exec: {command: 'pg_isready -h 127.0.0.1 -p "$BERTH_PORT_PG"'}}
#   web:
#     command: npm run dev -- --port "$BERTH_PORT_WEB"
#     depends_on: {pg: {condition: process_healthy}}
#     readiness_probe: {http_get: {host: 127.0.0.1, port: "${BERTH_PORT_WEB}", path: /}}
#
# Example, container: everything runs in one container of a local image; probes use the inner port, `listen`.
#
# runtime: {backend: container, engine: docker, image: "berth-runtime:local"}
# ports: [web]
# listen: {web: %d}
# processes:
#   web:
#     command: python3 -m http.server %d --bind 127.0.0.1
#     readiness_probe: {http_get: {host: 127.0.0.1, port: %d, path: /}}
"""


class Written(NamedTuple):
    """The ``text`` of a berth.yaml, and per line that needs a look its number and the advice."""

    text: str
    advice: tuple[tuple[int, str], ...]


class _Page:
    """Lines being written, and the advice on them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.advice: list[tuple[int, str]] = []

    def add(self, text: str) -> None:
        self.lines += text.removesuffix("\n").split("\n")

    def advise(self, text: str) -> None:
        """Advise on the line that comes next."""
        self.advice.append((len(self.lines) + 1, text))


def written(guesses: Guesses, *, base: str) -> Written:
    """The whole file. ``base`` is the branch that workspaces start from."""
    page = _Page()
    page.add(f"# yaml-language-server: $schema={SCHEMA_FILE}")
    page.add(HEAD)
    page.add(f"base: {scalar(base)}")
    page.add(PORTS)
    page.add(f"ports: [{', '.join(guesses.ports)}]")
    _env(page, guesses)
    page.add(FILES)
    page.add(COPIES.format(", ".join(guesses.copy_dirs) or "node_modules"))
    for name in guesses.ignored_files:
        page.advise(f"git ignores {name}, so new workspaces lack it; `echo {name} >> .worktreeinclude` copies it")
        page.add(f"# {name} is not in git: name it in .worktreeinclude, and new workspaces get a copy")
    page.add(HOOKS)
    _setup(page, guesses.setup)
    page.add(RUNTIME)
    page.add(PROCESSES)
    _processes(page, guesses)
    page.add(GC)
    port = guesses.exposed or 8080
    page.add(EXAMPLES % (port, port, port))
    return Written("\n".join(page.lines) + "\n", tuple(page.advice))


def _env(page: _Page, guesses: Guesses) -> None:
    page.add(ENV)
    if not guesses.env:
        page.add("env: {}")
        return
    page.add("env:")
    for name, (value, reason) in guesses.env.items():
        page.add(f"  {name}: {value}  # {one_line(reason)}")


def _setup(page: _Page, steps: list[Step]) -> None:
    page.add("hooks:\n  setup:" if steps else "hooks:\n  setup: []")  # comments alone leave it null, which is empty
    for step in steps:
        if step.sure:
            page.add(f"    - {scalar(step.command)}  # {one_line(step.reason)}")
        else:
            page.advise(f"{step.command}: {step.reason}")
            page.add(f"    # - {scalar(step.command)}  # {one_line(step.reason)}")
    page.add("  teardown: []")


def _processes(page: _Page, guesses: Guesses) -> None:
    if guesses.processes:
        page.add("processes:")
        for process in guesses.processes.values():
            _process(page, process)
    else:
        page.advise("no process was recognised here: write how the project starts; `berth up` needs one")
        page.add("processes: {}")
    for suggestion in guesses.suggestions:
        page.add(f"  # {one_line(suggestion.reason)}")
        for line in suggestion.lines:
            page.add(f"  #   {line}")


def _process(page: _Page, process: Process) -> None:
    page.add(f"  # {one_line(process.reason)}")
    page.add(f"  {process.name}:")
    if process.doubt is not None:
        page.advise(f"unsure: {process.doubt}")
        page.add(f"    # unsure: {one_line(process.doubt)}")
    page.add(f"    command: {scalar(process.command)}")
    if process.environment:
        page.add(f"    environment: [{', '.join(json.dumps(entry) for entry in process.environment)}]")
    if process.probe is not None:
        page.add(f"    {'# ' if process.doubt is not None else ''}readiness_probe: {process.probe}")


def scalar(text: str) -> str:
    """``text`` as a YAML scalar on one line: plain where that is safe, else quoted."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS and not text.endswith(":") and ": " not in text:
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text)


def one_line(text: str) -> str:
    """``text`` as it can stand in a comment."""
    return "".join(char if char.isprintable() else "�" for char in text)[:200]
