"""Files: what Landlock, owners and modes refuse to an app (attacks.md F, sandboxes.md 15.1 rows 1-11)."""

from __future__ import annotations

from typing import Any

import pytest

from support.jail import document_of, inside, manifest, needs_kernel, note
from support.rows import FILES_APP, FILES_LANDLOCK, FILES_MODES, lay_out_files
from support.world import Row, World, run_rows, without

pytestmark = needs_kernel

A = manifest("a", *FILES_APP, secrets=["TOKEN"])
B = manifest("b", "filesystem:write:/workspace/b", secrets=["TOKEN"])


def lay_out() -> World:
    return lay_out_files(World(document_of(A, B)))


@pytest.fixture(scope="module")
def seen() -> Any:
    """Every row in one process of app a, under its whole policy."""
    return inside(lambda: run_rows(lay_out(), "a", [*FILES_LANDLOCK, *FILES_MODES]))


@pytest.fixture(scope="module")
def seen_without_landlock() -> Any:
    """The same with step 7 left out."""
    return inside(lambda: run_rows(lay_out(), "a", FILES_LANDLOCK, become=without("landlock")))


@pytest.mark.parametrize("row", [*FILES_LANDLOCK, *FILES_MODES], ids=lambda row: row.id)
def test_an_app_is_refused_what_it_was_not_granted_and_allowed_what_it_was(
    row: Row, seen: Any, request: pytest.FixtureRequest
) -> None:
    note(request, "row", [row.id, row.expected, seen[row.id], row.control and seen[row.id + "+"], row.held_by])
    if row.control is not None:
        assert seen[row.id + "+"] == row.control_gives, "positive control"
    assert seen[row.id] in row.expected.split("|")


@pytest.mark.parametrize("row", FILES_LANDLOCK, ids=lambda row: row.id)
def test_without_landlock_the_attempt_succeeds(
    row: Row, seen_without_landlock: Any, request: pytest.FixtureRequest
) -> None:
    note(request, "removed", [row.id, "Landlock", seen_without_landlock[row.id]])
    assert seen_without_landlock[row.id] == row.removed
