"""Runs of one lane's jobs: in order, and what has not started goes back when the lane has to wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.jobs.signals import Discard, Snooze
from interlock.jobs.worker import watchdog
from interlock.ports.jobs import Outcome
from interlock.testing.clock import until
from tests.jobs.worker.fakes import floor

HELD = "held by ann: looking into it"
CANCELLED = "cancelled by ann: not needed"


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is long is short."""
    monkeypatch.setattr(watchdog, "_INTERVAL", 0.02)
    monkeypatch.setattr(watchdog, "_LONG", 0.05)


class Handler:
    """Notes what starts; the jobs named in ``waits`` wait for ``go``; ``does`` says what others do."""

    def __init__(self, *waits: int) -> None:
        self.started: list[int] = []
        self.stopped: list[int] = []
        self.waits = set(waits)
        self.go = asyncio.Event()
        self.does: dict[int, Any] = {}

    async def __call__(self, number: int) -> None:
        self.started.append(number)
        try:
            if number in self.waits:
                await self.go.wait()
        except asyncio.CancelledError:
            self.stopped.append(number)
            raise
        if number in self.does:
            raise self.does[number]

    @property
    def function(self) -> Any:
        async def handler(number: int) -> None:
            await self(number)

        return handler


def add_numbered(place: Any, count: int, lane: str = "lane") -> list[int]:
    return [place.jobs.add(lane=lane, arguments=f'{{"number": {n}}}') for n in range(count)]


async def test_a_run_goes_one_after_the_other() -> None:
    handler = Handler()
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        jobs = add_numbered(place, 50)
        async with place.worker(concurrency=5):
            await place.until_ended(*jobs)
        assert handler.started == list(range(50))
        assert [acknowledgement.id for acknowledgement in place.jobs.acknowledged] == jobs


async def test_the_next_of_a_run_starts_when_the_store_knows_the_end_of_the_one_before() -> None:
    """Else both could start again after a crash, and the one before after the next."""
    handler = Handler()
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        jobs = add_numbered(place, 3)
        gate = place.jobs.gate("acknowledge")
        worker = place.worker(concurrency=5)
        async with worker:
            await until(lambda: place.jobs.under_way["acknowledge"])
            other = place.jobs.add(arguments='{"number": 100}')
            place.jobs.tell()
            await until(lambda: handler.started == [0, 100], what="others do not wait")
            assert worker.status().buffered == 2
            assert set(jobs) <= set(worker._pool.known_ids(place.session))
            gate.set()
            await place.until_ended(*jobs, other)
        assert handler.started == [0, 100, 1, 2]


async def test_what_stands_behind_an_end_that_was_refused_does_not_start() -> None:
    handler = Handler()
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        jobs = add_numbered(place, 3)
        gate = place.jobs.gate("acknowledge")
        worker = place.worker(concurrency=5)
        async with worker:
            await until(lambda: place.jobs.under_way["acknowledge"])
            for job in jobs:  # all were rescued, and given to somebody else
                place.jobs.fetched[job] = ("another", place.jobs.fetched[job][1]._replace(fence=99))
            gate.set()
            await until(lambda: len(place.jobs.refused) == 3)
        assert handler.started == [0]
        assert place.engine.metrics.late == 1, "what never started is not late"


async def test_an_answer_about_an_earlier_fetch_does_not_let_the_next_start() -> None:
    handler = Handler(0)
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        blocking = place.jobs.add(arguments='{"number": 0}')
        jobs = [place.jobs.add(lane="lane", arguments=f'{{"number": {n}}}') for n in (0, 1)]
        first = place.worker(concurrency=1)
        async with place.at_work(first):
            await until(lambda: handler.started == [0])
            answer = place.jobs.answer("acknowledge")
            for job in jobs:  # they wait behind the other one, and go back
                place.taken(job, HELD)
            await until(lambda: sorted(place.jobs.ready) == jobs)
            # Before the answer arrives they are fetched again, here too, and the first one of them runs.
            first._pool.put(place.jobs._give(place.jobs.appetites[-1]), 0)
            first._pool._wanted += 2
            first._pool.fill()
            await until(lambda: handler.started == [0, 0])
            answer.set()
            await until(lambda: not first.status().unacknowledged)
            assert handler.started == [0, 0]
            assert first.status().buffered == 1
            handler.go.set()
            await place.until_ended(blocking, *jobs)
        assert handler.started == [0, 0, 1]


@pytest.mark.parametrize("how", ["finish", "stop", "hold", "missed", "lost"])
async def test_what_waits_for_the_store_to_know_goes_back_like_all_that_has_not_started(how: str) -> None:
    handler = Handler()
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        jobs = add_numbered(place, 3)
        gate = place.jobs.gate("acknowledge")
        worker = place.worker(concurrency=5)
        async with worker:
            await until(lambda: place.jobs.under_way["acknowledge"])
            place.jobs.limit = 0
            session = place.session
            if how in ("finish", "stop"):
                (worker.start_finishing if how == "finish" else worker.start_stopping)()
            elif how == "hold":
                for job in jobs:
                    place.taken(job, HELD)
            elif how == "missed":
                place.engine.turn(None)
            else:
                place.lose_session()
                assert worker.status().buffered == 0
            gate.set()
            await until(lambda: sorted(place.jobs.ready) == jobs[1:])
        assert handler.started == [0]
        assert place.jobs.outcomes(*jobs)[0] == "done"
        if how == "lost":
            assert place.jobs.called("return_unstarted")[0][1:] == (session.id, [], jobs[1:])


@pytest.mark.parametrize("how", [ValueError("no luck"), TypeError("never"), Snooze(5)], ids=["retry", "fail", "snooze"])
async def test_a_job_in_the_middle_that_does_not_succeed_ends_the_run(how: Exception) -> None:
    handler = Handler()
    handler.does[2] = how
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        jobs = add_numbered(place, 6)
        place.jobs.limit = 6
        async with place.worker():
            await place.until_said(*jobs[:3])
            await until(lambda: len(place.jobs.acknowledged) >= 6)
            acknowledged = list(place.jobs.acknowledged)
        assert [acknowledgement.id for acknowledgement in acknowledged[:6]] == jobs, (
            "what follows is not returned before"
        )
        assert {acknowledgement.outcome for acknowledgement in acknowledged[3:6]} == {Outcome.RETURNED}
        assert handler.started[:3] == [0, 1, 2]


async def test_a_job_that_cannot_be_read_ends_the_run() -> None:
    handler = Handler()
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        jobs = [*add_numbered(place, 1), place.jobs.add(lane="lane", arguments='{"number": "x"}')]
        jobs += add_numbered(place, 1)
        async with place.worker():
            await until(lambda: len(place.jobs.acknowledged) >= 3)
            assert [s.outcome for s in place.jobs.acknowledged[:3]] == [
                Outcome.DONE,
                Outcome.UNREADABLE,
                Outcome.RETURNED,
            ]


async def test_a_discarded_job_lets_the_run_go_on() -> None:
    handler = Handler()
    handler.does[1] = Discard("nothing to do")
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        jobs = add_numbered(place, 3)
        async with place.worker():
            await place.until_ended(*jobs)
        assert place.jobs.outcomes(*jobs) == ["done", "discarded", "done"]
        assert len(place.jobs.called("fetch")[0][2]) == 3


async def test_a_hold_returns_what_has_not_started_and_lets_the_rest_go_on() -> None:
    handler = Handler(1)
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        jobs = add_numbered(place, 5)
        async with place.worker():
            await until(lambda: handler.started == [0, 1])
            place.jobs.limit = 0
            for job in jobs[1:]:
                place.taken(job, HELD)
            await place.until_said(*jobs[2:])
            assert place.jobs.outcomes(*jobs) == ["done", "nothing", "returned", "returned", "returned"]
            handler.go.set()
            await place.until_ended(jobs[1])
        assert handler.started == [0, 1]


@pytest.mark.parametrize("order", [1, -1])
async def test_a_hold_returns_a_run_that_is_still_in_the_buffer(order: int) -> None:
    handler = Handler(100)
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        place.jobs.add(arguments='{"number": 100}')
        jobs = add_numbered(place, 3)
        other = place.jobs.add(arguments='{"number": 200}')
        async with place.worker(concurrency=1):
            await until(lambda: handler.started == [100])
            place.jobs.limit = 0
            for job in jobs[1:][::order]:
                place.taken(job, HELD)
            await place.until_said(*jobs[1:])
            assert place.jobs.outcomes(*jobs) == ["nothing", "returned", "returned"]
            handler.go.set()
            await place.until_ended(jobs[0], other)
        assert handler.started == [100, 0, 200]


@pytest.mark.parametrize("why", [HELD, CANCELLED])
async def test_what_is_said_of_a_job_while_the_fetch_is_being_answered_is_not_forgotten(why: str) -> None:
    handler = Handler()
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        answer = place.jobs.answer("fetch")
        jobs = add_numbered(place, 3)
        async with place.worker():
            await until(lambda: place.jobs.fetched)
            place.jobs.limit = 0
            for job in jobs[1:]:
                place.taken(job, why)
            answer.set()
            await place.until_said(*jobs)
        expected = "returned" if why == HELD else "cancelled"
        assert place.jobs.outcomes(*jobs) == ["done", expected, expected]
        assert handler.started == [0]


async def test_a_cancelled_job_is_stopped_or_not_begun_or_left_alone() -> None:
    handler = Handler(1)
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        jobs = add_numbered(place, 4)
        async with place.worker():
            await until(lambda: handler.started == [0, 1])
            await place.until_ended(jobs[0])
            for job in (jobs[0], jobs[1], jobs[2], 999):
                place.taken(job, CANCELLED)
            await place.until_ended(*jobs)
        assert place.jobs.outcomes(*jobs) == ["done", "cancelled", "cancelled", "done"]
        assert (handler.started, handler.stopped) == ([0, 1, 3], [1])
        assert [acknowledgement.error for acknowledgement in place.jobs.acknowledged][1:3] == [CANCELLED, CANCELLED]


async def test_what_follows_a_cancelled_job_starts_after_its_end_was_acknowledged() -> None:
    handler = Handler()
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        answer, gate = place.jobs.answer("fetch"), place.jobs.gate("acknowledge")
        jobs = add_numbered(place, 3)
        async with place.worker():
            await until(lambda: place.jobs.fetched)
            place.taken(jobs[0], CANCELLED)  # before it could start
            answer.set()
            for _ in range(50):
                await asyncio.sleep(0)
            assert handler.started == []
            gate.set()
            await place.until_ended(*jobs)
        assert place.jobs.outcomes(*jobs) == ["cancelled", "done", "done"]
        assert handler.started == [1, 2]


@pytest.mark.parametrize("why", [HELD, CANCELLED])
async def test_what_was_said_of_an_earlier_fetch_says_nothing_of_this_one(why: str) -> None:
    handler = Handler(1)
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        jobs = add_numbered(place, 4)
        async with place.worker():
            await until(lambda: handler.started == [0, 1])
            for job in jobs[1:]:
                place.taken(job, why, fence=place.jobs.fetched[job][1].fence - 1)
            handler.go.set()
            await place.until_ended(*jobs)
        assert [acknowledgement.outcome for acknowledgement in place.jobs.acknowledged] == ["done"] * 4
        assert handler.stopped == []


async def test_what_was_missed_may_have_been_a_hold_or_a_pause() -> None:
    handler = Handler(0, 100)
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        jobs = add_numbered(place, 3)
        single = place.jobs.add(arguments='{"number": 100}')
        plain = place.jobs.add(arguments='{"number": 200}')
        async with place.worker(concurrency=2):
            await until(lambda: handler.started == [0, 100])
            place.jobs.limit = 0
            place.engine.turn(None)
            await place.until_said(*jobs[1:], plain)
            assert place.jobs.outcomes(*jobs, single, plain) == [
                "nothing",
                "returned",
                "returned",
                "nothing",
                "returned",
            ]
            handler.go.set()
            place.jobs.limit = 100
            place.jobs.tell()
            await place.until_ended(plain)


async def test_nothing_of_a_lane_waits_behind_a_long_job(brisk: None) -> None:
    handler = Handler(0)
    async with floor() as place:
        place.job(handler.function)
        place.jobs.generous = True
        jobs = add_numbered(place, 3)
        async with place.worker():
            await until(lambda: handler.started == [0])
            assert place.jobs.outcomes(*jobs) == ["nothing"] * 3
            await place.until_said(*jobs[1:])
            assert place.jobs.outcomes(*jobs) == ["nothing", "returned", "returned"]
            handler.go.set()
            await place.until_ended(*jobs)
        assert handler.started == [0, 1, 2]


async def test_nothing_waits_in_the_buffer_behind_long_jobs(brisk: None) -> None:
    handler = Handler(0, 1)
    async with floor() as place:
        place.job(handler.function)
        jobs = [place.jobs.add(arguments=f'{{"number": {n}}}') for n in range(4)]
        worker = place.worker(concurrency=2)
        async with worker:
            await until(lambda: handler.started == [0, 1])
            # As if they had been fetched while jobs seemed short.
            worker._pool.put(place.jobs._give(place.jobs.appetites[-1]._replace(limit=2)), 0)
            assert worker.status().buffered == 2
            await place.until_said(*jobs[2:])
            assert place.jobs.outcomes(*jobs) == ["nothing", "nothing", "returned", "returned"]
            handler.go.set()
            await place.until_ended(*jobs)
