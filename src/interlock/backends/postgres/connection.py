"""Statements that take effect in order, each on a connection that the pool lends.

A broken connection is dropped, and the next statement takes another one. A statement runs to its end even if its
caller is cancelled, and ends in bounded time.
"""

from __future__ import annotations

import asyncio
import math
import zlib
from typing import TYPE_CHECKING, Any

from interlock.backends.postgres.errors import translated
from interlock.backends.postgres.server import answered
from interlock.backends.postgres.session_settings import LOCAL_TIMEOUTS
from interlock.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from interlock.backends.postgres.pool import Pool

__all__ = ["OrderedConnection", "OrderedConnections"]

_BEGIN = f"begin isolation level read committed; {LOCAL_TIMEOUTS}"
_TURNS_TO_SEND = 2  # iterations of the event loop until the statement has been sent


class OrderedConnection:
    """Operations that take effect one after the other, each on a connection borrowed from the pool."""

    def __init__(self, pool: Pool, wait: float, *, hold: bool = False, bounded: bool = False) -> None:
        self._pool = pool
        self._wait = wait
        self._hold = hold  # its statements may take long and must leave a connection for others
        # A statement that waits for several rows may do so longer than for one. The server ends it, and says why.
        bound = f"set local lock_timeout = 0; set local statement_timeout = '{math.ceil(wait * 800)}ms'"
        self._bound = bound if bounded else ""
        self._turn = asyncio.Lock()
        self._life = 0  # incremented on close: operations from before do not connect afterwards

    async def fetch(self, sql: str, *args: Any) -> Sequence[Any]:
        """Run one statement and return its rows. It runs to its end even if the caller is cancelled."""
        work = asyncio.ensure_future(self._fetch(self._life, sql, args))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_swallow)
            raise

    async def close(self) -> None:
        """Wait for the running operation, and refuse queued ones."""
        async with self._turn:
            self._life += 1
        self._turn = asyncio.Lock()  # the next use may be on another event loop

    async def fetch_here(self, sql: str, *args: Any) -> Sequence[Any]:
        """Run one statement in the current task, which must not be cancelled."""
        return await self._fetch(self._life, sql, args)

    async def run_each(self, sql: str, calls: Iterable[tuple[Any, ...]]) -> None:
        """Run one statement for each call in one transaction. The task must not be cancelled.

        The arguments of a call are prepared while the server works on the call before it.
        """
        life, give_up = self._life, asyncio.get_running_loop().time() + self._wait
        async with self._turn:
            self._check(life)
            with translated():
                # This may take long: if connections are scarce, it leaves one for the others.
                async with self._pool.lent(give_up, hold=not self._pool.roomy) as connection:
                    await _each(connection, sql, calls, self._wait)

    async def _fetch(self, life: int, sql: str, args: tuple[Any, ...]) -> Sequence[Any]:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self._wait
        async with self._turn:
            self._check(life)
            with translated():
                async with self._pool.lent(give_up, hold=self._hold) as connection:
                    if self._bound:
                        work = _in_transaction(connection, self._bound, sql, args)
                    elif self._pool.server.pooled:
                        work = _in_transaction(connection, self._pool.server.beat, sql, args)
                    else:
                        work = connection.fetch(sql, *args)
                    rows: Sequence[Any] = await answered(connection, work, give_up - loop.time())
                    return rows

    def _check(self, life: int) -> None:
        if life != self._life:
            raise StoreUnavailableError("The store was closed meanwhile.")


class OrderedConnections:
    """Several ordered connections, and one for reads, which may take long and must not delay others."""

    def __init__(self, connections: list[OrderedConnection], reads: OrderedConnection) -> None:
        self._connections = connections
        self.first = connections[0]
        self.reads = reads

    def __iter__(self) -> Iterator[OrderedConnection]:
        return iter(self._connections)

    def of(self, key: str) -> OrderedConnection:
        """Return the connection that a key always uses, so that operations on it take effect in order."""
        return self._connections[zlib.crc32(key.encode()) % len(self._connections)]

    async def close(self) -> None:
        """Wait for the running operations of each."""
        for connection in (*self._connections, self.reads):
            await connection.close()


async def _in_transaction(connection: Any, before: str, sql: str, args: tuple[Any, ...]) -> Any:
    """Run a statement with settings of its own, or through a pooler, which may use another server than before."""
    try:
        # The settings are part of the first statement, so that the server can end the transaction from the start.
        await connection.execute(f"{_BEGIN}; {before}")
        rows = await connection.fetch(sql, *args)
    except BaseException:
        if not connection.is_closed():
            await connection.execute("rollback")
        raise
    await connection.execute("commit")
    return rows


async def _each(connection: Any, sql: str, calls: Iterable[tuple[Any, ...]], wait: float) -> None:
    under_way: asyncio.Future[Any] | None = None
    try:
        await answered(connection, connection.execute(_BEGIN), wait)
        for args in calls:
            if under_way is not None:
                await under_way
            under_way = asyncio.ensure_future(answered(connection, connection.fetch(sql, *args), wait))
            for _ in range(_TURNS_TO_SEND):
                await asyncio.sleep(0)
        if under_way is not None:
            await under_way
        await answered(connection, connection.execute("commit"), wait)
    except BaseException:
        connection.terminate()  # needs no answer, and rolls everything back
        if under_way is not None:
            under_way.add_done_callback(_swallow)
        raise


def _swallow(work: asyncio.Future[Any]) -> None:
    if not work.cancelled():
        work.exception()
