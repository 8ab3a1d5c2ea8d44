"""Every test here runs once for each engine that this user can have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.tools.engine.client import Engine
from support import engines
from support.boxed import Boxed


@pytest.fixture(params=[kind for kind in engines.KINDS if engines.for_this_user(kind)])
def kind(request: pytest.FixtureRequest) -> str:
    """docker, podman or podman-rootless."""
    engines.require(request.param)
    return str(request.param)


@pytest.fixture
def engine(kind: str) -> Iterator[Engine]:
    """A real engine; no container of the test's stays behind."""
    found = engines.require(kind)
    watch = engines.nothing_left(found)
    next(watch)
    yield found
    next(watch, None)


@pytest.fixture
def boxed(tmp_path: Path, kind: str, engine: Engine) -> Iterator[Boxed]:
    """berth in a fresh repository whose berth.yaml asks for a container; nothing of it stays behind."""
    program = Boxed(tmp_path, kind, engine)
    yield program
    program.clear_away()
