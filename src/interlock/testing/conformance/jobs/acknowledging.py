"""The ends of fetches: fences, acknowledgements, jobs handed back."""

from __future__ import annotations

import pytest

from interlock.ports.jobs import Acknowledgement, FetchRequest, FetchResult, JobState, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.jobs.driver import SESSION, JobSuite, near, pace, slots

__all__ = ["AcknowledgingConformance"]


class AcknowledgingConformance(JobSuite):
    """A fetch ends once, and only with its fence."""

    async def test_fences_of_a_job_grow_with_every_fetch(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(lane="l")
            fences = []
            for outcome in (Outcome.RETRY, Outcome.SNOOZED, Outcome.RETURNED, Outcome.FAILED):
                job = await b.one()
                fences.append(job.fence)
                await b.end(job, outcome)
            assert await b.jobs.retry(job_id, Attribution("ann")) is JobState.READY
            fences.append((await b.one("b")).fence)
            await b.jobs.return_unstarted("b")
            fences.append((await b.one("b")).fence)
            await b.crash("b")
            fences.append((await b.one("c")).fence)

            assert fences == sorted(set(fences))

    async def test_a_acknowledgement_with_another_fence_is_refused_and_changes_nothing(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(uses=(slots(1),), lane="l")
            old = await b.one("a")
            await b.end(old, Outcome.RETURNED)
            job = await b.one("b")
            for outcome in (Outcome.DONE, Outcome.FAILED, Outcome.RETRY, Outcome.SNOOZED, Outcome.PARKED):
                assert not await b.acknowledge(old, outcome, result='"late"', error="late")
            acknowledged = await b.jobs.acknowledge("b", [Acknowledgement(job_id, job.fence + 1, Outcome.DONE)])
            assert list(acknowledged.accepted) == [False]

            view = await b.view(job_id)
            assert (view.state, view.fence, view.error, view.attempts) == (JobState.FETCHED, job.fence, "", ())
            await b.done(job)

    async def test_a_acknowledgement_after_rescue_is_refused_and_changes_nothing(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first, second = await b.add(), await b.add(lane="l")
            jobs = await b.fetch("a")
            await b.crash("a")
            again = await b.one("b")
            for job in jobs:
                assert not await b.acknowledge(job, Outcome.DONE, result="1")
                assert not await b.acknowledge(job, Outcome.RETRY)

            assert again.id == first
            assert await b.states(first, second) == [JobState.FETCHED, JobState.READY]
            assert [attempt.outcome for attempt in (await b.view(second)).attempts] == ["crashed"]
            await b.end(again, Outcome.DONE, result="2")
            assert not await b.acknowledge(jobs[0], Outcome.DONE, result="1")
            assert (await b.view(first)).result == "2"

    async def test_a_acknowledgement_is_accepted_after_the_session_ended_as_long_as_the_fetch_stands(
        self, store_url: str
    ) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(), await b.add()]
            first, second = await b.fetch("a")
            await b.store.sessions.end("a")
            await b.done(first)
            assert [rescued.id for rescued in await b.jobs.rescue()] == [second.id]

            assert await b.states(*ids) == [JobState.DONE, JobState.READY]

    async def test_a_acknowledgement_is_accepted_after_the_session_ran_out_as_long_as_the_fetch_stands(
        self, store_url: str
    ) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(lane="l")
            job = await b.one("a")
            await b.let_pass(SESSION + 60, "b", "c")
            await b.end(job, Outcome.DONE, result="7")
            assert list(await b.jobs.rescue()) == []

            assert (await b.view(job_id)).result == "7"

    @pytest.mark.parametrize("outcome", list(Outcome))
    async def test_acknowledging_once_more_what_was_accepted_is_accepted_and_changes_nothing(
        self, store_url: str, outcome: Outcome
    ) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l", uses=(slots(1),)), await b.add()]
            jobs = await b.fetch()
            ends = [Acknowledgement(job.id, job.fence, outcome, 0.5, 5.0, None, "why", "trace") for job in jobs]
            assert list((await b.acknowledged(*ends)).accepted) == [True, True]
            before = [await b.view(job_id) for job_id in ids]
            b.clock.advance(0.5)
            assert list((await b.acknowledged(*ends)).accepted) == [True, True]

            after = [(await b.view(job_id))._replace(seen_at=0) for job_id in ids]
            assert after == [view._replace(seen_at=0) for view in before]

    async def test_a_done_job_stays_done(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            job = await b.one()
            await b.end(job, Outcome.DONE, result='"x"')
            b.clock.advance(1)
            assert await b.acknowledge(job, Outcome.DONE, result='"y"')
            await b.jobs.return_unstarted("a")
            await b.crash("a")

            view = await b.view(job_id)
            assert (view.state, view.result, view.crashes) == (JobState.DONE, '"x"', 0)

    async def test_each_of_many_acknowledgements_stands_on_its_own(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane=lane) for lane in ("", "x", "y", "", "z", "")]
            jobs = await b.fetch("a")
            stale = jobs[2]
            await b.end(stale, Outcome.RETURNED)
            again = await b.one("b")
            assert again.id == stale.id
            outcomes = (
                Outcome.DONE, Outcome.RETRY, Outcome.DONE, Outcome.FAILED, Outcome.RETURNED, Outcome.DISCARDED
            )  # fmt: skip
            acknowledged = await b.acknowledged(
                *(
                    Acknowledgement(job.id, job.fence, outcome, delay=9.0)
                    for job, outcome in zip(jobs, outcomes, strict=True)
                )
            )

            assert list(acknowledged.accepted) == [True, True, False, True, True, True]
            assert acknowledged.ready
            assert await b.states(*ids) == [
                JobState.DONE, JobState.SCHEDULED, JobState.FETCHED, JobState.FAILED, JobState.READY, JobState.DISCARDED
            ]  # fmt: skip

    async def test_acknowledging_what_nobody_knows_is_refused(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            never, unfetched = (await b.jobs.ids(1))[0], await b.add()
            ends = [Acknowledgement(never, 1, Outcome.DONE), Acknowledgement(unfetched, 1, Outcome.DONE)]

            assert list((await b.jobs.acknowledge("a", ends)).accepted) == [False, False]
            assert await b.state(unfetched) is JobState.READY

    async def test_it_is_told_whether_jobs_became_ready(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add()
            assert not (await b.done(await b.one())).ready
            await b.add_many(2, lane="l")
            assert (await b.done(await b.one())).ready
            assert not (await b.done(await b.one())).ready
            await b.add_many(2, uses=(slots(1),))
            (job,) = await b.fetch()
            assert (await b.done(job)).ready
            (job,) = await b.fetch()
            assert not (await b.done(job)).ready
            await b.add()
            job = await b.one()
            assert (await b.acknowledged(Acknowledgement(job.id, job.fence, Outcome.RETURNED))).ready

    async def test_attempts_are_counted_by_failures_alone(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            seen = []
            outcomes = (Outcome.SNOOZED, Outcome.RETRY, Outcome.RETURNED, Outcome.RETRY, Outcome.SNOOZED, Outcome.DONE)
            for outcome in outcomes:
                job = await b.one()
                assert (await b.view(job_id)).attempt == job.attempt
                seen.append(job.attempt)
                await b.end(job, outcome)

            assert seen == [1, 1, 2, 2, 3, 3]
            assert (await b.view(job_id)).attempt == 3

    async def test_a_session_hands_back_all_that_it_has_but_what_it_keeps(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane=lane) for lane in ("", "x", "", "y", "")]
            others = await b.add()
            mine = await b.fetch("a", 5)
            theirs = await b.one("b")
            assert theirs.id == others
            kept = [mine[1], mine[4]]
            assert await b.jobs.return_unstarted("a", [job.id for job in kept]) == 3

            assert await b.states(*ids) == [
                JobState.READY, JobState.FETCHED, JobState.READY, JobState.READY, JobState.FETCHED
            ]  # fmt: skip
            assert await b.state(others) is JobState.FETCHED
            assert not await b.acknowledge(mine[0]), "a job that was handed back is still its session's"
            await b.done(*kept)
            again = await b.fetch("c")
            assert [(job.id, job.attempt, job.crashes) for job in again] == [(ids[n], 1, 0) for n in (0, 2, 3)]
            assert [job.due_at for job in again] == [near(mine[n].due_at) for n in (0, 2, 3)]
            assert await b.jobs.return_unstarted("a") == 0

    async def test_a_run_that_is_handed_back_stands_in_its_lane_as_before(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(5)]
            run = await b.fetch("a", run=3)
            await b.done(run[0])
            assert await b.jobs.return_unstarted("a") == 2
            assert await b.states(*ids[1:]) == [JobState.READY, *[JobState.BEHIND] * 3]

            assert await b.ids("b", run=10) == ids[1:]

    async def test_what_is_handed_back_by_a_session_that_ended_is_no_crash(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(uses=(slots(1),))
            await b.one("a")
            await b.store.sessions.end("a")
            assert await b.jobs.return_unstarted("a") == 1
            assert list(await b.jobs.rescue()) == []

            job = await b.one("b")
            assert (job.id, job.crashes, job.attempt) == (job_id, 0, 1)

    async def test_only_what_was_fetched_up_to_a_turn_goes_back(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane=lane) for lane in ("", "x", "", "y")]
            for fetch_number in range(1, 5):
                assert await b.ids(limit=1, fetch_number=fetch_number) == [ids[fetch_number - 1]]
            assert await b.jobs.return_unstarted("a", [ids[0]], fetch_number=3) == 2
            assert await b.states(*ids) == [JobState.FETCHED, JobState.READY, JobState.READY, JobState.FETCHED]
            assert await b.jobs.return_unstarted("a", fetch_number=3) == 1, "it comes a second time, late"

            assert await b.states(*ids) == [JobState.READY, JobState.READY, JobState.READY, JobState.FETCHED]

    async def test_a_fetch_that_comes_after_its_turn_was_handed_back_gives_nothing(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(lane="l", uses=(slots(1), pace(1, 60.0, "p")))
            assert await b.jobs.return_unstarted("a", fetch_number=2) == 0
            for fetch_number in (1, 2):
                late = await b.jobs.fetch(FetchRequest("a", ("q",), ("n",), 10, 10, 1, fetch_number))
                assert isinstance(late, FetchResult)
                assert list(late.jobs) == []
            assert await b.state(job_id) is JobState.READY
            assert await b.jobs.return_unstarted("a", fetch_number=1) == 0

            late = await b.jobs.fetch(FetchRequest("a", ("q",), ("n",), 10, 10, 1, 2))
            assert isinstance(late, FetchResult)
            assert list(late.jobs) == [], "an older fetch_number that came late let it in again"
            assert await b.ids(fetch_number=3) == [job_id]

    async def test_turns_are_each_sessions_own(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add() for _ in range(2)]
            assert await b.jobs.return_unstarted("a", fetch_number=5) == 0
            assert await b.ids("b", 1, fetch_number=1) == ids[:1]
            assert await b.jobs.return_unstarted("a", fetch_number=9) == 0

            assert await b.ids("b", fetch_number=2) == ids[1:]
            assert await b.jobs.return_unstarted("b", fetch_number=9) == 2

    async def test_handing_back_all_bars_nothing(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            assert await b.ids(fetch_number=7) == [job_id]
            assert await b.jobs.return_unstarted("a") == 1

            assert await b.ids(fetch_number=7) == [job_id]

    async def test_the_rest_of_a_run_is_returned_with_what_ended_it(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(5)]
            run = await b.fetch("a", run=4)
            outcomes = (Outcome.DONE, Outcome.RETRY, Outcome.RETURNED, Outcome.RETURNED)
            ends = [Acknowledgement(job.id, job.fence, outcome) for job, outcome in zip(run, outcomes, strict=True)]
            assert all((await b.acknowledged(*ends)).accepted)
            assert await b.states(*ids[1:]) == [JobState.READY, *[JobState.BEHIND] * 3]

            assert await b.ids("b", run=10) == ids[1:]

    async def test_a_run_is_nobody_elses_until_all_of_it_has_ended(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(4)]
            run = await b.fetch("a", run=3)
            assert [job.id for job in run] == ids[:3]
            for job in reversed(run):
                assert await b.fetch("b", run=10) == []
                await b.done(job)

            assert await b.ids("b", run=10) == ids[3:]

    async def test_a_run_whose_jobs_are_returned_before_their_head_ends_keeps_its_order(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(3)]
            head, *rest = await b.fetch("a", run=3)
            for job in rest:
                await b.end(job, Outcome.RETURNED)
            assert await b.fetch("b", run=10) == [], "the lane went on while its head runs"
            assert await b.states(*ids) == [JobState.FETCHED, JobState.BEHIND, JobState.BEHIND]
            await b.end(head, Outcome.RETRY, delay=5.0)
            assert await b.fetch("b", run=10) == []
            await b.let_pass(5)

            assert await b.ids("b", run=10) == ids
