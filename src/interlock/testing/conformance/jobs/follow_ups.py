"""Follow-ups: jobs that the store accepts in the transaction that acknowledges another job as done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.ports.jobs import Acknowledgement, JobState, Outcome
from interlock.testing.conformance.jobs.driver import JobDriver, JobSuite, near, new_job, slots

if TYPE_CHECKING:
    from interlock.ports.jobs import FetchedJob, NewJob

__all__ = ["FollowUpConformance"]


async def _followed_by(b: JobDriver, job: FetchedJob, count: int = 1, **changes: Any) -> Acknowledgement:
    """A job that is done, and so many follow-ups in the queue ``next``."""
    given = {"queue": "next", "name": "next", "cause": f"job:{job.id}"} | changes
    new: tuple[NewJob, ...] = tuple(new_job(number, **given) for number in await b.jobs.ids(count))
    return Acknowledgement(job.id, job.fence, Outcome.DONE, follow_ups=new)


async def _next(b: JobDriver, session: str = "b") -> list[FetchedJob]:
    return await b.every(session, queues=("next",), names=("next",))


class FollowUpConformance(JobSuite):
    """Follow-ups are accepted together with the end of their job: exactly once, or not at all."""

    async def test_follow_ups_are_accepted_with_the_acknowledgement(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add()
            job = await b.one()
            done = await _followed_by(b, job, 3)
            assert (await b.acknowledged(done)).accepted == [True]
            assert await b.state(job.id) is JobState.DONE
            found = await _next(b)
            assert [(one.id, one.cause) for one in found] == [(new.id, f"job:{job.id}") for new in done.follow_ups]

    async def test_a_repeated_acknowledgement_accepts_no_follow_up_again(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add()
            done = await _followed_by(b, await b.one())
            again = done._replace(follow_ups=tuple(new._replace(id=new.id + 1) for new in done.follow_ups))
            assert (await b.acknowledged(done)).accepted == [True]
            assert (await b.acknowledged(again)).accepted == [True]
            assert len(await _next(b)) == 1
            assert (await b.acknowledged(done)).accepted == [True]
            assert await _next(b) == []

    async def test_a_refused_acknowledgement_accepts_no_follow_up(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add()
            late = await b.one()
            done = await _followed_by(b, late)
            await b.crash("a")
            assert (await b.acknowledged(done)).accepted == [False]
            job = await b.one("c")
            assert (await b.acknowledged(done)).accepted == [False]
            assert await _next(b) == []
            assert (await b.acknowledged(await _followed_by(b, job))).accepted == [True]
            assert len(await _next(b)) == 1

    async def test_acknowledgements_of_one_step_have_their_own_follow_ups(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await b.add_many(4)
            jobs = {job.id: job for job in await b.fetch()}
            gone = jobs[ids[0]]
            await b.done(gone)
            late = await _followed_by(b, gone, 2, arguments='{"of": "late"}')
            one = await _followed_by(b, jobs[ids[1]], 2, arguments='{"of": "one"}')
            failed = Acknowledgement(ids[2], jobs[ids[2]].fence, Outcome.FAILED, error="broken")
            plain = Acknowledgement(ids[3], jobs[ids[3]].fence, Outcome.DONE, result="7")
            assert (await b.acknowledged(late, plain, failed, one)).accepted == [True, True, True, True]
            assert [found.arguments for found in await _next(b)] == ['{"of": "one"}'] * 2
            assert await b.states(*ids) == [JobState.DONE, JobState.DONE, JobState.FAILED, JobState.DONE]

    async def test_follow_ups_keep_their_lanes_limits_and_delays(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(lane="l")
            behind = await b.add(lane="l")
            job = await b.one()
            (lane,) = (await _followed_by(b, job, 1, lane="l", queue="q", name="n")).follow_ups
            limited = (await _followed_by(b, job, 2, uses=(slots(1),))).follow_ups
            (later,) = (await _followed_by(b, job, 1, delay=60.0)).follow_ups
            done = Acknowledgement(job.id, job.fence, Outcome.DONE, follow_ups=(lane, *limited, later))
            await b.acknowledged(done)

            assert [await b.state(new.id) for new in (lane, later)] == [JobState.BEHIND, JobState.SCHEDULED]
            assert (await b.view(later.id)).due_at == near(b.now + 60)
            (first,) = await _next(b)
            assert first.id == limited[0].id
            await b.done(first)
            assert [one.id for one in await _next(b)] == [limited[1].id]
            (head,) = await b.fetch()
            assert head.id == behind
            await b.done(head)
            assert await b.ids() == [lane.id]

    async def test_a_follow_up_whose_key_is_held_is_left_out(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add_many(2)
            one, other = await b.fetch()
            first = await _followed_by(b, one, key="k", arguments='{"of": 1}')
            second = await _followed_by(b, other, key="k", arguments='{"of": 2}')
            assert (await b.acknowledged(first, second)).accepted == [True, True]
            assert [found.arguments for found in await _next(b)] == ['{"of": 1}']

    async def test_workers_are_told_of_follow_ups(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add()
            job = await b.one()
            assert await b.fetch(queues=("q", "next"), names=("n", "next")) == []
            await b.acknowledged(await _followed_by(b, job))
            assert len(await b.fetch(queues=("q", "next"), names=("n", "next"))) == 1
