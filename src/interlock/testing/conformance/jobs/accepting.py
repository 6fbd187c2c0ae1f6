"""Accepting jobs: all or none, once, in order, with any arguments."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import pytest

from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import MAX_ARGUMENT_BYTES, JobState, OnFailure, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import JobSuite, near, new_job, pace, slots

__all__ = ["AcceptingConformance"]


class AcceptingConformance(JobSuite):
    """What was accepted is there, exactly once."""

    async def test_nobody_gets_an_id_twice(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            blocks = await asyncio.gather(*(b.jobs.ids(count) for count in (1, 100, 7, 100, 1000, 1)))
            ids = [job_id for block in blocks for job_id in block]

            assert [len(block) for block in blocks] == [1, 100, 7, 100, 1000, 1]
            assert len(set(ids)) == len(ids)
            assert min(ids) > 0

    async def test_a_job_is_found_as_it_was_given(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            uses = (pace(3, 10.5, "p"), slots(2, "s"))
            text = json.dumps({"名前": "Zoë 🦀 \\ \" ' % $1 ?", "n": [1, None, 2.5]}, ensure_ascii=False)
            job_id = await b.add(
                name="report", queue="mail", lane="acme/api#7 — é", priority=80, uses=uses, arguments=text,
                options='{"timeout": 5}', on_failure=OnFailure.PARK,
            )  # fmt: skip
            view = await b.view(job_id)

            assert (view.id, view.name, view.queue, view.lane) == (job_id, "report", "mail", "acme/api#7 — é")
            assert (view.priority, view.state, view.attempt, view.crashes) == (80, JobState.READY, 0, 0)
            assert (view.arguments, view.options, view.uses) == (text, '{"timeout": 5}', uses)
            assert view.enqueued_at == view.due_at == near(b.now)
            assert view.seen_at == near(b.now)
            assert (view.fetched_at, view.finished_at, view.worker, view.error) == (None, None, None, "")
            assert (view.superseded_by, view.result, view.result_kept_until, view.attempts) == (None, None, None, ())

    async def test_a_fetched_job_carries_what_its_worker_needs(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(
                lane="l", priority=7, uses=(slots(2, "x"), pace(9, 1.0, "y"), slots(5, "z")), arguments='{"a":"ü"}',
                options='{"o":1}',
            )  # fmt: skip
            accepted_at = b.now
            b.clock.advance(5)
            job = await b.one()

            assert (job.id, job.name, job.queue, job.lane) == (job_id, "n", "q", "l")
            assert (job.attempt, job.crashes, job.priority) == (1, 0, 7)
            assert job.enqueued_at == job.due_at == near(accepted_at)
            assert (job.arguments, job.options) == ('{"a":"ü"}', '{"o":1}')
            assert job.fence > 0
            assert sorted(key for key in job.slots if key != "y") == ["x", "z"]

    async def test_arguments_and_results_of_the_largest_size_come_through(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            large = json.dumps("é" + "x" * (MAX_ARGUMENT_BYTES - 10))
            job_id = await b.add(arguments=large)
            job = await b.one()
            assert job.arguments == large
            await b.end(job, Outcome.DONE, result=large)
            view = await b.view(job_id)

            assert (view.arguments, view.result) == (large, large)

    async def test_all_jobs_of_a_call_are_accepted_or_none(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            known = await b.add()
            first, second = await b.jobs.ids(2)
            with pytest.raises(Exception, match=r"."):
                await b.jobs.enqueue([new_job(first), new_job(known), new_job(second, lane="l")])

            assert (await b.store.insight.get(first), await b.store.insight.get(second)) == (None, None)
            assert await b.lanes() == []
            assert await b.ids(run=10) == [known]

    async def test_no_jobs_are_no_trouble(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.jobs.enqueue([])
            await b.jobs.enqueue([], again=True)
            assert await b.list_jobs(JobFilter()) == []
            assert list((await b.jobs.acknowledge("a", [])).accepted) == []

    async def test_repeating_stores_nothing_twice_whatever_became_of_the_jobs(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await b.jobs.ids(5)
            jobs = [new_job(job_id, lane="l") for job_id in ids]
            await b.jobs.enqueue(jobs[:4])
            await b.jobs.enqueue(jobs[:4], again=True)
            await b.done(await b.one())
            retried = await b.one()
            await b.end(retried, Outcome.RETRY, delay=0.0)
            await b.jobs.enqueue(jobs[:4], again=True)
            running = await b.one()
            assert running.id == retried.id
            b.clock.advance(1)
            await b.jobs.enqueue(jobs, again=True)

            assert await b.state(ids[0]) is JobState.DONE
            assert (await b.view(ids[1])).fence == running.fence
            assert await b.states(*ids[1:]) == [JobState.FETCHED, *[JobState.BEHIND] * 3]
            await b.done(running)
            for job_id in ids[2:]:
                job = await b.one()
                assert job.id == job_id
                await b.done(job)
            assert await b.fetch() == []
            assert len(await b.list_jobs(JobFilter())) == 5

    async def test_repeating_keeps_the_order_inside_a_lane(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = list(await b.jobs.ids(3))
            await b.jobs.enqueue([new_job(job_id, lane="l") for job_id in first])
            later = await b.add(lane="l")
            await b.jobs.enqueue([new_job(job_id, lane="l") for job_id in first], again=True)

            assert await b.ids(run=10) == [*first, later]

    @pytest.mark.parametrize("pruned", [False, True])
    async def test_a_call_that_takes_effect_after_its_repetition_stores_nothing_twice(
        self, store_url: str, pruned: bool
    ) -> None:
        async with self.job_driver(store_url) as b:
            jobs = [new_job(job_id, lane="l" if job_id % 2 else "") for job_id in await b.jobs.ids(4)]
            await b.jobs.enqueue(jobs, again=True)
            done = await b.every(run=10)
            await b.done(*done)
            if pruned:
                await b.let_pass(60)
                while await b.jobs.prune(10):
                    pass
            with suppress(Exception):  # the answer is lost
                await b.jobs.enqueue(jobs)

            assert len(done) == 4
            assert await b.fetch(run=10) == []
            assert await b.lanes() == []
            states = [view.state for view in await b.list_jobs(JobFilter())]
            assert states == ([] if pruned else [JobState.DONE] * 4)

    async def test_repeating_does_not_bring_back_what_was_cancelled(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            await b.jobs.cancel(job_id, Attribution("ann", "not wanted"))
            await b.jobs.enqueue([new_job(job_id)], again=True)

            assert await b.state(job_id) is JobState.CANCELLED
            assert await b.fetch() == []

    async def test_jobs_of_a_call_take_their_positions_in_its_order(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = list(await b.jobs.ids(30))
            mixed = [*ids[1::2], *reversed(ids[::2])]
            await b.jobs.enqueue([new_job(job_id, lane="l") for job_id in mixed])

            assert await b.ids(run=100) == mixed

    async def test_positions_follow_the_order_of_the_calls_not_of_the_ids(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = list(await b.jobs.ids(8))
            order = [ids[n] for n in (5, 2, 7, 0, 1, 6, 3, 4)]
            for job_id in order:
                await b.jobs.enqueue([new_job(job_id, lane="l")])

            assert await b.ids(run=100) == order

    async def test_a_thousand_jobs_in_a_call_and_a_thousand_acknowledgements_in_one(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await b.jobs.ids(1000)
            await b.jobs.enqueue(
                [
                    new_job(
                        job_id, lane="" if job_id % 3 else f"lane-{job_id % 40}", arguments=json.dumps({"id": job_id})
                    )
                    for job_id in ids
                ]
            )
            seen: list[int] = []
            while jobs := [job for _ in range(20) for job in await b.fetch("a", 1000, run=100)]:
                seen += [job.id for job in jobs]
                assert all(job.arguments == json.dumps({"id": job.id}) for job in jobs)
                await b.done(*jobs)

            assert sorted(seen) == list(ids)
            assert len(await b.list_jobs(JobFilter(states=(JobState.DONE,)), limit=2000)) == 1000
            assert await b.lanes() == []

    async def test_namespaces_are_kept_apart(self, store_url: str) -> None:
        async with (
            self.job_driver(store_url, namespace=f"{self.namespace}-one") as one,
            self.job_driver(store_url, namespace=f"{self.namespace}-two") as two,
        ):
            mine = await one.add(lane="l", uses=(slots(1),))
            running = await one.one()
            theirs = await two.add(lane="l", uses=(slots(1),))
            await one.jobs.hold("l", Attribution("ann", "mine alone"))

            assert running.id == mine
            assert [job.id for job in await two.fetch()] == [theirs], "one namespace holds up another"
            assert [view.id for view in await one.list_jobs(JobFilter())] == [mine]
            assert [view.id for view in await two.list_jobs(JobFilter())] == [theirs]
            assert (await two.lane()).held_by == ""
            assert await two.jobs.return_unstarted("a") == 1
            assert await one.state(mine) is JobState.FETCHED
            await one.store.sessions.end("a")
            assert list(await two.jobs.rescue()) == []
            assert [rescued.id for rescued in await one.jobs.rescue()] == [mine]
            assert not await two.jobs.release("l", ANN)
