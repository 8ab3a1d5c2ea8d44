"""``guest relay``: joins standard input and output to a unix socket, for a host that cannot reach the socket itself.

It looks at no byte. End of input is handed on as the end of the sending side, so that an answer still arrives; it ends
when the socket's other side has ended.
"""

from __future__ import annotations

import os
import select
import sys

from ..core import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
else:
    try:
        import _socket as socket  # the C half: this start is part of every call
    except ImportError:
        import socket

CHUNK = 65536


def main(arguments: list[str]) -> int:
    """``relay <socket>``: 0 at the end, 4 when there is no socket, 5 when nobody listens, 1 for anything else."""
    if len(arguments) != 2:
        print("usage: guest relay SOCKET", file=sys.stderr)
        return wire.STATUS_USAGE
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(arguments[1])
    except FileNotFoundError:
        return wire.STATUS_ABSENT
    except ConnectionRefusedError:
        return wire.STATUS_REFUSED
    except OSError as error:
        print(f"relay: {arguments[1]}: {error.strerror}", file=sys.stderr)
        return 1
    try:
        join(connection, 0, 1)
    except (BrokenPipeError, ConnectionResetError):
        return 1
    return 0


def join(connection: socket.socket, source: int, target: int) -> None:
    """Carry ``source`` to the connection and the connection to ``target``, until the connection's end was read."""
    number = connection.fileno()
    poll = select.poll()
    poll.register(number, select.POLLIN)
    poll.register(source, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == source:
                block = os.read(source, CHUNK)
                if block:
                    connection.sendall(block)
                else:
                    poll.unregister(source)
                    connection.shutdown(socket.SHUT_WR)
            else:
                block = connection.recv(CHUNK)
                if not block:
                    return
                while block:
                    block = block[os.write(target, block) :]
