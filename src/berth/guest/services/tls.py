"""TLS for a check, over bytes in memory; imported only where a definition asks for https. No certificate is checked."""

from __future__ import annotations

import ssl

_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_context.check_hostname = False
_context.verify_mode = ssl.CERT_NONE


class Channel:
    """One conversation: ``feed`` what arrived, ``step``, send what ``outgoing`` gives."""

    def __init__(self, host: str) -> None:
        self.request = b""
        self.is_begun = False
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = _context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    def feed(self, data: bytes) -> None:
        """Bytes from the server; none means that it closed."""
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def step(self) -> tuple[bytes | None, str]:
        """(what the server answered, or None while it has not, complaint)."""
        self.is_begun = True
        try:
            self._object.do_handshake()
            if self.request:
                self._object.write(self.request)
                self.request = b""
            return self._object.read(8192), ""
        except ssl.SSLWantReadError:
            return None, ""
        except ssl.SSLError as error:
            return None, f"TLS: {error.reason or error}"

    def outgoing(self) -> bytes:
        return self._outgoing.read()
