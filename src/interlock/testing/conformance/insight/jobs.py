"""Lists of jobs and lanes: complete, in order, and consistent with the views of single items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.ports.insight import LaneShow
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState, OnFailure, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.jobs.driver import JobDriver, JobSuite, slots

if TYPE_CHECKING:
    from interlock.ports.job_views import JobSituation

__all__ = ["JobListConformance"]


async def all_states(b: JobDriver) -> list[int]:
    """Jobs in every state, and workers that know them."""
    for session in "ab":
        await b.jobs.register_worker(session, ["q"], ["n"], 5)
    for outcome in Outcome:
        await b.add()
        await b.end(await b.one(), outcome, delay=60.0, error="why")
    await b.jobs.hold("held", Attribution("ann", "deploying"))
    for lane in ("", "x", "x", "held", "held"):
        await b.add(lane=lane)
    await b.crashed(await b.add(priority=100), times=3)
    for _ in range(2):
        await b.add(lane="c", priority=100, coalesce=True)
    await b.done(await b.one())
    for _ in range(3):
        await b.add(uses=(slots(1, "s"),), priority=100)
    await b.add(expires=0.5, delay=9.0)
    b.clock.advance(1.0)
    await b.started(await b.one())
    await b.fetch(limit=2)
    await b.add(after=(await b.add(),), lane="y")
    return [view.id for view in await b.list_jobs(JobFilter(), limit=1000)]


def in_short(situation: JobSituation) -> JobSituation:
    """Remove what lists omit."""
    return situation._replace(
        job=situation.job._replace(arguments="", result=None, attempts=()), holders=tuple(sorted(situation.holders))
    )


class JobListConformance(JobSuite):
    """Lists match the stored items."""

    async def test_every_state_is_listed_completely_page_by_page(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await all_states(b)
            stands = {job_id: await b.state(job_id) for job_id in ids}
            assert set(stands.values()) == set(JobState)

            async def pages(wanted: JobFilter, limit: int) -> list[int]:
                found: list[int] = []
                before = None
                while True:
                    part = await b.store.insight.jobs(wanted, limit=limit, before=before)
                    assert len(part.situations) <= limit
                    found += [situation.job.id for situation in part.situations]
                    if part.more is None:
                        return found
                    before = part.more

            everything = sorted(ids, reverse=True)
            for limit in (2, 100):
                assert await pages(JobFilter(), limit) == everything
                for state in JobState:
                    expected = [job_id for job_id in everything if stands[job_id] is state]
                    assert await pages(JobFilter((state,)), limit) == expected, state
            two = (JobState.DONE, JobState.WAITING)
            assert await pages(JobFilter(two), 1) == [job_id for job_id in everything if stands[job_id] in two]
            in_lane = [job_id for job_id in everything if (await b.view(job_id)).lane == "x"]
            assert await pages(JobFilter(lane="x"), 1) == in_lane
            assert await pages(JobFilter((JobState.BEHIND,), lane="x"), 5) == in_lane[:1]
            assert await pages(JobFilter(tuple(JobState), name="n", queue="q"), 3) == everything
            assert await pages(JobFilter(name="other"), 3) == await pages(JobFilter(queue="other"), 3) == []

    async def test_what_is_told_of_many_at_once_is_what_is_told_of_one(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await all_states(b)
            told = await b.store.insight.situations([*ids, 10**12])

            assert [situation.job.id for situation in told] == ids
            for situation in told:
                alone = in_short(await b.situation(situation.job.id))
                if situation.job.state.final:  # workers do not matter for it
                    alone, situation = (one._replace(workers=0, workers_of_queue=0) for one in (alone, situation))
                assert in_short(situation) == alone

    async def test_of_the_attempts_the_last_one_is_told(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            for outcome in (Outcome.RETRY, Outcome.SNOOZED):
                await b.end(await b.one(), outcome, delay=60.0, error=str(outcome))
                await b.let_pass(61)
                await b.keep("a", "b", "c")
            await b.end(await b.one(), Outcome.SNOOZED, delay=60.0, error="at last")
            (situation,) = await b.store.insight.situations([job_id])

            assert [(a.outcome, a.error) for a in situation.job.attempts] == [("snoozed", "at last")]

    async def test_other_namespaces_are_not_told_of(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b, self.job_driver(store_url, namespace=f"{self.namespace}0") as other:
            if b.store.name == "memory":
                return  # each is a store of its own
            theirs = await all_states(other)
            mine = await b.add(lane="x")
            seen = b.store.insight

            assert [o.job.id for o in (await seen.jobs(JobFilter(), limit=100)).situations] == [mine]
            for state in set(JobState) - {JobState.READY}:
                assert (await seen.jobs(JobFilter((state,)), limit=100)).situations == []
            assert await seen.situations(theirs) == []
            assert [lane.lane for lane in (await seen.lanes(limit=10)).lanes] == ["x"]
            counts = await seen.counts()
            assert {state: count for state, count in counts.states.items() if count} == {JobState.READY: 1}
            assert await seen.limits(limit=10) == []
            assert sum(change.accepted for change in (await seen.activity(60.0, 60)).changes) == 1
            assert list(await seen.workers(limit=10)) == []

    async def test_the_neighbours_of_a_job_in_its_lane(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(8)]
            later = await b.add(lane="l", delay=50.0)
            alone = await b.add()
            seen = b.store.insight

            around = await seen.neighbours(ids[5], limit=2)
            assert (list(around.ahead), list(around.behind)) == ([ids[0], ids[4]], ids[6:8])
            around = await seen.neighbours(ids[0], limit=2)
            assert (list(around.ahead), list(around.behind)) == ([], ids[1:3])
            for job_id in (later, alone, 10**12):
                around = await seen.neighbours(job_id, limit=2)
                assert (list(around.ahead), list(around.behind)) == ([], [])
            assert list(await seen.lane_jobs("l", limit=3)) == ids[:3]
            assert list(await seen.lane_jobs("l", limit=100)) == [*ids, later]
            assert list(await seen.lane_jobs("other", limit=3)) == []

    async def test_lanes_are_listed_by_name_as_asked_for(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            for lane in ("d", "c", "b", "a", "b/1"):
                for _ in range(2):
                    await b.add(lane=lane, on_failure=OnFailure.PARK if lane == "d" else OnFailure.BLOCK)
            fetched = {job.lane: job for job in await b.fetch()}
            await b.started(fetched["a"])
            await b.end(fetched["d"], Outcome.FAILED, error="no")
            await b.end(fetched["c"], Outcome.RETRY, delay=60.0)
            await b.jobs.hold("b", Attribution("ann", "deploying"))
            await b.jobs.hold("empty", Attribution("ann", "deploying"))
            seen = b.store.insight

            async def names(show: LaneShow, limit: int) -> list[str]:
                found: list[str] = []
                after = ""
                while True:
                    part = await seen.lanes(show=show, limit=limit, after=after)
                    for lane in part.lanes:
                        assert lane == await seen.lane(lane.lane)
                    found += [lane.lane for lane in part.lanes]
                    if part.more is None:
                        return found
                    after = part.more

            for limit in (1, 2, 100):
                assert await names(LaneShow.ALL, limit) == ["a", "b", "b/1", "c", "d", "empty"]
                assert await names(LaneShow.HELD, limit) == ["b", "empty"]
                assert await names(LaneShow.PARKED, limit) == ["d"]
                assert await names(LaneShow.RUNNING, limit) == ["a"]
                assert await names(LaneShow.FETCHED, limit) == ["b", "b/1"]
                assert await names(LaneShow.WAITING, limit) == ["c"]
            counts = await seen.counts()
            assert (counts.lanes_running, counts.lanes_fetched) == (1, 2)
