"""Lanes: one job at a time, in order, whatever happens to the head."""

from __future__ import annotations

import pytest

from interlock.ports.jobs import PRIORITY_WEIGHT, JobState, OnFailure, Outcome
from interlock.testing.conformance.jobs.driver import JobSuite, near, new_job, slots

__all__ = ["LaneConformance"]


class LaneConformance(JobSuite):
    """Jobs of a lane are fetched in the order of their positions and never two at once."""

    async def test_a_lane_gives_one_job_at_a_time_in_order(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(6)]
            for place, job_id in enumerate(ids):
                job = await b.one("abc"[place % 3])
                assert job.id == job_id
                for other in "abc":
                    assert await b.fetch(other) == [], "two of one lane at once"
                assert await b.states(*ids[place:]) == [JobState.FETCHED, *[JobState.BEHIND] * (5 - place)]
                acknowledged = await b.done(job)
                assert acknowledged.ready is (place < 5)

            assert await b.lanes() == []

    async def test_lanes_go_side_by_side(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            firsts, seconds = [], []
            for lane in "vwxyz":
                firsts.append(await b.add(lane=lane))
                seconds.append(await b.add(lane=lane))
            alone = await b.add()
            jobs = await b.fetch("a")

            assert [job.id for job in jobs] == [*firsts, alone]
            await b.done(*jobs)
            assert await b.ids("b") == seconds

    async def test_a_lane_that_ran_empty_goes_on_with_what_comes_later(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            for _ in range(4):
                job_id = await b.add(lane="l")
                job = await b.one()
                assert job.id == job_id
                await b.done(job)
                assert await b.fetch() == []

    async def test_a_job_that_comes_while_another_of_its_lane_runs_waits_behind_it(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(lane="l")
            job = await b.one("a")
            second, third = await b.add(lane="l"), await b.add(lane="l")
            assert await b.fetch("b") == []
            assert await b.states(second, third) == [JobState.BEHIND] * 2
            await b.done(job)

            assert await b.ids("b") == [second]
            assert await b.ids("c") == []

    async def test_priority_never_reorders_a_lane(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l", priority=priority) for priority in (10, 90, 50, 100)]
            got = []
            for _ in ids:
                job = await b.one()
                got.append(job.id)
                await b.done(job)

            assert got == ids

    async def test_a_lane_competes_by_its_head(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            low = await b.add(lane="low", priority=10)
            await b.add(lane="low", priority=100)
            high = await b.add(lane="high", priority=90)
            await b.add(lane="high", priority=0)
            alone = await b.add(priority=50)

            assert await b.ids() == [high, alone, low]

    async def test_the_next_of_a_lane_competes_from_the_time_when_it_was_due(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(lane="l", priority=60)
            second = await b.add(lane="l")
            head = await b.one(names=("n",))
            await b.let_pass(5)
            newer = await b.add()
            await b.done(head)

            jobs = await b.fetch()
            assert [job.id for job in jobs] == [second, newer]
            assert jobs[0].due_at == near(jobs[0].enqueued_at)
            assert PRIORITY_WEIGHT > 5

    @pytest.mark.parametrize("on_failure", [OnFailure.BLOCK, OnFailure.PARK])
    async def test_the_lane_waits_while_its_head_is_to_be_retried(self, store_url: str, on_failure: OnFailure) -> None:
        async with self.job_driver(store_url) as b:
            first, second = await b.add(lane="l", on_failure=on_failure), await b.add(lane="l", on_failure=on_failure)
            await b.end(await b.one(), Outcome.RETRY, delay=30.0, error="no")
            assert await b.states(first, second) == [JobState.SCHEDULED, JobState.BEHIND]
            batch = await b.batch()
            assert (list(batch.jobs), batch.recheck_in) == ([], near(30.0, 0.01))
            await b.let_pass(30)
            job = await b.one()

            assert (job.id, job.attempt) == (first, 2)
            assert await b.fetch("b") == []
            await b.done(job)
            assert await b.ids() == [second]

    async def test_the_lane_waits_while_its_head_is_snoozed(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add(lane="l", on_failure=OnFailure.SKIP)
            second = await b.add(lane="l")
            await b.end(await b.one(), Outcome.SNOOZED, delay=30.0)
            assert await b.fetch() == []
            assert await b.states(first, second) == [JobState.SCHEDULED, JobState.BEHIND]
            await b.let_pass(30)
            job = await b.one()

            assert (job.id, job.attempt) == (first, 1)
            await b.done(job)
            assert await b.ids() == [second]

    async def test_a_job_handed_back_is_the_head_again(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(3)]
            await b.end(await b.one("a"), Outcome.RETURNED)
            assert await b.states(*ids) == [JobState.READY, JobState.BEHIND, JobState.BEHIND]
            assert await b.ids("b") == [ids[0]]
            assert await b.jobs.return_unstarted("b") == 1

            assert await b.ids("c") == [ids[0]]

    async def test_a_rescued_job_is_the_head_again(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(2)]
            await b.one("a")
            await b.store.sessions.end("a")
            assert await b.fetch("b") == [], "the lane went on before its head was rescued"
            await b.jobs.rescue()

            assert await b.ids("b") == [ids[0]]

    async def test_the_lane_waits_while_its_head_waits_for_a_limit(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1),))
            busy = await b.one()
            first, second = await b.add(lane="l", uses=(slots(1),)), await b.add(lane="l")
            assert await b.fetch() == []
            assert await b.states(first, second) == [JobState.WAITING, JobState.BEHIND]
            await b.done(busy)

            job = await b.one()
            assert job.id == first
            assert await b.fetch() == []
            await b.done(job)
            assert await b.ids() == [second]

    async def test_the_lane_waits_while_the_name_of_its_head_is_not_known(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first, second = await b.add(lane="l", name="new"), await b.add(lane="l")

            assert await b.fetch(run=5) == []
            assert await b.ids("b", run=5, names=("new", "n")) == [first, second]

    async def test_one_lane_may_go_through_several_queues(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first, second, third = [await b.add(lane="l", queue=queue) for queue in ("x", "y", "x")]
            assert await b.fetch(queues=("y",)) == []
            job = await b.one(queues=("x",))
            assert job.id == first
            assert await b.fetch(queues=("x", "y")) == []
            await b.done(job)
            assert await b.fetch(queues=("x",)) == []
            job = await b.one(queues=("y",))
            assert job.id == second
            await b.done(job)

            assert await b.ids(queues=("x",)) == [third]

    @pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.FAILED, Outcome.DISCARDED, Outcome.CANCELLED])
    async def test_the_lane_goes_on_when_its_head_has_ended(self, store_url: str, outcome: Outcome) -> None:
        async with self.job_driver(store_url) as b:
            first, second = await b.add(lane="l"), await b.add(lane="l")
            await b.end(await b.one(), outcome, error="" if outcome is Outcome.DONE else "no")

            assert await b.state(first) is JobState(outcome.value)
            assert await b.ids() == [second]

    async def test_skip_lets_the_lane_go_on_and_the_job_comes_back_at_the_end_of_the_line(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first, second, third = [await b.add(lane="l", on_failure=OnFailure.SKIP) for _ in range(3)]
            await b.end(await b.one(), Outcome.RETRY, delay=30.0)
            assert await b.states(first, second, third) == [JobState.SCHEDULED, JobState.READY, JobState.BEHIND]
            job = await b.one()
            assert job.id == second
            await b.let_pass(30)
            assert await b.fetch() == []
            assert await b.states(first, third) == [JobState.BEHIND, JobState.BEHIND]
            last = await b.add(lane="l")
            await b.done(job)
            got = []
            for _ in range(3):
                job = await b.one()
                got.append((job.id, job.attempt))
                await b.done(job)

            assert got == [(third, 1), (first, 2), (last, 1)]

    async def test_a_skipped_job_comes_back_also_to_a_lane_that_ran_empty(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(lane="l", on_failure=OnFailure.SKIP)
            await b.end(await b.one(), Outcome.RETRY, delay=5.0)
            assert await b.fetch() == []
            await b.let_pass(5)

            assert await b.ids() == [job_id]

    async def test_a_delayed_job_takes_its_position_when_it_is_due(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            delayed = await b.add(lane="l", delay=10.0)
            first, second = await b.add(lane="l"), await b.add(lane="l")
            assert await b.states(delayed, first, second) == [JobState.SCHEDULED, JobState.READY, JobState.BEHIND]
            job = await b.one()
            assert job.id == first
            await b.let_pass(10)
            assert await b.fetch() == []
            assert await b.state(delayed) is JobState.BEHIND
            third = await b.add(lane="l")
            await b.done(job)
            got = []
            for _ in range(3):
                job = await b.one()
                got.append(job.id)
                await b.done(job)

            assert got == [second, delayed, third]

    async def test_delayed_jobs_of_a_lane_take_their_positions_in_the_order_of_their_times(
        self, store_url: str
    ) -> None:
        async with self.job_driver(store_url) as b:
            late, early, middle = [await b.add(lane="l", delay=delay) for delay in (30.0, 10.0, 20.0)]
            await b.let_pass(40)

            assert await b.ids(run=10) == [early, middle, late]

    async def test_a_delayed_job_does_not_block_its_lane(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            delayed = await b.add(lane="l", delay=60.0)
            assert await b.fetch() == []
            ids = [await b.add(lane="l") for _ in range(2)]
            jobs = await b.fetch(run=5)
            assert [job.id for job in jobs] == ids
            await b.done(*jobs)
            await b.let_pass(60)

            assert await b.ids() == [delayed]

    async def test_many_lanes_are_all_made_ready(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await b.jobs.ids(2000)
            await b.jobs.enqueue([new_job(job_id, lane=f"l{job_id % 1000}") for job_id in ids])
            jobs = await b.every(limit=500)
            assert sorted(job.id for job in jobs) == list(ids[:1000])
            await b.done(*jobs)

            assert sorted(job.id for job in await b.every(limit=500)) == list(ids[1000:])
