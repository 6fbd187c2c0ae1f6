"""Jobs whose arguments some version cannot read: they go to workers of other versions, and are parked without any."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import HandlerVersion, JobState, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import JobSuite, near, slots

if TYPE_CHECKING:
    from interlock.ports.jobs import FetchedJob
    from interlock.testing.conformance.jobs.driver import JobDriver

__all__ = ["RefusalConformance"]

OLD, NEW = HandlerVersion("n", "0123456789ab", "1.0"), HandlerVersion("n", "cdef01234567", "2.0")


async def attend(b: JobDriver, session: str, reads: HandlerVersion) -> None:
    """A worker that can read this works."""
    await b.jobs.register_worker(session, ["q"], ["n"], 10, [reads])


async def refuse(b: JobDriver, job: FetchedJob, reads: HandlerVersion = OLD) -> None:
    """The worker that has the job cannot read it."""
    version = json.dumps([reads.fingerprint, reads.version])
    await b.end(job, Outcome.UNREADABLE, result=version, error="'currency' is not known")


class RefusalConformance(JobSuite):
    """A version that cannot read a job leaves it to others."""

    async def test_a_refused_job_goes_to_a_worker_of_another_version(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await attend(b, "a", OLD)
            await attend(b, "b", NEW)
            job_id = await b.add()
            job = await b.one("a")
            await refuse(b, job)

            assert await b.state(job_id) is JobState.READY
            assert [view.id for view in await b.list_jobs(JobFilter(states=(JobState.READY,)))] == [job_id]
            assert (await b.queue()).ready == (await b.store.insight.counts()).states[JobState.READY] == 1
            assert await b.ids("a") == []
            assert await b.ids("a", reads=[OLD]) == [], "not again to the version that refused it"
            (again,) = await b.fetch("b", reads=[NEW])
            assert (again.id, again.attempt, again.crashes, again.due_at) == (job_id, 1, 0, near(job.due_at))
            assert again.fence > job.fence
            await b.done(again)
            view = await b.view(job_id)
            assert view.state is JobState.DONE
            (refusal, *_) = view.attempts
            assert (refusal.outcome, refusal.error) == ("unreadable", "'currency' is not known")

    async def test_a_refused_head_blocks_its_lane_and_keeps_its_place(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await attend(b, "b", NEW)
            ids = [await b.add(lane="l") for _ in range(3)]
            run = await b.fetch("a", run=3)
            await refuse(b, run[0])
            for job in run[1:]:
                await b.end(job, Outcome.RETURNED)

            assert await b.ids("a", run=3) == []
            assert await b.ids("a", run=3, reads=[OLD]) == []
            assert await b.states(*ids) == [JobState.READY, JobState.BEHIND, JobState.BEHIND]
            assert await b.ids("b", run=3, reads=[NEW]) == ids

    async def test_a_job_that_no_live_worker_can_read_is_parked_with_the_versions(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await attend(b, "a", OLD)
            ids = [await b.add(lane="l"), await b.add()]
            for job in await b.fetch("a"):
                await refuse(b, job)

            for job_id in ids:
                view = await b.view(job_id)
                assert view.state is JobState.PARKED
                for part in ("1.0", OLD.fingerprint, "'currency' is not known"):
                    assert part in view.error
            assert await b.ids("a", reads=[OLD]) == []
            # A version that comes later takes them by itself.
            assert sorted(await b.ids("b", reads=[NEW])) == sorted(ids)

    async def test_a_refused_job_is_parked_when_the_last_worker_that_can_read_it_is_gone(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await attend(b, "a", OLD)
            await attend(b, "b", NEW)
            job_id = await b.add()
            await refuse(b, await b.one("a"))
            assert await b.ids("a", reads=[OLD]) == []
            assert await b.state(job_id) is JobState.READY
            await b.store.sessions.end("b")
            assert await b.ids("a", reads=[OLD]) == []
            assert await b.state(job_id) is JobState.PARKED

    async def test_all_versions_that_refused_a_job_are_named(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await attend(b, "a", OLD)
            await attend(b, "b", NEW)
            job_id = await b.add()
            await refuse(b, await b.one("a"))
            (job,) = await b.fetch("b", reads=[NEW])
            await refuse(b, job, NEW)
            view = await b.view(job_id)
            assert view.state is JobState.PARKED
            assert "1.0" in view.error
            assert "2.0" in view.error
            assert view.attempt == 0

    async def test_what_a_fetch_cannot_take_is_refused_again(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await attend(b, "b", NEW)
            job_id = await b.add(uses=(slots(1),))
            await refuse(b, await b.one("a"))
            holder = await b.add(uses=(slots(1),))
            running = await b.one("a")
            assert running.id == holder
            assert await b.ids("b", reads=[NEW]) == [], "there is no room"
            assert await b.ids("a") == []
            await b.done(running)
            assert await b.ids("a") == [], "and it is not offered to the version that refused it when there is"
            assert await b.ids("b", reads=[NEW]) == [job_id]

    async def test_a_refused_job_of_a_held_lane_waits_for_its_release(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await attend(b, "b", NEW)
            job_id = await b.add(lane="l")
            await refuse(b, await b.one("a"))
            await b.jobs.hold("l", Attribution("ann", "a test"))
            assert await b.ids("b", reads=[NEW]) == []
            await b.jobs.release("l", ANN)
            assert await b.ids("a") == []
            assert await b.ids("b", reads=[NEW]) == [job_id]

    async def test_a_refused_job_that_comes_back_is_offered_to_the_same_versions_only(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await attend(b, "b", NEW)
            ids = [await b.add(), await b.add(lane="l")]
            for job in await b.fetch("a"):
                await refuse(b, job)
            (first, second) = await b.fetch("b", reads=[NEW])
            await b.end(first, Outcome.RETURNED)
            await b.end(second, Outcome.RETRY, delay=0.0)
            assert await b.ids("a") == []
            assert sorted(await b.ids("b", reads=[NEW])) == sorted(ids)
            await b.crash("b")
            assert await b.ids("a") == []
            assert await b.states(*ids) == [JobState.READY] * 2

    async def test_a_refused_job_can_be_cancelled(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await attend(b, "b", NEW)
            ids = [await b.add(), await b.add(lane="l")]
            behind = await b.add(lane="l")
            for job in await b.fetch("a"):
                await refuse(b, job)
            for job_id in ids:
                assert await b.jobs.cancel(job_id, Attribution("ann", "a test")) is JobState.CANCELLED
            assert await b.ids("b", reads=[NEW]) == [behind]

    async def test_a_retry_by_hand_forgets_the_refusals(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(), await b.add(lane="l")]
            for job in await b.fetch("a"):
                await refuse(b, job)
            assert await b.states(*ids) == [JobState.PARKED] * 2
            for job_id in ids:
                assert await b.jobs.retry(job_id, Attribution("ann")) is JobState.READY
            assert sorted(await b.ids("a")) == sorted(ids)

    async def test_jobs_of_other_names_and_queues_are_not_touched(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.jobs.register_worker("b", ["q", "other"], ["n", "m"], 10, [NEW, NEW._replace(name="m")])
            first, second = await b.add(name="m"), await b.add(queue="other")
            for wishes in ({"names": ["m"]}, {"queues": ["other"]}):
                found: dict[str, Any] = dict(wishes)
                await refuse(b, await b.one("a", **found))
            assert await b.ids("b", reads=[NEW]) == []
            assert await b.ids("b", names=["m"], reads=[NEW._replace(name="m")]) == [first]
            assert await b.ids("b", queues=["other"], reads=[NEW]) == [second]
