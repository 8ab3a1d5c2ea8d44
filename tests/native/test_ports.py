"""Probing ports on the real kernel (workspaces.md 6; field reports C49, C56, C60)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.tools import ports


@pytest.fixture
def port() -> Iterator[int]:
    """A port below the ephemeral range on which nothing is, not even a connection in TIME_WAIT."""
    low, _ = ports.ephemeral_range()
    for candidate in range(low - 1, 1024, -7):
        with socket.socket() as server:
            try:
                server.bind(("0.0.0.0", candidate))
            except OSError:
                continue
        yield candidate
        return
    raise AssertionError("no free port at all")


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::", "127.0.0.9"])
def test_a_listener_on_any_address_is_seen(port: int, address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        server = socket.socket(family)
    except OSError:
        pytest.skip("this host lacks the address family")
    with server:
        if family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            server.bind((address, port))
        except OSError:
            pytest.skip("this host lacks the address")
        server.listen()
        assert not ports.is_free(port)
    assert ports.is_free(port)


@pytest.mark.parametrize("option", ["SO_REUSEADDR", "SO_REUSEPORT"])
def test_a_listener_that_shares_its_port_is_seen_too(port: int, option: str) -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, getattr(socket, option), 1)
        server.bind(("127.0.0.1", port))
        server.listen()
        assert not ports.is_free(port)


def test_a_port_in_time_wait_is_free(port: int) -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen()
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        accepted.close()  # the server's side closes first: TIME_WAIT stays on its port
        assert client.recv(1) == b""
        client.close()
    rows = Path("/proc/net/tcp").read_text().splitlines()
    assert any(f":{port:04X} " in row and row.split()[3] == "06" for row in rows)
    assert ports.is_free(port)


def test_the_probe_leaves_nothing_behind(port: int) -> None:
    assert ports.is_free(port)
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("0.0.0.0", port))
        server.listen()


def test_the_ephemeral_range_is_the_kernels() -> None:
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert ports.ephemeral_range() == (low, high)
