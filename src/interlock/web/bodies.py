"""Request bodies, read completely and bounded in size and in total memory. The caller bounds the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Message, Receive

__all__ = ["Bodies", "BodyRefusedError", "ClientGoneError"]

_LONGEST_NUMBER = 18


class BodyRefusedError(Exception):
    """A body was refused before its end. ``status`` is the response status; the rest of the body is not read."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class ClientGoneError(Exception):
    """The client closed the connection."""


class Bodies:
    """Reads bodies of at most ``limit`` bytes, and keeps at most ``together`` bytes of all unfinished bodies."""

    def __init__(self, limit: int, together: int) -> None:
        self.limit = limit
        self.together = together
        self.held = 0
        """Bytes of partially received bodies."""

    async def read(self, headers: Iterable[tuple[bytes, bytes]], receive: Receive) -> bytes:
        """Read a complete body. Raises :class:`BodyRefusedError`, or :class:`ClientGoneError` if the client is gone."""
        self._check_length(headers)
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body", False):  # the common case
            body: bytes = message.get("body", b"")
            if len(body) > self.limit:
                raise self._too_large()
            return body
        return await self._read_parts(message, receive)

    async def _read_parts(self, message: Message, receive: Receive) -> bytes:
        parts = bytearray()
        try:
            while True:
                if message["type"] != "http.request":
                    raise ClientGoneError
                part: bytes = message.get("body", b"")
                if len(parts) + len(part) > self.limit:
                    raise self._too_large()
                if self.held + len(part) > self.together:
                    raise BodyRefusedError(503, "Too many request bodies at once.")
                parts += part
                self.held += len(part)
                if not message.get("more_body", False):
                    return bytes(parts)
                message = await receive()
        finally:
            self.held -= len(parts)

    def _check_length(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Refuse a body whose Content-Length is too large, before reading any of it."""
        for name, value in headers:
            if name == b"content-length":
                if not value.isdigit():
                    raise BodyRefusedError(400, "The Content-Length is not a number.")
                if len(value) > _LONGEST_NUMBER or int(value) > self.limit:
                    raise self._too_large()

    def _too_large(self) -> BodyRefusedError:
        return BodyRefusedError(413, f"The body is larger than {self.limit:,} bytes.")
