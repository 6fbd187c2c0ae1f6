"""Jobs rely on their session: before it can end they are stopped, and whatever comes too late is refused."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from interlock.jobs.worker import watchdog
from interlock.ports.jobs import Outcome
from interlock.settings import Settings
from interlock.testing.clock import VirtualClock, until
from tests.jobs.worker.fakes import floor

if TYPE_CHECKING:
    from interlock.ports.jobs import Acknowledgement


async def forever() -> None:
    await asyncio.Event().wait()


def last(acknowledgements: list[Acknowledgement], job: int) -> Acknowledgement:
    return [acknowledgement for acknowledgement in acknowledgements if acknowledgement.id == job][-1]


async def test_a_lost_session_stops_everything_and_hands_everything_back() -> None:
    async with floor() as place:
        place.job(forever)
        place.jobs.generous = True
        place.jobs.limit = 4
        jobs = [*place.jobs.add_many(2), *place.jobs.add_many(2, lane="lane")]
        worker = place.worker(concurrency=2)
        async with place.at_work(worker):
            await until(lambda: len(worker.status().running) == 2)
            assert place.session.at_work == 2
            place.jobs.limit = 0
            old = place.lose_session()
            await until(lambda: old.at_work == 0)
            assert worker.status().buffered == 0
            await until(lambda: place.jobs.called("return_unstarted"))
            assert place.session is not old
            place.jobs.limit = 4
            place.jobs.tell()
            await until(lambda: len(worker.status().running) == 2)
            assert place.session.at_work == 2
        # What had started is said to have, what had not goes back without a word; first the one, then the other.
        names = [call[:2] for call in place.jobs.calls if call[0] in ("acknowledge", "return_unstarted")]
        assert names[:2] == [("acknowledge", old.id), ("return_unstarted", old.id)]
        assert place.jobs.called("return_unstarted")[0][3] == jobs[2:]
        assert not place.jobs.refused


async def test_what_ended_before_the_loss_is_still_acknowledged() -> None:
    async with floor() as place:

        async def handler() -> str:
            return "done"

        place.job(handler)
        gate = place.jobs.gate("acknowledge")
        job = place.jobs.add()
        async with place.at_work():
            await until(lambda: place.jobs.under_way["acknowledge"])
            old = place.lose_session()
            await until(lambda: place.session is not old)
            assert not place.jobs.called("return_unstarted"), "not before what is to be said was said"
            gate.set()
            await place.until_ended(job)
            await until(lambda: place.jobs.called("return_unstarted"))
        assert last(place.jobs.acknowledged, job).outcome is Outcome.DONE
        assert len(place.jobs.called("fetch")[0][2]) == 1
        assert not place.jobs.refused


async def test_what_comes_too_late_is_refused_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with floor() as place:

        async def handler() -> None:
            pass

        place.job(handler)
        gate = place.jobs.gate("acknowledge")
        job = place.jobs.add()
        worker = place.worker()
        async with place.at_work(worker):
            await until(lambda: place.jobs.under_way["acknowledge"])
            old = place.session.id
            _, fetched = place.jobs.fetched.pop(job)  # rescued, and given to somebody else
            place.jobs.fetched[job] = ("another", fetched._replace(fence=fetched.fence + 1))
            gate.set()
            await until(lambda: place.jobs.refused)
            await until(lambda: place.engine.metrics.late == 1)
            assert worker.status().counts == {"done": 1, "refused": 1}
        assert place.jobs.fetched[job][0] == "another"
        (refused,) = [r for r in caplog.records if getattr(r, "event", "") == "job_acknowledgement_refused"]
        assert refused.fields == {"id": job, "job": "work", "fence": fetched.fence, "outcome": "done"}  # type: ignore[attr-defined]
        assert old == place.session.id


async def test_nothing_starts_after_the_deadline_and_a_silent_heartbeat_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watchdog, "_INTERVAL", 0.02)
    clock = VirtualClock()
    async with floor(clock) as place:
        started: list[str] = []

        async def handler() -> None:
            started.append(place.session.id)
            await forever()

        place.job(handler)
        answer = place.jobs.answer("fetch")
        place.jobs.add()
        worker = place.worker()
        async with place.at_work(worker):
            await until(lambda: place.jobs.fetched)
            old = place.session
            clock.advance(14)  # the store still honours it, but not for long enough
            place.jobs.limit = 0
            answer.set()
            await until(lambda: old.lost)
            assert not started
            await until(lambda: place.session is not old)
            place.jobs.limit = 1
            place.jobs.tell()
            await until(lambda: started == [place.session.id])
            assert place.session.at_work == 1

            stopped = place.session
            clock.advance(12.5)
            await until(lambda: stopped.at_work == 0, what="the handler is stopped though nobody said a word")
            assert clock.monotonic() < stopped.deadline + 3


async def test_one_deadline_watches_over_all_jobs() -> None:
    """No timer for each job: with 1,000 of them the loop has no more than with none."""
    async with floor() as place:
        place.job(forever)
        place.jobs.add_many(1000)
        loop = asyncio.get_running_loop()
        worker = place.worker(concurrency=1000)
        async with place.at_work(worker):
            await until(lambda: len(worker.status().running) == 1000)
            assert len(loop._scheduled) < 30  # type: ignore[attr-defined]
            assert place.session.at_work == 1000


async def test_a_thread_that_ends_after_the_loss_is_not_acknowledged() -> None:
    async with floor() as place:
        end = threading.Event()

        def handler() -> str:
            end.wait(20)
            return "done"

        place.job(handler)
        job = place.jobs.add()
        worker = place.worker(concurrency=2)
        async with place.at_work(worker):
            await until(lambda: worker.status().running)
            place.jobs.limit = 0
            old = place.lose_session()
            await until(lambda: place.jobs.called("return_unstarted"))
            assert place.jobs.called("return_unstarted") == [("return_unstarted", old.id, [job], [])], (
                "not while it runs"
            )
            assert old.at_work == 1
            assert worker.status().running[0].told_to_stop == "the worker's session was lost"
            end.set()
            await place.until_said(job)
            assert old.at_work == 0
        assert last(place.jobs.acknowledged, job).outcome is Outcome.SNOOZED
        assert not place.jobs.ended


async def test_a_session_that_ends_while_fetching() -> None:
    async with floor() as place:
        place.job(forever)
        answer = place.jobs.answer("fetch")
        jobs = place.jobs.add_many(2)
        worker = place.worker(concurrency=2)
        async with place.at_work(worker):
            await until(lambda: place.jobs.fetched)
            old = place.lose_session()
            answer.set()
            await until(lambda: len(worker.status().running) == 2)
            assert place.session is not old
            assert {session for session, _ in place.jobs.fetched.values()} == {place.session.id}
        assert place.jobs.called("return_unstarted")[0] == ("return_unstarted", old.id, [], jobs)


async def test_the_store_may_be_the_first_to_say_that_the_session_has_ended() -> None:
    async with floor() as place:
        place.job(forever)
        jobs = place.jobs.add_many(1)
        worker = place.worker(concurrency=2)
        async with place.at_work(worker):
            await until(lambda: worker.status().running)
            old = place.session
            await place.store.sessions.end(old.id)
            place.jobs.add()
            place.jobs.tell()
            await until(lambda: old.lost)
            await until(lambda: place.session is not old and place.session.at_work == 2)
            assert old.at_work == 0
        assert jobs


@pytest.mark.parametrize("long", [False, True])
async def test_outages_come_and_go(long: bool) -> None:
    async with floor(settings=Settings(stuck_work="report", store_wait=0.2, recheck_interval=0.05)) as place:
        done: list[int] = []

        async def handler(number: int) -> None:
            await asyncio.sleep(0)
            done.append(number)

        place.job(handler)
        async with place.at_work():
            jobs = []
            for outage in range(5):
                jobs += [place.jobs.add(arguments=f'{{"number": {outage * 10 + n}}}') for n in range(10)]
                place.jobs.tell()
                await until(lambda outage=outage: len(done) > outage * 10)  # type: ignore[misc]
                place.jobs.away = True
                before = len(place.jobs.calls)
                if long:
                    place.lose_session()
                    await until(lambda old=place.session: place.session is not old or not old.lost)  # type: ignore[misc]
                assert len(place.jobs.calls) == before
                place.jobs.away = False
                await place.until_ended(*jobs)
            assert set(place.jobs.outcomes(*jobs)) == {"done"}
            assert not place.jobs.fetched
        assert not place.jobs.refused


async def test_acknowledgements_wait_for_the_store_and_runners_for_acknowledgements() -> None:
    async with floor() as place:
        done: list[int] = []

        async def handler() -> None:
            done.append(1)

        place.job(handler)
        place.jobs.generous = True
        place.jobs.limit = 3000
        jobs = place.jobs.add_many(6000)
        gate = place.jobs.gate("acknowledge")
        worker = place.worker(concurrency=50)
        async with place.at_work(worker):
            await until(lambda: worker._completer.full)
            fetches = len(place.jobs.called("fetch"))
            for _ in range(100):
                await asyncio.sleep(0)
            assert 2000 <= len(done) < 2100, "runners wait"
            place.jobs.tell()
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(place.jobs.called("fetch")) <= fetches + 1, "and so do fetches"
            gate.set()
            await place.until_ended(*jobs)
        assert len(done) == 6000
        assert max(len(call[2]) for call in place.jobs.called("acknowledge")) <= 1000


async def test_two_workers_of_one_process_share_a_session_and_know_of_one_another() -> None:
    async with floor() as place:
        place.job(forever)
        first, second = place.worker(concurrency=2), place.worker(concurrency=3, queues=["other", "default"])
        async with place.at_work(first):
            place.jobs.add_many(2)
            place.jobs.tell()
            await until(lambda: len(first.status().running) == 2)
            async with place.at_work(second):
                mine = [job.id for job in first.status().running]
                expected = (("default", "other"), ("work",), 5)
                await until(lambda: place.jobs.called("register_worker")[-1][2:] == expected)
                place.jobs.lose["fetch"] = 1
                place.jobs.add()
                place.jobs.tell()
                await until(lambda: place.jobs.called("return_unstarted"))
                assert place.jobs.called("return_unstarted")[0][2] == mine, "what the other one runs is not a leftover"
                await until(lambda: second.status().running)
                theirs = [job.id for job in second.status().running]
                place.jobs.limit = 0
                await second.stop()
            assert place.jobs.called("return_unstarted")[-1][2] == mine
            assert place.jobs.outcomes(*theirs) == ["snoozed"]
            assert len(first.status().running) == 2
            assert place.jobs.called("register_worker")[-1][2:] == (("default",), ("work",), 2)


async def test_nothing_is_handed_back_that_is_just_being_fetched() -> None:
    async with floor() as place:
        place.job(forever)
        first, second = place.worker(concurrency=1), place.worker(concurrency=1)
        async with place.at_work(first), place.at_work(second):
            await until(lambda: len(place.jobs.called("fetch")) == 2 and not place.jobs.under_way["fetch"])
            answer = place.jobs.answer("fetch")
            job = place.jobs.add()
            first._fetcher._signal.announce()
            await until(lambda: place.jobs.fetched)  # and nobody here knows yet
            second._coordinator.doubt()
            second._fetcher._signal.wake()
            await until(lambda: not second._coordinator._open.is_set(), what="it waits for what is on its way")
            assert not place.jobs.called("return_unstarted")
            answer.set()
            await until(lambda: place.jobs.called("return_unstarted"))
            assert place.jobs.called("return_unstarted")[0][2:] == ([job], [])
            await until(lambda: first.status().running)
            assert place.jobs.fetched[job][1].fence == first._pool.running[0].job.fence  # type: ignore[union-attr]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_nothing_is_fetched_under_a_session_that_is_over(when: str) -> None:
    """While one worker hands back what was fetched under it, another is about to fetch."""
    async with floor() as place:
        place.job(forever)
        first, second = place.worker(concurrency=1), place.worker(concurrency=1)
        async with place.at_work(first), place.at_work(second):
            await until(lambda: len(place.jobs.called("fetch")) == 2 and not place.jobs.under_way["fetch"])
            gate = place.jobs.gate("return_unstarted")
            second._coordinator.doubt()
            second._fetcher._signal.wake()
            await until(lambda: place.jobs.under_way["return_unstarted"])
            job = place.jobs.add()
            old = place.session
            if when == "after":
                first._fetcher._signal.announce()
                await until(lambda: first._fetcher._fetching)
            place.lose_session()
            if when == "before":
                first._fetcher._signal.announce()
            gate.set()
            await until(lambda: first.status().running or second.status().running)
            assert place.jobs.fetched[job][0] == place.session.id != old.id
            assert [call for call in place.jobs.called("fetch") if call[2]] == [("fetch", place.session.id, [job])]


async def test_a_fetch_of_a_session_that_is_over_takes_no_effect_after_it_was_handed_back() -> None:
    async with floor() as place:
        place.job(forever)
        first, second = place.worker(concurrency=1), place.worker(concurrency=1)
        async with place.at_work(first), place.at_work(second):
            await until(lambda: len(place.jobs.called("fetch")) == 2)
            answer = place.jobs.answer("return_unstarted")
            old = place.lose_session()
            await until(lambda: place.jobs.called("return_unstarted"))
            # A fetch that one of them had sent before takes effect only now.
            job = place.jobs.add()
            place.jobs._give(place.jobs.appetites[0])
            assert job not in place.jobs.fetched
            first._coordinator.owe(old)
            answer.set()
            place.jobs.tell()
            await until(lambda: place.jobs.fetched.get(job, ("",))[0] == place.session.id)


async def test_nobody_waits_for_a_worker_that_ended_without_having_said_everything() -> None:
    async with floor(settings=Settings(stuck_work="report", store_wait=0.2, recheck_interval=30.0)) as place:

        async def handler() -> None:
            pass

        place.job(handler)
        first, second = place.worker(concurrency=1), place.worker(concurrency=1)
        async with place.at_work(second):
            await until(lambda: place.jobs.called("fetch"))
            gate = place.jobs.gate("acknowledge")
            async with place.at_work(first):
                jobs = place.jobs.add_many(2)
                place.jobs.tell()
                await until(lambda: place.jobs.under_way["acknowledge"] == 2)
                place.lose_session()
                await until(lambda: second._coordinator._lock.locked())
            gate.set()
            del place.jobs.gates["acknowledge"]
            await place.until_ended(*jobs)


async def test_what_a_worker_could_not_give_back_is_given_back_by_the_next() -> None:
    async with floor(settings=Settings(stuck_work="report", store_wait=0.1, recheck_interval=30.0)) as place:

        async def handler() -> None:
            pass

        place.job(handler)
        place.jobs.gate("acknowledge")
        job = place.jobs.add()
        async with place.at_work():
            await until(lambda: place.jobs.under_way["acknowledge"])
        assert place.jobs.fetched[job][0] == place.session.id, "the session goes on, so nobody rescues it"
        del place.jobs.gates["acknowledge"]
        async with place.at_work():
            await place.until_ended(job)
