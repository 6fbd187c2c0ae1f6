"""The peers on Redis, each used as its documentation recommends."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio
import redis_lock
from pottery import AIORedlock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.locks.peers import Acquire

__all__ = ["pottery_locks", "python_redis_locks", "redis_py_locks", "redis_py_locks_eager"]

_TTL = 300


@asynccontextmanager
async def redis_py_locks(url: str, workers: int, *, pause: float = 0.1) -> AsyncIterator[Acquire]:
    """redis-py's own Lock: SET NX, polled every ``pause`` seconds (0.1 by default), released by a script."""
    client: Any = redis.asyncio.from_url(url)
    try:
        yield lambda _worker, key: client.lock(f"redis-py:{key}", timeout=_TTL, sleep=pause)
    finally:
        await client.aclose()


def redis_py_locks_eager(url: str, workers: int) -> Any:
    """The same, polled every 10 ms."""
    return redis_py_locks(url, workers, pause=0.01)


@asynccontextmanager
async def python_redis_locks(url: str, workers: int) -> AsyncIterator[Acquire]:
    """python-redis-lock: blocks in BLPOP. It does not support asyncio, so each worker has its own thread."""
    pool = redis.ConnectionPool.from_url(url)
    threads = [ThreadPoolExecutor(1) for _ in range(workers)]
    loop = asyncio.get_running_loop()

    @asynccontextmanager
    async def acquire(worker: int, key: str) -> AsyncIterator[None]:
        lock = redis_lock.Lock(redis.Redis(connection_pool=pool), key, expire=_TTL)
        await loop.run_in_executor(threads[worker], lock.acquire)
        try:
            yield
        finally:
            await loop.run_in_executor(threads[worker], lock.release)

    try:
        yield acquire
    finally:
        for thread in threads:
            await asyncio.to_thread(partial(thread.shutdown, wait=True))
        pool.disconnect()


@asynccontextmanager
async def pottery_locks(url: str, workers: int) -> AsyncIterator[Acquire]:
    """pottery's AIORedlock on one server."""
    client: Any = redis.asyncio.from_url(url)
    try:
        yield lambda _worker, key: AIORedlock(key=key, masters={client}, auto_release_time=_TTL)
    finally:
        await client.aclose()
