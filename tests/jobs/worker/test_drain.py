"""``app.drain()``: everything that can run now, for tests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.errors import JobTimeoutError, MisuseError
from interlock.jobs.worker import drain
from interlock.ports.jobs import Outcome
from interlock.testing.clock import until
from tests.jobs.worker.fakes import Floor, floor, simulate


async def forever() -> None:
    await asyncio.Event().wait()


async def test_draining_runs_whatever_is_ready_and_what_becomes_ready_by_that() -> None:
    async with floor() as place:

        async def parent(depth: int) -> None:
            await asyncio.sleep(0)
            if depth:
                place.jobs.add(arguments=f'{{"depth": {depth - 1}}}')

        async def bad() -> None:
            raise TypeError

        place.job(parent)
        place.job(bad, "bad")
        place.jobs.add(arguments='{"depth": 5}')
        place.jobs.add("bad")
        counts: dict[Any, int] = await drain(place.engine, queues=["default"], wait=10)
        assert counts == {Outcome.DONE: 6, Outcome.FAILED: 1}
        assert not place.jobs.ready
        assert await drain(place.engine, queues=["default"], wait=10) == {}


async def test_draining_does_not_end_before_the_last_fetch_after_the_last_acknowledgement() -> None:
    async with floor() as place:

        async def handler() -> None:
            pass

        place.job(handler)
        first = place.jobs.add()
        gate = place.jobs.gate("acknowledge")
        draining = asyncio.create_task(drain(place.engine, queues=["default"], wait=10))
        await until(lambda: place.jobs.under_way["acknowledge"])
        place.jobs.tell()
        await until(lambda: len(place.jobs.called("fetch")) >= 2)
        second = place.jobs.add()  # as a lane's next job becomes ready by acknowledging the one before it
        assert not draining.done()
        gate.set()
        assert await draining == {Outcome.DONE: 2}
        assert set(place.jobs.ended) == {first, second}


def test_draining_takes_no_longer_than_told() -> None:
    async def scenario(place: Floor) -> None:
        place.job(forever)
        job = place.jobs.add()
        with pytest.raises(JobTimeoutError, match=r"0\.05 s"):
            await drain(place.engine, queues=["default"], wait=0.05)
        assert place.jobs.outcomes(job) == ["snoozed"]

    simulate(scenario)


async def test_draining_ends_with_an_error_when_the_jobs_are_closed_under_it() -> None:
    async with floor() as place:
        place.job(forever)
        place.jobs.add()
        draining = asyncio.create_task(drain(place.engine, queues=["default"], wait=None))
        await until(lambda: place.session.at_work)
    with pytest.raises(MisuseError, match="closed"):
        await draining
