"""Workers that share a queue: a notification reaches all of them, but its job is there for one."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from tests.jobs.worker.fakes import simulate

if TYPE_CHECKING:
    from tests.jobs.worker.fakes import Floor

WORKERS = 8
JOBS = 500
EVERY = 0.002


async def nothing() -> None:
    pass


async def _open_workers(place: Floor, workers: AsyncExitStack, count: int) -> None:
    for _ in range(count):
        await workers.enter_async_context(place.at_work())
    await asyncio.sleep(1)
    place.jobs.calls.clear()


def test_workers_that_come_too_late_again_and_again_fetch_less_often() -> None:
    async def scenario(place: Floor) -> None:
        place.job(nothing)
        async with AsyncExitStack() as workers:
            await _open_workers(place, workers, WORKERS)
            for _ in range(JOBS):
                place.jobs.add()
                place.jobs.tell()
                await asyncio.sleep(EVERY)
            await place.until_ended(*range(1, JOBS + 1))
        fetches = len(place.jobs.called("fetch"))
        assert fetches < 2 * JOBS, f"{fetches} fetches for {JOBS} jobs"

    simulate(scenario)


def test_a_worker_that_is_never_late_fetches_at_once() -> None:
    async def scenario(place: Floor) -> None:
        loop = asyncio.get_running_loop()
        place.job(nothing)
        async with AsyncExitStack() as workers:
            await _open_workers(place, workers, 1)
            for _ in range(20):
                told_at = loop.time()
                job = place.jobs.add()
                place.jobs.tell()
                await place.until_ended(job)
                assert loop.time() == told_at
                await asyncio.sleep(60)  # with fetches that find nothing: they are no reason to be slow

    simulate(scenario)


def test_while_one_worker_is_full_the_others_take_over_within_moments() -> None:
    busy = 0

    async def forever() -> None:
        nonlocal busy
        busy += 1
        await asyncio.Event().wait()

    async def scenario(place: Floor) -> None:
        loop = asyncio.get_running_loop()
        place.job(forever)
        async with AsyncExitStack() as workers:
            await _open_workers(place, workers, WORKERS)
            for count in range(1, 5 * WORKERS + 1):
                told_at = loop.time()
                place.jobs.add()
                place.jobs.tell()
                while busy < count:
                    await asyncio.sleep(0.001)
                assert loop.time() - told_at <= 0.031
                await asyncio.sleep(EVERY)

    simulate(scenario)
