"""The ceiling: handwritten asyncpg that only fetches 100 jobs and deletes them, alternating between two connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg

from benchmarks.jobs.worker_side import Acks, run_worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["fill", "left", "prepare", "work"]

BATCH = 100
CONNECTIONS = 2

_SCHEMA = """
create table raw_job (
    id bigint generated always as identity primary key,
    fetched boolean not null default false,
    arguments text not null
);
create index on raw_job (id) where not fetched;
"""
_FETCH = f"""
update raw_job set fetched = true
where id in (select id from raw_job where not fetched order by id limit {BATCH} for update skip locked)
returning id, arguments
"""
_DELETE = "delete from raw_job where id = any($1::bigint[])"


async def prepare(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(_SCHEMA)
    await connection.close()


async def fill(url: str, jobs: int) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(
        "insert into raw_job (arguments) select '{\"number\": ' || n || '}' from generate_series(1, $1::int) n", jobs
    )
    await connection.close()


async def left(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        count: int = await connection.fetchval("select count(*) from raw_job")
        return count
    finally:
        await connection.close()


async def _handler(arguments: str) -> None:
    return


def work(url: str) -> None:
    async def prepared(acks: Acks, stop: asyncio.Event) -> Callable[[], Awaitable[None]]:
        connections = [await asyncpg.connect(url) for _ in range(CONNECTIONS)]
        statements = [(await one.prepare(_FETCH), await one.prepare(_DELETE)) for one in connections]

        async def alternate(fetch: asyncpg.PreparedStatement, delete: asyncpg.PreparedStatement) -> None:
            while not stop.is_set():
                acks.record_fetch()
                jobs = await fetch.fetch()
                if not jobs:
                    await asyncio.sleep(0.002)
                    continue
                for job in jobs:
                    await _handler(job["arguments"])
                await delete.fetch([job["id"] for job in jobs])
                acks.record_acknowledgements(len(jobs))

        async def drain() -> None:
            await asyncio.gather(*(alternate(*pair) for pair in statements))

        return drain

    run_worker(prepared)
