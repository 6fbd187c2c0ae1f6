"""Reads: single statements in order, and transactions that read one state with several statements."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from interlock.backends.postgres.connection import OrderedConnection
from interlock.backends.postgres.errors import translated
from interlock.backends.postgres.server import answered
from interlock.backends.postgres.session_settings import LOCAL_TIMEOUTS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from interlock.backends.postgres.pool import Pool

__all__ = ["Reader"]

_MAX_AT_ONCE = 2
# A read that is fast for one key may be slow for another, so each is planned for its values. A read of few out of many
# rows uses an index in its order, up to the bound, regardless of the planner's estimates.
_SETTINGS = f"""
{LOCAL_TIMEOUTS};
set local jit = off;
set local plan_cache_mode = force_custom_plan;
set local enable_seqscan = off;
set local enable_bitmapscan = off
"""


class _Look:
    """A connection inside a transaction, and the task that reads through it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.task = asyncio.current_task()


class Reader(OrderedConnection):
    """An ordered connection for reads. Inside :meth:`snapshot` the reads of that task use one transaction instead."""

    def __init__(self, pool: Pool, wait: float) -> None:
        super().__init__(pool, wait)
        self._room = asyncio.Semaphore(_MAX_AT_ONCE)
        self._looking: ContextVar[_Look | None] = ContextVar("interlock_postgres_look", default=None)

    @property
    def in_snapshot(self) -> bool:
        """Whether the current task is inside :meth:`snapshot`."""
        look = self._looking.get()
        return look is not None and look.task is asyncio.current_task()

    async def fetch(self, sql: str, *args: Any) -> Sequence[Any]:
        """Run one statement and return its rows."""
        look = self._looking.get()
        if look is None or look.task is not asyncio.current_task():
            return await super().fetch(sql, *args)
        with translated():
            rows: Sequence[Any] = await self._within(look.connection, look.connection.fetch(sql, *args))
        return rows

    @contextlib.asynccontextmanager
    async def snapshot(self) -> AsyncGenerator[None]:
        """Let this task read one state of the database inside the block."""
        give_up = asyncio.get_running_loop().time() + self._wait
        with translated():
            async with asyncio.timeout_at(give_up):
                await self._room.acquire()
        room = self._room
        try:
            async with contextlib.AsyncExitStack() as stack:
                with translated():
                    connection = await stack.enter_async_context(self._pool.lent(give_up, hold=True))
                try:
                    with translated():
                        transaction = connection.transaction(isolation="repeatable_read", readonly=True)
                        await self._within(connection, transaction.start())
                        await self._within(connection, connection.execute(_SETTINGS))
                    token = self._looking.set(_Look(connection))
                    try:
                        yield
                    finally:
                        self._looking.reset(token)
                    with translated():
                        await self._within(connection, transaction.rollback())
                except BaseException:
                    # After an error or a cancellation the connection is not reused.
                    connection.terminate()
                    raise
        finally:
            room.release()

    async def close(self) -> None:
        """Wait for running operations."""
        self._room = asyncio.Semaphore(_MAX_AT_ONCE)  # the next use may be on another event loop
        await super().close()

    async def _within(self, connection: Any, work: Any) -> Any:
        return await answered(connection, work, self._wait)
