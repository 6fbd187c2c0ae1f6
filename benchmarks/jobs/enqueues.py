"""Enqueuing: all jobs in one call, and one at a time by many independent tasks."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import asyncpg
import uvloop
from pgqueuer.queries import Queries

from benchmarks.jobs import own, peer_pgqueuer
from interlock.testing.processes import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["bulk", "concurrent"]

_CONNECTIONS = 5


class Enqueuer(Protocol):
    async def one(self, number: int) -> Any: ...
    async def many(self, jobs: int) -> Any: ...


@asynccontextmanager
async def _interlock(url: str) -> AsyncIterator[Enqueuer]:
    app, jobs = own.defined(url)

    class Own:
        async def one(self, number: int) -> None:
            await jobs.noop.enqueue(number=number)

        async def many(self, count: int) -> None:
            await app.jobs.enqueue_many([jobs.noop.call(number=number) for number in range(count)])

    async with app:
        yield Own()


@asynccontextmanager
async def _pgqueuer(url: str) -> AsyncIterator[Enqueuer]:
    pool = await asyncpg.create_pool(url, min_size=_CONNECTIONS, max_size=_CONNECTIONS)
    queries = Queries.from_asyncpg_pool(pool)

    class Peer:
        async def one(self, number: int) -> None:
            await queries.enqueue(peer_pgqueuer.ENTRYPOINT, b'{"number": %d}' % number)

        async def many(self, count: int) -> None:
            payloads = [b'{"number": %d}' % number for number in range(count)]
            await queries.enqueue([peer_pgqueuer.ENTRYPOINT] * count, payloads, [0] * count)

    async with pool:
        yield Peer()


_WAYS = {"interlock": _interlock, "pgqueuer": _pgqueuer}


async def bulk(way: str, url: str, jobs: int) -> float:
    """Jobs per second, all in one call."""
    return await _in_process("bulk", way, url, jobs, 1)


async def concurrent(way: str, url: str, jobs: int, tasks: int = 50) -> float:
    """Jobs per second by this many tasks of one process, each of which enqueues one job at a time."""
    return await _in_process("concurrent", way, url, jobs, tasks)


async def _in_process(what: str, way: str, url: str, jobs: int, tasks: int) -> float:
    async with Worker.spawn("benchmarks.jobs.enqueues:run_process", (what, way, url, jobs, tasks)) as worker:
        rate: float = await worker.result(timeout=120)
        return rate


def run_process(what: str, way: str, url: str, jobs: int, tasks: int) -> float:
    async def run() -> float:
        async with _WAYS[way](url) as enqueuer:
            numbers = iter(range(jobs))

            async def enqueue() -> None:
                for number in numbers:
                    await enqueuer.one(number)

            await asyncio.gather(*(enqueuer.one(-number) for number in range(tasks)))
            begun = time.perf_counter()
            if what == "bulk":
                await enqueuer.many(jobs)
            else:
                await asyncio.gather(*(enqueue() for _ in range(tasks)))
            return jobs / (time.perf_counter() - begun)

    return uvloop.run(run())
