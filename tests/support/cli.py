"""Drive the real ``berth`` as a subprocess, as a user or an agent would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, str(ROOT / "scripts" / "berth")]


class Outcome:
    """What a command left: ``code``, ``out``, ``err``; ``json`` parses stdout."""

    def __init__(self, argv: list[str], code: int, out: bytes, err: bytes) -> None:
        self.argv = argv
        self.code = code
        self.raw = out
        self.out = out.decode("utf-8", "surrogateescape")
        self.err = err.decode("utf-8", "surrogateescape")

    @property
    def json(self) -> Any:
        return json.loads(self.raw.decode("utf-8"))

    @property
    def error(self) -> dict[str, Any]:
        return self.json["error"]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"berth {' '.join(self.argv)} -> {self.code}\n--- stdout\n{self.out}--- stderr\n{self.err}"


class Berth:
    """``berth`` with a home of its own. Calling it runs a command; ``ok`` asserts success, ``fails`` a code."""

    def __init__(self, home: Path, cwd: Path) -> None:
        self.home = home
        self.cwd = cwd
        # A range of its own for each test process: test runs beside each other know nothing of each other's registries.
        first = 20000 + os.getpid() % 97 * 200
        self.env: dict[str, str] = {"BERTH_PORT_RANGE": f"{first}-{first + 199}"}

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        env = {key: value for key, value in os.environ.items() if not key.startswith("BERTH_")}
        env.update({"BERTH_HOME": str(self.home), "PYTHONPATH": str(ROOT / "src"), **self.env, **(extra or {})})
        return env

    def __call__(
        self,
        *words: str,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float = 60,
    ) -> Outcome:
        done = subprocess.run(
            [*PROGRAM, *words],
            cwd=cwd or self.cwd,
            env=self.environment(env),
            stdin=subprocess.DEVNULL if stdin is None else None,
            input=stdin,
            capture_output=True,
            timeout=timeout,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode("utf-8", "replace")
        return Outcome(list(words), done.returncode, done.stdout, done.stderr)

    def popen(
        self, *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*PROGRAM, *words],
            cwd=cwd or self.cwd,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def ok(self, *words: str, cwd: Path | str | None = None, env: Mapping[str, str] | None = None) -> Outcome:
        outcome = self(*words, cwd=cwd, env=env)
        assert outcome.code == 0, outcome
        return outcome

    def doc(self, *words: str, cwd: Path | str | None = None, env: Mapping[str, str] | None = None) -> Any:
        """Run with --json, assert success, return the document."""
        return self.ok(*json_words(words), cwd=cwd, env=env).json

    def fails(
        self, code: str, *words: str, cwd: Path | str | None = None, env: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Run with --json, assert the error ``code`` with its exit status, return the error."""
        from berth.errors import EXIT_STATUS

        outcome = self(*json_words(words), cwd=cwd, env=env)
        assert outcome.code == EXIT_STATUS[code], outcome
        assert outcome.error["code"] == code, outcome
        return outcome.error

    def path(self, slug: str) -> Path:
        return self.cwd.parent / f"{self.cwd.name}.berths" / slug


def json_words(words: tuple[str, ...]) -> list[str]:
    """``words`` with --json: behind them, or where ``run``'s own options and ``--`` allow it."""
    if words[:1] == ("run",) or "--" in words:
        return ["--json", *words]
    return [*words, "--json"]


def await_true(fact: Any, *, seconds: float = 10) -> None:
    """Wait until ``fact()`` is true; fail when it is not in time."""
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, f"not in {seconds} s"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """True while ``pid`` runs (a zombie does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def command_lines(word: str) -> list[str]:
    """Command lines of live processes that contain ``word``, our own left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if word in line:
                found.append(f"{entry.name} {line}")
    return found
