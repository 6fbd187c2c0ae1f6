"""Suspects: jobs that were there when a worker died run again in halves, and what kills is found out."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from interlock.ports.jobs import MAX_CRASHES, JobState, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.jobs.driver import JobDriver, JobSuite, slots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.jobs import FetchedJob, Rescued

__all__ = ["SuspectConformance"]


def _halves(jobs: Sequence[FetchedJob | Rescued]) -> list[list[int]]:
    """The ids of suspects, half by half."""
    found: dict[int, list[int]] = {}
    for job in sorted(jobs):
        if job.half is not None:
            found.setdefault(job.half, []).append(job.id)
    return sorted(found.values())


class SuspectConformance(JobSuite):
    """A crash makes suspects of all, counts only for who was alone, and delays the others little."""

    async def test_the_jobs_of_a_crash_are_a_group_of_two_halves(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await b.add_many(7)
            await b.fetch("a")
            rescued = await b.crash("a")

            assert {job.crashes for job in rescued} == {0}
            assert sorted(map(len, _halves(rescued))) == [3, 4]
            assert sorted(job_id for half in _halves(rescued) for job_id in half) == ids

    async def test_a_session_takes_one_half_all_of_it_and_then_the_other(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add_many(8)
            await b.fetch("a")
            halves = _halves(await b.crash("a"))
            first = await b.fetch("b")

            assert len(first) == 4
            assert _halves(first)[0] in halves
            assert await b.fetch("b") == []
            await b.done(*first[:3])
            assert await b.fetch("b") == [], "one of the first half is left"
            await b.done(first[3])
            second = await b.fetch("b")
            assert sorted(_halves(first) + _halves(second)) == halves

    async def test_two_sessions_take_the_two_halves_at_once(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add_many(8)
            await b.fetch("a")
            halves = _halves(await b.crash("a"))
            both = [await b.fetch("b"), await b.fetch("c")]

            assert sorted(_halves(both[0]) + _halves(both[1])) == halves

    async def test_two_sessions_share_a_half(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add_many(8)
            await b.fetch("a")
            await b.crash("a")
            both = [await b.fetch("b", 2), await b.fetch("c", 2)]

            assert len({job.half for jobs in both for job in jobs}) == 1
            assert await b.ids("b", 2) == []

    async def test_jobs_that_are_no_suspects_run_beside_a_half(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            suspects = await b.add_many(4)
            await b.fetch("a")
            await b.crash("a")
            fresh = await b.add_many(3)
            jobs = await b.fetch("b")

            assert len(jobs) == 5
            assert [job.id for job in jobs if job.half is None] == fresh
            assert set(suspects) > {job.id for job in jobs if job.half is not None}

    async def test_suspects_of_two_groups_never_share_a_session(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            groups = [await b.add_many(2), await b.add_many(2)]
            await b.fetch("a", 2)
            await b.fetch("b", 2)
            await b.crash("a")
            await b.crash("b")
            given: list[int] = []
            for _ in range(4):
                jobs = await b.fetch("c")
                assert len(jobs) == 1
                assert await b.fetch("c") == []
                given.append(jobs[0].id)
                await b.done(*jobs)

            assert sorted(given) == sorted(groups[0] + groups[1])

    async def test_a_half_may_be_of_several_queues(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(queue=queue) for queue in "qrqr"]
            await b.fetch("a", queues=("q", "r"))
            halves = _halves(await b.crash("a"))
            first = await b.fetch("b", queues=("q", "r"))
            second = await b.fetch("c", queues=("q", "r"))

            assert sorted(_halves(first) + _halves(second)) == halves
            assert sorted(job.id for job in (*first, *second)) == ids

    async def test_a_half_that_crashes_is_halved_again(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add_many(8)
            await b.fetch("a")
            await b.crash("a")
            first = await b.fetch("b")
            rescued = await b.crash("b")

            assert sorted(job.id for job in rescued) == sorted(job.id for job in first)
            assert [len(half) for half in _halves(rescued)] == [2, 2]
            assert {job.half for job in rescued}.isdisjoint(job.half for job in first)
            assert {job.crashes for job in rescued} == {0}

    async def test_a_crash_counts_for_one_that_was_alone(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await b.add_many(2)
            await b.fetch("a")
            assert [job.crashes for job in await b.crash("a")] == [0, 0]
            (first,) = await b.fetch("b")
            (again,) = await b.crash("b")

            assert (again.id, again.crashes) == (first.id, 1)
            assert [(await b.view(job_id)).crashes for job_id in ids] == [int(job_id == first.id) for job_id in ids]

    async def test_a_crash_counts_for_the_only_suspect_and_not_for_those_beside_it(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            suspect = await b.add()
            await b.one("a")
            assert [job.crashes for job in await b.crash("a")] == [1]
            fresh = await b.add_many(4)
            await b.fetch("b")
            rescued = {job.id: job for job in await b.crash("b")}

            assert rescued[suspect].crashes == 2
            assert [rescued[job_id].crashes for job_id in fresh] == [0] * 4
            halves = Counter(rescued[job_id].half for job_id in fresh)
            assert sorted(halves.values()) == [2, 2]
            assert rescued[suspect].half not in halves

    async def test_a_crash_with_several_suspects_counts_for_none_and_what_was_fresh_is_a_group(
        self, store_url: str
    ) -> None:
        async with self.job_driver(store_url) as b:
            await b.add_many(4)
            await b.fetch("a")
            await b.crash("a")
            (fresh,) = await b.add_many(1)
            mine = [job.id for job in await b.fetch("b")]
            rescued = {job.id: job for job in await b.crash("b")}

            assert len(mine) == 3
            assert {job.crashes for job in rescued.values()} == {0}
            assert len({job.half for job in rescued.values()}) == 3
            assert (await b.view(fresh)).crashes == 0

    async def test_one_that_ends_is_cleared(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            for outcome in (Outcome.RETRY, Outcome.SNOOZED):
                job_id, victim = await b.add(), f"victim-of-{outcome}"
                await b.begin(victim)
                await b.one(victim)
                assert [job.crashes for job in await b.crash(victim)] == [1]
                await b.end(await b.one("b"), outcome)
                fresh = await b.add()
                jobs = await b.fetch("b")

                assert [(job.id, job.half, job.crashes) for job in jobs] == [(job_id, None, 1), (fresh, None, 0)]
                await b.done(*jobs)

    async def test_what_was_counted_stays_when_an_attempt_ends(self, store_url: str) -> None:
        """A job that fails or snoozes between two crashes has not been shown to be harmless."""
        async with self.job_driver(store_url) as b:
            job_id = await b.add(lane="l")
            for crash, outcome in enumerate((Outcome.RETRY, Outcome.SNOOZED), 1):
                await b.begin(f"v{crash}")
                await b.one(f"v{crash}")
                (rescued,) = await b.crash(f"v{crash}")
                assert rescued.crashes == crash
                await b.end(await b.one("b"), outcome)
            await b.one("b")
            (rescued,) = await b.crash("b")

            assert (rescued.id, rescued.crashes, rescued.quarantined) == (job_id, MAX_CRASHES, True)

    async def test_returning_neither_counts_nor_clears(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add_many(2)
            await b.fetch("a")
            await b.crash("a")
            job = await b.one("b")
            await b.end(job, Outcome.RETURNED)
            again = await b.one("b")
            assert (again.id, again.half, again.crashes) == (job.id, job.half, 0)
            assert await b.jobs.return_unstarted("b") == 1

            last = await b.one("c")
            assert (last.id, last.half, last.crashes) == (job.id, job.half, 0)

    async def test_a_suspect_of_a_process_that_was_told_to_end_stays_one(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add_many(2)
            await b.fetch("a")
            await b.crash("a")
            suspect, fresh = await b.one("b"), await b.add()
            rest = await b.fetch("b")
            await b.store.sessions.leave("b")
            rescued = {job.id: (job.crashes, job.half) for job in await b.crash("b")}

            assert [job.id for job in rest] == [fresh]
            assert rescued == {suspect.id: (0, suspect.half), fresh: (0, None)}
            again = await b.one("c")
            assert (again.id, again.half) == (suspect.id, suspect.half)

    async def test_a_suspect_that_a_person_retries_is_one_no_more(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            await b.crashed(job_id, MAX_CRASHES)
            assert await b.state(job_id) is JobState.QUARANTINED
            await b.jobs.retry(job_id, Attribution("ann"))
            job = await b.one()

            assert (job.id, job.half, job.crashes) == (job_id, None, 0)

    async def test_a_session_that_is_rescued_in_parts_counts_nothing_after_the_first(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await b.add_many(7)
            await b.fetch("a")
            await b.store.sessions.end("a")
            found: list[Rescued] = []
            while rescued := await b.jobs.rescue(limit=3):
                found += rescued

            assert sorted(job.id for job in found) == ids
            assert {job.crashes for job in found} == {0}
            assert sorted(map(len, _halves(found))) == [1, 1, 1, 2, 2]

    async def test_a_suspect_is_fetched_alone_in_its_lane(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(3)]
            await b.one("a")
            await b.crash("a")
            (job,) = await b.fetch("b", run=10)
            assert (job.id, job.crashes) == (ids[0], 1)
            assert await b.fetch("c", run=10) == []
            await b.done(job)

            assert await b.ids("c", run=10) == ids[1:]

    async def test_the_heads_of_lanes_run_side_by_side_as_a_half(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            heads = [await b.add(lane=lane) for lane in "wxyz"]
            for lane in "wxyz":
                await b.add(lane=lane)
            await b.fetch("a", run=1, limit=4)
            halves = _halves(await b.crash("a"))
            first, second = await b.fetch("b", run=10), await b.fetch("c", run=10)

            assert sorted(_halves(first) + _halves(second)) == halves
            assert sorted(job.id for job in (*first, *second)) == heads

    async def test_a_suspect_is_never_fetched_in_advance(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            suspects = await b.add_many(4, priority=100)
            await b.fetch("a")
            halves = _halves(await b.crash("a"))
            plain = [await b.add() for _ in range(2)]

            assert await b.ids("b", at_once=0) == plain
            assert set(await b.states(*suspects)) == {JobState.READY}
            one = await b.ids("c", at_once=1)
            assert len(one) == 1
            rest = await b.ids("c", at_once=3)
            assert sorted(one + rest) in halves

    async def test_a_suspect_waits_while_earlier_ones_take_all_who_can_start(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            suspect = await b.add(priority=10)
            await b.one("a")
            await b.crash("a")
            plain = [await b.add() for _ in range(3)]

            assert await b.ids("b", at_once=2) == plain
            assert await b.ids("c", at_once=2) == [suspect]

    async def test_a_half_that_waits_for_a_limit_does_not_hold_up_the_other(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            limited, free = await b.add(uses=(slots(1),)), await b.add()
            await b.fetch("a")
            await b.crash("a")
            holder = await b.add(uses=(slots(1),), priority=100)
            assert (await b.one("b")).id == holder

            assert await b.ids("c") == [free]
            assert await b.state(limited) is JobState.WAITING

    async def test_one_that_kills_among_fifty_is_found_in_ten_crashes(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await b.add_many(50)
            killer, crashes = ids[20], 0
            while await b.state(killer) is not JobState.QUARANTINED:
                session = f"v{crashes}"
                await b.begin(session)
                jobs = await b.fetch(session)
                while killer not in {job.id for job in jobs}:
                    await b.done(*jobs)
                    jobs = await b.fetch(session)
                await b.crash(session)
                crashes += 1
            await _finish(b)

            assert crashes == 9
            states = Counter(await b.states(*ids))
            assert states == {JobState.DONE: 49, JobState.QUARANTINED: 1}


async def _finish(b: JobDriver) -> None:
    """End all that is left."""
    while jobs := await b.fetch("b"):
        await b.done(*jobs)
