"""The peers, each used as its documentation recommends."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
from filelock import AsyncFileLock

from interlock import Locks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    Acquire = Callable[[int, str], AbstractAsyncContextManager[Any]]

__all__ = ["advisory_locks", "asyncio_locks", "file_locks", "interlock_locks"]

# Each peer is opened for a number of workers and yields a function (worker, key) → async context manager.


@asynccontextmanager
async def interlock_locks(url: str, workers: int) -> AsyncIterator[Acquire]:
    async with Locks.from_url(url) as locks:
        yield lambda _worker, key: locks.acquire(key)


@asynccontextmanager
async def asyncio_locks(_: str, workers: int) -> AsyncIterator[Acquire]:
    locks: dict[str, asyncio.Lock] = {}
    yield lambda _worker, key: locks.setdefault(key, asyncio.Lock())


@asynccontextmanager
async def advisory_locks(url: str, workers: int) -> AsyncIterator[Acquire]:
    """PostgreSQL session-level advisory locks: in memory, not durable, one connection per waiter."""
    connections = [await asyncpg.connect(url) for _ in range(workers)]

    @asynccontextmanager
    async def acquire(worker: int, key: str) -> AsyncIterator[None]:
        connection = connections[worker]
        await connection.fetchval("select pg_advisory_lock(hashtext($1))", key)
        try:
            yield
        finally:
            await connection.fetchval("select pg_advisory_unlock(hashtext($1))", key)

    try:
        yield acquire
    finally:
        for connection in connections:
            await connection.close()


@asynccontextmanager
async def file_locks(directory: str, workers: int) -> AsyncIterator[Acquire]:
    locks: dict[tuple[int, str], AsyncFileLock] = {}

    def acquire(worker: int, key: str) -> Any:
        if (worker, key) not in locks:
            locks[worker, key] = AsyncFileLock(f"{directory}/{key}.lock", run_in_executor=False, poll_interval=0.001)
        return locks[worker, key]

    yield acquire


def sqlite_url(directory: Path) -> str:
    return f"sqlite:///{directory}/bench.db"
