"""The network: ports by Landlock, families and look-alikes of TCP by the filter (attacks.md N01-N06)."""

from __future__ import annotations

import contextlib
import select
import socket
from typing import Any

import pytest

from support.jail import Row, World, document_of, inside, manifest, needs_kernel, run_rows, without

pytestmark = needs_kernel

DECLARED, OTHER, BOUND = 8001, 8003, 8002
SOME = manifest("some", f"network:connect:{DECLARED}", f"network:bind:{BOUND}")
NONE = manifest("none")
ANY = manifest("any", "network:connect:*")

INET, INET6, STREAM, DGRAM, RAW = 2, 10, 1, 2, 3

PORTS = [
    Row("N01 connect to an undeclared port", ["tcp_connect", OTHER], "EACCES", ["tcp_connect", DECLARED]),
    Row("N01 connect by IPv6", ["tcp_connect", OTHER, "::1"], "EACCES", ["tcp_connect", DECLARED, "::1"]),
    Row(
        "N01 connect by v4-mapped IPv6",
        ["tcp_connect", OTHER, "::ffff:127.0.0.1"],
        "EACCES",
        ["tcp_connect", DECLARED, "::ffff:127.0.0.1"],
    ),
    Row("row 12 bind an undeclared port", ["tcp_bind", 8004], "EACCES", ["tcp_bind", BOUND]),
    Row("N06 bind any port", ["tcp_bind", 0], "EACCES", ["tcp_bind", BOUND]),
]

FAMILIES = [
    Row("N02 sendto with fast open", ["fast_open", "sendto", OTHER], "EPERM", ["tcp_connect", DECLARED], removed="*"),
    Row("N02 sendmsg with fast open", ["fast_open", "sendmsg", OTHER], "EPERM", ["tcp_connect", DECLARED], removed="*"),
    Row(
        "N02 sendmmsg with fast open", ["fast_open", "sendmmsg", OTHER], "EPERM", ["tcp_connect", DECLARED], removed="*"
    ),
    Row("N02 fast open by option", ["fast_open", "option", OTHER], "EPERM", ["tcp_connect", DECLARED], removed="*"),
    Row("N03 MPTCP", ["socket", INET, STREAM, 262], "EPERM", ["socket", INET, STREAM, 6]),
    Row("N03 SCTP", ["socket", INET, STREAM, 132], "EPERM", ["socket", INET, STREAM], removed="*"),
    Row("N03 SMC", ["socket", 43, STREAM], "EPERM", ["socket", INET6, STREAM], removed="*"),
    Row("N03 UDP-Lite", ["socket", INET, DGRAM, 136], "EPERM", ["socket", INET, STREAM], removed="*"),
    Row("N04 UDP", ["udp_send", 53], "EPERM", ["socket", 1, DGRAM]),
    Row("N04 UDP by IPv6", ["socket", INET6, DGRAM], "EPERM", ["socket", 1, DGRAM]),
    Row("N04 ping socket", ["socket", INET, DGRAM, 1], "EPERM", ["socket", INET, STREAM], removed="*"),
    Row("N04 raw socket", ["socket", INET, RAW, 1], "EPERM", ["socket", INET, STREAM], removed="EPERM"),
    Row("N04 AF_PACKET", ["socket", 17, RAW], "EPERM", ["socket", 1, STREAM], removed="EPERM"),
    Row("N04 AF_VSOCK", ["socket", 40, STREAM], "EPERM", ["socket", 1, STREAM], removed="*"),
    Row("N04 AF_ALG", ["socket", 38, 5], "EPERM", ["socket", 1, STREAM], removed="*"),
    Row("N04 AF_NETLINK", ["socket", 16, RAW], "EPERM", ["socket", 1, STREAM]),
    Row("row 14 a type with flags", ["socket", INET, DGRAM | 0x80000], "EPERM", ["socket", INET, STREAM | 0x80000]),
    Row("row 16 socketpair of another family", ["socketpair", INET], "EPERM", ["socketpair", 1], removed="ENOTSUP"),
]

WITHOUT_NETWORK = [
    Row("row 13 an IP socket without any capability", ["socket", INET, STREAM], "EPERM", ["socket", 1, STREAM]),
    Row("row 13 an IPv6 socket without any capability", ["socket", INET6, STREAM], "EPERM", ["socketpair", 1]),
    Row("row 13 UDP without any capability", ["socket", INET, DGRAM], "EPERM", ["socket", 1, DGRAM]),
    Row("row 16 listen on its own unix socket", ["listen_unix", "/tmp/none/s"], "EPERM", ["bind_unix", "/tmp/none/t"]),
]
LISTEN = [
    Row("N06 listen without bind", ["tcp_listen"], "EPERM", ["tcp_connect", DECLARED]),
]

ANYWHERE = [
    ("connect anywhere", ["tcp_connect", OTHER], "ok"),
    ("bind anywhere", ["tcp_bind", 8005], "ok"),
    ("listen on any port", ["tcp_listen"], "ok"),
    ("UDP", ["udp_send", 53], "ok"),
    ("UDP over IPv6", ["socket", INET6, DGRAM, 17], "ok"),
    ("routing messages", ["socket", 16, RAW, 0], "ok"),
    ("MPTCP stays refused", ["socket", INET, STREAM, 262], "EPERM"),
    ("raw stays refused", ["socket", INET, RAW, 1], "EPERM"),
    ("ping stays refused", ["socket", INET, DGRAM, 1], "EPERM"),
    ("vsock stays refused", ["socket", 40, STREAM], "EPERM"),
    ("other netlink protocols stay refused", ["socket", 16, RAW, 15], "EPERM"),
    ("fast open stays refused", ["fast_open", "sendto", OTHER], "EPERM"),
]


@contextlib.contextmanager
def listeners() -> Any:
    """Servers on the declared and on the other port; yields a function that counts what arrived at the other one."""
    held = []
    for port in (DECLARED, OTHER):
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            sock = socket.socket(family)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            sock.setsockopt(socket.IPPROTO_TCP, 23, 16)  # a server that would take fast open
            sock.listen(64)
            held.append(sock)

    def arrived() -> int:
        ready, _w, _x = select.select(held[2:], [], [], 0.2)
        return len(ready)

    try:
        yield arrived
    finally:
        for sock in held:
            sock.close()


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
def test_an_app_with_some_ports_has_those_and_no_other_way_out(row: Row, some: Any, record_property: Any) -> None:
    seen, _arrived = some
    record_property("row", [row.id, row.expected, seen[row.id], row.control and seen[row.id + "+"], row.held_by])
    assert seen[row.id + "+"] == "ok", "positive control"
    assert seen[row.id] == row.expected


def test_nothing_arrives_at_a_port_that_nobody_declared(some: Any) -> None:
    _seen, arrived = some
    assert arrived == 0


@pytest.mark.parametrize("row", WITHOUT_NETWORK, ids=lambda row: row.id)
def test_an_app_without_network_has_unix_sockets_only(row: Row, none: Any, record_property: Any) -> None:
    seen, _arrived = none
    record_property("row", [row.id, row.expected, seen[row.id], seen[row.id + "+"], row.held_by])
    assert seen[row.id + "+"] == "ok", "positive control"
    assert seen[row.id] == row.expected


@pytest.mark.parametrize("row", LISTEN, ids=lambda row: row.id)
def test_listening_needs_a_grant_of_its_own(row: Row, connecting: Any, record_property: Any) -> None:
    record_property("row", [row.id, row.expected, connecting[row.id], connecting[row.id + "+"], row.held_by])
    assert connecting[row.id + "+"] == "ok", "positive control"
    assert connecting[row.id] == row.expected


def test_an_app_that_may_go_anywhere_still_has_no_other_families() -> None:
    def work() -> Any:
        with listeners():
            return World(document_of(SOME, NONE, ANY)).probe("any", [[name, *probe] for name, probe, _e in ANYWHERE])

    seen = inside(work)
    assert seen == {name: expected for name, _probe, expected in ANYWHERE}


@pytest.mark.parametrize("row", PORTS, ids=lambda row: row.id)
def test_without_landlock_every_port_is_open(row: Row, record_property: Any, no_landlock: Any) -> None:
    record_property("removed", [row.id, "Landlock", no_landlock[0][row.id]])
    assert no_landlock[0][row.id] == "ok"


@pytest.mark.parametrize("row", FAMILIES, ids=lambda row: row.id)
def test_without_the_filter_the_other_families_are_the_kernels_to_refuse(
    row: Row, record_property: Any, no_filter: Any
) -> None:
    record_property("removed", [row.id, "seccomp", no_filter[0][row.id]])
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
