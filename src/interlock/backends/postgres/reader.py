"""The connections for looking: one on which looks queue, and a few for those who want several looks at one state."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from interlock.backends.postgres.lane import LOCK_TIMEOUT, Lane, answered, translated

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from interlock.backends.postgres.lane import Server

__all__ = ["Reader"]

_MOST_AT_ONCE = 2
# A look that is quick for one key may be slow for another, so each is planned for what it asks; and what looks for a
# few of many rows is to find them by an index and in its order, up to the bound, whatever the planner believes.
_SETTINGS = f"""
set local lock_timeout = '{LOCK_TIMEOUT}';
set local jit = off;
set local plan_cache_mode = force_custom_plan;
set local enable_seqscan = off;
set local enable_bitmapscan = off
"""


class _Look:
    """A connection inside a transaction, and who reads through it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.task = asyncio.current_task()


class Reader(Lane):
    """A lane. Inside :meth:`snapshot` what its task reads goes through a transaction of its own instead."""

    def __init__(self, server: Server, wait: float) -> None:
        super().__init__(server, wait)
        self._idle: list[Any] = []
        self._room = asyncio.Semaphore(_MOST_AT_ONCE)
        self._looking: ContextVar[_Look | None] = ContextVar("interlock_postgres_look", default=None)

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
        """Let all that this task reads inside be of one state."""
        with translated():
            async with asyncio.timeout(self._wait):
                await self._room.acquire()
        room = self._room
        connection: Any = None
        try:
            with translated():
                connection = await self._take()
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
            self._idle.append(connection)
            connection = None
        finally:
            room.release()
            if connection is not None:
                # Whatever went wrong in the middle, or whoever left: nothing of it is kept.
                connection.terminate()

    async def close(self) -> None:
        """Close the connections."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.terminate()
        self._room = asyncio.Semaphore(_MOST_AT_ONCE)  # the next use may be on another event loop
        await super().close()

    async def _take(self) -> Any:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await self._server.connect(self._wait)

    async def _within(self, connection: Any, work: Any) -> Any:
        return await answered(connection, work, self._wait)
