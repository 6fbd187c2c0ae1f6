"""Connections to the server.

redis-py connects, does the TLS handshake, authenticates and selects the database. After that its socket is used
directly: its streams would cost more than everything else that an operation does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import hiredis
from redis.asyncio import Connection, SSLConnection, UnixDomainSocketConnection

from interlock.backends.redis.replies import connect_failure
from interlock.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.backends.redis.address import Address
    from interlock.backends.redis.credentials import Credentials

__all__ = ["RawConnection", "Server"]

_MORE = object()


class RawConnection(asyncio.Protocol):
    """One open connection: writes bytes, and calls back for each reply and once when it is lost."""

    def __init__(self, connection: Any, password: str | None) -> None:
        self.password = password
        """The password it authenticated with, which may be a token that expires."""
        self._connection = connection  # kept alive: its stream would close the transport when it is collected
        self._transport: asyncio.Transport = connection._writer.transport  # noqa: SLF001 - redis-py offers no other way
        self._reader = hiredis.Reader(encoding="utf-8", errors="replace", notEnoughData=_MORE)
        self._on_reply: Callable[[Any], None] = lambda _: None
        self._on_lost: Callable[[str], None] = lambda _: None
        _ignore_close(self._transport)
        self._transport.set_protocol(self)
        self.write: Callable[[bytes], None] = self._transport.write

    def start(self, on_reply: Callable[[Any], None], on_lost: Callable[[str], None]) -> None:
        """Set the callbacks."""
        self._on_reply, self._on_lost = on_reply, on_lost
        if self._transport.is_closing():
            asyncio.get_running_loop().call_soon(self._lose, "the connection was closed")

    def close(self) -> None:
        """Abort the connection without waiting for the other end. No callback is called afterwards."""
        self._on_reply, self._on_lost = _ignore, _ignore
        self._transport.abort()
        self._detach()

    def data_received(self, data: bytes) -> None:
        """Parse replies and pass them on."""
        reader = self._reader
        reader.feed(data)
        try:
            while (reply := reader.gets()) is not _MORE:
                self._on_reply(reply)
        except hiredis.ProtocolError as error:
            self._transport.abort()
            self._lose(f"protocol error: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the connection was closed."""
        self._lose(str(exc) if exc and str(exc) else "the connection was closed")

    def _lose(self, why: str) -> None:
        on_lost, self._on_reply, self._on_lost = self._on_lost, _ignore, _ignore
        self._detach()
        on_lost(why)

    def _detach(self) -> None:
        self._connection._reader = self._connection._writer = None  # noqa: SLF001


class Server:
    """Opens connections to one database of one server."""

    def __init__(self, address: Address, credentials: Credentials | None) -> None:
        self._address = address
        self.credentials = credentials
        self._kind: Any = Connection
        if address.socket:
            self._kind = UnixDomainSocketConnection
        elif address.tls:
            self._kind = SSLConnection

    async def connect(self, timeout: float, *, protocol: int = 2) -> RawConnection:
        """Open and authenticate a connection; raises ``StoreUnavailableError`` or ``StoreError``."""
        connection: Any = None
        try:
            async with asyncio.timeout(timeout):
                options = dict(self._address.options)
                if self.credentials is not None:
                    options["username"], options["password"] = await self.credentials.get()
                options |= {"protocol": protocol, "socket_timeout": timeout, "socket_connect_timeout": timeout}
                connection = self._kind(**options)
                await connection.connect()
            _raise_if_cancelled()
            return RawConnection(connection, options["password"])
        except BaseException as error:
            if connection is not None and connection._writer is not None:  # noqa: SLF001
                _ignore_close(connection._writer.transport)  # noqa: SLF001
                connection._writer.transport.abort()  # noqa: SLF001
                connection._reader = connection._writer = None  # noqa: SLF001
            _raise_if_cancelled()
            if isinstance(error, StoreError) or not isinstance(error, Exception):
                raise
            raise connect_failure(error) from error


def _ignore_close(transport: asyncio.Transport) -> None:
    """Retrieve how redis-py's stream ends. Otherwise asyncio may warn about it when it is collected."""
    stream: Any = transport.get_protocol()
    stream._get_close_waiter(None).add_done_callback(lambda end: end.cancelled() or end.exception())  # noqa: SLF001


def _raise_if_cancelled() -> None:
    """Raise a pending cancellation, which redis-py may have swallowed."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _ignore(_: Any) -> None:
    """Ignore a call after the connection was closed."""
