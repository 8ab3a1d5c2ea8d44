"""The answering side of one WebSocket (RFC 6455), as far as process-compose's ``process logs`` needs it.

A handshake, unmasked text frames, a close frame. Nothing is read from the client; following is not offered.
"""

from __future__ import annotations

import binascii

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 1.3
_TEXT = 0x81
_CLOSE = 0x88
_NORMAL = (1000).to_bytes(2, "big")


def handshake(key: str) -> bytes:
    """The head that turns the connection into a WebSocket; ``key`` is the client's Sec-WebSocket-Key."""
    from hashlib import sha1  # only here: it is dear, and this is seldom asked

    accept = binascii.b2a_base64(sha1(key.encode("latin-1") + _GUID).digest(), newline=False)  # noqa: S324  # the RFC's
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        + accept
        + b"\r\n\r\n"
    )


def text(message: str) -> bytes:
    """One text frame."""
    return _frame(_TEXT, message.encode("utf-8", "replace"))


def close() -> bytes:
    """The frame that ends the conversation."""
    return _frame(_CLOSE, _NORMAL)


def _frame(kind: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        head = bytes((kind, size))
    elif size < 1 << 16:
        head = bytes((kind, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((kind, 127)) + size.to_bytes(8, "big")
    return head + payload
