"""A PostgreSQL store with one session, and somebody else's transactions that get in its way."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock.backends import from_url
from interlock.ports.sessions import SessionCard
from interlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.ports.store import Store

__all__ = ["blocked", "other", "store"]


@pytest.fixture
async def store(complete_postgres_url: str) -> AsyncIterator[Store]:
    """A store in which the session ``s`` has begun."""
    store = from_url(complete_postgres_url, settings=Settings())
    await store.open()
    await store.sessions.begin(SessionCard("s", "host", 7, "test"), 600.0)
    yield store
    await store.close()


@pytest.fixture
async def other(complete_postgres_url: str) -> AsyncIterator[Any]:
    """A connection of somebody else's."""
    connection = await asyncpg.connect(complete_postgres_url)
    yield connection
    await connection.close()


@asynccontextmanager
async def blocked(connection: Any, *works: Any) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Engine of which each has come to wait for a lock."""
    tasks: list[asyncio.Task[Any]] = []
    for work in works:
        tasks.append(asyncio.ensure_future(work))
        while await connection.fetchval("select count(*) from pg_locks where not granted") < len(tasks):
            assert not tasks[-1].done(), tasks[-1]
            await asyncio.sleep(0.005)
    yield tasks
