"""Workers append what their jobs log in batches, without holding up or failing any of them."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from typing import Any, cast

import pytest

from interlock import App, Settings
from interlock.errors import StoreUnavailableError
from interlock.jobs import current_job
from interlock.jobs.current import CURRENT
from interlock.testing.clock import until
from tests.jobs.worker.fakes import SETTINGS, Floor, floor, simulate


def appended(place: Floor) -> list[Any]:
    """The IDs in each call."""
    return [call[1] for call in place.jobs.called("append_logs")]


def test_jobs_that_log_nothing_cause_no_call() -> None:
    async def short() -> None:
        await asyncio.sleep(0.7)

    async def scenario(place: Floor) -> None:
        place.job(short)
        jobs = place.jobs.add_many(200)
        async with place.at_work():
            await place.until_ended(*jobs)
        assert appended(place) == []
        assert place.engine.logs.open == {}

    simulate(scenario)


def test_lines_are_appended_about_once_a_second_for_all_jobs_together() -> None:
    async def chatty() -> None:
        for number in range(100):
            current_job().log("line %d", number)
            current_job().progress(number / 100)
            await asyncio.sleep(0.1)

    async def scenario(place: Floor) -> None:
        times: list[float] = []
        append = place.jobs.append_logs

        async def timed(*args: Any) -> Any:
            times.append(asyncio.get_running_loop().time())
            return await append(*args)

        place.jobs.append_logs = timed  # type: ignore[method-assign]
        place.job(chatty)
        jobs = place.jobs.add_many(3)
        async with place.at_work():
            await asyncio.sleep(2)
            assert place.jobs.log_of(jobs[0])[0] == "line 0", "it is there while the job runs"
            await place.until_ended(*jobs)
        for job in jobs:
            assert place.jobs.log_of(job) == [f"line {number}" for number in range(100)]
        assert 8 <= len(times) <= 13
        assert all(later - earlier >= 0.99 for earlier, later in itertools.pairwise(times[:-3]))
        assert max(map(len, appended(place))) == 3
        assert place.engine.logs.open == {}

    simulate(scenario)


def test_the_last_lines_are_there_before_the_acknowledgement() -> None:
    async def short() -> None:
        current_job().log.warning("careful")
        current_job().progress(1.0, "all of it")

    async def scenario(place: Floor) -> None:
        place.job(short)
        job = place.jobs.add()
        async with place.at_work():
            await place.until_ended(job)
        calls = [call[0] for call in place.jobs.calls if call[0] in ("append_logs", "acknowledge")]
        assert calls == ["append_logs", "acknowledge"]
        ((report,),) = place.jobs.reports.values()
        assert report.progress is not None
        assert report.progress[:2] == (1.0, "all of it")
        assert report.chunks[0].lines[0][1:] == (logging.WARNING, "careful")

    simulate(scenario)


@pytest.mark.parametrize("error", [StoreUnavailableError("away"), RuntimeError("broken")])
def test_a_log_that_cannot_be_appended_holds_no_acknowledgement_up(error: Exception) -> None:
    async def short() -> None:
        current_job().log("line")

    async def scenario(place: Floor) -> None:
        place.job(short)
        place.jobs.mishaps["append_logs"] = [error]
        first = place.jobs.add()
        async with place.at_work():
            await place.until_ended(first)
            second = place.jobs.add()
            place.jobs.tell()
            await place.until_ended(second)
            assert place.jobs.log_of(second) == [], "for a while it is not tried again"
            await asyncio.sleep(6)
            third = place.jobs.add()
            place.jobs.tell()
            await place.until_ended(third)
        assert place.jobs.log_of(third) == ["line"]
        assert place.engine.metrics.log_lines_dropped == 2
        assert place.engine.metrics.log_lines == 1

    simulate(scenario)


def test_after_an_outage_the_log_is_complete() -> None:
    async def short() -> None:
        current_job().log("line")

    async def scenario(place: Floor) -> None:
        place.job(short)
        job = place.jobs.add()
        gate = place.jobs.gate("append_logs")
        async with place.at_work():
            await asyncio.sleep(0.1)
            place.jobs.away = True
            gate.set()
            await asyncio.sleep(5)
            assert job not in place.jobs.ended
            place.jobs.away = False
            await place.until_ended(job)
        assert place.jobs.log_of(job) == ["line"]

    simulate(scenario)


def test_an_answer_that_was_lost_repeats_no_line() -> None:
    async def slow() -> None:
        current_job().log("one")
        await asyncio.sleep(2)
        current_job().log("two")
        await asyncio.sleep(2)

    async def scenario(place: Floor) -> None:
        place.job(slow)
        place.jobs.lose["append_logs"] = 1
        job = place.jobs.add()
        async with place.at_work():
            await place.until_ended(job)
        assert place.jobs.log_of(job) == ["one", "two"]

    simulate(scenario)


def test_a_fetch_that_was_taken_away_writes_no_more() -> None:
    async def stubborn() -> None:
        for number in range(100):
            current_job().log("line %d", number)
            await asyncio.sleep(0.1)

    async def scenario(place: Floor) -> None:
        place.job(stubborn)
        job = place.jobs.add()
        async with place.at_work():
            await until(lambda: bool(place.jobs.log_of(job)))
            count = len(place.jobs.log_of(job))
            del place.jobs.fetched[job]
            await asyncio.sleep(5)
            assert len(place.jobs.log_of(job)) == count
            assert place.engine.metrics.log_lines_dropped > 0

    simulate(scenario)


async def test_plain_functions_threads_and_tasks_write_into_the_log_of_their_job() -> None:
    def plain() -> None:
        current_job().log("from %s", "a thread")
        job = current_job()
        other = threading.Thread(target=lambda: job.log("from a thread of its own"))
        other.start()
        other.join()

    async def handler() -> None:
        async def task() -> None:
            current_job().log("from a task")

        await asyncio.create_task(task())
        await asyncio.to_thread(lambda: current_job().log("from to_thread", level="error"))

    async with floor() as place:
        place.job(plain, "plain")
        place.job(handler)
        first, second = place.jobs.add("plain"), place.jobs.add()
        async with place.worker():
            await place.until_ended(first, second)
        assert place.jobs.log_of(first) == ["from a thread", "from a thread of its own"]
        assert place.jobs.log_of(second) == ["from a task", "from to_thread"]
        assert place.jobs.outcomes(first, second) == ["done", "done"]


async def test_a_failing_job_keeps_its_lines_and_no_call_fails_it() -> None:
    class Bad:
        def __str__(self) -> str:
            raise RuntimeError

    async def handler() -> None:
        job = current_job()
        job.progress(Bad(), Bad())  # type: ignore[arg-type]
        job.progress(7)
        job.log(Bad())
        job.log("%d", "x", level="no such level")
        job.log.debug("not enabled")
        job.log.exception("no exception")
        job.log("\ud800\x00\x1b[31m<b>")
        raise ValueError("after all")

    async with floor() as place:
        place.job(handler)
        job = place.jobs.add()
        async with place.worker():
            await place.until_said(job)
        lines = place.jobs.log_of(job)
        assert len(lines) == 6
        assert lines[-1] == "\\ud800\\x00<b>"
        assert "ValueError: after all" in place.jobs.acknowledged[0].error


async def test_records_are_captured_only_where_that_is_asked_for() -> None:
    other = logging.getLogger("my.library")
    other.setLevel(logging.DEBUG)

    async def handler() -> None:
        other.debug("debug")
        other.info("token %s", "s3cr3t")
        await asyncio.to_thread(other.error, "in a thread", exc_info=ValueError("oh"))
        current_job().log.error("its own")

    async with floor() as place:
        place.job(handler)
        place.job(handler, "captured", capture_logs="INFO")
        place.job(handler, "errors", capture_logs=logging.ERROR)
        jobs = [place.jobs.add(), place.jobs.add("captured"), place.jobs.add("errors")]
        before = list(logging.getLogger().handlers)
        async with place.worker(), place.worker():
            await place.until_ended(*jobs)
            other.error("outside of any job")
        assert logging.getLogger().handlers == before, "nothing is left behind"
        assert place.jobs.log_of(jobs[0]) == ["its own"]
        told = place.jobs.log_of(jobs[1])
        assert told[:2] == ["my.library: token s3cr3t", "my.library: in a thread"]
        assert told[-2:] == ["ValueError: oh", "its own"]
        assert place.jobs.log_of(jobs[2]) == told[1:]
    assert CURRENT.get() is None


async def test_the_setting_captures_for_all_jobs_that_say_nothing_else() -> None:
    async def handler() -> None:
        logging.getLogger("my.library").warning("careful")

    settings = Settings(**{name: getattr(SETTINGS, name) for name in ("session_ttl",)}, capture_logs="warning")
    async with floor(settings=settings) as place:
        place.job(handler)
        place.job(handler, "quiet", capture_logs="CRITICAL")
        first, second = place.jobs.add(), place.jobs.add("quiet")
        async with place.worker():
            await place.until_ended(first, second)
        assert place.jobs.log_of(first) == ["my.library: careful"]
        assert place.jobs.log_of(second) == []


async def test_jobs_that_log_nothing_cause_no_statement_about_logs() -> None:
    statements: list[str] = []
    async with App("memory://") as app:

        @app.job()
        async def work(logs: bool) -> None:
            if logs:
                current_job().log("line")

        await work.enqueue(logs=False)
        database = cast("Any", app.jobs)._running.jobs._run.__self__
        database._connection.set_trace_callback(statements.append)
        await app.jobs.enqueue_many([work.call(logs=False) for _ in range(100)])
        await app.jobs.drain()
        assert len(statements) > 10
        assert [statement for statement in statements if "interlock_job_log" in statement] == []

        statements.clear()
        await app.jobs.enqueue_many([work.call(logs=True) for _ in range(100)])
        await app.jobs.drain()
        appending = [statement for statement in statements if "interlock_job_log" in statement]
        assert len(appending) <= 2 * 100 + 10, "a chunk and a status for each job"
