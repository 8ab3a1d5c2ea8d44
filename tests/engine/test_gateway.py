"""The gateway on its own: the real program between real sockets, no engine needed."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from support.cli import await_true

GUEST = Path(__file__).resolve().parents[2] / "src" / "berth" / "guest"


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Running:
    """A gateway from ``gateway`` to ``listen``, both free when it was started."""

    def __init__(self) -> None:
        self.gateway, self.listen = free_port(), free_port()
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUEST), "gateway", f"{self.gateway}:{self.listen}"],
            stderr=subprocess.PIPE,
        )

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.gateway), 10)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


@pytest.fixture
def running() -> Iterator[Running]:
    found = Running()
    try:
        await_true(lambda: listening(found.gateway))
        yield found
        assert found.process.poll() is None, "the gateway ended"
    finally:
        found.process.kill()
        found.process.communicate()


class Server:
    """An application: ``handle`` serves each connection in a thread of its own."""

    def __init__(self, port: int, handle: Callable[[socket.socket], None], *, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.socket(family)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            self.listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self.listener.bind((host, port))
        self.listener.listen(1024)
        self.handle = handle
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection: socket.socket) -> None:
        with connection:
            try:
                self.handle(connection)
            except OSError:
                return  # the client of a test that resets or leaves

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def receive_all(connection: socket.socket) -> bytes:
    data = b""
    while block := connection.recv(65536):
        data += block
    return data


def echo_at_the_end(connection: socket.socket) -> None:
    connection.sendall(b"got " + receive_all(connection))


def echo(connection: socket.socket) -> None:
    while block := connection.recv(65536):
        connection.sendall(block)


def ask(running: Running, question: bytes) -> bytes:
    """Send, close the sending side, and read the answer."""
    with running.connect() as client:
        client.sendall(question)
        client.shutdown(socket.SHUT_WR)
        return receive_all(client)


def test_a_client_that_shuts_its_sending_side_still_gets_its_answer(running: Running) -> None:
    with Server(running.listen, echo_at_the_end):
        assert ask(running, b"question") == b"got question"


def test_a_server_that_closes_first_is_heard_and_can_still_be_sent_to(running: Running) -> None:
    heard: list[bytes] = []

    def half(connection: socket.socket) -> None:
        connection.sendall(b"bye")
        connection.shutdown(socket.SHUT_WR)
        heard.append(receive_all(connection))

    with Server(running.listen, half), running.connect() as client:
        assert receive_all(client) == b"bye"
        client.sendall(b"late")
        client.shutdown(socket.SHUT_WR)
        await_true(lambda: heard == [b"late"])


def test_a_listener_on_ipv6_only_is_reached(running: Running) -> None:
    with Server(running.listen, echo_at_the_end, host="::1"):
        assert ask(running, b"six") == b"got six"


def test_ipv4_goes_before_ipv6(running: Running) -> None:
    with (
        Server(running.listen, lambda c: c.sendall(b"six"), host="::1"),
        Server(running.listen, lambda c: c.sendall(b"four")),
    ):
        assert ask(running, b"") == b"four"


def test_a_server_that_starts_after_the_first_request_is_reached_by_the_next(running: Running) -> None:
    with running.connect() as client:
        client.settimeout(2)
        try:
            assert client.recv(1) == b""
        except ConnectionResetError:
            pass  # closed at once either way
    with Server(running.listen, echo_at_the_end):
        assert ask(running, b"now") == b"got now"


def test_500_connections_at_once_are_all_served(running: Running) -> None:
    with Server(running.listen, echo), ExitStack() as stack:
        clients = [stack.enter_context(running.connect()) for _ in range(500)]
        for number, client in enumerate(clients):
            client.sendall(b"%d" % number)
        for number, client in enumerate(clients):
            assert client.recv(16) == b"%d" % number


def test_more_than_the_limit_wait_and_are_served_when_others_have_ended(running: Running) -> None:
    with Server(running.listen, echo), ExitStack() as stack:
        first = [running.connect() for _ in range(1024)]
        for client in first:
            client.sendall(b"x")
        for client in first:
            assert client.recv(1) == b"x"
        late = stack.enter_context(running.connect())
        late.sendall(b"late")
        late.settimeout(0.3)
        with pytest.raises(TimeoutError):
            late.recv(4)
        for client in first:
            client.close()
        late.settimeout(10)
        assert late.recv(4) == b"late"


def test_a_client_that_stops_reading_stops_its_server_and_nobody_else(running: Running) -> None:
    sent = [0]

    def flood(connection: socket.socket) -> None:
        if connection.recv(16) == b"ask":
            connection.sendall(b"answer")
            return
        block = b"z" * 65536
        while True:
            connection.sendall(block)
            sent[0] += len(block)

    with Server(running.listen, flood), running.connect() as lazy:
        lazy.sendall(b"flood")
        before = -1
        while sent[0] != before:  # until the kernel's buffers on the way are full
            before = sent[0]
            with selectors.DefaultSelector() as idle:
                idle.select(0.3)
        resident = Path(f"/proc/{running.process.pid}/statm").read_text().split()[1]
        assert int(resident) * os.sysconf("SC_PAGESIZE") < 40 << 20
        assert ask(running, b"ask") == b"answer"
        received = 0
        while received < before:
            received += len(lazy.recv(1 << 20))
        await_true(lambda: sent[0] > before)  # it goes on when the client reads again


def test_bytes_arrive_whole_and_in_order_both_ways_at_once(running: Running) -> None:
    payload = os.urandom(1 << 20) * 8
    with Server(running.listen, echo), running.connect() as client:
        sender = threading.Thread(target=lambda: (client.sendall(payload), client.shutdown(socket.SHUT_WR)))
        sender.start()
        assert receive_all(client) == payload
        sender.join()


def test_a_reset_is_handed_on_and_leaves_no_descriptor(running: Running) -> None:
    ended = threading.Event()

    def until_reset(connection: socket.socket) -> None:
        try:
            connection.sendall(b"hi")
            connection.recv(1)
        except ConnectionResetError:
            ended.set()

    before = running.descriptors()
    with Server(running.listen, until_reset):
        client = running.connect()
        assert client.recv(2) == b"hi"
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        assert ended.wait(5)
        await_true(lambda: running.descriptors() == before)


def test_an_idle_gateway_with_a_half_closed_connection_does_not_spin(running: Running) -> None:
    def wait_for_more(connection: socket.socket) -> None:
        receive_all(connection)
        release.wait(10)

    release = threading.Event()
    with Server(running.listen, wait_for_more), running.connect() as client:
        client.sendall(b"x")
        client.shutdown(socket.SHUT_WR)
        await_true(lambda: running.descriptors() >= 6)
        before = spent(running.process.pid)
        release.wait(1)  # a second in which nothing is to do
        assert spent(running.process.pid) - before <= 1
        release.set()


def spent(pid: int) -> int:
    """CPU time of a process in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_port_that_is_taken_is_said_so_and_ends_it() -> None:
    with closing(socket.socket()) as holder:
        holder.bind(("0.0.0.0", 0))
        holder.listen()
        port = holder.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(GUEST), "gateway", f"{port}:1"], capture_output=True, timeout=10
        )
    assert done.returncode == 1
    assert b"gateway: Address already in use" in done.stderr


def test_a_low_descriptor_limit_still_serves_one_after_the_other() -> None:
    gateway, listen = free_port(), free_port()
    pair = f"{gateway}:{listen}"
    process = subprocess.Popen(
        ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", sys.executable, "-I", "-S", str(GUEST), "gateway", pair]
    )
    try:
        await_true(lambda: listening(gateway))
        with Server(listen, echo), ExitStack() as stack:
            clients = [stack.enter_context(socket.create_connection(("127.0.0.1", gateway), 10)) for _ in range(100)]
            for client in clients:
                client.sendall(b"x")
                client.shutdown(socket.SHUT_WR)
            for client in clients:
                assert receive_all(client) == b"x"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
