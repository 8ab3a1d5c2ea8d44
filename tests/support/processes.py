"""Real processes for tests: Python scripts in other processes, awaited by state and always ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"


def eventually(check: Callable[[], object], *, seconds: float = 10.0) -> None:
    """Await that ``check`` gives something true."""
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {check}")
        time.sleep(0.005)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This environment with berth's source importable, plus ``extra``."""
    return {**os.environ, "PYTHONPATH": str(SOURCE), **(extra or {})}


@contextmanager
def python(script: str, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A Python program with pipes; killed, with everything in its session, at the end."""
    child = subprocess.Popen(
        [sys.executable, "-u", "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(env),
        start_new_session=True,
    )
    try:
        yield child
    finally:
        end(child)


def end(child: subprocess.Popen[str]) -> None:
    """KILL ``child`` and its group, reap it and close its pipes."""
    if child.returncode is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        child.kill()
    child.wait(10)
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def line(child: subprocess.Popen[str]) -> str:
    """The next line that ``child`` prints."""
    assert child.stdout is not None
    return child.stdout.readline().rstrip("\n")
