"""Operations on jobs: cancel and retry."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.ports.jobs import MAX_CRASHES, JobState, OnFailure, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.clock import until
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import JobDriver, JobSuite, near, slots

__all__ = ["PeopleConformance"]

_ENDS = {
    JobState.DONE: Outcome.DONE,
    JobState.FAILED: Outcome.FAILED,
    JobState.DISCARDED: Outcome.DISCARDED,
    JobState.CANCELLED: Outcome.CANCELLED,
}
_STATES = [state for state in JobState if state is not JobState.SUPERSEDED]


async def _in_state(b: JobDriver, state: JobState) -> tuple[int, int]:
    """A job of lane ``l`` in this state, and the one behind it."""
    uses = (slots(1),) if state is JobState.WAITING else ()
    if uses:
        await b.add(uses=uses)
        await b.one("c")
    if state is JobState.HELD:
        await b.jobs.hold("l", Attribution("ann", "deploying"))
    if state is JobState.BEHIND:
        await b.add(lane="l")
        await b.one("c")
    changes: dict[str, Any] = {"uses": uses}
    if state is JobState.BLOCKED:
        changes["after"] = (await b.add(name="other"),)
    if state is JobState.EXPIRED:
        changes["expires"] = 0.5
    job_id, behind = await b.add(lane="l", **changes), await b.add(lane="l")
    if state is JobState.EXPIRED:
        b.clock.advance(1.0)
        await b.fetch(names=("other",))  # any fetch ends it
    if state in _ENDS:
        await b.end(await b.one(), _ENDS[state], error="broken")
    elif state is JobState.PARKED:
        await b.end(await b.one(), Outcome.PARKED, error="arguments")
    elif state is JobState.SCHEDULED:
        await b.end(await b.one(), Outcome.RETRY, delay=60.0, error="busy")
    elif state is JobState.FETCHED:
        await b.one()
    elif state is JobState.RUNNING:
        await b.started(await b.one())
    elif state is JobState.WAITING:
        assert await b.fetch() == []
    elif state is JobState.QUARANTINED:
        await b.crashed(job_id, MAX_CRASHES)
    assert await b.state(job_id) is state
    return job_id, behind


class PeopleConformance(JobSuite):
    """Cancelling and retrying by hand do in every state what they say, and nothing else."""

    @pytest.mark.parametrize("state", _STATES)
    async def test_cancelling_ends_a_job_that_does_not_run(self, store_url: str, state: JobState) -> None:
        async with self.job_driver(store_url) as b:
            job_id, behind = await _in_state(b, state)
            before = await b.view(job_id)
            after = await b.jobs.cancel(job_id, Attribution("ann", "not wanted"))

            view = await b.view(job_id)
            assert view.state is after
            if state.final or state.at_worker:
                assert after is state
                assert (view.finished_at, view.fence, view.attempts) == (
                    before.finished_at, before.fence, before.attempts
                )  # fmt: skip
                return
            assert after is JobState.CANCELLED
            assert "not wanted" in view.error
            assert view.finished_at == near(b.now)
            if state is JobState.HELD:
                assert await b.state(behind) is JobState.HELD
                await b.jobs.release("l", ANN)
            if state is JobState.BEHIND:
                assert await b.fetch() == []
                await b.jobs.return_unstarted("c")
                await b.done(await b.one())
            assert await b.ids() == [behind], "the lane does not go on"
            await b.let_pass(100)
            assert await b.fetch() == []

    async def test_cancelling_what_nobody_knows_is_none(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            (never,) = await b.jobs.ids(1)
            assert await b.jobs.cancel(never, Attribution("ann", "not wanted")) is None
            assert await b.jobs.retry(never, Attribution("ann")) is None
            assert await b.store.insight.get(never) is None
            assert list(await b.store.insight.situations([never])) == []

    async def test_a_delayed_job_is_cancelled(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane=lane, delay=10.0) for lane in ("", "l")]
            for job_id in ids:
                assert await b.jobs.cancel(job_id, Attribution("ann", "not wanted")) is JobState.CANCELLED
            await b.let_pass(10)
            batch = await b.batch()

            assert list(batch.jobs) == []
            assert await b.lanes() == []

    async def test_the_session_that_runs_a_job_is_told_of_its_cancelling(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            told = f"a.{(await b.one('a')).fence}.j{job_id}"
            taken: dict[str, str] = {}
            await b.store.messages.listen("a", lambda _: None, taken.__setitem__)
            b.store.messages.watch(waiting=True)
            assert await b.jobs.cancel(job_id, Attribution("ann", "not wanted")) is JobState.FETCHED

            await until(lambda: told in taken, what="the session is notified")
            assert taken[told].startswith("cancelled")

    @pytest.mark.parametrize("outcome", list(Outcome))
    async def test_whatever_a_cancelled_job_acknowledges_but_done_counts_as_cancelled(
        self, store_url: str, outcome: Outcome
    ) -> None:
        async with self.job_driver(store_url) as b:
            job_id, behind = await b.add(lane="l", on_failure=OnFailure.PARK, uses=(slots(1),)), await b.add(lane="l")
            job = await b.one()
            await b.jobs.cancel(job_id, Attribution("ann", "not wanted"))
            result = "7" if outcome is Outcome.DONE else None
            await b.end(job, outcome, delay=5.0, error="" if result else "stopped", result=result)

            view = await b.view(job_id)
            if outcome is Outcome.DONE:
                assert (view.state, view.result) == (JobState.DONE, "7")
            else:
                assert view.state is JobState.CANCELLED
                assert "not wanted" in view.error
            assert await b.ids() == [behind]
            await b.let_pass(10)
            assert await b.fetch() == []

    async def test_a_cancelled_job_that_is_handed_back_is_cancelled(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id, behind = await b.add(lane="l"), await b.add(lane="l")
            await b.one("a")
            await b.jobs.cancel(job_id, Attribution("ann", "not wanted"))
            await b.jobs.return_unstarted("a")

            assert await b.state(job_id) is JobState.CANCELLED
            assert await b.ids("b") == [behind]

    async def test_one_of_a_run_is_cancelled(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(4)]
            run = await b.fetch("a", run=3)
            assert await b.jobs.cancel(ids[1], Attribution("ann", "not wanted")) is JobState.FETCHED
            await b.done(run[0])
            await b.end(run[1], Outcome.RETURNED)
            assert await b.state(ids[1]) is JobState.CANCELLED
            await b.done(run[2])

            assert await b.ids("b", run=5) == ids[3:]

    @pytest.mark.parametrize("state", _STATES)
    async def test_retrying_by_hand_makes_a_job_ready(self, store_url: str, state: JobState) -> None:
        async with self.job_driver(store_url) as b:
            job_id, behind = await _in_state(b, state)
            before = await b.view(job_id)
            after = await b.jobs.retry(job_id, Attribution("ann"))
            view = await b.view(job_id)
            assert view.state is after

            if state in (JobState.SCHEDULED, JobState.PARKED):
                assert after is JobState.READY
                assert await b.ids(run=5) == [job_id, behind], "the position is kept"
            elif state in (
                JobState.FAILED,
                JobState.DISCARDED,
                JobState.CANCELLED,
                JobState.QUARANTINED,
                JobState.EXPIRED,
            ):
                assert after is JobState.BEHIND
                assert (view.attempt, view.crashes, view.finished_at) == (0, 0, None)
                jobs = await b.fetch(run=5)
                assert [job.id for job in jobs] == [behind, job_id], "the position is a new one"
                assert (jobs[1].attempt, jobs[1].crashes) == (1, 0)
                assert jobs[1].fence > before.fence
                await b.end(jobs[1], Outcome.DONE, result="8")
                assert (await b.view(job_id)).result == "8"
            else:
                assert after is state
                assert view._replace(seen_at=0) == before._replace(seen_at=0)

    async def test_a_job_that_comes_back_has_no_error_of_before(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            for outcome in (Outcome.FAILED, Outcome.CANCELLED):
                await b.end(await b.one(), outcome, error="broken")
                assert (await b.view(job_id)).error == "broken"
                await b.jobs.retry(job_id, Attribution("ann"))
                assert (await b.view(job_id)).error == ""
            await b.jobs.cancel(job_id, Attribution("ann", "not wanted"))
            await b.jobs.retry(job_id, Attribution("ann"))
            await b.done(await b.one())

            assert (await b.view(job_id)).error == ""

    async def test_a_job_that_is_done_has_no_error_of_an_attempt_before(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane=lane) for lane in ("", "l")]
            for job in await b.fetch():
                await b.end(job, Outcome.RETRY, error="busy")
            assert [(await b.view(job_id)).error for job_id in ids] == ["busy", "busy"]
            for job in await b.fetch():
                await b.done(job)

            assert [(await b.view(job_id)).error for job_id in ids] == ["", ""]

    async def test_a_delayed_job_is_made_ready_now_and_takes_its_position(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            alone = await b.add(delay=100.0)
            delayed, first = await b.add(lane="l", delay=100.0), await b.add(lane="l")
            b.clock.advance(1)
            assert await b.jobs.retry(alone, Attribution("ann")) is JobState.READY
            assert await b.jobs.retry(delayed, Attribution("ann")) is JobState.BEHIND
            last = await b.add(lane="l")

            assert await b.ids(run=10) == [first, delayed, last, alone]

    async def test_a_superseded_job_stays_what_it_is(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            old, _ = await b.add(lane="l", coalesce=True), await b.add(lane="l", coalesce=True)
            await b.one()

            assert await b.jobs.retry(old, Attribution("ann")) is JobState.SUPERSEDED
            assert await b.jobs.cancel(old, Attribution("ann", "not wanted")) is JobState.SUPERSEDED

    async def test_retrying_by_hand_in_a_held_lane_waits_for_its_release(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(lane="l")
            await b.end(await b.one(), Outcome.FAILED, error="no")
            await b.jobs.hold("l", Attribution("ann", "deploying"))
            assert await b.jobs.retry(job_id, Attribution("ann")) is JobState.HELD
            assert await b.fetch() == []
            await b.jobs.release("l", ANN)

            assert await b.ids() == [job_id]

    async def test_retrying_by_hand_twice_is_one_more_run(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            await b.end(await b.one(), Outcome.FAILED, error="no")
            assert await b.jobs.retry(job_id, Attribution("ann")) is JobState.READY
            assert await b.jobs.retry(job_id, Attribution("ann")) is JobState.READY
            assert await b.ids() == [job_id]

            assert await b.fetch() == []

    async def test_acknowledging_an_end_that_was_retried_by_hand_since_does_not_end_it_again(
        self, store_url: str
    ) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            old = await b.one()
            await b.end(old, Outcome.FAILED, error="no")
            await b.jobs.retry(job_id, Attribution("ann"))
            await b.acknowledge(old, Outcome.FAILED, error="no")
            assert await b.state(job_id) is JobState.READY
            new = await b.one()
            await b.acknowledge(old, Outcome.FAILED, error="no")

            assert await b.state(job_id) is JobState.FETCHED
            await b.done(new)
