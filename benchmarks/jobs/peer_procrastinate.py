"""Procrastinate at its best: many jobs at once on a pool of connections, finished jobs deleted, uvloop."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import asyncpg
from procrastinate import App, PsycopgConnector

from benchmarks.jobs.worker_side import Acks, run_worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["fill", "left", "prepare", "work"]


def _app(url: str, connections: int) -> App:
    app = App(connector=PsycopgConnector(conninfo=url, min_size=connections, max_size=connections))

    @app.task(name="noop")
    async def noop(number: int) -> None:
        return

    return app


async def prepare(url: str) -> None:
    async with _app(url, 1).open_async() as app:
        await app.schema_manager.apply_schema_async()


async def fill(url: str, jobs: int) -> None:
    async with _app(url, 1).open_async() as app:
        await app.tasks["noop"].batch_defer_async(*({"number": number} for number in range(jobs)))


async def left(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        count: int = await connection.fetchval(
            "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"
        )
        return count
    finally:
        await connection.close()


def work(url: str, concurrency: int = 10, connections: int = 5) -> None:
    async def prepared(acks: Acks, stop: asyncio.Event) -> Callable[[], Awaitable[None]]:
        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        app = _app(url, connections)
        await app.open_async()
        manager: Any = app.job_manager
        fetch, finish = manager.fetch_job, manager.finish_job

        async def noted_fetch(*args: Any, **options: Any) -> Any:
            acks.record_fetch()
            return await fetch(*args, **options)

        async def noted_finish(*args: Any, **options: Any) -> None:
            await finish(*args, **options)
            acks.record_acknowledgements(1)

        manager.fetch_job, manager.finish_job = noted_fetch, noted_finish

        async def drain() -> None:
            running = asyncio.ensure_future(
                app.run_worker_async(
                    concurrency=concurrency, delete_jobs="successful", install_signal_handlers=False, wait=True
                )
            )
            await stop.wait()
            running.cancel()
            await asyncio.wait([running])
            await app.close_async()

        return drain

    run_worker(prepared)
