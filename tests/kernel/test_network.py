"""The network: ports by Landlock, families and look-alikes of TCP by the filter (attacks.md N01-N06)."""

from __future__ import annotations

from typing import Any

import pytest

from support.jail import document_of, inside, manifest, needs_kernel, note
from support.rows import ANYWHERE, DECLARED, FAMILIES, LISTEN, NETWORK_APP, PORTS, WITHOUT_NETWORK, listeners
from support.world import Row, World, run_rows, without

pytestmark = needs_kernel

SOME = manifest("some", *NETWORK_APP)
NONE = manifest("none")
ANY = manifest("any", "network:connect:*")


def probe(name: str, rows: list[Row], **options: Any) -> Any:
    """The rows in app ``name``, and how many connections reached the port that is nobody's."""

    def work() -> Any:
        with listeners() as arrived:
            seen = run_rows(World(document_of(SOME, NONE, ANY)), name, rows, **options)
            return [seen, arrived()]

    return inside(work)


@pytest.fixture(scope="module")
def some() -> Any:
    return probe("some", [*PORTS, *FAMILIES])


@pytest.fixture(scope="module")
def none() -> Any:
    return probe("none", WITHOUT_NETWORK)


@pytest.fixture(scope="module")
def connecting() -> Any:
    connect_only = manifest("some", f"network:connect:{DECLARED}")

    def work() -> Any:
        with listeners():
            return run_rows(World(document_of(connect_only)), "some", LISTEN)

    return inside(work)


@pytest.mark.parametrize("row", [*PORTS, *FAMILIES], ids=lambda row: row.id)
def test_an_app_with_some_ports_has_those_and_no_other_way_out(
    row: Row, some: Any, request: pytest.FixtureRequest
) -> None:
    seen, _arrived = some
    note(request, "row", [row.id, row.expected, seen[row.id], row.control and seen[row.id + "+"], row.held_by])
    assert seen[row.id + "+"] == "ok", "positive control"
    assert seen[row.id] == row.expected


def test_nothing_arrives_at_a_port_that_nobody_declared(some: Any) -> None:
    _seen, arrived = some
    assert arrived == 0


@pytest.mark.parametrize("row", WITHOUT_NETWORK, ids=lambda row: row.id)
def test_an_app_without_network_has_unix_sockets_only(row: Row, none: Any, request: pytest.FixtureRequest) -> None:
    seen, _arrived = none
    note(request, "row", [row.id, row.expected, seen[row.id], seen[row.id + "+"], row.held_by])
    assert seen[row.id + "+"] == "ok", "positive control"
    assert seen[row.id] == row.expected


@pytest.mark.parametrize("row", LISTEN, ids=lambda row: row.id)
def test_listening_needs_a_grant_of_its_own(row: Row, connecting: Any, request: pytest.FixtureRequest) -> None:
    note(request, "row", [row.id, row.expected, connecting[row.id], connecting[row.id + "+"], row.held_by])
    assert connecting[row.id + "+"] == "ok", "positive control"
    assert connecting[row.id] == row.expected


def test_an_app_that_may_go_anywhere_still_has_no_other_families() -> None:
    def work() -> Any:
        with listeners():
            return World(document_of(SOME, NONE, ANY)).probe("any", [[name, *probe] for name, probe, _e in ANYWHERE])

    seen = inside(work)
    assert seen == {name: expected for name, _probe, expected in ANYWHERE}


@pytest.mark.parametrize("row", PORTS, ids=lambda row: row.id)
def test_without_landlock_every_port_is_open(row: Row, request: pytest.FixtureRequest, no_landlock: Any) -> None:
    note(request, "removed", [row.id, "Landlock", no_landlock[0][row.id]])
    assert no_landlock[0][row.id] == "ok"


@pytest.mark.parametrize("row", FAMILIES, ids=lambda row: row.id)
def test_without_the_filter_the_other_families_are_the_kernels_to_refuse(
    row: Row, request: pytest.FixtureRequest, no_filter: Any
) -> None:
    note(request, "removed", [row.id, "seccomp", no_filter[0][row.id]])
    assert row.removed == "*" or no_filter[0][row.id] == row.removed


def test_without_the_filter_fast_open_passes_landlock(no_filter: Any) -> None:
    seen, arrived = no_filter
    assert seen["N02 sendto with fast open"] == "ok"
    assert arrived > 0


@pytest.fixture(scope="module")
def no_landlock() -> Any:
    return probe("some", PORTS, become=without("landlock"))


@pytest.fixture(scope="module")
def no_filter() -> Any:
    return probe("some", FAMILIES, become=without("seccomp"))


def test_names_of_the_hosts_file_resolve_without_any_network() -> None:
    def work() -> Any:
        return World(document_of(NONE, SOME)).probe(
            "some", [["local", "getaddrinfo", "localhost"], ["interfaces", "if_nameindex"]]
        )

    seen = inside(work)
    assert "127.0.0.1" in seen["local"]
    assert seen["interfaces"] == "EPERM"
