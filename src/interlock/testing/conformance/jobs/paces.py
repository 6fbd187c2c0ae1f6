"""How often jobs start: fetches counted by paces."""

from __future__ import annotations

import asyncio

import pytest

from interlock.backends import from_url
from interlock.jobs import Jobs
from interlock.limits import Cooldown
from interlock.ports.jobs import FetchRequest, FetchResult, JobState, Outcome, SessionEnded
from interlock.settings import Settings
from interlock.testing.clock import VirtualClock, until
from interlock.testing.conformance.jobs.driver import JobSuite, near, pace, slots

__all__ = ["JobPaceConformance"]


class JobPaceConformance(JobSuite):
    """Never more fetches than the pace allows in any span, whatever happens to the jobs."""

    async def test_as_many_are_fetched_as_the_pace_allows_and_the_rest_in_time(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(uses=(pace(2, 10.0),)) for _ in range(5)]
            jobs = await b.fetch()
            assert [job.id for job in jobs] == ids[:2]
            assert await b.states(*ids[2:]) == [JobState.WAITING] * 3
            await b.done(*jobs)
            batch = await b.batch()
            assert list(batch.jobs) == [], "a start counts also when the work is over"
            assert batch.recheck_in == near(10.0, 0.01)
            await b.let_pass(9.999)
            assert await b.fetch() == []
            await b.let_pass(0.001)
            assert await b.ids() == ids[2:4]
            await b.let_pass(10)

            assert await b.ids() == ids[4:]

    async def test_jobs_without_room_do_not_hide_those_that_can_start(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            blocked = [await b.add(uses=(pace(1, 90.0),)) for _ in range(12)]
            free = await b.add(uses=(pace(1, 90.0, key="other"),))
            assert await b.ids(limit=1) == blocked[:1]

            assert await b.ids(limit=1) == [free], "a worker with one runner looked at too few jobs"
            assert await b.states(*blocked[1:]) == [JobState.WAITING] * 11

    async def test_a_pace_holds_in_any_window(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            starts: list[float] = []
            began = b.now
            for _ in range(12):
                await b.add(uses=(pace(2, 10.0),))
            await b.keep("a", seconds=1000.0)
            for step in range(120):
                starts += [b.now - began] * len(await b.fetch(limit=1 if step == 0 else 100))
                b.clock.advance(4.0 if step == 0 else 0.5)

            assert len(starts) == 12
            for earlier, later in zip(starts, starts[2:], strict=False):
                assert later - earlier >= 9.999

    async def test_spans_are_counted_from_each_start(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(uses=(pace(2, 10.0),)) for _ in range(4)]
            assert await b.ids("a", 1) == ids[:1]
            await b.let_pass(4)
            assert await b.ids() == ids[1:2]
            await b.let_pass(6)
            assert await b.ids() == ids[2:3]
            batch = await b.batch()
            assert (list(batch.jobs), batch.recheck_in) == ([], near(4.0, 0.01))
            await b.let_pass(4)

            assert await b.ids() == ids[3:]

    @pytest.mark.parametrize(
        "outcome", [Outcome.FAILED, Outcome.RETRY, Outcome.SNOOZED, Outcome.DISCARDED, Outcome.CANCELLED]
    )
    async def test_a_start_counts_whatever_becomes_of_the_job(self, store_url: str, outcome: Outcome) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(pace(1, 60.0),))
            await b.end(await b.one(), outcome)
            second = await b.add(uses=(pace(1, 60.0),))
            assert await b.fetch() == []
            await b.let_pass(60)

            got = await b.ids()
            assert len(got) == 1
            assert (second in got) is (outcome not in (Outcome.RETRY, Outcome.SNOOZED))

    async def test_a_start_counts_also_when_its_worker_died(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(uses=(pace(1, 60.0),))
            await b.one("a")
            await b.let_pass(20, "b", "c")
            assert [rescued.id for rescued in await b.jobs.rescue()] == [job_id]
            other = await b.add(uses=(pace(1, 60.0),))
            assert await b.fetch("b") == []
            await b.let_pass(39, "b", "c")
            assert await b.fetch("b") == []
            await b.let_pass(1, "b", "c")

            assert await b.ids("b") == [job_id]
            assert await b.state(other) is JobState.WAITING

    @pytest.mark.parametrize("how", ["acknowledged", "handed back"])
    async def test_a_job_returned_unstarted_gives_its_start_back(self, store_url: str, how: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(uses=(pace(2, 60.0),)) for _ in range(3)]
            jobs = await b.fetch()
            assert [job.id for job in jobs] == ids[:2]
            if how == "acknowledged":
                await b.end(jobs[0], Outcome.RETURNED)
            else:
                await b.jobs.return_unstarted("a", [jobs[1].id])

            assert len(await b.fetch()) == 1
            assert await b.fetch() == []

    async def test_newcomers_stand_behind_those_who_wait_for_a_pace(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(uses=(pace(1, 10.0),), priority=1) for _ in range(3)]
            assert await b.ids() == ids[:1]
            urgent = await b.add(uses=(pace(1, 10.0),), priority=100)
            assert await b.fetch() == []
            got = []
            for _ in range(3):
                await b.let_pass(10)
                got += await b.ids()

            assert got == [*ids[1:], urgent]

    async def test_newcomers_do_not_overtake_at_the_moment_there_is_room_again(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(uses=(pace(1, 10.0),), priority=1) for _ in range(2)]
            assert await b.ids() == ids[:1]
            await b.let_pass(10)
            await b.add(uses=(pace(1, 10.0),), priority=100)

            assert [job_id for _ in range(3) for job_id in await b.ids("b", 1)] == ids[1:]

    async def test_a_pace_without_room_does_not_hold_up_others(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            for _ in range(10):
                await b.add(uses=(pace(1, 60.0, "slow"),), priority=100)
            free = [await b.add(uses=(pace(9, 60.0, "fast"),)), await b.add(), await b.add(lane="l")]
            got = await b.ids() + await b.ids()

            assert got[1:] == free

    async def test_a_pace_is_not_used_up_by_a_job_that_another_limit_held_up(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1, "s"),))
            busy = await b.one()
            both = await b.add(uses=(pace(1, 60.0, "p"), slots(1, "s")))
            assert await b.fetch() == []
            alone = await b.add(uses=(pace(1, 60.0, "p"),))
            assert await b.ids() == [alone], "a start that never was is counted"
            await b.done(busy)
            assert await b.fetch() == []
            await b.let_pass(60)

            assert await b.ids() == [both]

    async def test_a_slot_is_not_kept_by_a_job_that_waits_for_a_pace(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            uses = (pace(1, 60.0, "p"), slots(1, "s"))
            await b.add(uses=uses)
            await b.done(await b.one())
            waiting = await b.add(uses=uses)
            assert await b.fetch() == []
            situation = await b.situation(waiting)
            assert (situation.waits_for, situation.room_at) == ("p", near(b.now + 60, 0.01))
            other = await b.add(uses=(slots(1, "s"),))

            assert await b.ids() == [other]

    async def test_two_paces_hold_together(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            uses = (pace(1, 2.0, "fast"), pace(3, 60.0, "slow"))
            for _ in range(5):
                await b.add(uses=uses)
            began, starts = b.now, []
            await b.keep("a", seconds=1000.0)
            for _ in range(70):
                starts += [round(b.now - began) for _ in await b.fetch()]
                b.clock.advance(1)

            assert starts == [0, 2, 4, 60, 62]

    async def test_the_figure_of_a_job_at_work_holds_for_others(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(pace(1, 60.0),))
            await b.one()
            other = await b.add(uses=(pace(5, 60.0),))
            assert await b.fetch() == []
            await b.let_pass(60)

            assert await b.ids() == [other]

    async def test_jobs_with_a_pace_are_given_only_among_those_that_can_start_at_once(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            paced = [await b.add(uses=(pace(100, 1.0, f"k{n}"),)) for n in range(4)]
            plain = [await b.add() for _ in range(3)]
            got = await b.ids("a", at_once=2)
            assert got == [*paced[:2], *plain]
            assert await b.ids("b", at_once=0) == []
            assert await b.states(*paced[2:]) == [JobState.READY] * 2

            assert await b.ids("b", at_once=5) == paced[2:]

    async def test_jobs_with_a_pace_wait_while_earlier_ones_take_all_who_can_start(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            plain = [await b.add() for _ in range(3)]
            paced = await b.add(uses=(pace(100, 1.0),))
            got = await b.ids("a", at_once=2)

            assert got == plain
            assert await b.ids("b", at_once=1) == [paced]

    async def test_a_lane_waits_while_its_head_waits_for_a_pace(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l", uses=(pace(1, 10.0),)) for _ in range(2)]
            plain = await b.add(lane="l")
            job = await b.one(run=10)
            await b.done(job)
            assert await b.fetch(run=10) == []
            assert await b.states(*ids, plain) == [JobState.DONE, JobState.WAITING, JobState.BEHIND]
            await b.let_pass(10)
            (job,) = await b.fetch(run=10)
            await b.done(job)

            assert job.id == ids[1]
            assert await b.ids(run=10) == [plain]

    async def test_a_start_counts_as_late_as_the_fetcher_may_start_the_job(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            paced = [await b.add(uses=(pace(1, 10.0),)) for _ in range(3)]
            plain = await b.add()
            first, other = await b.fetch(start_within=2.0)
            assert [(job.id, job.paced) for job in (first, other)] == [(paced[0], True), (plain, False)]
            await b.let_pass(11.999)
            assert await b.fetch(start_within=0.5) == []
            await b.let_pass(0.001)
            assert await b.ids(start_within=0.5) == [paced[1]]
            await b.let_pass(10.5)

            assert await b.ids() == [paced[2]]

    @pytest.mark.parametrize("how", ["acknowledged", "handed back"])
    async def test_only_the_start_that_never_was_is_given_back(self, store_url: str, how: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.keep("a", seconds=1000.0)
            job_id = await b.add(uses=(pace(2, 100.0),))
            await b.end(await b.one(start_within=5.0), Outcome.RETRY)
            await b.let_pass(1)
            again = await b.one(start_within=1.0)  # counts as earlier than the start before it
            if how == "acknowledged":
                await b.end(again, Outcome.RETURNED)
            else:
                await b.jobs.return_unstarted("a")
            other = await b.add(uses=(pace(2, 100.0),))
            assert await b.ids(start_within=5.0) == [job_id], "one start counts, so there is room for one"
            await b.let_pass(101.5)
            assert await b.fetch() == [], "the start that was counts as late as it may have been"
            await b.let_pass(3)

            assert await b.ids() == [other]

    async def test_a_worker_that_is_late_does_not_start_a_job_close_to_the_next(
        self, store_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = VirtualClock()
        settings = Settings(namespace=self.namespace, session_ttl=3600.0, recheck_interval=0.05)
        store = from_url(store_url, settings=settings, clock=clock)
        started: list[float] = []
        given, go_on = asyncio.Event(), asyncio.Event()

        async with Jobs(store, settings, clock=clock) as jobs:

            @jobs.job(limits=[Cooldown("account", 10.0)])
            async def request() -> None:
                started.append(clock.monotonic())

            fetch = store.jobs.fetch

            async def with_a_pause(request: FetchRequest) -> FetchResult | SessionEnded:
                batch = await fetch(request)
                if isinstance(batch, FetchResult) and batch.jobs:
                    given.set()
                    await go_on.wait()
                return batch

            monkeypatch.setattr(store.jobs, "fetch", with_a_pause)
            handles = [await request.enqueue() for _ in range(2)]

            async def one_waits() -> bool:
                return JobState.WAITING in [(await handle.status()).state for handle in handles]

            async with jobs.worker():
                await given.wait()
                clock.advance(11.0)  # the worker has a job and is paused until the next one is due
                go_on.set()
                await until(lambda: started)

                async def decided() -> bool:
                    return len(started) > 1 or await one_waits()

                await until(decided)
                assert len(started) == 1, "two starts at the same time under a cooldown of 10 s"
                clock.advance(20.0)  # the cooldown, and what the worker may have allowed itself after having been late
                await until(lambda: len(started) == 2)
        assert started[1] - started[0] >= 10.0
