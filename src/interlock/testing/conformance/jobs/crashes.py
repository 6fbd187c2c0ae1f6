"""Sessions that end with jobs in their hands: rescue and quarantine. For suspects see :mod:`.suspects`."""

from __future__ import annotations

import asyncio
from collections import Counter

from interlock.ports.jobs import MAX_CRASHES, JobState, OnFailure, Rescued
from interlock.ports.journal import Attribution
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import SESSION, JobSuite, near, pace, slots

__all__ = ["CrashConformance"]


class CrashConformance(JobSuite):
    """Jobs of the dead come back, and those that kill are found out."""

    async def test_the_jobs_of_a_live_session_are_never_rescued(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(), await b.add(lane="l")]
            await b.fetch("a")
            for _ in range(3):
                await b.let_pass(SESSION * 10)
                assert list(await b.jobs.rescue()) == []

            assert await b.states(*ids) == [JobState.FETCHED] * 2
            assert await b.fetch("b") == []

    async def test_the_jobs_of_a_session_that_ended_come_back(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(), await b.add(lane="l")]
            jobs = await b.fetch("a")
            other = await b.add()
            mine = await b.one("b")
            assert mine.id == other
            await b.let_pass(SESSION, "b", "c")
            assert await b.fetch("b") == []
            rescued = await b.jobs.rescue()

            assert [job[:-1] for job in sorted(rescued)] == [(job_id, "n", "a", 0, False) for job_id in ids]
            assert list(await b.jobs.rescue()) == []
            assert await b.states(*ids, other) == [JobState.READY, JobState.READY, JobState.FETCHED]
            again = [await b.one("b"), await b.one("c")]
            assert [(job.id, job.crashes, job.attempt) for job in again] == [(job_id, 0, 1) for job_id in ids]
            assert [job.half for job in again] == [job.half for job in sorted(rescued)]
            assert [job.due_at for job in again] == [near(job.due_at) for job in jobs]

    async def test_a_rescued_job_keeps_its_time_and_so_comes_first(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add()
            await b.one("a")
            second = await b.add()
            await b.crash("a")

            assert await b.ids("b") == [first, second]

    async def test_of_a_run_only_the_first_counts_a_crash(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(4)]
            run = await b.fetch("a", run=4)
            await b.done(run[0])
            rescued = {job.id: (job.crashes, job.half is not None) for job in await b.crash("a")}

            assert rescued == {ids[1]: (1, True), ids[2]: (0, False), ids[3]: (0, False)}
            assert [(await b.view(job_id)).crashes for job_id in ids[1:]] == [1, 0, 0]

    async def test_a_job_that_killed_too_many_workers_is_quarantined(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            killer, behind = await b.add(lane="l", uses=(slots(1),)), await b.add(lane="l")
            for crash in range(1, MAX_CRASHES + 1):
                await b.begin(f"v{crash}")
                job = await b.one(f"v{crash}")
                assert (job.id, job.crashes, job.attempt) == (killer, crash - 1, 1)
                (rescued,) = await b.crash(f"v{crash}")
                assert rescued[:-1] == (killer, "n", f"v{crash}", crash, crash == MAX_CRASHES)
                assert (rescued.half is None) is rescued.quarantined

            view = await b.view(killer)
            assert (view.state, view.crashes) == (JobState.QUARANTINED, MAX_CRASHES)
            assert view.finished_at == near(b.now)
            assert [attempt.outcome for attempt in view.attempts] == ["crashed"] * MAX_CRASHES
            job = await b.one()
            assert job.id == behind, "the lane did not go on"
            await b.done(job)
            other = await b.add(uses=(slots(1),))
            assert await b.ids() == [other], "its slot was not freed"

    async def test_a_job_that_others_superseded_is_not_their_crash(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(lane="l", coalesce=True)
            newest = await b.add(lane="l", coalesce=True)
            await b.one("a")
            (rescued,) = await b.crash("a")

            assert (rescued.id, rescued.crashes) == (newest, 1)
            assert await b.ids("b") == [newest]

    async def test_rescue_is_bounded_and_goes_on_where_it_stopped(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane=lane) for lane in ("", "x", "y", "", "z", "", "")]
            await b.fetch("a")
            await b.store.sessions.end("a")
            found = []
            while rescued := await b.jobs.rescue(limit=3):
                assert len(rescued) <= 3
                found += [job.id for job in rescued]

            assert sorted(found) == ids
            assert set(await b.states(*ids)) == {JobState.READY}

    async def test_a_run_that_is_rescued_in_parts_counts_one_crash(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(5)]
            await b.fetch("a", run=5)
            await b.store.sessions.end("a")
            while await b.jobs.rescue(limit=2):
                pass

            assert [(await b.view(job_id)).crashes for job_id in ids] == [1, 0, 0, 0, 0]
            (job,) = await b.fetch("b", run=10)
            assert job.id == ids[0]
            await b.done(job)
            assert await b.ids("b", run=10) == ids[1:]

    async def test_several_who_rescue_at_once_make_one_group(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await b.add_many(30)
            await b.fetch("a")
            await b.store.sessions.end("a")
            found = [job for jobs in await asyncio.gather(*(b.jobs.rescue() for _ in range(5))) for job in jobs]

            assert sorted(job.id for job in found) == ids
            assert {job.crashes for job in found} == {0}
            halves = Counter(job.half for job in found)
            assert sorted(halves.values()) == [15, 15]

    async def test_a_job_whose_end_was_asked_for_is_cancelled_when_its_worker_died(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id, behind = await b.add(lane="l"), await b.add(lane="l")
            await b.one("a")
            assert await b.jobs.cancel(job_id, Attribution("ann", "not wanted")) is JobState.FETCHED
            assert await b.crash("a") == [Rescued(job_id, "n", "a", 1, False)]

            view = await b.view(job_id)
            assert (view.state, view.crashes) == (JobState.CANCELLED, 1)
            assert await b.ids("b") == [behind]

    async def test_a_quarantined_job_parks_the_lane_if_failing_does(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            killer, behind = await b.add(lane="l", on_failure=OnFailure.PARK), await b.add(lane="l")
            await b.crashed(killer, MAX_CRASHES)
            assert await b.fetch() == []
            assert await b.states(killer, behind) == [JobState.QUARANTINED, JobState.HELD]
            await b.jobs.release("l", ANN)

            assert await b.ids() == [behind]

    async def test_a_crash_is_kept_with_who_and_when(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            fetched_at = b.now
            job = await b.one("a")
            await b.let_pass(SESSION + 5, "b")
            await b.jobs.rescue()
            (attempt,) = (await b.view(job_id)).attempts

            assert (attempt.outcome, attempt.fence) == ("crashed", job.fence)
            assert (attempt.worker.session, attempt.worker.host, attempt.worker.pid) == ("a", "host-a", 7)
            assert attempt.started_at == near(fetched_at)
            assert fetched_at < attempt.ended_at <= b.now + 1e-5

    async def test_a_process_that_was_told_to_end_and_died_counts_no_crash(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            alone = await b.add()
            run = [await b.add(lane="l") for _ in range(3)]
            for deploy in range(MAX_CRASHES):
                session = f"v{deploy}"
                await b.begin(session)
                jobs = await b.fetch(session, run=3)
                assert [job.id for job in jobs] == [alone, *run], "each keeps its time, and the lane its order"
                await b.store.sessions.leave(session)
                assert list(await b.jobs.rescue()) == [], "they are its own until its session has ended"
                rescued = await b.crash(session)
                assert {(job.id, job.crashes, job.quarantined) for job in rescued} == {
                    (job_id, 0, False) for job_id in (alone, *run)
                }
                assert not await b.acknowledge(jobs[0]), "what it says afterwards comes too late"

            view = await b.view(alone)
            assert (view.crashes, view.attempt) == (0, 0)
            assert [attempt.outcome for attempt in view.attempts] == ["interrupted"] * MAX_CRASHES
            assert (await b.view(run[1])).attempts == ()
            later = await b.add(lane="l")
            assert await b.ids("a", run=4) == [alone, *run, later]

    async def test_a_process_that_goes_on_after_all_counts_a_crash_when_it_dies(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.store.sessions.leave("a")
            job_id = await b.add()
            await b.one("a")
            await b.store.sessions.leave("a", leaving=False)
            (rescued,) = await b.crash("a")
            assert (rescued.id, rescued.crashes) == (job_id, 1)

    async def test_a_start_that_was_interrupted_still_counts_for_its_pace(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(uses=(pace(1, per=SESSION * 100),))
            await b.one("a")
            await b.store.sessions.leave("a")
            await b.crash("a")
            assert await b.ids("b") == []
            assert await b.state(job_id) is JobState.WAITING

    async def test_a_cancelled_job_of_a_process_that_was_told_to_end_is_cancelled(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            await b.one("a")
            await b.jobs.cancel(job_id, Attribution("ann", "not needed"))
            await b.store.sessions.leave("a")
            await b.crash("a")
            view = await b.view(job_id)
            assert (view.state, view.crashes) == (JobState.CANCELLED, 0)
