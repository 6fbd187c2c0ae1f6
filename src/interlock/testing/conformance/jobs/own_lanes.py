"""Fetches of some lanes only, and withdrawals: what a caller needs that runs a job of its own."""

from __future__ import annotations

from interlock.ports.jobs import JobState, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.jobs.driver import JobSuite, pace, slots

__all__ = ["OwnLaneConformance"]


class OwnLaneConformance(JobSuite):
    """A fetch of some lanes takes their first jobs and nothing else, under the rules of every fetch."""

    async def test_a_fetch_of_some_lanes_takes_their_first_jobs_and_nothing_else(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add()
            await b.add(lane="x")
            first, second = await b.add(lane="y"), await b.add(lane="y")
            third = await b.add(lane="z")

            jobs = await b.fetch("a", lanes=("z", "y", "empty"))

            assert [job.id for job in jobs] == [first, third]
            assert await b.fetch("b", lanes=("y", "z")) == [], "two of one lane at once"
            await b.done(*jobs)
            assert await b.ids("b", lanes=("y", "z")) == [second]

    async def test_everything_else_stays_for_the_workers(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            plain, other = await b.add(), await b.add(lane="x")
            due = await b.add(delay=5.0)
            own = await b.add(lane="y")
            await b.let_pass(10.0)

            assert await b.ids("a", lanes=("y",)) == [own]
            assert sorted(await b.ids("b")) == sorted([plain, other, due])

    async def test_names_and_queues_are_respected(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            other = await b.add(lane="x", name="m")
            elsewhere = await b.add(lane="y", queue="r")

            assert await b.fetch("a", lanes=("x", "y")) == []
            assert await b.ids("a", names=("n", "m"), lanes=("x", "y")) == [other]
            assert await b.ids("a", queues=("r",), lanes=("x", "y")) == [elsewhere]

    async def test_a_held_lane_gives_nothing_until_it_is_released(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(lane="x")
            await b.jobs.hold("x", Attribution("ann", "hands off"))
            assert await b.fetch("a", lanes=("x",)) == []
            await b.jobs.release("x", Attribution("ann"))
            assert await b.ids("a", lanes=("x",)) == [job_id]

    async def test_limits_are_respected(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add(lane="x", uses=[slots(1, "k")])
            second = await b.add(lane="y", uses=[slots(1, "k")])
            jobs = await b.fetch("a", lanes=("x", "y"))
            assert [job.id for job in jobs] == [first]
            assert await b.fetch("b", lanes=("y",)) == []
            await b.done(*jobs)
            assert await b.ids("b", lanes=("y",)) == [second]

    async def test_paces_are_respected(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add(lane="x", uses=[pace(1, 60.0, "k")])
            second = await b.add(lane="y", uses=[pace(1, 60.0, "k")])
            jobs = await b.fetch("a", lanes=("x", "y"))
            assert [job.id for job in jobs] == [first]
            await b.done(*jobs)
            assert await b.fetch("b", lanes=("y",)) == []
            await b.let_pass(61.0)
            assert await b.ids("b", lanes=("y",)) == [second]

    async def test_a_retry_is_fetched_when_it_is_due(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(lane="x")
            (job,) = await b.fetch("a", lanes=("x",))
            await b.end(job, Outcome.RETRY, delay=5.0)
            batch = await b.batch("a", lanes=("x",))
            assert batch.jobs == []
            assert 0 < batch.recheck_in <= 5.0
            await b.let_pass(6.0)
            assert await b.ids("a", lanes=("x",)) == [job_id]

    async def test_a_suspect_is_fetched_from_its_lane(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(lane="x")
            assert await b.ids("a", lanes=("x",)) == [job_id]
            await b.crash("a")
            (job,) = await b.fetch("b", lanes=("x",))
            assert (job.id, job.crashes) == (job_id, 1)

    async def test_a_withdrawal_ends_a_job_that_is_not_fetched(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            fetched, behind = await b.add(lane="x"), await b.add(lane="x")
            (job,) = await b.fetch("a", lanes=("x",))
            caller = Attribution("test", "over")

            assert await b.jobs.cancel(fetched, caller, unless_fetched=True) is JobState.FETCHED
            assert await b.jobs.cancel(behind, caller, unless_fetched=True) is JobState.CANCELLED
            assert await b.jobs.cancel(behind, caller, unless_fetched=True) is JobState.CANCELLED
            await b.done(job)
            assert await b.states(fetched, behind) == [JobState.DONE, JobState.CANCELLED]
