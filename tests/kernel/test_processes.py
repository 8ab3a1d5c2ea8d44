"""Processes and the kernel's side doors (attacks.md P, sandboxes.md 15.1 rows 9, 17-31, 41)."""

from __future__ import annotations

from typing import Any

import pytest

from support.jail import document_of, inside, manifest, needs_kernel, note
from support.rows import (
    PROCESSES_APP,
    PROCESSES_KERNEL,
    PROCESSES_SECCOMP,
    PROCESSES_VALUES,
    lay_out_processes,
)
from support.world import Row, World, run_rows, without

pytestmark = needs_kernel

A = manifest("a", *PROCESSES_APP, pids=32)
B = manifest("b")


def lay_out() -> World:
    return lay_out_processes(World(document_of(A, B)))


@pytest.fixture(scope="module")
def seen() -> Any:
    return inside(lambda: run_rows(lay_out(), "a", [*PROCESSES_SECCOMP, *PROCESSES_KERNEL]))


@pytest.fixture(scope="module")
def seen_without_seccomp() -> Any:
    return inside(lambda: run_rows(lay_out(), "a", PROCESSES_SECCOMP, become=without("seccomp")))


@pytest.mark.parametrize("row", [*PROCESSES_SECCOMP, *PROCESSES_KERNEL], ids=lambda row: row.id)
def test_a_side_door_is_shut_and_the_front_door_is_open(row: Row, seen: Any, request: pytest.FixtureRequest) -> None:
    note(request, "row", [row.id, row.expected, seen[row.id], row.control and seen[row.id + "+"], row.held_by])
    if row.control is not None:
        value = seen[row.id + "+"]
        assert value == row.control_gives, "positive control"
    assert seen[row.id] == PROCESSES_VALUES.get(row.id, row.expected)


@pytest.mark.parametrize("row", PROCESSES_SECCOMP, ids=lambda row: row.id)
def test_without_the_filter_the_kernel_answers_itself(
    row: Row, seen_without_seccomp: Any, request: pytest.FixtureRequest
) -> None:
    note(request, "removed", [row.id, "seccomp", seen_without_seccomp[row.id]])
    assert (
        row.removed == "*"
        or seen_without_seccomp[row.id] in str(row.removed).split("|")
        or (seen_without_seccomp[row.id] == row.removed)
    )
