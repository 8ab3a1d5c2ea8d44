"""What both sides of a control socket must agree on: names of files, tags, framing. Pure functions, cheap imports.

The one module of the guest that berth on the host imports. It opens nothing and knows no workspace.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import hashlib
    from collections.abc import Callable


# A supervisor of another interface is only queried and stopped (workspaces.md 9.2).
INTERFACE_VERSION = 1

SOCKET_FILE = "pc.sock"
LOCK_FILE = "pc.lock"
TOKEN_FILE = "pc.token"  # noqa: S105  # a file's name
PID_FILE = "pc.pid"
EXIT_FILE = "pc.exit"

TOKEN_HEADER = "X-PC-Token-Key"  # noqa: S105  # process-compose's name for it
READY_LINE = b"ready\n"
STATUS_USAGE = 2
STATUS_LOCKED = 3  # another supervisor holds the lock
STATUS_ABSENT = 4  # relay: no socket
STATUS_REFUSED = 5  # relay: nobody listens at it

MARKER = "BERTH_SUPERVISED"
PROCESS_VARIABLE = "BERTH_PROCESS"

# Numbers of the tag (supervisor.md 1); processes are counted from 1.
NUMBER_BITS = 15
SUPERVISOR_NUMBER = 0
KEEPER_NUMBER = (1 << NUMBER_BITS) - 1

LOGS_DIRECTORY = ".berth/logs"

REASONS = {
    101: "Switching Protocols",
    200: "OK",
    207: "Multi-Status",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def workspace_part(workspace_id: str) -> int:
    """The upper 48 bits of a tag: the first 12 hex digits of sha256(workspace id)."""
    return int(sha256_hex(workspace_id.encode())[:12], 16)


def sha256_hex(data: bytes) -> str:
    """The 64 hex digits of the SHA-256 of ``data``, without the price of importing hashlib."""
    return _sha256()(data).hexdigest()


def _sha256() -> Callable[[bytes], hashlib._Hash]:
    """The C function itself: hashlib costs a quarter of an interpreter start."""
    for name in ("_sha2", "_sha256"):  # 3.12 and later, 3.11 and before
        try:
            function: Callable[[bytes], hashlib._Hash] = __import__(name).sha256
        except (ImportError, AttributeError):
            continue
        return function
    import hashlib

    return hashlib.sha256


def control_directory(home: str, path: str) -> str:
    """The control directory of the workspace at ``path`` (canonical) below ``home`` (workspaces.md 8.2)."""
    return f"{home}/run/{sha256_hex(path.encode('utf-8', 'surrogateescape'))[:16]}"


def tag(workspace_id: str, number: int) -> int:
    """The soft RLIMIT_LOCKS of process ``number`` of a workspace (supervisor.md 1)."""
    return workspace_part(workspace_id) << NUMBER_BITS | number


def split_tag(value: int) -> tuple[int, int]:
    """(workspace part, number) of a tag."""
    return value >> NUMBER_BITS, value & KEEPER_NUMBER


def encode_pid(pid: int, start: int, boot_id: str, kind: str = "berth") -> str:
    """Content of pc.pid: one line of pid, start time in clock ticks, boot id, kind of supervisor, interface version."""
    return f"{pid} {start} {boot_id} {kind} {INTERFACE_VERSION}\n"


def decode_pid(text: str) -> tuple[int, int, str, str, int] | None:
    """(pid, start, boot id, kind, interface version) of pc.pid; None for anything else."""
    words = text.split()
    if len(words) != 5 or not (words[0].isdigit() and words[1].isdigit() and words[4].isdigit()):
        return None
    return int(words[0]), int(words[1]), words[2], words[3], int(words[4])


def encode_request(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    """One request after which the connection ends; ``path`` is already percent-encoded.

    HTTP/1.0, so that process-compose's server does not answer in chunks.
    """
    length = f"Content-Length: {len(body)}\r\n" if body or method != "GET" else ""
    head = f"{method} {path} HTTP/1.0\r\nHost: unix\r\n{TOKEN_HEADER}: {token}\r\n{length}Connection: close\r\n\r\n"
    return head.encode("latin-1") + body


def encode_response(status: int, body: bytes = b"", content_type: str = "application/json; charset=utf-8") -> bytes:
    """One HTTP/1.1 response after which the connection ends."""
    kind = f"Content-Type: {content_type}\r\n" if body else ""
    length = f"Content-Length: {len(body)}\r\nConnection: close\r\n"
    head = f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}\r\n{kind}{length}\r\n"
    return head.encode("latin-1") + body


def parse_head(data: bytes) -> tuple[str, dict[str, str], int] | None:
    """(first line, headers by lower-case name, length of the head) once ``data`` has a whole head, else None.

    Raises ValueError when it can never be one.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    lines = data[:end].decode("latin-1").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise ValueError("malformed header")
        headers[name.lower()] = value.strip()
    return lines[0], headers, end + 4


def content_length(headers: dict[str, str]) -> int:
    """The announced length of a body, 0 when there is none. Raises ValueError when it is no plain number."""
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit()):
        raise ValueError("malformed content length")
    return int(text)


def parse_response(data: bytes) -> tuple[int, bytes]:
    """(status, body) of a complete response. Raises ValueError for anything else."""
    parsed = parse_head(data)
    if parsed is None:
        raise ValueError("incomplete answer")
    line, headers, length = parsed
    words = line.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise ValueError("not an HTTP answer")
    body = data[length:]
    if len(body) < content_length(headers):
        raise ValueError("incomplete answer")
    return int(words[1]), body


def quote(name: str) -> str:
    """``name`` percent-encoded as one path segment."""
    safe = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"
    return "".join(chr(byte) if byte in safe else f"%{byte:02X}" for byte in name.encode("utf-8", "surrogateescape"))


def unquote(text: str) -> str:
    """The reverse of ``quote``; a stray ``%`` stays as it is."""
    first, *rest = text.split("%")
    data = first.encode("latin-1", "replace")
    for part in rest:
        try:
            data += bytes((int(part[:2], 16),)) + part[2:].encode("latin-1", "replace")
        except ValueError:
            data += b"%" + part.encode("latin-1", "replace")
    return data.decode("utf-8", "surrogateescape")
