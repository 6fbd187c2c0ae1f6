"""SAQ on PostgreSQL at its best: many jobs at once, finished jobs deleted, uvloop."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import asyncpg
from saq import Queue, Worker

from benchmarks.jobs.worker_side import Acks, run_worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["fill", "left", "prepare", "work"]


async def _connected(url: str, connections: int) -> Any:
    logging.getLogger("saq").setLevel(logging.ERROR)
    queue: Any = Queue.from_url(url, min_size=connections, max_size=connections)
    await queue.connect()
    return queue


async def prepare(url: str) -> None:
    await (await _connected(url, 4)).disconnect()


async def fill(url: str, jobs: int) -> None:
    queue = await _connected(url, 8)
    numbers = iter(range(jobs))

    async def enqueue() -> None:
        for number in numbers:
            await queue.enqueue("noop", number=number, ttl=-1)

    await asyncio.gather(*(enqueue() for _ in range(8)))
    await queue.disconnect()


async def left(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        count: int = await connection.fetchval("select count(*) from saq_jobs")
        return count
    finally:
        await connection.close()


async def noop(context: Any, *, number: int) -> None:
    return


def work(url: str, concurrency: int = 50, connections: int = 20) -> None:
    async def prepared(acks: Acks, stop: asyncio.Event) -> Callable[[], Awaitable[None]]:
        queue = await _connected(url, connections)
        dequeue, finish = queue._dequeue, queue._finish

        async def noted_dequeue() -> None:
            acks.record_fetch()
            await dequeue()

        async def noted_finish(*args: Any, **options: Any) -> None:
            await finish(*args, **options)
            acks.record_acknowledgements(1)

        queue._dequeue, queue._finish = noted_dequeue, noted_finish
        worker: Any = Worker(queue, [("noop", noop)], concurrency=concurrency)

        async def drain() -> None:
            running = asyncio.ensure_future(worker.start())
            await stop.wait()
            await worker.stop()
            await running
            await queue.disconnect()

        return drain

    run_worker(prepared)
