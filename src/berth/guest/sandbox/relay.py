"""``guest relay <app>``: joins standard input and output to one app's own RPC socket (sandboxes.md 7.5).

Started by the engine's exec as root. The path is made from the validated name alone, and the listener must be the
app's uid: no app can put a socket of its own there, and none is believed if it did.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

from berth.guest.core.codec import dumps
from berth.guest.services.relay import join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

USAGE, UNREACHABLE = 64, 69
CONNECT_SECONDS = 1.0
RUN = "/run/berth"
PASSWD = "/etc/passwd"  # noqa: S105  # a file's name
MAX_NAME = 31


def main(arguments: List[str]) -> int:
    """``relay <app>``: 0 when the socket closed, 64 for wrong usage, 69 and a line of JSON when it is out of reach."""
    if len(arguments) != 2 or not is_name(arguments[1]):
        print("usage: guest relay APP", file=sys.stderr)
        return USAGE
    path = f"{RUN}/{arguments[1]}/rpc.sock"
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(CONNECT_SECONDS)
    try:
        connection.connect(path)
    except OSError as error:
        return _unreachable(_name_of(error), path)
    uid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
    if uid != account_uid("berth-" + arguments[1]):
        return _unreachable("peer_uid_mismatch", path)
    connection.settimeout(None)
    try:
        join(connection, 0, 1)
    except (BrokenPipeError, ConnectionResetError):
        return 0  # either side went away: the call is over
    return 0


def is_name(text: str) -> bool:
    """True for the spelling of an app's name; cheaper than importing ``grants`` for each call."""
    return (
        0 < len(text) <= MAX_NAME
        and "a" <= text[0] <= "z"
        and all("a" <= char <= "z" or "0" <= char <= "9" or char == "-" for char in text)
    )


def account_uid(name: str) -> Optional[int]:
    """The uid of an account of the sandbox, or None."""
    with open(PASSWD, encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split(":")
            if fields[0] == name and len(fields) > 2 and fields[2].isdigit():
                return int(fields[2])
    return None


def _name_of(error: OSError) -> str:
    import errno

    if isinstance(error, socket.timeout):
        return "ETIMEDOUT"
    return errno.errorcode.get(error.errno or 0, str(error.errno))


def _unreachable(reason: str, path: str) -> int:
    answer = {"id": None, "error": {"code": "unreachable", "message": f"{reason}: {path}"}}
    os.write(1, (dumps(answer) + "\n").encode())
    return UNREACHABLE
