"""End hooks: a job that the store enqueues in the transaction that ends another; and the causes of jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from interlock.ports.job_hooks import EndHook, encode_hooks
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import MAX_CRASHES, JobState, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import JobDriver, JobSuite, near, slots

if TYPE_CHECKING:
    from interlock.ports.jobs import FetchedJob

__all__ = ["HooksConformance"]

_ALL = tuple(state for state in JobState if state.final)
_HOOKED = encode_hooks([EndHook("hook", "hooks", 70, _ALL)])
_ARGUMENTS = '{"account": "a1", "name": "Ωmega"}'


async def _hooks(b: JobDriver, session: str = "b") -> list[FetchedJob]:
    return await b.every(session, queues=("hooks",), names=("hook",))


async def _one_hook(b: JobDriver) -> dict[str, Any]:
    """The arguments of the only hook job, which is then done."""
    (hook,) = await _hooks(b)
    await b.done(hook)
    found: dict[str, Any] = json.loads(hook.arguments)
    return found


async def _ended(b: JobDriver, state: JobState, **changes: Any) -> int:
    """A job that has ended in this state."""
    given = {"hooks": _HOOKED, "arguments": _ARGUMENTS} | changes
    if state is JobState.EXPIRED:
        given["expires"] = 0.5
    job_id = await b.add(**given)
    if state is JobState.SUPERSEDED:
        raise AssertionError("needs a lane")
    if state is JobState.QUARANTINED:
        await b.crashed(job_id, MAX_CRASHES)
    elif state is JobState.EXPIRED:
        b.clock.advance(1.0)
        assert await b.fetch() == []
    elif state is JobState.CANCELLED:
        await b.jobs.cancel(job_id, ANN)
    else:
        await b.end(await b.one(), Outcome(state.value), error="" if state is JobState.DONE else "broken")
    assert await b.state(job_id) is state
    return job_id


class HooksConformance(JobSuite):
    """Each end of a job enqueues each of its hooks once, whatever ended it, and tells how it ended."""

    @pytest.mark.parametrize("state", [state for state in _ALL if state is not JobState.SUPERSEDED])
    async def test_an_end_enqueues_its_hook_with_how_it_ended(self, store_url: str, state: JobState) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await _ended(b, state, lane="l", uses=(slots(1),))
            view = await b.view(job_id)
            (hook,) = await _hooks(b)

            assert json.loads(hook.arguments) == {
                "job": job_id,
                "name": "n",
                "queue": "q",
                "lane": "l",
                "state": state,
                "error": view.error,
                "attempt": view.attempt,
                "superseded_by": None,
                "ended_at": near(view.finished_at or 0.0),
                "arguments": json.loads(_ARGUMENTS),
            }
            assert (hook.queue, hook.lane, hook.priority, hook.cause) == ("hooks", "", 70, f"end:{job_id}")
            await b.done(hook)
            assert await _hooks(b) == []

    async def test_a_superseded_job_ends_with_its_hook(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            older, newer = [await b.add(lane="l", coalesce=True, hooks=_HOOKED) for _ in range(2)]
            job = await b.one()
            assert job.id == newer
            ended = await _one_hook(b)
            assert (ended["job"], ended["state"], ended["superseded_by"]) == (older, JobState.SUPERSEDED, newer)

    async def test_a_job_that_its_worker_gives_up_after_a_request_is_cancelled_with_its_hook(
        self, store_url: str
    ) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(hooks=_HOOKED)
            job = await b.one()
            await b.jobs.cancel(job_id, Attribution("ann", "not wanted"))
            assert await _hooks(b) == []
            await b.end(job, Outcome.FAILED, error="stopped")
            ended = await _one_hook(b)
            assert ended["state"] == JobState.CANCELLED
            assert "not wanted" in ended["error"]

    async def test_a_cancelled_job_of_a_dead_worker_ends_with_its_hook(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(hooks=_HOOKED)
            await b.one()
            await b.jobs.cancel(job_id, ANN)
            await b.crash("a")
            assert (await _one_hook(b))["state"] == JobState.CANCELLED

    @pytest.mark.parametrize("outcome", [Outcome.RETRY, Outcome.SNOOZED, Outcome.PARKED, Outcome.RETURNED])
    async def test_a_job_that_goes_on_enqueues_no_hook(self, store_url: str, outcome: Outcome) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(hooks=_HOOKED)
            await b.end(await b.one(), outcome, delay=0.0, error="")
            assert await _hooks(b) == []

    async def test_only_hooks_for_the_state_are_enqueued(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            hooks = encode_hooks(
                [
                    EndHook("hook", "hooks", 50, (JobState.FAILED,)),
                    EndHook("hook", "hooks", 60, (JobState.DONE, JobState.FAILED)),
                ]
            )
            await _ended(b, JobState.DONE, hooks=hooks)
            assert [hook.priority for hook in await _hooks(b)] == [60]
            await _ended(b, JobState.FAILED, hooks=hooks)
            assert [hook.priority for hook in await _hooks(b)] == [60, 50]
            await _ended(b, JobState.CANCELLED, hooks=hooks)
            assert await _hooks(b) == []

    async def test_a_refused_or_repeated_acknowledgement_enqueues_no_hook(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(hooks=_HOOKED)
            late = await b.one()
            await b.crash("a")
            job = await b.one("c")
            assert not await b.acknowledge(late)
            assert await _hooks(b) == []
            assert await b.acknowledge(job)
            assert await b.acknowledge(job)
            assert len(await _hooks(b)) == 1

    async def test_a_retried_job_ends_with_its_hook_again(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await _ended(b, JobState.FAILED)
            assert (await _one_hook(b))["state"] == JobState.FAILED
            await b.jobs.retry(job_id, ANN)
            await b.done(await b.one())
            ended = await _one_hook(b)
            assert (ended["job"], ended["state"]) == (job_id, JobState.DONE)

    async def test_jobs_with_and_without_hooks_end_together(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            plain = await b.add_many(5)
            hooked = await b.add_many(5, hooks=_HOOKED)
            limited = await b.add_many(5, hooks=_HOOKED, uses=(slots(10),))
            jobs = await b.every()
            assert {job.id for job in jobs} == {*plain, *hooked, *limited}
            await b.done(*jobs)
            told = sorted(json.loads(hook.arguments)["job"] for hook in await _hooks(b))
            assert told == sorted([*hooked, *limited])

    async def test_a_cause_stays_with_its_job(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            caused, plain = await b.add(cause="job:12;event:7"), await b.add()
            assert ((await b.view(caused)).cause, (await b.view(plain)).cause) == ("job:12;event:7", "")
            first, second = await b.fetch()
            assert (first.cause, second.cause) == ("job:12;event:7", "")
            await b.end(first, Outcome.FAILED, error="broken")
            assert (await b.view(caused)).cause == "job:12;event:7"
            assert {view.cause for view in await b.list_jobs(JobFilter()) if view.id == caused} == {"job:12;event:7"}
            await b.jobs.retry(caused, ANN)
            assert (await b.one()).cause == "job:12;event:7"
