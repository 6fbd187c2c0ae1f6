"""One state for several reads, and lists of locks, limits and claims."""

from __future__ import annotations

import asyncio

from interlock.ports.claims import ClaimFilter, ClaimRequest
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState
from interlock.ports.journal import Attribution
from interlock.ports.limits import Plan, Use
from interlock.testing.conformance.driver import DriverSuite
from interlock.testing.conformance.jobs.driver import JobSuite

__all__ = ["ListConformance", "SnapshotConformance"]


class SnapshotConformance(JobSuite):
    """Reads inside one snapshot are consistent."""

    async def test_a_job_that_moves_between_two_reads_is_not_seen_half(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            if b.store.name == "memory":
                await self._nothing_comes_between(b.store.insight, b.store)
                return
            async with b.store.snapshot():
                before = await b.state(job_id)
                await b.granted("a1", "k")
                job = await b.one("a")
                await asyncio.create_task(b.done(job))
                ready = await b.store.insight.jobs(JobFilter((JobState.READY,)), limit=5)
                counts = await b.store.insight.counts()
                (situation,) = await b.store.insight.situations([job_id])
                found = await b.state(job_id)
                locks = await b.store.locks.list()
                elsewhere = await asyncio.create_task(b.state(job_id))

            assert before is found is situation.job.state is JobState.READY
            assert [situation.job.id for situation in ready.situations] == [job_id]
            assert (counts.states[JobState.READY], counts.states[JobState.DONE]) == (1, 0)
            assert list(locks) == []
            assert elsewhere is JobState.DONE, "another task sees what is"
            assert await b.state(job_id) is JobState.DONE
            assert [view.key for view in await b.store.locks.list()] == ["k"]

    async def _nothing_comes_between(self, insight: object, store: object) -> None:
        """Without a suspension point, nothing can change."""
        meanwhile: list[str] = []
        asyncio.get_running_loop().call_soon(meanwhile.append, "something")
        async with store.snapshot():  # type: ignore[attr-defined]
            await insight.counts()  # type: ignore[attr-defined]
            await store.locks.list()  # type: ignore[attr-defined]
            await store.limits.list()  # type: ignore[attr-defined]
            await store.claims.list()  # type: ignore[attr-defined]
            assert meanwhile == []

    async def test_snapshots_end_also_when_their_readers_fail_or_leave(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()

            async def fails() -> None:
                async with b.store.snapshot():
                    await b.state(job_id)
                    raise LookupError

            async def stays(there: asyncio.Event) -> None:
                async with b.store.snapshot():
                    await b.state(job_id)
                    there.set()
                    await asyncio.Event().wait()

            for _ in range(5):
                assert isinstance((await asyncio.gather(fails(), return_exceptions=True))[0], LookupError)
                there = asyncio.Event()
                task = asyncio.create_task(stays(there))
                await there.wait()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await b.jobs.cancel(job_id, Attribution("ann", "no"))
            async with b.store.snapshot():
                assert await b.state(job_id) is JobState.CANCELLED

    async def test_many_look_at_once(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add_many(20, lane="l")

            async def look() -> int:
                async with b.store.snapshot():
                    counts = await b.store.insight.counts()
                    listed = await b.store.insight.jobs(JobFilter(), limit=100)
                    assert len(listed.situations) == 20
                    return counts.states[JobState.BEHIND]

            assert set(await asyncio.gather(*(look() for _ in range(12)))) == {19}


class ListConformance(DriverSuite):
    """Locks, limits and claims page by page."""

    async def test_locks_are_listed_in_parts_with_the_first_who_wait(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            for n, key in enumerate(("d", "a", "c", "b")):
                await b.granted(f"a{n}", key)
            for n in range(4):
                await b.waiting(f"b{n}", "b")
            first = await b.locks.list(limit=2, waiters=1)
            rest = await b.locks.list(limit=5, after="b")
            (alone,) = await b.locks.list("b", waiters=3)

            assert [view.key for view in first] == ["a", "b"]
            assert [len(view.waiters) for view in first] == [0, 1]
            assert [view.more_waiters for view in first] == [0, 3]
            assert [view.key for view in rest] == ["c", "d"]
            assert [waiter.owner for waiter in alone.waiters] == ["b0", "b1", "b2"]
            assert alone.more_waiters == 1

    async def test_what_a_session_waits_for(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", "k")
            await b.granted("a2", "l")
            await b.waiting("b1", "l")
            await b.waiting("b2", "k")
            await b.waiting("c1", "k")

            assert [view.key for view in await b.locks.awaited_by("b")] == ["k", "l"]
            assert [waiter.owner for waiter in (await b.locks.awaited_by("c"))[0].waiters] == ["b2", "c1"]
            assert list(await b.locks.awaited_by("a")) == []
            counts = await b.locks.count()
            assert (counts.held, counts.waiting) == (2, 3)

    async def test_limits_are_listed_in_parts(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            for n, key in enumerate(("d", "a", "c", "b")):
                await b.store.limits.ask(Plan(f"a{n}", f"a{n}", "a", (Use(key, 1, 0.0),), True))

            assert [view.key for view in await b.store.limits.list(limit=2)] == ["a", "b"]
            assert [view.key for view in await b.store.limits.list(limit=2, after="b")] == ["c", "d"]
            assert [view.key for view in await b.store.limits.list("c", limit=2)] == ["c"]

    async def test_claims_are_listed_in_parts(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            for n, key in enumerate(("p:d", "p:a", "q", "p:b")):
                await b.store.claims.claim(ClaimRequest(key, f"a{n}", "a", 60.0, 60.0))
            look = b.store.claims.list

            assert [view.key for view in await look(limit=2)] == ["p:a", "p:b"]
            assert [view.key for view in await look(limit=9, after="p:b")] == ["p:d", "q"]
            assert [view.key for view in await look(None, ClaimFilter("p:"), limit=9, after="p:a")] == ["p:b", "p:d"]
