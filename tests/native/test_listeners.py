"""Listening ports and strangers on reserved ports, with real servers (workspaces.md 2.4, 6; C54, C58)."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from berth.errors import BerthError
from berth.tools import listeners, sockdiag
from support.processes import line, python

MINE = "11" * 16
OTHER = "22" * 16

SERVER = """
import os, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = socket.socket(family, socket.SOCK_STREAM, int(sys.argv[3]) if len(sys.argv) > 3 else 0)
if family == socket.AF_INET6:
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
server.bind((sys.argv[1], 0))
server.listen()
if sys.argv[2] == "child" and (pid := os.fork()):
    server.close()
    os.waitpid(pid, 0)
    sys.exit()
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


CLIENT = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("connected", flush=True)
sys.stdin.read()
"""


@contextmanager
def server(address: str, how: str = "self", *more: str, marker: str | None = None) -> Iterator[tuple[int, int]]:
    """A server on a free port: its pid and the port."""
    env = None if marker is None else {"BERTH_SUPERVISED": marker}
    with python(SERVER, address, how, *more, env=env) as child:
        port = int(line(child))
        yield child.pid, port


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_process_is_shown_with_the_ports_it_listens_on(address: str) -> None:
    if ":" in address and not socket.has_dualstack_ipv6():
        pytest.skip("this host lacks IPv6")
    with server(address) as (pid, port), server("127.0.0.1") as (other, second):
        found = listeners.listening_ports({"web": [pid], "both": [pid, other], "none": [os.getppid() + 10**7], "": []})
        assert found == {"web": [port], "both": sorted((port, second)), "none": [], "": []}


def test_a_descendant_that_listens_counts_for_its_ancestor() -> None:
    with server("127.0.0.1", "child") as (pid, port):
        assert listeners.listening_ports({"web": [pid], "other": [os.getpid() + 10**7]}) == {"web": [port], "other": []}


def test_client_connections_are_no_listeners() -> None:
    with server("127.0.0.1") as (pid, port), python(CLIENT, str(port)) as client:
        assert line(client) == "connected"
        assert listeners.listening_ports({"client": [client.pid], "server": [pid]}) == {"client": [], "server": [port]}


def test_netlink_and_the_files_say_the_same() -> None:
    with server("127.0.0.1") as (_, one), server("0.0.0.0") as (_, two):
        ports = {one, two}

        def plain(rows: object) -> set[tuple[int, bytes, int]]:
            return {(row.port, row.address, row.inode) for row in rows if row.port in ports}  # type: ignore[attr-defined]

        asked = plain(sockdiag.dump(socket.AF_INET, socket.IPPROTO_TCP))
        assert asked == plain(sockdiag.from_files())
        assert {address for _, address, _ in asked} == {bytes((127, 0, 0, 1)), bytes(4)}


def test_what_the_kernel_cannot_dump_is_an_error() -> None:
    with pytest.raises(OSError):
        sockdiag.dump(socket.AF_INET, 200)


def test_a_stranger_on_a_reserved_port_is_named_with_port_pid_and_command() -> None:
    with server("127.0.0.1") as (pid, port):
        (found,) = listeners.foreign_listeners([port], MINE)
        assert (found.port, found.pid) == (port, pid)
        with pytest.raises(BerthError) as caught:
            listeners.refuse_foreign({"web": port}, MINE)
        assert caught.value.code == "port_in_use"
        for part in (f"port {port}", "web", f"pid {pid}", "import os, socket"):
            assert part in caught.value.message
        assert f"pid {pid}" in (caught.value.hint or "")
        assert os.path.exists(f"/proc/{pid}")


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_stranger_on_any_address_is_found(address: str) -> None:
    if ":" in address and not socket.has_dualstack_ipv6():
        pytest.skip("this host lacks IPv6")
    with server(address) as (pid, port):
        assert [one.pid for one in listeners.foreign_listeners([port], MINE)] == [pid]


def test_the_workspaces_own_servers_are_no_strangers_but_another_workspaces_are() -> None:
    with server("127.0.0.1", marker=MINE) as (_, own), server("127.0.0.1", marker=OTHER) as (pid, foreign):
        listeners.refuse_foreign({"web": own}, MINE)
        assert [one.pid for one in listeners.foreign_listeners([own, foreign], MINE)] == [pid]


def test_clients_and_ports_that_were_not_asked_for_do_not_count() -> None:
    with server("127.0.0.1", marker=MINE) as (_, port), socket.create_connection(("127.0.0.1", port)):
        listeners.refuse_foreign({"web": port}, MINE)
        with server("127.0.0.1"):
            listeners.refuse_foreign({"web": port}, MINE)


def test_a_multipath_tcp_server_is_its_processes() -> None:
    """Programs built with Go 1.24 listen so by default."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).close()
    except OSError:
        pytest.skip("this kernel has no multipath TCP")
    with server("127.0.0.1", "self", "262", marker=MINE) as (pid, port):
        listeners.refuse_foreign({"web": port}, MINE)
        assert listeners.listening_ports({"web": [pid]}) == {"web": [port]}
        assert [one.pid for one in listeners.foreign_listeners([port], OTHER)] == [pid]


@pytest.mark.skipif(os.getuid() != 0, reason="needs two users")
def test_a_stranger_of_another_user_has_an_unknown_pid() -> None:
    script = """
import os, sys, _socket
sys.path.insert(0, sys.argv[2])
from berth.tools import listeners
from berth.errors import BerthError
from berth.guest.core import wire
os.setgid(65534); os.setuid(65534)
try:
    listeners.refuse_foreign({"web": int(sys.argv[1])}, "11" * 16)
except BerthError as error:
    print(error.code, error.message)
"""
    source = os.path.dirname(os.path.dirname(os.path.dirname(listeners.__file__)))
    with server("127.0.0.1") as (_, port), python(script, str(port), source) as asker:
        assert line(asker) == f"port_in_use port {port} (web) is in use by pid unknown"
