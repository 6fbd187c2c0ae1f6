"""A caller's own statements in a transaction that only a live lease can commit."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg

from interlock.backends.postgres.lane import gone_translated, translated
from interlock.errors import LeaseLostError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from interlock.backends.postgres.lane import Server

__all__ = ["FencedConnections"]

_NOT_LIVE = "IL001"  # what lock_guard raises


class FencedConnections:
    """Connections for fenced transactions. One is kept for the next of them."""

    def __init__(self, server: Server, wait: float) -> None:
        self._server = server
        self._wait = wait
        self._spare: Any = None

    @asynccontextmanager
    async def transaction(self, key: str, fence: int, guard: str, *args: Any) -> AsyncIterator[_Transaction]:
        """Begin, check the lease, run the caller's statements, commit.

        After any error the connection is ended, and with it the transaction: that needs no answer from the server.
        """
        connection, self._spare = self._spare, None
        if connection is None or connection.is_closed():
            with translated():
                connection = await self._server.connect(self._wait)
        try:
            try:
                with translated():
                    await self._bounded(connection, connection.execute("begin"))
                    await self._bounded(connection, connection.fetch(guard, *args))
            except asyncpg.PostgresError as error:
                if error.sqlstate != _NOT_LIVE:
                    raise
                raise LeaseLostError(
                    f"The write to {key!r} with fence {fence} was refused: its lease is no longer live."
                ) from None
            with gone_translated():
                yield _Transaction(connection)
                await self._bounded(connection, connection.execute("commit"))
        except BaseException:
            connection.terminate()
            raise
        if self._spare is None:
            self._spare = connection
        else:
            connection.terminate()

    def close(self) -> None:
        """End the connection that was kept."""
        if self._spare is not None:
            self._spare.terminate()
            self._spare = None

    async def _bounded(self, connection: Any, statement: Any) -> None:
        alarm = asyncio.get_running_loop().call_later(self._wait, connection.terminate)
        try:
            await statement
        finally:
            alarm.cancel()


class _Transaction:
    """A caller's statements on the fenced connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def execute(self, sql: str, *args: Any) -> None:
        """Run a statement."""
        await self._connection.execute(sql, *args)

    async def fetch(self, sql: str, *args: Any) -> Sequence[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return [tuple(row) for row in await self._connection.fetch(sql, *args)]
