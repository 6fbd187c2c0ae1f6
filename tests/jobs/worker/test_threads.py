"""Handlers that are plain functions: in threads, never more than may run at once, and nothing can stop them."""

from __future__ import annotations

import asyncio
import threading

import pytest

from interlock.ports.jobs import Outcome
from interlock.testing.clock import until
from tests.jobs.worker.fakes import floor


def job_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("interlock-job-")]


async def test_there_are_never_more_threads_than_runners_and_none_are_left() -> None:
    before = set(job_threads())  # of other tests, about to end
    async with floor() as place:
        at_once: list[int] = []
        lock, running = threading.Lock(), [0]
        four = threading.Barrier(4, timeout=10)

        def handler(number: int) -> int:
            with lock:
                running[0] += 1
                at_once.append(running[0])
            four.wait()
            with lock:
                running[0] -= 1
            return number

        place.job(handler)
        jobs = [place.jobs.add(arguments=f'{{"number": {n}}}') for n in range(40)]
        async with place.worker(concurrency=4):
            await place.until_ended(*jobs)
            assert len(set(job_threads()) - before) == 4
        assert max(at_once) == 4
        assert [place.jobs.ended[job].result for job in jobs] == [str(n) for n in range(40)]
    await until(lambda: not set(job_threads()) - before)


async def test_the_loop_goes_on_while_a_thread_works() -> None:
    async with floor() as place:
        end = threading.Event()

        def handler() -> None:
            end.wait(20)

        async def other() -> None:
            await asyncio.sleep(0)

        place.job(handler)
        place.job(other, "other")
        slow = place.jobs.add()
        others = place.jobs.add_many(20, "other")
        async with place.worker(concurrency=2):
            await place.until_ended(*others)
            assert place.jobs.outcomes(slow) == ["nothing"]
            end.set()


@pytest.mark.parametrize("ends_well", [True, False])
@pytest.mark.parametrize("how", ["timeout", "cancel", "stop"])
async def test_a_thread_is_waited_for_whatever_it_is_told(
    how: str, ends_well: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """While it runs its job is nobody else's; when it has ended, its end counts."""
    async with floor() as place:
        end = threading.Event()

        def handler() -> None:
            end.wait(20)
            if not ends_well:
                raise ValueError("no luck")

        place.job(handler, timeout=0.01 if how == "timeout" else None)
        job = place.jobs.add()
        worker = place.worker()
        async with worker:
            await until(lambda: worker.status().running)
            if how == "cancel":
                place.taken(job, "cancelled by ann: not needed")
            elif how == "stop":
                worker.start_stopping()
            await until(lambda: "job_cannot_be_stopped" in caplog.text)
            assert place.jobs.outcomes(job) == ["nothing"]
            assert list(place.jobs.fetched) == [job]
            assert place.session.at_work == 1
            place.jobs.limit = 0
            end.set()
            await place.until_said(job)
        bad = {"timeout": "retry", "cancel": "cancelled", "stop": "snoozed"}[how]
        assert place.jobs.outcomes(job) == ["done" if ends_well else bad]
        assert place.session.at_work == 0


async def test_a_runner_whose_thread_was_waited_for_runs_other_jobs_again() -> None:
    async with floor() as place:

        def plain() -> str:
            return "plain"

        async def other() -> str:
            await asyncio.sleep(0)
            return "other"

        place.job(plain)
        place.job(other, "other")
        jobs = [place.jobs.add(name) for _ in range(10) for name in ("work", "other")]
        async with place.worker(concurrency=1):
            await place.until_ended(*jobs)
        assert {ended.outcome for ended in place.jobs.ended.values()} == {Outcome.DONE}
