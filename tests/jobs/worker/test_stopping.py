"""Handlers that are told to stop, and workers that are: at the worst moment, and by those who do not listen."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from interlock.errors import MisuseError
from interlock.jobs.retry import Retry
from interlock.ports.jobs import Outcome
from interlock.settings import Settings
from interlock.testing.clock import until
from tests.jobs.worker.fakes import floor

CANCELLED = "cancelled by ann: not needed"
QUICK = Settings(stuck_work="report", store_wait=0.5, session_ttl=1.0, recheck_interval=30.0)


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_job_that_runs_too_long_is_stopped_and_tried_again() -> None:
    async with floor() as place:
        place.job(forever, timeout=0.01, retry=Retry(delay=9, jitter=0))
        job, last = place.jobs.add(), place.jobs.add(attempt=3)
        async with place.worker():
            await place.until_said(job, last)
        first, second = place.jobs.acknowledged
        assert (first.outcome, first.delay) == (Outcome.RETRY, 9)
        assert first.error == "TimeoutError: It ran for more than 0.01 s."
        assert "forever" in first.trace
        assert second.outcome is Outcome.FAILED


async def test_a_timeout_given_with_the_job_goes_before_the_definition() -> None:
    async with floor() as place:
        place.job(forever)
        job = place.jobs.add(options='{"timeout":0.01}')
        async with place.worker():
            await place.until_said(job)
        assert place.jobs.outcomes(job) == ["retry"]


@pytest.mark.parametrize("how", ["timeout", "cancel", "lost"])
@pytest.mark.parametrize("first", ["the end", "the interruption"])
async def test_an_interruption_in_the_moment_of_the_end(how: str, first: str) -> None:
    """Both happen in the same turn of the loop, and the runner is none the worse for it."""
    async with floor() as place:
        runs: dict[str, asyncio.Future[None]] = {}

        async def handler() -> str:
            runs["end"] = asyncio.get_running_loop().create_future()
            await runs["end"]
            return "done"

        async def good() -> None:
            await asyncio.sleep(0)

        place.job(handler, timeout=1000)
        place.job(good, "good")
        job = place.jobs.add()
        worker = place.worker(concurrency=1)
        async with worker:
            await until(lambda: "end" in runs)
            (runner,) = worker._pool.running
            running = runner.job
            assert running is not None

            def interrupt() -> None:
                if how == "timeout":
                    runner._time_out(running, 1000)
                elif how == "cancel":
                    place.taken(job, CANCELLED)
                else:
                    place.jobs.limit = 0
                    place.lose_session()

            if first == "the end":
                runs["end"].set_result(None)
                interrupt()
            else:
                interrupt()
                if not runs["end"].done():
                    runs["end"].set_result(None)
            await place.until_said(job)
            place.jobs.limit = 10
            place.jobs.ready.clear()
            after = place.jobs.add("good")
            place.jobs.tell()
            await place.until_ended(after)
            assert runner.task.cancelling() == 0
        assert place.jobs.outcomes(job) == [{"timeout": "retry", "cancel": "cancelled", "lost": "snoozed"}[how]]


@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_a_handler_that_swallows_its_cancellation_and_succeeds_is_done(how: str) -> None:
    async with floor() as place:
        begun = asyncio.Event()

        async def stubborn() -> str:
            begun.set()
            try:
                await forever()
            except asyncio.CancelledError:
                await asyncio.sleep(0)
            return "all the same"

        place.job(stubborn, timeout=0.01 if how == "timeout" else None)
        jobs = place.jobs.add_many(2)
        async with place.worker(concurrency=1):
            for job in jobs:
                await begun.wait()
                begun.clear()
                if how == "cancel":
                    place.taken(job, CANCELLED)
                await place.until_ended(job)
        assert place.jobs.outcomes(*jobs) == ["done", "done"]


async def test_a_stronger_reason_interrupts_what_cleans_up_after_a_weaker_one() -> None:
    async with floor() as place:
        seen: list[str] = []

        async def slow_to_stop() -> None:
            try:
                await forever()
            except asyncio.CancelledError:
                seen.append("first")
                try:
                    await forever()
                except asyncio.CancelledError:
                    seen.append("second")
                    raise

        place.job(slow_to_stop, timeout=0.01)
        job = place.jobs.add()
        async with place.worker():
            await until(lambda: seen == ["first"])
            place.jobs.limit = 0
            place.lose_session()
            await place.until_said(job)
        assert seen == ["first", "second"]
        assert place.jobs.outcomes(job) == ["snoozed"]


async def test_a_handler_that_cancels_its_own_job_is_stopped_at_its_next_step() -> None:
    async with floor() as place:
        seen: list[str] = []

        async def handler(wait: bool) -> None:
            place.taken(job if wait else 2, CANCELLED)
            seen.append("goes on")
            if wait:
                await forever()

        async def good() -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        place.job(handler)
        place.job(good, "good")
        job, at_once = place.jobs.add(arguments='{"wait": true}'), place.jobs.add(arguments='{"wait": false}')
        after = place.jobs.add("good")
        async with place.worker(concurrency=1):
            await place.until_ended(job, at_once, after)
        assert place.jobs.outcomes(job, at_once, after) == ["cancelled", "done", "done"]
        assert seen == ["goes on", "goes on"]


# -- workers -----------------------------------------------------------------------------------------------------------


async def test_finishing_returns_what_has_not_started_at_once_and_waits_for_the_rest() -> None:
    async with floor() as place:
        go = asyncio.Event()

        async def handler() -> None:
            await go.wait()

        place.job(handler)
        place.jobs.generous = True
        jobs = [*place.jobs.add_many(3, lane="lane"), place.jobs.add()]
        worker = place.worker(concurrency=2)
        async with worker:
            await until(lambda: len(worker.status().running) == 2)
            finishing = asyncio.create_task(worker.finish())
            await place.until_said(*jobs[1:3])
            assert place.jobs.outcomes(*jobs) == ["nothing", "returned", "returned", "nothing"]
            assert worker.status().state == "finishing"
            place.jobs.add()
            place.jobs.tell()
            go.set()
            await finishing
        assert place.jobs.outcomes(*jobs) == ["done", "returned", "returned", "done"]
        assert not place.jobs.fetched
        assert len(place.jobs.ready) == 3, "nothing more was fetched"
        assert worker.status().state == "closed"
        assert place.engine.workers == []


async def test_stopping_cancels_what_runs_without_counting_an_attempt() -> None:
    async with floor() as place:
        place.job(forever)
        jobs = place.jobs.add_many(3)
        worker = place.worker(concurrency=2)
        async with worker:
            await until(lambda: len(worker.status().running) == 2)
            place.jobs.limit = 0
            await worker.stop()
        assert place.jobs.outcomes(*jobs[:2]) == ["snoozed", "snoozed"]
        assert {acknowledgement.delay for acknowledgement in place.jobs.acknowledged} == {0}
        assert sorted(place.jobs.ready) == jobs
        assert place.session.at_work == 0


async def test_stopping_after_all_while_finishing() -> None:
    async with floor() as place:
        place.job(forever)
        job = place.jobs.add()
        worker = place.worker()
        async with worker:
            await until(lambda: worker.status().running)
            finishing = asyncio.create_task(worker.finish())
            await until(lambda: worker.status().state == "finishing")
            worker.start_stopping()
            await finishing
        assert place.jobs.outcomes(job) == ["snoozed"]


async def test_an_error_in_the_block_stops_the_worker() -> None:
    async with floor() as place:
        place.job(forever)
        job = place.jobs.add()
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with place.worker() as worker:
                await until(lambda: worker.status().running)
                raise ZeroDivisionError
        assert place.jobs.outcomes(job) == ["snoozed"]


async def test_closing_the_engine_closes_its_workers() -> None:
    async with floor() as place:
        place.job(forever)
        job = place.jobs.add()
        worker = place.worker()
        running = asyncio.create_task(worker.run())
        await until(lambda: worker.status().running if worker.status().state == "working" else False)
    await running
    assert place.jobs.outcomes(job) == ["snoozed"]


async def test_a_cancelled_run_stops_the_worker() -> None:
    async with floor() as place:
        place.job(forever)
        job = place.jobs.add()
        worker = place.worker()
        running = asyncio.create_task(worker.run())
        await until(lambda: worker.status().running)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert place.jobs.outcomes(job) == ["snoozed"]
        assert worker.status().state == "closed"


async def test_a_fetch_that_is_answered_after_the_end_was_asked_for_is_returned() -> None:
    async with floor() as place:
        started: list[int] = []

        async def handler() -> None:
            started.append(1)

        place.job(handler)
        answer = place.jobs.answer("fetch")
        jobs = place.jobs.add_many(3)
        worker = place.worker()
        async with worker:
            await until(lambda: len(place.jobs.fetched) == 3)
            finishing = asyncio.create_task(worker.finish())
            await until(lambda: worker.status().state == "finishing")
            assert not finishing.done()
            answer.set()
            await finishing
        assert place.jobs.outcomes(*jobs) == ["returned"] * 3
        assert not started


async def test_a_fetch_whose_answer_never_comes_is_handed_back_when_the_worker_ends() -> None:
    async with floor() as place:
        place.job(forever)
        place.jobs.lose["fetch"] = 1
        gate = place.jobs.gate("return_unstarted")
        jobs = place.jobs.add_many(3)
        worker = place.worker()
        async with worker:
            await until(lambda: place.jobs.under_way["return_unstarted"])
            assert len(place.jobs.fetched) == 3
            worker.start_finishing()
            gate.set()
        assert sorted(place.jobs.ready) == jobs
        assert not place.jobs.fetched


@pytest.mark.parametrize("way", ["async", "plain"])
async def test_a_worker_does_not_wait_for_ever_for_what_does_not_stop(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    import threading

    async with floor(settings=QUICK) as place:
        end, thread_end = asyncio.Event(), threading.Event()

        async def deaf() -> None:
            while not end.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await end.wait()

        def deaf_thread() -> None:
            thread_end.wait(20)

        place.job(deaf if way == "async" else deaf_thread)
        job = place.jobs.add()
        worker = place.worker(concurrency=2)
        async with worker:
            await until(lambda: worker.status().running)
            session = place.session
            await worker.stop()
            assert worker.status().state == "closed"
            assert place.jobs.outcomes(job) == ["nothing"]
            assert list(place.jobs.fetched) == [job], "it is not given to others while it runs"
            assert (session.at_work, worker.unstopped) == (1, 1)
            async with place.at_work(place.worker()):
                place.engine.coordinator.doubt()  # type: ignore[union-attr]
                place.jobs.tell()
                await until(lambda: len(place.jobs.called("return_unstarted")) >= 2)
                assert list(place.jobs.fetched) == [job], "not even by those who look for what was left"
                end.set()
                thread_end.set()
                await until(lambda: job in place.jobs.ready)
                place.jobs.tell()
                await place.until_ended(job)
            assert session.at_work == 0
        assert "job_did_not_stop" in caplog.text


async def test_a_worker_without_jobs_and_one_that_is_used_twice() -> None:
    async with floor() as place:
        with pytest.raises(MisuseError, match="no jobs"):
            place.worker().open()
        place.job(forever)
        worker = place.worker()
        async with worker:
            with pytest.raises(MisuseError, match="already working"):
                worker.open()
        with pytest.raises(MisuseError, match="already closed"):
            worker.open()
        for wrong in (
            {"concurrency": 0},
            {"concurrency": True},
            {"queues": "default"},
            {"queues": ()},
            {"queues": ["a b"]},
        ):
            with pytest.raises(MisuseError):
                place.worker(**wrong)


async def test_what_still_runs_after_the_time_to_finish_is_returned_without_counting() -> None:
    async with floor() as place:
        ended: list[str] = []

        async def cleans_up() -> None:
            try:
                await forever()
            finally:
                ended.append("cleaned up")

        place.job(cleans_up)
        job = place.jobs.add()
        worker = place.worker(finish_within=0.01)
        async with worker:
            await until(lambda: worker.status().running)
            place.jobs.limit = 0
        assert place.jobs.outcomes(job) == ["snoozed"]
        assert ended == ["cleaned up"]
        assert worker.unstopped == 0
        assert place.engine.store_client.keeper._leaving

        async with place.worker():
            assert not place.engine.store_client.keeper._leaving, "a process in which another worker begins goes on"
