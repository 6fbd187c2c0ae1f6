"""New claims per second, durable if the store is, compared with the bare statement that could replace them.

The bare statement only marks a key as seen. It has no owner, no expiry and no result, and cannot be taken over.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import redis.asyncio

from interlock import Claims

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Mark = Callable[[str], Awaitable[Any]]

__all__ = ["RAW", "interlock_claims", "interlock_claims_done", "per_second"]

_numbers = itertools.count()


async def per_second(mark: Mark, tasks: int, seconds: float) -> float:
    """Keys marked per second by this many tasks. Each task marks one key after the other, and every key is new."""
    count = 0
    begun = time.perf_counter()

    async def work() -> None:
        nonlocal count
        while time.perf_counter() - begun < seconds:
            await mark(f"delivery-{next(_numbers)}")
            count += 1

    await asyncio.gather(*(work() for _ in range(tasks)))
    return count / (time.perf_counter() - begun)


@asynccontextmanager
async def interlock_claims(url: str) -> AsyncIterator[Mark]:
    """Claim only, as the bare statement does."""
    async with Claims.from_url(url) as claims:

        async def mark(key: str) -> None:
            claim = await claims.claim(key)
            assert claim.new

        yield mark


@asynccontextmanager
async def interlock_claims_done(url: str) -> AsyncIterator[Mark]:
    """Claim, and mark as done: two durable steps."""
    async with Claims.from_url(url) as claims:

        async def mark(key: str) -> None:
            async with claims.claim(key) as claim:
                assert claim.new

        yield mark


@asynccontextmanager
async def raw_dict(_: str) -> AsyncIterator[Mark]:
    seen: set[str] = set()

    async def mark(key: str) -> None:
        assert key not in seen
        seen.add(key)

    yield mark


@asynccontextmanager
async def raw_sqlite(url: str) -> AsyncIterator[Mark]:
    """One connection on its own thread, synchronous FULL, one transaction per key."""
    thread = ThreadPoolExecutor(1)
    loop = asyncio.get_running_loop()

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(url.removeprefix("sqlite:///") + ".raw", isolation_level=None)
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute("create table if not exists seen (key text primary key, at real) without rowid")
        return connection

    connection = await loop.run_in_executor(thread, connect)

    def insert(key: str) -> None:
        done = connection.execute("insert into seen values (?, ?) on conflict do nothing", (key, time.time()))
        assert done.rowcount == 1

    async def mark(key: str) -> None:
        await loop.run_in_executor(thread, insert, key)

    try:
        yield mark
    finally:
        await loop.run_in_executor(thread, connection.close)
        thread.shutdown()


@asynccontextmanager
async def raw_postgres(url: str) -> AsyncIterator[Mark]:
    """Four connections and one durable commit per key."""
    async with asyncpg.create_pool(url, min_size=4, max_size=4) as pool:
        await pool.execute("create table if not exists raw_seen (key text primary key, at timestamptz)")

        async def mark(key: str) -> None:
            done = await pool.execute("insert into raw_seen values ($1, now()) on conflict do nothing", key)
            assert done == "INSERT 0 1"

        yield mark


@asynccontextmanager
async def raw_redis(url: str) -> AsyncIterator[Mark]:
    """SET NX with a TTL."""
    client: Any = redis.asyncio.from_url(url)

    async def mark(key: str) -> None:
        assert await client.set(f"raw:{key}", "1", nx=True, ex=86400)

    try:
        yield mark
    finally:
        await client.aclose()


RAW = {"memory": raw_dict, "sqlite": raw_sqlite, "postgres": raw_postgres, "redis": raw_redis}
