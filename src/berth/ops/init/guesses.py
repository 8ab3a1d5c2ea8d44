"""What ``berth init`` believes about a project: plain values, filled in by the lookers and written out by ``template``.

A guess is *sure* when the project's own files say it; then it becomes a live line. Otherwise it becomes a comment that
gives the reason.
"""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    """One line for ``hooks.setup``: the shell ``command`` and the ``reason``; not ``sure`` = a comment."""

    command: str
    reason: str
    sure: bool = True


class Process(NamedTuple):
    """One process: its shell ``command``, where that was found, and how it shows that it is ready.

    ``probe`` is the value of ``readiness_probe`` as one line of YAML, or None. ``doubt`` says what is not known and
    what to write instead; the process is live all the same, its probe is a comment then.
    """

    name: str
    command: str
    reason: str
    probe: str | None = None
    environment: tuple[str, ...] = ()
    doubt: str | None = None


class Suggestion(NamedTuple):
    """A part that stays a comment: the ``reason``, then ``lines`` of YAML as they would stand below ``processes``."""

    reason: str
    lines: tuple[str, ...] = ()


class Guesses:
    """Everything found so far. Lookers add to it; the first one that names a process keeps it."""

    def __init__(self) -> None:
        self.ports: list[str] = []
        self.env: dict[str, tuple[str, str]] = {}  # name -> value, reason
        self.setup: list[Step] = []
        self.processes: dict[str, Process] = {}
        self.suggestions: list[Suggestion] = []
        self.copy_dirs: list[str] = []
        self.ignored_files: list[str] = []
        self.exposed: int | None = None

    def add(self, process: Process, *, port: str | None = None) -> None:
        """Note a process and the port that it needs, unless one of that name is known or its command is unreadable."""
        is_readable = process.command.isprintable() and process.command.strip()
        if process.name in self.processes or not is_readable:
            return
        self.processes[process.name] = process
        if port is not None and port not in self.ports:
            self.ports.append(port)

    def set_env(self, name: str, value: str, reason: str) -> None:
        """Note a variable for every process, unless it has a value."""
        self.env.setdefault(name, (value, reason))
