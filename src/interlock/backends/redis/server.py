"""Where the server is, and connections to it.

redis-py connects, speaks TLS, authenticates and selects the database. From then on bytes go straight through: its
streams would cost more than everything else that an operation does.
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

__all__ = ["Link", "Server"]

_MORE = object()


class Link(asyncio.Protocol):
    """One connection: writes bytes, and calls back for each reply and once when it is lost."""

    def __init__(self, connection: Any, password: str | None) -> None:
        self.password = password
        """What it authenticated with, to know until when that holds."""
        self._connection = connection  # kept, as its stream would close the transport when it is collected
        self._transport: asyncio.Transport = connection._writer.transport  # noqa: SLF001 - the one way to take over
        self._reader = hiredis.Reader(encoding="utf-8", errors="replace", notEnoughData=_MORE)
        self._on_reply: Callable[[Any], None] = lambda _: None
        self._on_lost: Callable[[str], None] = lambda _: None
        _hush(self._transport)
        self._transport.set_protocol(self)
        self.write: Callable[[bytes], None] = self._transport.write

    def start(self, on_reply: Callable[[Any], None], on_lost: Callable[[str], None]) -> None:
        """Say who wants to hear."""
        self._on_reply, self._on_lost = on_reply, on_lost
        if self._transport.is_closing():
            asyncio.get_running_loop().call_soon(self._lose, "the connection was closed")

    def close(self) -> None:
        """End the connection at once, in a way that needs no answer from the other end; nobody is called any more."""
        self._on_reply, self._on_lost = _ignore, _ignore
        self._transport.abort()
        self._let_go()

    def data_received(self, data: bytes) -> None:
        """Replies have come."""
        reader = self._reader
        reader.feed(data)
        try:
            while (reply := reader.gets()) is not _MORE:
                self._on_reply(reply)
        except hiredis.ProtocolError as error:
            self._transport.abort()
            self._lose(f"it does not speak Redis's protocol: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """The other end, or something on the way, has closed it."""
        self._lose(str(exc) if exc and str(exc) else "the connection was closed")

    def _lose(self, why: str) -> None:
        on_lost, self._on_reply, self._on_lost = self._on_lost, _ignore, _ignore
        self._let_go()
        on_lost(why)

    def _let_go(self) -> None:
        self._connection._reader = self._connection._writer = None  # noqa: SLF001


class Server:
    """Makes connections to one database of one server."""

    def __init__(self, address: Address, credentials: Credentials | None) -> None:
        self._address = address
        self.credentials = credentials
        self._kind: Any = Connection
        if address.socket:
            self._kind = UnixDomainSocketConnection
        elif address.tls:
            self._kind = SSLConnection

    async def connect(self, wait: float, *, protocol: int = 2) -> Link:
        """A new connection, authenticated; raises ``StoreUnavailableError`` or ``StoreError``."""
        connection: Any = None
        try:
            async with asyncio.timeout(wait):
                options = dict(self._address.options)
                if self.credentials is not None:
                    options["username"], options["password"] = await self.credentials.get()
                options |= {"protocol": protocol, "socket_timeout": wait, "socket_connect_timeout": wait}
                connection = self._kind(**options)
                await connection.connect()
            _stop_if_told()
            return Link(connection, options["password"])
        except BaseException as error:
            if connection is not None and connection._writer is not None:  # noqa: SLF001
                _hush(connection._writer.transport)  # noqa: SLF001
                connection._writer.transport.abort()  # noqa: SLF001
                connection._reader = connection._writer = None  # noqa: SLF001
            _stop_if_told()
            if isinstance(error, StoreError) or not isinstance(error, Exception):
                raise
            raise connect_failure(error) from error


def _hush(transport: asyncio.Transport) -> None:
    """Nobody minds how the driver's stream ended; unless it is looked at, it may be complained about when collected."""
    stream: Any = transport.get_protocol()
    stream._get_close_waiter(None).add_done_callback(lambda end: end.cancelled() or end.exception())  # noqa: SLF001


def _stop_if_told() -> None:
    """A cancellation may get lost inside the driver; what was cancelled ends all the same."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _ignore(_: Any) -> None:
    """Nobody listens any more."""
