"""Workers report which jobs have started: rarely, only what is new, and never on the path of a fetch."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from interlock.errors import StoreUnavailableError
from interlock.testing.simulator import SeededLoop, VirtualClock
from tests.jobs.worker.fakes import Floor, floor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def simulate(scenario: Callable[[Floor], Awaitable[None]]) -> None:
    """Run a scenario on a seeded loop, where the clock moves only when nothing is ready."""
    loop = SeededLoop(1)

    async def main() -> None:
        async with floor(VirtualClock(loop)) as place:
            await scenario(place)

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def reports(place: Floor) -> list[Any]:
    """The IDs in each report."""
    return [call[2] for call in place.jobs.called("report_started")]


async def long() -> None:
    await asyncio.sleep(3600)


def test_a_prefetched_job_is_reported_only_once_it_has_started() -> None:
    async def scenario(place: Floor) -> None:
        go = asyncio.Event()
        place.job(go.wait)
        place.jobs.generous = True
        jobs = place.jobs.add_many(3)
        async with place.at_work(place.worker(concurrency=2)) as worker:
            await asyncio.sleep(0.7)
            assert worker.status().buffered == 1
            assert reports(place) == [jobs[:2]]
            go.set()
            await place.until_ended(*jobs[:2])
            go.clear()
            await asyncio.sleep(2)
        assert reports(place) == [jobs[:2]], "the third one ended at once"

    simulate(scenario)


def test_reports_are_at_least_a_second_apart_and_name_each_start_once() -> None:
    async def scenario(place: Floor) -> None:
        times: list[float] = []
        report = place.jobs.report_started

        async def timed(session: str, started: Any) -> None:
            times.append(asyncio.get_running_loop().time())
            await report(session, started)

        place.jobs.report_started = timed  # type: ignore[method-assign]
        place.job(long)
        async with place.at_work(place.worker(concurrency=50)):
            for _ in range(50):
                place.jobs.add()
                place.jobs.tell()
                await asyncio.sleep(0.1)
            await asyncio.sleep(2)
            count = len(times)
            await asyncio.sleep(60)
            assert len(times) == count, "nothing has changed"
        assert all(later - earlier >= 1.0 for earlier, later in itertools.pairwise(times))
        assert [job for report in reports(place) for job in report] == list(range(1, 51))
        assert max(map(len, reports(place))) <= 15

    simulate(scenario)


def test_short_jobs_cause_no_report() -> None:
    async def short() -> None:
        await asyncio.sleep(0.05)

    async def scenario(place: Floor) -> None:
        place.job(short)
        jobs = place.jobs.add_many(500)
        async with place.at_work():
            await place.until_ended(*jobs)
        assert reports(place) == []

    simulate(scenario)


def test_the_started_jobs_of_all_workers_of_a_process_are_reported_together() -> None:
    async def scenario(place: Floor) -> None:
        place.job(long)
        place.jobs.add_many(4)
        async with place.at_work(place.worker(concurrency=2)), place.at_work(place.worker(concurrency=2)):
            await asyncio.sleep(2)
            assert reports(place) == [[1, 2, 3, 4]]

    simulate(scenario)


@pytest.mark.parametrize("error", [StoreUnavailableError(), ValueError("another")])
def test_a_report_that_failed_is_sent_again(error: Exception) -> None:
    async def scenario(place: Floor) -> None:
        place.job(long)
        job = place.jobs.add()
        place.jobs.mishaps["report_started"] = [error]
        async with place.at_work():
            await asyncio.sleep(0.9)
            assert reports(place) == []
            await asyncio.sleep(1.2)
            assert reports(place) == [[job]]

    simulate(scenario)


def test_fetches_and_acknowledgements_go_on_while_a_report_is_under_way() -> None:
    async def scenario(place: Floor) -> None:
        go = asyncio.Event()
        place.job(long)
        place.job(go.wait, "other")
        gate = place.jobs.gate("report_started")
        place.jobs.add()
        async with place.at_work():
            await asyncio.sleep(5)
            assert place.jobs.under_way["report_started"] == 1
            job = place.jobs.add("other")
            place.jobs.tell()
            await asyncio.sleep(5)
            go.set()
            await place.until_ended(job)
            assert place.jobs.under_way["report_started"] == 1, "and there is never a second one"
            gate.set()
            await asyncio.sleep(1)
            assert reports(place) == [[1]]

    simulate(scenario)


def test_a_worker_that_closes_waits_for_no_report() -> None:
    async def scenario(place: Floor) -> None:
        place.job(long)
        place.jobs.gate("report_started")
        place.jobs.add()
        async with place.at_work():
            await asyncio.sleep(2)
            assert place.jobs.under_way["report_started"] == 1

    simulate(scenario)


def test_jobs_of_a_lost_session_are_not_reported() -> None:
    async def scenario(place: Floor) -> None:
        place.job(long)
        place.jobs.add()
        async with place.at_work() as worker:
            await asyncio.sleep(0)
            place.lose_session()
            await asyncio.sleep(3)
            assert all(call[1] != "" for call in place.jobs.called("report_started"))
            assert {call[1] for call in place.jobs.called("report_started")} <= {worker.status().session}

    simulate(scenario)
