"""PGQueuer at its best: batches of 500 and uvloop."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.queries import Queries

from benchmarks.jobs.worker_side import Acks, run_worker
from interlock.testing.processes import report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pgqueuer.models import Job

__all__ = ["ENTRYPOINT", "fill", "left", "prepare", "work", "work_noting"]

ENTRYPOINT = "noop"
BATCH = 500


async def prepare(url: str) -> None:
    connection = await asyncpg.connect(url)
    await Queries.from_asyncpg_connection(connection).install()
    await connection.close()


async def fill(url: str, jobs: int) -> None:
    connection = await asyncpg.connect(url)
    payloads = [b'{"number": %d}' % number for number in range(jobs)]
    await Queries.from_asyncpg_connection(connection).enqueue([ENTRYPOINT] * jobs, payloads, [0] * jobs)
    await connection.close()


async def left(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        count: int = await connection.fetchval("select count(*) from pgqueuer")
        return count
    finally:
        await connection.close()


def work(url: str, pool: int = 0, noting: bool = False) -> None:
    """Run jobs on one connection or a pool, whichever is faster; ``noting`` reports when each one starts."""

    async def prepared(acks: Acks, stop: asyncio.Event) -> Callable[[], Awaitable[None]]:
        logging.getLogger("pgqueuer").setLevel(logging.WARNING)
        if pool:
            manager = PgQueuer.from_asyncpg_pool(await asyncpg.create_pool(url, min_size=pool, max_size=pool))
        else:
            manager = PgQueuer.from_asyncpg_connection(await asyncpg.connect(url))

        if noting:

            @manager.entrypoint(ENTRYPOINT)
            async def note(job: Job) -> None:
                at = time.monotonic()
                report("started", number=json.loads(job.payload or b"")["number"], at=at)
        else:

            @manager.entrypoint(ENTRYPOINT)
            async def noop(job: Job) -> None:
                return

        queries: Any = manager.qm.queries
        dequeue, log_jobs = queries.dequeue, queries.log_jobs

        async def noted_dequeue(*args: Any, **options: Any) -> Any:
            acks.record_fetch()
            return await dequeue(*args, **options)

        async def noted_log_jobs(ended: list[Any]) -> None:
            await log_jobs(ended)
            acks.record_acknowledgements(len(ended))

        queries.dequeue, queries.log_jobs = noted_dequeue, noted_log_jobs

        async def drain() -> None:
            running = asyncio.ensure_future(manager.qm.run(batch_size=BATCH, log_aggregation_interval=timedelta(0)))
            await stop.wait()
            manager.shutdown.set()
            await running

        return drain

    run_worker(prepared)


def work_noting(url: str) -> None:
    work(url, 5, noting=True)
