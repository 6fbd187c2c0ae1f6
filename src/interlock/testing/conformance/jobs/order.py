"""Which jobs a fetch gives, in which order, and when to look again."""

from __future__ import annotations

import math

from interlock.ports.jobs import PRIORITY_WEIGHT, FetchRequest, JobState, Outcome, SessionEnded
from interlock.testing.conformance.jobs.driver import SESSION, JobSuite, near

__all__ = ["OrderConformance"]


class OrderConformance(JobSuite):
    """Jobs are fetched by the time they became ready, weighted by priority, by workers that know their names."""

    async def test_nothing_is_fetched_where_nothing_is(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            batch = await b.batch()
            assert list(batch.jobs) == []
            assert batch.recheck_in == math.inf

    async def test_a_job_is_fetched_once(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add() for _ in range(3)]

            assert await b.ids("a", 2) == ids[:2]
            assert await b.ids("b") == ids[2:]
            assert await b.ids("c") == []
            assert await b.states(*ids) == [JobState.FETCHED] * 3

    async def test_jobs_come_in_the_order_in_which_they_became_ready(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            reserved = list(await b.jobs.ids(1))
            ids = [await b.add() for _ in range(5)]
            due = await b.add(delay=0.0005)
            last = await b.add()

            assert await b.ids("a", 3) == ids[:3]
            assert await b.ids("b") == [*ids[3:], due, last]
            assert reserved[0] not in ids

    async def test_a_point_of_priority_is_worth_its_seconds_of_waiting(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            old = await b.add(priority=50)
            await b.let_pass(PRIORITY_WEIGHT - 1)
            better = await b.add(priority=51)
            await b.let_pass(2)
            late = await b.add(priority=51)
            low, best = await b.add(priority=0), await b.add(priority=100)

            assert await b.ids() == [best, better, old, late, low]

    async def test_jobs_of_names_that_are_not_known_are_left_alone(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            strange = [await b.add(name="new") for _ in range(3)]
            mine = await b.add(name="n")
            other = await b.add(name="m")

            assert await b.ids("a") == [mine]
            assert await b.ids("b", names=("m", "never")) == [other]
            assert await b.states(*strange) == [JobState.READY] * 3
            assert await b.ids("a", names=("n", "new")) == strange

    async def test_jobs_of_other_queues_are_left_alone(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            mail, mine = await b.add(queue="mail"), await b.add()

            assert await b.ids() == [mine]
            assert await b.ids(queues=("nothing",)) == []
            assert await b.ids(queues=("nothing", "mail")) == [mail]

    async def test_each_queue_gets_its_share_of_a_fetch(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            many = [await b.add(queue="many") for _ in range(20)]
            few = [await b.add(queue="few") for _ in range(20)]
            got = await b.ids("a", 6, queues=("many", "few"))

            assert sorted(got) == sorted([*many[:3], *few[:3]])

    async def test_where_one_queue_has_less_others_get_more(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            many = [await b.add(queue="many") for _ in range(20)]
            few = [await b.add(queue="few") for _ in range(2)]
            await b.add(queue="few", name="strange")
            await b.add(queue="few", delay=5.0)
            got = await b.ids("a", 10, queues=("few", "many", "empty"))

            assert sorted(got) == sorted([*few, *many[:8]])
            assert await b.ids("b", 100, queues=("few", "many", "empty")) == many[8:]

    async def test_no_more_are_given_than_asked_for_also_when_runs_are_long(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            for lane in "xyz":
                await b.add_many(10, lane=lane)
            await b.add_many(10)

            assert len(await b.ids("a", 7, run=5)) == 7
            assert len(await b.ids("b", 1, run=5)) == 1
            assert await b.ids("c", 0) == []

    async def test_a_delayed_job_is_fetched_when_it_is_due_and_not_before(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(delay=30.0)
            due = b.now + 30
            view = await b.view(job_id)
            assert (view.state, view.due_at) == (JobState.SCHEDULED, near(due))
            batch = await b.batch()
            assert (list(batch.jobs), batch.recheck_in) == ([], near(30.0, 1e-3))
            await b.let_pass(29.999)
            batch = await b.batch()
            assert (list(batch.jobs), batch.recheck_in) == ([], near(0.001, 1e-4))
            await b.let_pass(0.001)
            job = await b.one()

            assert job.id == job_id
            assert job.due_at == near(due)

    async def test_a_time_that_has_passed_is_now(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            past = await b.add(at=b.now - 365 * 24 * 3600, priority=0)
            high = await b.add(priority=100)

            assert (await b.view(past)).due_at == near(b.now, 0.01)
            assert await b.ids() == [high, past]

    async def test_a_job_for_a_time_is_fetched_from_then_on(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            soon, late = await b.add(at=b.now + 10), await b.add(at=b.now + 20)
            past = await b.add(at=b.now - 1000)

            assert await b.ids() == [past]
            await b.let_pass(10)
            assert await b.ids() == [soon]
            await b.let_pass(10)
            assert await b.ids() == [late]

    async def test_delayed_jobs_come_in_the_order_of_their_times_however_late_one_looks(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            third, first, second = await b.add(delay=30.0), await b.add(delay=10.0), await b.add(delay=20.0)
            await b.let_pass(25)
            between = await b.add()
            await b.let_pass(25)
            last = await b.add()

            assert await b.ids() == [first, second, between, third, last]

    async def test_a_delayed_job_of_high_priority_waits_for_its_time_and_comes_first_then(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            urgent = await b.add(priority=100, delay=10.0)
            usual = [await b.add() for _ in range(3)]

            assert await b.ids("a", 1) == usual[:1]
            await b.let_pass(10)
            assert await b.ids("a") == [urgent, *usual[1:]]

    async def test_one_looks_again_when_the_next_job_of_its_queues_is_due(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(delay=500.0)
            await b.add(delay=5.0, queue="other")
            await b.add(delay=50.0)

            assert (await b.batch()).recheck_in == near(50.0, 0.01)
            assert (await b.batch(queues=("q", "other"))).recheck_in == near(5.0, 0.01)
            assert (await b.batch(queues=("empty",))).recheck_in == math.inf

    async def test_many_jobs_that_become_due_at_once_are_all_given(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await b.add_many(1500, delay=10.0)
            await b.let_pass(10)
            got: list[int] = []
            while jobs := await b.fetch("a", 500):
                got += [job.id for job in jobs]

            assert sorted(got) == ids

    async def test_a_retried_job_has_a_new_time_and_one_handed_back_keeps_the_old(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            retried, returned, snoozed = [await b.add() for _ in range(3)]
            jobs = await b.fetch()
            await b.let_pass(1)
            other = await b.add()
            await b.let_pass(1)
            await b.end(jobs[0], Outcome.RETRY, delay=0.0)
            await b.end(jobs[1], Outcome.RETURNED)
            await b.let_pass(1)
            await b.end(jobs[2], Outcome.SNOOZED, delay=0.0)

            again = await b.fetch()
            assert [job.id for job in again] == [returned, other, retried, snoozed]
            assert again[0].due_at == near(jobs[1].due_at)
            assert again[3].due_at == near(b.now)

    async def test_a_session_that_has_ended_gets_nothing(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(lane="l")
            await b.store.sessions.end("a")
            appetites = [FetchRequest(session, ("q",), ("n",), 10, 10, 1) for session in ("a", "never", "b")]
            assert await b.jobs.fetch(appetites[0]) == SessionEnded()
            assert await b.jobs.fetch(appetites[1]) == SessionEnded()
            await b.let_pass(SESSION, "c")
            assert isinstance(await b.jobs.fetch(appetites[2]), SessionEnded)

            assert await b.state(job_id) is JobState.READY
            assert await b.ids("c") == [job_id]
