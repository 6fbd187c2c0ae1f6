"""Lanes that a person holds, and lanes parked after a failure."""

from __future__ import annotations

import pytest

from interlock.ports.jobs import JobState, OnFailure, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.clock import until
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import JobSuite, near, slots

__all__ = ["HoldConformance"]


class HoldConformance(JobSuite):
    """No further job of a held or parked lane starts until it is released."""

    async def test_a_lane_that_is_held_before_its_first_job_comes(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.jobs.hold("l", Attribution("ann", "deploying"))
            ids = [await b.add(lane="l") for _ in range(2)]
            other = await b.add(lane="m")

            assert await b.ids(run=5) == [other]
            assert await b.states(*ids) == [JobState.HELD, JobState.BEHIND]
            assert await b.jobs.release("l", ANN)
            assert await b.ids(run=5) == ids

    async def test_a_lane_that_is_held_while_its_head_is_ready(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(2)]
            await b.one("a")
            await b.jobs.return_unstarted("a")
            await b.jobs.hold("l", Attribution("ann", "deploying"))
            assert await b.fetch(run=5) == []
            assert await b.states(*ids) == [JobState.HELD, JobState.BEHIND]
            assert await b.jobs.release("l", ANN)

            assert await b.ids(run=5) == ids

    async def test_what_runs_goes_on_and_nothing_follows(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(2)]
            job = await b.one()
            await b.jobs.hold("l", Attribution("ann", "deploying"))
            assert await b.state(ids[0]) is JobState.FETCHED
            await b.done(job)
            assert await b.fetch() == []
            assert await b.states(*ids) == [JobState.DONE, JobState.HELD]
            assert await b.jobs.release("l", ANN)

            assert await b.ids() == [ids[1]]

    async def test_a_release_while_a_job_runs_lets_the_next_follow_only_after_it(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(2)]
            job = await b.one()
            await b.jobs.hold("l", Attribution("ann", "deploying"))
            assert await b.jobs.release("l", ANN)
            assert await b.fetch("b") == []
            await b.done(job)

            assert await b.ids("b") == [ids[1]]

    async def test_sessions_that_have_fetched_more_of_the_lane_are_told_and_return_it(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(4)]
            other = await b.add(lane="m")
            run = await b.fetch("a", run=3)
            taken: dict[str, str] = {}
            await b.store.messages.listen("a", lambda _: None, taken.__setitem__)
            b.store.messages.watch(waiting=True)
            await b.jobs.hold("l", Attribution("ann", "deploying"))
            told = {job.id: f"a.{job.fence}.j{job.id}" for job in run}
            await until(lambda: {told[ids[1]], told[ids[2]]} <= set(taken), what="the session is notified of each")
            assert not any(owner.endswith(f".j{other}") for owner in taken)
            assert all(why.startswith("held") for why in taken.values()), taken
            await b.done(next(job for job in run if job.id == ids[0]))
            for job in run:
                if job.id in ids[1:]:
                    await b.end(job, Outcome.RETURNED)

            assert await b.fetch("b", run=10) == []
            assert await b.states(*ids[1:]) == [JobState.HELD, JobState.BEHIND, JobState.BEHIND]
            await b.jobs.release("l", ANN)
            assert await b.ids("b", run=10) == ids[1:]

    async def test_a_head_that_waits_for_its_time_is_held_when_it_is_due(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(2)]
            await b.end(await b.one(), Outcome.RETRY, delay=10.0)
            await b.jobs.hold("l", Attribution("ann", "deploying"))
            await b.let_pass(20)
            assert await b.fetch() == []
            assert await b.states(*ids) == [JobState.HELD, JobState.BEHIND]
            await b.jobs.release("l", ANN)

            assert await b.ids(run=10) == ids

    async def test_a_delayed_job_that_is_due_in_a_held_lane_is_held(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(lane="l", delay=10.0)
            await b.jobs.hold("l", Attribution("ann", "deploying"))
            await b.let_pass(10)
            assert await b.fetch() == []
            assert await b.state(job_id) is JobState.HELD
            assert await b.jobs.release("l", ANN)

            assert await b.ids() == [job_id]

    async def test_a_release_lets_a_head_wait_for_what_it_waits_for(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1),))
            busy = await b.one()
            limited = await b.add(lane="l", uses=(slots(1),))
            later = await b.add(lane="m")
            await b.end(await b.one(), Outcome.RETRY, delay=60.0)
            assert await b.fetch() == []
            for lane in "lm":
                await b.jobs.hold(lane, Attribution("ann", "deploying"))
                assert await b.jobs.release(lane, ANN)

            assert await b.fetch() == []
            assert await b.states(limited, later) == [JobState.WAITING, JobState.SCHEDULED]
            await b.done(busy)
            assert await b.ids() == [limited]

    async def test_handing_back_and_rescue_do_not_end_a_hold(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first, second = await b.add(lane="l"), await b.add(lane="m")
            await b.one("a")
            await b.one("b")
            for lane in "lm":
                await b.jobs.hold(lane, Attribution("ann", "deploying"))
            await b.jobs.return_unstarted("a")
            await b.crash("b")

            assert await b.fetch("c") == []
            assert await b.states(first, second) == [JobState.HELD] * 2
            for lane in "lm":
                assert await b.jobs.release(lane, ANN)
            assert await b.ids("c") == [first, second]

    async def test_a_hold_is_told_with_who_and_why_and_since_when(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(lane="l")
            b.clock.advance(3)
            since = b.now
            await b.jobs.hold("l", Attribution("ann", "größere Arbeiten"))
            b.clock.advance(5)
            situation, lane = await b.situation(job_id), await b.lane()

            assert (situation.held_by, situation.held_reason) == ("ann", "größere Arbeiten")
            assert (lane.held_by, lane.held_reason) == ("ann", "größere Arbeiten")
            assert lane.state is JobState.HELD
            assert situation.held_since == lane.held_since == lane.since == near(since)
            (short,) = (await b.store.insight.lanes(limit=1)).lanes
            assert short.since == near(since)

    async def test_an_empty_lane_that_is_held_is_told_until_it_is_released(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            since = b.now
            await b.jobs.hold("l", Attribution("ann", "deploying"))
            lane = await b.lane()
            assert (lane.state, lane.head, lane.depth) == (JobState.HELD, None, 0)
            assert lane.since == near(since)
            assert [view.lane for view in await b.lanes()] == ["l"]
            assert await b.jobs.release("l", ANN)

            assert await b.lanes() == []
            assert not await b.jobs.release("l", ANN)
            job_id = await b.add(lane="l")
            assert await b.ids() == [job_id]

    async def test_holding_once_more_is_still_one_hold(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(lane="l")
            await b.jobs.hold("l", Attribution("ann", "deploying"))
            await b.jobs.hold("l", Attribution("bob", "still deploying"))
            assert await b.fetch() == []
            assert await b.jobs.release("l", ANN)

            assert await b.ids() == [job_id]
            assert not await b.jobs.release("l", ANN)

    async def test_releasing_what_is_not_held_changes_nothing(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(2)]
            job = await b.one()
            assert not await b.jobs.release("l", ANN)
            assert not await b.jobs.release("never", ANN)
            assert await b.fetch("b") == []
            await b.done(job)

            assert await b.ids() == [ids[1]]

    async def test_a_failure_for_good_parks_the_lane_until_it_is_released(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l", on_failure=OnFailure.PARK) for _ in range(3)]
            b.clock.advance(3)
            since = b.now
            await b.end(await b.one(), Outcome.FAILED, error="ValueError: broken")
            assert await b.fetch(run=5) == []
            assert await b.states(*ids) == [JobState.FAILED, JobState.HELD, JobState.BEHIND]
            situation, lane = await b.situation(ids[1]), await b.lane()
            assert (situation.held_by, lane.held_by) == ("", "")
            assert "ValueError: broken" in situation.parked_reason
            assert situation.parked_since == lane.parked_since == lane.since == near(since)
            assert (situation.held_since, lane.held_since) == (None, None)
            assert (lane.state, lane.head, lane.depth) == (JobState.HELD, ids[1], 2)
            assert await b.jobs.release("l", ANN)

            assert await b.ids(run=5) == ids[1:]

    async def test_a_parked_lane_stays_parked_for_jobs_that_come_later(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(lane="l", on_failure=OnFailure.PARK)
            await b.end(await b.one(), Outcome.FAILED, error="no")
            assert (await b.lane()).state is JobState.HELD
            later = await b.add(lane="l")
            assert await b.fetch() == []
            assert await b.state(later) is JobState.HELD
            assert await b.jobs.release("l", ANN)

            assert await b.ids() == [later]

    @pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.DISCARDED, Outcome.CANCELLED])
    async def test_only_a_failure_parks_the_lane(self, store_url: str, outcome: Outcome) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l", on_failure=OnFailure.PARK) for _ in range(2)]
            await b.end(await b.one(), outcome)

            assert await b.ids() == [ids[1]]

    async def test_the_rest_of_a_run_waits_when_the_lane_is_parked(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l", on_failure=OnFailure.PARK) for _ in range(4)]
            run = await b.fetch("a", run=3)
            await b.end(run[0], Outcome.FAILED, error="no")
            assert await b.jobs.return_unstarted("a") == 2
            assert await b.fetch("b", run=5) == []
            assert await b.states(*ids) == [JobState.FAILED, JobState.HELD, JobState.BEHIND, JobState.BEHIND]
            await b.jobs.release("l", ANN)

            assert await b.ids("b", run=5) == ids[1:]

    async def test_a_lane_both_parked_and_held_goes_on_when_it_is_released(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l", on_failure=OnFailure.PARK) for _ in range(2)]
            job = await b.one()
            await b.jobs.hold("l", Attribution("ann", "deploying"))
            await b.end(job, Outcome.FAILED, error="no")
            assert await b.fetch() == []
            assert await b.jobs.release("l", ANN)

            assert await b.ids() == [ids[1]]
            assert not await b.jobs.release("l", ANN)

    async def test_a_parked_job_keeps_its_position_until_a_person_acts(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(2)]
            alone = await b.add()
            for job in await b.fetch():
                await b.end(job, Outcome.PARKED, error="arguments: unknown field")
            assert await b.fetch() == []
            assert await b.states(*ids, alone) == [JobState.PARKED, JobState.BEHIND, JobState.PARKED]
            view = await b.view(ids[0])
            assert (view.error, view.attempt) == ("arguments: unknown field", 0)
            await b.let_pass(100_000)
            assert await b.fetch() == []
            assert await b.jobs.retry(ids[0], Attribution("ann")) is JobState.READY
            assert await b.jobs.retry(alone, Attribution("ann")) is JobState.READY
            jobs = await b.fetch(run=5)

            assert {job.id for job in jobs} == {*ids, alone}
            assert {job.attempt for job in jobs} == {1}
