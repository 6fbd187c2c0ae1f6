"""A thousand idle waiters: how many statements per second the store receives."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import time

import asyncpg
import redis.asyncio

from interlock import FOREVER, Locks

__all__ = ["statements_per_second"]

_SENT = ("eval", "evalsha", "script", "script|load", "ping", "auth", "hello", "subscribe", "unsubscribe", "client")


async def statements_per_second(url: str, waiters: int = 1000, seconds: float = 20.0) -> float:
    """Statements per second of one process, counted by the store (PostgreSQL, Redis) or by each connection (SQLite)."""
    with counted_sqlite() as counter:
        async with Locks.from_url(url) as locks:

            async def wait(number: int) -> None:
                async with locks.acquire(f"key-{number % 100}", wait=FOREVER):
                    pass

            held = [await locks.acquire(f"key-{number}") for number in range(100)]
            tasks = [asyncio.create_task(wait(number)) for number in range(waiters)]
            while sum(len(view.waiters) for view in await locks.list()) < waiters:
                await asyncio.sleep(0.1)
            before = await steady_count(url, counter)
            begun = time.monotonic()
            await asyncio.sleep(seconds)
            rate = (await count(url, counter) - before) / (time.monotonic() - begun)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for lease in held:
                await lease.release()
    return rate


class Counter:
    """Counts the statements of all connections that are opened meanwhile."""

    statements = 0


class counted_sqlite:  # noqa: N801 - used like a function
    """Count the statements of every SQLite connection, except for polls of the data version."""

    def __enter__(self) -> Counter:
        counter = Counter()
        self._connect = connect = sqlite3.connect

        def count(statement: str) -> None:
            if "data_version" not in statement:
                counter.statements += 1

        def counting(*args: object, **options: object) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*args, **options)  # type: ignore[call-overload]
            connection.set_trace_callback(count)
            return connection

        sqlite3.connect = counting  # type: ignore[assignment]
        return counter

    def __exit__(self, *_: object) -> None:
        sqlite3.connect = self._connect  # type: ignore[assignment]


async def steady_count(url: str, counter: Counter) -> float:
    """The count when earlier statements are included: the server reports them up to ten seconds later."""
    last = -math.inf
    while (now := await count(url, counter)) - last > 30:
        last = now
        await asyncio.sleep(5)
    return now


async def count(url: str, counter: Counter) -> float:
    if url.startswith("sqlite"):
        return counter.statements
    if url.startswith("redis"):
        async with redis.asyncio.from_url(url) as client:
            # The statistics include calls from scripts; these commands come only from clients.
            calls = await client.info("commandstats")
            return float(sum(calls.get(f"cmdstat_{name}", {}).get("calls", 0) for name in _SENT))
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("select pg_stat_clear_snapshot()")
        # Each statement outside a transaction block is a transaction. The server reports with a delay of a second.
        return float(
            await connection.fetchval(
                "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
            )
        )
    finally:
        await connection.close()
