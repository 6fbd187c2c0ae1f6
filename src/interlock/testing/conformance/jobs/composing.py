"""Keys, jobs that wait for others, and expiry: at the port."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from interlock.errors import KeyConflictError, NotFoundError
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import IfFailed, JobState, NewJob, OnFailure, Outcome
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import JobDriver, near, new_job, pace, slots
from interlock.testing.conformance.jobs.races import HandsSuite

__all__ = ["ComposingConformance"]


async def enqueue(b: JobDriver, count: int = 1, **changes: Any) -> list[int]:
    """Enqueue so many jobs; returns those that were accepted, or that hold their keys."""
    ids = await b.jobs.ids(count)
    existing = await b.jobs.enqueue([new_job(job_id, **changes) for job_id in ids])
    return [existing.get(job_id, job_id) for job_id in ids]


async def waiting(b: JobDriver, *after: int, **changes: Any) -> int:
    """Add a job that waits for others."""
    return await b.add(after=after, **changes)


class ComposingConformance(HandsSuite):
    """Jobs that depend on each other and on time."""

    # -- keys ------------------------------------------------------------------------------------------------------

    async def test_of_jobs_with_one_key_only_the_first_is_accepted(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            (first,) = await enqueue(b, key="k")
            again = await enqueue(b, 3, key="k")

            assert again == [first] * 3
            assert await b.ids() == [first]
            assert [view.id for view in await b.list_jobs(JobFilter())] == [first]

    async def test_a_key_belongs_to_the_name_of_the_job_and_the_namespace(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b, self.job_driver(store_url, b.clock, namespace="other-keys") as c:
            (first,) = await enqueue(b, key="k")
            (of_another_name,) = await enqueue(b, key="k", name="m")
            found = await enqueue(c, key="k")

            assert of_another_name != first
            assert await b.ids() == [first]
            if store_url != "memory://":  # each has a store of its own
                assert found not in ([first], [of_another_name])

    async def test_one_call_may_have_many_keys_and_one_of_them_twice(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            (known,) = await enqueue(b, key="b")
            ids = await b.jobs.ids(5)
            keys = ["c", "a", "b", "a", ""]
            existing = await b.jobs.enqueue([new_job(i, key=key) for i, key in zip(ids, keys, strict=True)])

            assert existing == {ids[2]: known, ids[3]: ids[1]}
            assert sorted(await b.ids()) == sorted([known, ids[0], ids[1], ids[4]])

    async def test_a_key_is_held_until_the_job_has_ended_and_for_a_while_after(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            (first,) = await enqueue(b, key="k", keep_key=60.0)
            await b.end(await b.one(), Outcome.RETRY, delay=1.0)
            assert await enqueue(b, key="k") == [first]
            await b.let_pass(1)
            await b.done(await b.one())
            await b.let_pass(59)
            assert await enqueue(b, key="k") == [first]
            await b.let_pass(2)
            (second,) = await enqueue(b, key="k", keep_key=60.0)

            assert second != first
            assert await enqueue(b, key="k") == [second]
            assert await b.ids() == [second]

    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.DISCARDED, Outcome.CANCELLED])
    async def test_a_key_is_held_however_the_job_ended(self, store_url: str, outcome: Outcome) -> None:
        async with self.job_driver(store_url) as b:
            (first,) = await enqueue(b, key="k", keep_key=60.0)
            await b.end(await b.one(), outcome)

            assert await enqueue(b, key="k") == [first]
            await b.let_pass(61)
            assert await enqueue(b, key="k") != [first]

    async def test_other_arguments_under_a_key_are_refused_and_nothing_is_stored(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            (first,) = await enqueue(b, key="k", arguments='{"a":1,"b":2}')
            other, keyed = await b.jobs.ids(2)
            with pytest.raises(KeyConflictError, match=f"belongs to job {first}"):
                await b.jobs.enqueue([new_job(other), new_job(keyed, key="k", arguments='{"a":2,"b":2}')])
            same = await enqueue(b, key="k", arguments='{"b": 2, "a": 1}')

            assert same == [first]
            assert await b.store.insight.get(other) is None
            assert await b.ids() == [first]

    async def test_repeating_a_call_with_keys_stores_nothing_twice(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            (first,) = await enqueue(b, key="x")
            ids = await b.jobs.ids(3)
            jobs = [new_job(ids[0], key="k"), new_job(ids[1], key="x"), new_job(ids[2])]
            answers = [await b.jobs.enqueue(jobs), *[await b.jobs.enqueue(jobs, again=True) for _ in range(2)]]
            assert sorted(await b.ids()) == sorted([first, ids[0], ids[2]])
            answers.append(await b.jobs.enqueue(jobs, again=True))

            assert answers == [{ids[1]: first}] * 4
            assert await b.fetch() == []

    async def test_a_call_with_keys_that_comes_after_its_repetition_stores_nothing_twice(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            jobs = [new_job(job_id, key=f"k{job_id}", keep_key=0.0) for job_id in await b.jobs.ids(2)]
            await b.jobs.enqueue(jobs, again=True)
            await b.done(*await b.fetch())
            await b.let_pass(5)
            await b.jobs.enqueue(jobs, again=True)
            await b.jobs.enqueue(jobs)

            assert await b.fetch() == []

    async def test_keys_are_pruned_and_those_of_unfinished_jobs_are_not(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await enqueue(b, key="ended", keep_key=10.0)
            await b.done(await b.one())
            (unfinished,) = await enqueue(b, key="unfinished", keep_key=10.0)
            await b.let_pass(100)
            assert await b.jobs.prune(1000.0) == 1
            assert await b.jobs.prune(1000.0) == 0

            assert await enqueue(b, key="unfinished") == [unfinished]
            assert await enqueue(b, key="ended") != [unfinished]

    async def test_one_of_many_callers_with_one_key_creates_the_job(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            found = await asyncio.gather(*(enqueue(b, key="k") for _ in range(50)))

            assert len({one for (one,) in found}) == 1
            assert await b.ids() == found[0]

    async def test_one_of_several_processes_with_one_key_creates_the_job(self, store_url: str) -> None:
        async with self.hands(store_url) as hands:
            for key in ("x", "y"):
                found = await asyncio.gather(*(enqueue(hand, key=key) for _ in range(7) for hand in hands))
                assert len({one for (one,) in found}) == 1
            assert len(await hands[0].ids()) == 2

    async def test_rescue_and_retry_do_not_look_at_keys(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            (first,) = await enqueue(b, key="k", keep_key=1.0)
            await b.end(await b.one(), Outcome.FAILED)
            await b.let_pass(5)
            (second,) = await enqueue(b, key="k")
            await b.jobs.retry(first, ANN)
            assert sorted(await b.ids("b")) == sorted([first, second])
            await b.crash("b")

            assert await enqueue(b, key="k") == [second]
            assert await b.states(first, second) == [JobState.READY] * 2

    # -- waiting for others ----------------------------------------------------------------------------------------

    async def test_a_job_starts_after_the_others_are_done(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first, second = await b.add(), await b.add()
            last = await waiting(b, first, second)
            assert await b.state(last) is JobState.BLOCKED
            one, two = await b.fetch()
            await b.done(one)
            assert await b.fetch() == []
            assert await b.state(last) is JobState.BLOCKED
            b.clock.advance(7)
            await b.done(two)
            (job,) = await b.fetch()

            assert job.id == last
            assert job.due_at == near(b.now)

    async def test_a_job_that_waits_for_ended_ones_starts_at_once(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add()
            await b.done(await b.one())
            last = await waiting(b, first)

            assert await b.ids() == [last]

    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.DISCARDED, Outcome.CANCELLED])
    async def test_if_one_fails_the_others_are_cancelled_all_along(self, store_url: str, outcome: Outcome) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add()
            second = await waiting(b, first)
            third = await waiting(b, second, lane="l")
            fourth = await waiting(b, third, if_failed=IfFailed.RUN)
            await b.end(await b.one(), outcome, error="no luck")

            assert await b.ids() == [fourth]
            assert await b.states(second, third) == [JobState.CANCELLED] * 2
            assert f"job {first} " in (await b.view(second)).error
            assert "no luck" in (await b.view(second)).error
            assert f"job {second} was cancelled" in (await b.view(third)).error
            assert await b.lanes() == []

    async def test_a_cancelled_one_cancels_and_so_does_a_quarantined_one(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first, second = await b.add(lane="l"), await b.add(delay=100.0)
            after_first, after_second = await waiting(b, first), await waiting(b, second)
            await b.crashed(first, 3)
            await b.jobs.cancel(second, ANN)
            assert await b.fetch() == []

            assert await b.states(first, second) == [JobState.QUARANTINED, JobState.CANCELLED]
            assert await b.states(after_first, after_second) == [JobState.CANCELLED] * 2

    async def test_run_waits_for_all_and_runs_whatever_became_of_them(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first, second = await b.add(), await b.add()
            last = await waiting(b, first, second, if_failed=IfFailed.RUN)
            one, two = await b.fetch()
            await b.end(one, Outcome.FAILED)
            assert await b.fetch() == []
            await b.done(two)

            assert await b.ids() == [last]

    async def test_a_parked_one_goes_on_waiting_when_the_failed_one_is_retried(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first, second = await b.add(), await b.add()
            last = await waiting(b, first, second, if_failed=IfFailed.PARK, lane="l")
            one, two = await b.fetch()
            await b.end(one, Outcome.FAILED, error="no luck")
            await b.end(two, Outcome.FAILED)
            assert await b.fetch() == []
            assert await b.state(last) is JobState.PARKED
            other = await b.add(lane="l")
            await b.done(await b.one())
            assert await b.state(other) is JobState.DONE  # it takes no position in its lane yet
            await b.jobs.retry(first, ANN)
            assert await b.state(last) is JobState.PARKED
            await b.jobs.retry(second, ANN)
            assert await b.state(last) is JobState.BLOCKED
            await b.done(*await b.fetch())

            assert await b.ids() == [last]

    async def test_a_person_can_run_a_parked_one_all_the_same(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first, second = await b.add(), await b.add()
            last = await waiting(b, first, second, if_failed=IfFailed.PARK)
            one, two = await b.fetch()
            await b.end(one, Outcome.FAILED)
            assert await b.fetch() == []
            assert await b.jobs.retry(last, ANN) is JobState.BLOCKED
            await b.done(two)

            assert await b.ids() == [last]

    async def test_retrying_a_cancelled_one_waits_for_what_is_unfinished(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first, second = await b.add(), await b.add()
            options = f'{{"after":[{first},{second}],"if_failed":"cancel"}}'
            last = await waiting(b, first, second, options=options, lane="l")
            one, two = await b.fetch()
            await b.end(one, Outcome.FAILED)
            assert await b.fetch() == []
            assert await b.state(last) is JobState.CANCELLED
            assert await b.jobs.retry(last, ANN) is JobState.BLOCKED
            assert await b.fetch() == []
            await b.done(two)
            assert await b.ids() == [last]

    async def test_a_blocked_job_can_be_cancelled_and_not_retried(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add()
            plain, laned = await waiting(b, first), await waiting(b, first, lane="l")
            assert await b.jobs.retry(plain, ANN) is JobState.BLOCKED
            assert await b.jobs.cancel(plain, ANN) is JobState.CANCELLED
            assert await b.jobs.cancel(laned, ANN) is JobState.CANCELLED
            await b.done(await b.one())

            assert await b.fetch() == []
            assert await b.lanes() == []

    async def test_it_takes_its_position_when_the_others_have_ended(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add()
            last = await waiting(b, first, lane="l")
            before = await b.add(lane="l")
            one, two = await b.fetch()
            assert {one.id, two.id} == {first, before}
            await b.done(one, two)
            behind = await b.add(lane="l")
            (job,) = await b.fetch()

            assert job.id in (last, behind)
            assert (await b.lane()).depth == 2

    async def test_it_is_not_due_before_its_own_time(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add()
            last = await waiting(b, first, delay=100.0, lane="l")
            await b.done(await b.one())
            assert await b.fetch() == []
            assert await b.state(last) is JobState.SCHEDULED
            await b.let_pass(101)

            assert await b.ids() == [last]

    async def test_a_superseded_one_stands_for_the_one_that_superseded_it(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            old = await b.add(lane="l", coalesce=True)
            new = await b.add(lane="l", coalesce=True)
            last, both = await waiting(b, old), await waiting(b, old, new)
            job = await b.one()
            assert job.id == new
            assert await b.fetch() == []
            assert await b.states(old, last) == [JobState.SUPERSEDED, JobState.BLOCKED]
            await b.done(job)

            assert await b.ids() == [last, both]

    async def test_unknown_jobs_and_later_ones_of_a_call_are_refused(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            known, one, two = await b.add(), *await b.jobs.ids(2)
            for after in ((10**12,), (one,), (known, two)):
                with pytest.raises(NotFoundError, match=f"waits for job {after[-1]}"):
                    await b.jobs.enqueue([new_job(one, after=after), new_job(two, after=(known,))])
            await b.jobs.enqueue([new_job(one, after=(known,)), new_job(two, after=(one,))])

            assert await b.states(known, one, two) == [JobState.READY, JobState.BLOCKED, JobState.BLOCKED]

    async def test_a_pruned_job_is_unknown(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add()
            await b.done(await b.one())
            await b.let_pass(60)
            while await b.jobs.prune(10):
                pass
            with pytest.raises(NotFoundError, match="no longer kept"):
                await waiting(b, first)

    async def test_a_thousand_and_more_wait_for_one(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add()
            many = await b.add_many(2500, after=(first,))
            await b.done(await b.one())
            found: list[int] = []
            for _ in range(50):
                jobs = await b.fetch(limit=1000)
                if jobs:
                    await b.done(*jobs)
                found += [job.id for job in jobs]
                if len(found) >= len(many):
                    break

            assert sorted(found) == sorted(many)
            assert await b.fetch() == []

    @pytest.mark.parametrize("seed", [1, 2])
    async def test_a_graph_of_jobs_ends_as_its_edges_say(self, store_url: str, seed: int) -> None:
        random = Random(seed)
        async with self.hands(store_url) as hands:
            ids = list(await hands[0].jobs.ids(60))
            jobs: list[NewJob] = []
            expected: dict[int, JobState] = {}
            needed: dict[int, tuple[int, ...]] = {}
            for number, job_id in enumerate(ids):
                before = ids[max(0, number - 10) : number]
                after = tuple(random.sample(before, min(len(before), random.choice((0, 0, 1, 2, 3)))))
                if_failed = random.choice((IfFailed.CANCEL, IfFailed.CANCEL, IfFailed.RUN))
                lane = random.choice(("", "l", "m"))
                jobs.append(new_job(job_id, after=after, if_failed=if_failed, lane=lane))
                needed[job_id] = after
                if if_failed is IfFailed.CANCEL and any(expected[one] is not JobState.DONE for one in after):
                    expected[job_id] = JobState.CANCELLED
                else:
                    expected[job_id] = JobState.FAILED if random.random() < 0.15 else JobState.DONE
            runs = {job_id for job_id, state in expected.items() if state is not JobState.CANCELLED}
            ended: set[int] = set()

            async def add() -> None:
                for job in jobs:
                    await hands[0].jobs.enqueue([job])
                    await asyncio.sleep(0)

            async def work(hand: JobDriver, session: str) -> None:
                for _ in range(3000):
                    if ended >= runs:
                        return
                    for job in await hand.fetch(session, 3):
                        assert expected[job.id] is not JobState.CANCELLED
                        assert {one for one in needed[job.id] if one in runs} <= ended
                        ended.add(job.id)
                        await hand.end(job, Outcome.DONE if expected[job.id] is JobState.DONE else Outcome.FAILED)
                    await asyncio.sleep(0.001)

            await asyncio.gather(add(), *(work(hand, f"s{number}") for number, hand in enumerate(hands)))
            await hands[0].every()
            assert ended == runs
            assert dict(zip(ids, await hands[0].states(*ids), strict=True)) == expected

    async def test_a_blocked_job_is_listed_and_counted_and_says_what_it_waits_for(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first, second = await b.add(name="report"), await b.add()
            last = await waiting(b, first, second, lane="l")
            fetched = await b.one()
            assert fetched.id == second
            await b.started(fetched)
            situation = await b.situation(last)

            assert [view.id for view in await b.list_jobs(JobFilter((JobState.BLOCKED,)))] == [last]
            assert [view.id for view in await b.list_jobs(JobFilter((JobState.BLOCKED,), lane="l"))] == [last]
            assert (await b.queue()).blocked == 1
            assert (await b.store.insight.counts()).states[JobState.BLOCKED] == 1
            assert situation.needs_count == 2
            needs = {need.id: need for need in situation.needs}
            assert (needs[first].name, needs[first].state) == ("report", JobState.READY)
            assert (needs[second].state, needs[second].since) == (JobState.RUNNING, near(fetched.due_at, 1.0))

    # -- expiry ----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "changes",
        [{}, {"lane": "l"}, {"delay": 60.0}, {"lane": "l", "delay": 60.0}, {"uses": (slots(1, "s"),)}],
        ids=["ready", "lane", "scheduled", "scheduled in a lane", "limit"],
    )
    async def test_a_job_that_has_not_started_in_time_ends(self, store_url: str, changes: dict[str, Any]) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(expires=10.0, **changes), await b.add(expires_at=b.now + 10.0, **changes)]
            await b.let_pass(9)
            assert not any(state.final for state in await b.states(*ids))
            await b.let_pass(2)
            batch = await b.batch()

            assert batch.jobs == []
            assert await b.states(*ids) == [JobState.EXPIRED] * 2
            assert "not started by " in (await b.view(ids[0])).error
            assert await b.lanes() == []

    async def test_it_ends_also_while_it_waits_for_a_limit_or_behind_others_or_in_a_held_lane(
        self, store_url: str
    ) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1, "s"),))
            holder = await b.one()
            expired = [await b.add(uses=(slots(1, "s"),), expires=5.0), await b.add(uses=(slots(1, "s"),))]
            assert await b.fetch() == []  # they wait in line
            first = await b.add(lane="l")
            expired += [await b.add(lane="l", expires=5.0)]
            await b.jobs.hold("h", ANN)
            expired += [await b.add(lane="h", expires=5.0)]
            blocked = await waiting(b, first, expires=5.0)
            after = await waiting(b, expired[0], if_failed=IfFailed.RUN)
            await b.let_pass(6)
            (in_lane,) = [job for job in await b.fetch() if job.id == first]
            rest = await b.every()

            assert await b.states(expired[0], *expired[2:], blocked) == [JobState.EXPIRED] * 4
            assert [job.id for job in rest] in ([after], [])
            await b.done(in_lane)
            await b.done(holder)
            assert expired[1] in [job.id for job in await b.every()]
            assert await b.state(after) is JobState.FETCHED

    async def test_it_ends_in_a_paused_queue_too_whose_workers_serve_no_other(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add()
            first = await b.one("b")
            waits = await waiting(b, first.id, queue="other")
            paused = await b.add(expires=5.0)
            await b.jobs.pause("q", ANN)
            batch = await b.batch()
            assert batch.jobs == []
            assert 0 < batch.recheck_in <= 5
            await b.done(first)
            await b.let_pass(6)

            assert await b.fetch() == []
            assert await b.state(paused) is JobState.EXPIRED
            assert await b.state(waits) is JobState.READY

    async def test_an_expired_head_does_not_block_its_lane(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            head = await b.add(lane="l", expires=5.0, on_failure=OnFailure.PARK)
            behind = await b.add(lane="l")
            await b.let_pass(6)

            assert await b.ids() == [behind]
            assert await b.state(head) is JobState.EXPIRED

    async def test_a_fetched_job_comes_with_the_time_that_is_left(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            expiring = await b.add(expires=10.0)
            await b.let_pass(4)
            plain = await b.add()
            jobs = {job.id: job for job in await b.fetch()}

            assert jobs[expiring].expires_in == near(6.0, 0.01)
            assert jobs[plain].expires_in is None

    async def test_one_that_comes_back_unstarted_expires_and_one_that_has_started_does_not(
        self, store_url: str
    ) -> None:
        async with self.job_driver(store_url) as b:
            returned, laned = await b.add(expires=5.0), await b.add(expires=5.0, lane="l")
            retried, snoozed, crashed = [await b.add(expires=5.0) for _ in range(3)]
            jobs = {job.id: job for job in await b.fetch()}
            await b.let_pass(6)
            assert await b.fetch() == []
            assert await b.states(*jobs) == [JobState.FETCHED] * 5
            await b.end(jobs[returned], Outcome.RETURNED)
            await b.end(jobs[laned], Outcome.RETURNED)
            await b.end(jobs[retried], Outcome.RETRY, delay=0.0)
            await b.end(jobs[snoozed], Outcome.SNOOZED, delay=0.0)
            await b.crash("a")
            found = sorted([job.id for job in await b.every("b")])

            assert found == sorted([retried, snoozed, crashed])
            assert await b.states(returned, laned) == [JobState.EXPIRED] * 2

    async def test_a_person_can_run_an_expired_job_after_all(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            expired, scheduled = await b.add(expires=5.0), await b.add(expires=50.0, delay=90.0)
            await b.let_pass(6)
            assert await b.fetch() == []
            assert await b.jobs.retry(expired, ANN) is JobState.READY
            assert await b.jobs.retry(scheduled, ANN) is JobState.READY
            await b.let_pass(60)

            assert sorted(await b.ids()) == sorted([expired, scheduled])

    async def test_a_worker_looks_again_when_the_next_job_expires(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(expires=30.0, delay=100.0)
            batch = await b.batch()

            assert batch.recheck_in == near(30.0, 0.1)

    async def test_an_expired_job_does_not_use_a_pace(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            use = (pace(1, 100.0, "p"),)
            await b.add(uses=use, expires=5.0)
            await b.let_pass(6)
            other = await b.add(uses=use)

            assert await b.ids() == [other]
