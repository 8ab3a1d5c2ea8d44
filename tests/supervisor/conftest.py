"""Fixtures of the supervisor's tests: the factory of supervisors, each gone at the end of its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.supervisor import Supervisor, pythons

Start = Callable[..., Supervisor]


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Start]:
    """``supervise(processes)`` starts a supervisor in a fresh directory and returns it once it listens."""
    started: list[Supervisor] = []

    def start(processes: dict[str, object], *, begin: bool = True, **options: object) -> Supervisor:
        root = tmp_path / f"ws{len(started)}"
        root.mkdir()
        one = Supervisor(root, processes, **options)  # type: ignore[arg-type]
        started.append(one)
        return one.start() if begin else one

    yield start
    for one in started:
        one.destroy()


@pytest.fixture(params=pythons(), ids=lambda path: "-".join(path.split("/")[-3:-2]))
def python(request: pytest.FixtureRequest) -> str:
    """Every CPython from 3.9 on that the machine has."""
    path: str = request.param
    return path
