"""When a worker fetches, how much, and what it does about fetches whose answers it never hears."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from interlock.jobs.worker import fetcher
from interlock.jobs.worker.throughput import Throughput
from interlock.jobs.worker.wakeup import Wakeup
from interlock.settings import Settings
from interlock.testing.clock import VirtualClock, until
from tests.jobs.worker.fakes import floor


async def nothing() -> None:
    pass


async def forever() -> None:
    await asyncio.Event().wait()


async def test_news_that_arrives_during_an_empty_fetch_leads_to_another() -> None:
    async with floor() as place:
        place.job(nothing)
        answer = place.jobs.answer("fetch")
        async with place.at_work():
            await until(lambda: place.jobs.called("fetch"))  # it has found nothing, and has not heard so yet
            job = place.jobs.add()
            place.jobs.tell()
            answer.set()
            await place.until_ended(job)


async def test_a_acknowledgement_that_makes_jobs_ready_leads_to_a_fetch() -> None:
    async with floor() as place:
        place.job(nothing)
        jobs = place.jobs.add_many(30, lane="lane")
        async with place.at_work():
            await place.until_ended(*jobs)
        assert [acknowledgement.id for acknowledgement in place.jobs.acknowledged] == jobs


async def test_without_news_a_worker_looks_again_when_the_store_says() -> None:
    async with floor() as place:
        place.job(nothing)
        place.jobs.recheck_in = 0.02
        async with place.at_work():
            await until(lambda: place.jobs.called("fetch"))
            job = place.jobs.add()
            await place.until_ended(job)


async def test_without_news_a_worker_looks_again_after_a_while() -> None:
    async with floor(settings=Settings(recheck_interval=0.05)) as place:
        place.job(nothing)
        async with place.at_work():
            await until(lambda: place.jobs.called("fetch"))
            job = place.jobs.add()
            await place.until_ended(job)


async def test_a_fetch_that_was_cut_short_is_repeated_at_once() -> None:
    async with floor() as place:
        place.job(nothing)
        place.jobs.recheck_in = 0.0
        async with place.at_work():
            await until(lambda: len(place.jobs.called("fetch")) >= 5)
            place.jobs.recheck_in = float("inf")


async def test_an_idle_worker_does_not_ask_without_end() -> None:
    async with floor() as place:
        place.job(nothing)
        async with place.at_work():
            jobs = place.jobs.add_many(3)
            place.jobs.tell()
            await place.until_ended(*jobs)
            await until(lambda: not place.jobs.under_way["fetch"])
            fetches = len(place.jobs.called("fetch"))
            for _ in range(200):
                await asyncio.sleep(0)
            assert len(place.jobs.called("fetch")) <= fetches + 1


async def test_a_fetch_whose_answer_was_lost_is_handed_back_before_the_next() -> None:
    async with floor() as place:
        place.job(forever)
        first = place.jobs.add()
        worker = place.worker(concurrency=3)
        async with place.at_work(worker):
            await until(lambda: worker.status().running)
            place.jobs.lose["fetch"] = 1
            lost = place.jobs.add()
            place.jobs.tell()
            await until(lambda: len(worker.status().running) == 2)
            (handed_back,) = place.jobs.called("return_unstarted")
            assert handed_back == ("return_unstarted", place.session.id, [first], [lost])
            names = [call[0] for call in place.jobs.calls]
            assert names[names.index("return_unstarted") - 1 :][:3] == ["fetch", "return_unstarted", "fetch"]
            assert {job.id for job in worker.status().running} == {first, lost}


async def test_a_fetch_that_was_given_up_takes_no_effect_later() -> None:
    async with floor(settings=Settings(store_wait=0.1, recheck_interval=30.0)) as place:
        place.job(forever)
        place.jobs.add()
        worker = place.worker(concurrency=3)
        async with place.at_work(worker):
            await until(lambda: worker.status().running)
            place.jobs.lose["fetch"] = 1
            place.jobs.tell()
            await until(lambda: len(place.jobs.called("return_unstarted")) == 1)
            # What was cut off on its way arrives only now.
            late = place.jobs.add()
            (lost,) = (request for request in place.jobs.appetites if request.fetch_number == place.jobs.barred)
            place.jobs._give(lost)
            assert late not in place.jobs.fetched, "its fetch_number is over"
            place.jobs.tell()
            await until(lambda: late in place.jobs.fetched)
            fetch_numbers = [request.fetch_number for request in place.jobs.appetites]
            assert fetch_numbers == sorted(set(fetch_numbers))


async def test_what_is_known_is_everything_that_runs_waits_or_is_yet_to_be_acknowledged() -> None:
    async with floor() as place:

        async def handler(wait: bool) -> None:
            if wait:
                await forever()

        place.job(handler)
        place.jobs.generous = True
        place.jobs.limit = 6
        done = place.jobs.add(arguments='{"wait": false}')
        running = place.jobs.add(arguments='{"wait": true}')
        run = place.jobs.add_many(3, lane="lane", arguments='{"wait": true}')
        waiting = place.jobs.add(arguments='{"wait": true}')
        gate = place.jobs.gate("acknowledge")
        worker = place.worker(concurrency=2)
        async with place.at_work(worker):
            await until(lambda: len(worker.status().running) == 2)
            assert sorted(worker._pool.known_ids(place.session)) == [done, running, *run, waiting]
            assert sorted(worker._pool.running_ids(place.session)) == [running, run[0]]
            gate.set()


async def test_whatever_a_fetch_fails_of_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async with floor() as place:
        place.job(nothing)
        place.jobs.mishaps["fetch"] = [ValueError("a bug")]
        place.jobs.mishaps["register_worker"] = [ValueError("another")]
        job = place.jobs.add()
        async with place.at_work():
            await place.until_ended(job)
    assert "a bug" in caplog.text
    assert "another" in caplog.text


async def test_jobs_that_are_defined_later_are_fetched_too() -> None:
    async with floor() as place:
        place.job(nothing)
        async with place.at_work():
            await until(lambda: place.jobs.called("fetch"))
            place.job(nothing, "new")
            job = place.jobs.add("new")
            place.jobs.tell()
            await place.until_ended(job)
            assert place.jobs.called("register_worker")[-1][3] == ("work", "new")


async def test_a_time_to_look_again_does_not_keep_a_busy_worker_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = [0]
    wait = Wakeup.wait

    async def counted(wakeup: Wakeup, seconds: float = float("inf")) -> None:
        rounds[0] += 1
        await wait(wakeup, seconds)

    monkeypatch.setattr(Wakeup, "wait", counted)
    async with floor() as place:
        place.job(forever)
        place.jobs.recheck_in = 0.001
        place.jobs.add_many(2)
        worker = place.worker(concurrency=2)
        async with place.at_work(worker):
            await until(lambda: len(worker.status().running) == 2)
            await until(lambda: worker._fetcher._poll_at == float("inf"))
            before = rounds[0]
            for _ in range(1000):
                await asyncio.sleep(0)
            assert rounds[0] <= before + 2


async def test_what_was_left_because_it_could_not_start_is_fetched_when_it_can() -> None:
    """Paced jobs and scarce slots are given only to free runners; that one is free is no news to the store."""
    async with floor() as place:
        ends: list[asyncio.Event] = []

        async def handler() -> None:
            ends.append(asyncio.Event())
            await ends[-1].wait()

        place.job(handler)
        place.jobs.silent = True
        place.jobs.only_at_once = True
        jobs = place.jobs.add_many(6)
        worker = place.worker(concurrency=2)
        async with place.at_work(worker):
            worker._pool.throughput.finished, worker._pool.throughput.spent = (
                1000,
                0.01,
            )  # so that some would be had in advance
            for begun in (2, 3, 4, 5, 6):
                await until(lambda begun=begun: len(ends) == begun)  # type: ignore[misc]
                ends[begun - 2].set()
            ends[-1].set()
            await place.until_ended(*jobs)


async def test_of_those_that_a_worker_died_of_the_next_is_fetched_at_once() -> None:
    async with floor() as place:
        place.job(nothing)
        place.jobs.silent = True
        place.jobs.limit = 1
        jobs = place.jobs.add_many(5, half=2)
        async with place.at_work():
            await place.until_ended(*jobs)


# -- how much ----------------------------------------------------------------------------------------------------------


async def test_long_jobs_are_fetched_only_when_they_can_start() -> None:
    clock = VirtualClock()
    async with floor(clock, Settings(session_ttl=1000.0, recheck_interval=30.0)) as place:
        ends: list[asyncio.Event] = []

        async def handler() -> None:
            ends.append(asyncio.Event())
            await ends[-1].wait()

        place.job(handler)
        place.jobs.add_many(100)
        worker = place.worker(concurrency=4)
        async with place.at_work(worker):
            await until(lambda: len(ends) == 4)
            for taken in range(5, 10):
                clock.advance(0.6)
                ends[taken - 5].set()
                await until(lambda taken=taken: len(ends) == taken)  # type: ignore[misc]
                assert worker.status().buffered == 0
                assert len(place.jobs.fetched) <= 5
            place.jobs.limit = 0
        assert {(request.limit, request.at_once) for request in place.jobs.appetites[1:6]} == {(1, 1)}


async def test_short_jobs_are_fetched_in_advance_and_in_runs() -> None:
    async with floor(VirtualClock()) as place:  # by which jobs take no time, however busy the machine is
        place.job(nothing)
        jobs = place.jobs.add_many(5000)
        async with place.at_work(place.worker(concurrency=50)):
            await place.until_ended(*jobs)
        first, *others = place.jobs.appetites
        assert (first.limit, first.at_once, first.run) == (50, 50, 1), "nothing is known of them yet"
        assert max(request.limit for request in others) == 2000
        assert max(request.run for request in others) == 500
        assert all(request.at_once <= 50 for request in others)
        assert len(place.jobs.called("fetch")) < 30


async def test_fewer_are_fetched_in_advance_where_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "_MAX_BYTES", 20_000)
    async with floor() as place:

        async def handler(text: str) -> None:
            pass

        place.job(handler)
        jobs = place.jobs.add_many(300, arguments=json.dumps({"text": "x" * 1000}))
        async with place.at_work(place.worker(concurrency=2)):
            await place.until_ended(*jobs)
        assert max(request.limit for request in place.jobs.appetites[3:]) < 45


def learnt(concurrency: int, jobs: int, each: float, at_once: float) -> Throughput:
    throughput = Throughput(concurrency)
    now = 0.0
    throughput.sample(now)
    for _ in range(20):
        throughput.finished += jobs
        throughput.spent += jobs * each
        now += jobs * each / at_once
        throughput.sample(now)
    return throughput


@pytest.mark.parametrize(
    ("each", "at_once", "ahead", "run"),
    [
        (0.00001, 1, 4000, 500),  # nothing to do
        (0.005, 1, 200, 200),  # computing: one after the other, however many may run at once
        (0.05, 50, 1000, 20),  # waiting for others
        (0.25, 50, 200, 4),
        (0.25, 3, 12, 4),
        (0.5, 50, 0, 1),  # long
        (60.0, 50, 0, 1),
    ],
)
def test_about_a_second_of_work_is_had_in_advance(each: float, at_once: float, ahead: int, run: int) -> None:
    throughput = learnt(50, 100, each, at_once)
    assert throughput.prefetch == pytest.approx(ahead, abs=1)
    assert throughput.run_length(0.0) == pytest.approx(run, abs=1)
    assert throughput.run_length(1.0) == 1, "each waits for the store to know of the one before"


def test_a_change_of_pace_is_learnt_quickly() -> None:
    throughput = learnt(50, 100, 0.00001, 1)
    assert throughput.prefetch == 4000
    for second in range(1, 4):
        throughput.finished += 50
        throughput.spent += 50.0
        throughput.sample(second + 1.0)
    assert throughput.prefetch == 0


def test_nothing_is_learnt_from_doing_nothing() -> None:
    throughput = learnt(50, 100, 0.01, 50)
    before: Any = (throughput.prefetch, throughput.run_length(0.0))
    throughput.sample(1000.0)
    throughput.sample(2000.0)
    assert (throughput.prefetch, throughput.run_length(0.0)) == before
