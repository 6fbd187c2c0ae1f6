"""A caller's own statements in a transaction that only a live lease can commit."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from interlock.backends.postgres.lane import answered, gone_translated, sqlstate, translated
from interlock.errors import LeaseLostError, MisuseError, StoreError

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
                    await self._bounded(connection, connection.execute("begin isolation level read committed"))
                    await self._bounded(connection, connection.fetch(guard, *args))
            except StoreError as error:
                if sqlstate(error) != _NOT_LIVE:
                    raise
                raise LeaseLostError(
                    f"The write to {key!r} with fence {fence} was refused: its lease is no longer live."
                ) from None
            yield _Transaction(connection)
            with gone_translated():
                ended = await self._bounded(connection, connection.execute("commit"))
            if ended != "COMMIT":
                raise MisuseError(
                    "Nothing was written: a statement in the fenced transaction failed, and its error was swallowed.",
                    remedy="Let the error leave the block.",
                )
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

    async def _bounded(self, connection: Any, statement: Any) -> Any:
        return await answered(connection, statement, self._wait)


class _Transaction:
    """A caller's statements on the fenced connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def execute(self, sql: str, *args: Any) -> None:
        """Run a statement."""
        self._check()
        with gone_translated():
            await answered(self._connection, self._connection.execute(sql, *args))

    async def fetch(self, sql: str, *args: Any) -> Sequence[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        self._check()
        with gone_translated():
            rows = await answered(self._connection, self._connection.fetch(sql, *args))
        return [tuple(row) for row in rows]

    def _check(self) -> None:
        if not self._connection.is_closed() and not self._connection.is_in_transaction():
            raise MisuseError(
                "The fenced transaction was ended by a statement in it, and fences nothing any more.",
                remedy="Leave commit and rollback to the block.",
            )
