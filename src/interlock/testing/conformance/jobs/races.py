"""Many at once, through several ways to one store: order, limits and fences hold however close they come."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import Acknowledgement, JobState, Outcome
from interlock.ports.journal import Attribution
from interlock.ports.store import Capability
from interlock.testing.clock import VirtualClock
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import JobDriver, JobSuite, new_job, slots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from typing import Any

    from interlock.ports.jobs import FetchedJob

__all__ = ["HandsSuite", "JobRaceConformance"]

_HANDS = 4


class HandsSuite(JobSuite):
    """Tests with several ways to one store."""

    @asynccontextmanager
    async def hands(self, url: str) -> AsyncIterator[list[JobDriver]]:
        """Ways to one store, as processes have them; one way several times if it has only one."""
        clock = VirtualClock()
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(self.job_driver(url, clock))
            hands = [first]
            for _ in range(_HANDS - 1):
                if Capability.PROCESSES in first.store.capabilities:
                    hands.append(await stack.enter_async_context(self.job_driver(url, clock)))
                else:
                    hands.append(JobDriver(first.store, clock))
            await first.begin(*(f"s{number}" for number in range(20)), seconds=100_000.0)
            yield hands


class JobRaceConformance(HandsSuite):
    """Nothing is lost, doubled or out of order when many do it at once."""

    async def test_lanes_keep_their_order_and_never_overlap(self, store_url: str) -> None:
        async with self.hands(store_url) as hands:
            lanes = [f"l{number}" for number in range(6)]
            at_work: dict[str, str] = {}
            order: dict[str, list[int]] = {lane: [] for lane in lanes}
            accepted: dict[str, list[int]] = {lane: [] for lane in lanes}
            fed = 0

            async def feed(number: int) -> None:
                nonlocal fed
                mine = lanes[number::3]
                for fetch_number in range(20):
                    await asyncio.sleep(0)
                    lane = mine[fetch_number % len(mine)]
                    accepted[lane] += await hands[number].add_many(1 + fetch_number % 3, lane=lane)
                fed += 1

            async def work(number: int) -> None:
                hand, session = hands[number % _HANDS], f"s{number}"
                idle = 0
                while idle < 3:
                    await asyncio.sleep(0)
                    jobs = await hand.fetch(session, 8, run=1 + number % 4)
                    idle = 0 if jobs or fed < 3 else idle + 1
                    for lane in {job.lane for job in jobs}:
                        assert lane not in at_work, f"{lane} is at {at_work[lane]} and at {session}"
                        at_work[lane] = session
                    for job in jobs:
                        order[job.lane].append(job.id)
                    await asyncio.sleep(0)
                    for lane in {job.lane for job in jobs}:
                        del at_work[lane]
                    if jobs:
                        await hand.done(*jobs)

            await asyncio.gather(*(feed(number) for number in range(3)), *(work(number) for number in range(6)))
            assert order == accepted
            assert await hands[0].lanes() == []

    async def test_a_lane_that_empties_and_fills_again_loses_no_job(self, store_url: str) -> None:
        async with self.hands(store_url) as hands:
            accepted: list[int] = []
            got: list[int] = []
            over = False

            async def feed(number: int) -> None:
                for fetch_number in range(25):
                    await asyncio.sleep(0)
                    accepted.extend(await hands[number].add_many(1, lane=f"l{fetch_number % 2}"))

            async def work(number: int) -> None:
                hand = hands[number]
                while True:
                    await asyncio.sleep(0)
                    last = over
                    jobs = await hand.fetch(f"s{number}", 3)
                    for job in jobs:
                        got.append(job.id)
                        await hand.done(job)
                    if last and not jobs:
                        return

            workers = [asyncio.create_task(work(number)) for number in range(_HANDS)]
            try:
                await asyncio.gather(*(feed(number) for number in range(2)))
            finally:
                over = True
                await asyncio.gather(*workers)

            assert sorted(got) == sorted(accepted)
            assert await hands[0].lanes() == []

    async def test_those_who_enqueue_one_after_the_other_are_in_that_order_in_every_lane(self, store_url: str) -> None:
        async with self.hands(store_url) as hands:
            mine: dict[int, list[int]] = {}

            async def feed(number: int) -> None:
                mine[number] = [await hands[number % _HANDS].add(lane="l") for _ in range(20)]

            await asyncio.gather(*(feed(number) for number in range(6)))
            place = {job_id: n for n, job_id in enumerate(await hands[0].ids("s0", 1000, run=1000))}

            assert len(place) == 120
            for ids in mine.values():
                assert all(place[before] < place[after] for before, after in pairwise(ids))

    async def test_slots_are_exact_with_many_fetchers(self, store_url: str) -> None:
        async with self.hands(store_url) as hands:
            keys = ["x", "y", "z"]
            figures = {"x": 3, "y": 5, "z": 2}
            inside: Counter[str] = Counter()
            seen: Counter[int] = Counter()
            chance = random.Random(7)
            jobs = []
            for job_id in await hands[0].jobs.ids(90):
                chosen = chance.sample(keys, chance.choice((1, 1, 2, 3)))
                lane = f"l{job_id % 7}" if job_id % 3 == 0 else ""
                jobs.append(new_job(job_id, lane=lane, uses=tuple(slots(figures[key], key) for key in chosen)))
            await hands[0].jobs.enqueue(jobs)

            async def use(hand: JobDriver, fetched: list[FetchedJob]) -> None:
                for job in fetched:
                    seen[job.id] += 1
                    inside.update(job.slots)
                for key in keys:
                    assert inside[key] <= figures[key], f"{inside[key]} hold {key}"
                await asyncio.sleep(0)
                outcomes = [Outcome.RETURNED if chance.random() < 0.2 else Outcome.DONE for _ in fetched]
                for job in fetched:
                    inside.subtract(job.slots)
                ends = zip(fetched, outcomes, strict=True)
                assert all(
                    (await hand.acknowledged(*(Acknowledgement(j.id, j.fence, how) for j, how in ends))).accepted
                )
                for job, outcome in zip(fetched, outcomes, strict=True):
                    seen[job.id] -= outcome is Outcome.RETURNED

            async def work(number: int) -> None:
                hand = hands[number % _HANDS]
                while sum(seen.values()) < 90:
                    await asyncio.sleep(0)
                    if fetched := await hand.fetch(f"s{number}", 1 + number % 4):
                        await use(hand, fetched)

            async with asyncio.timeout(60):
                await asyncio.gather(*(work(number) for number in range(8)))
            assert set(seen.values()) == {1}
            assert set(await hands[0].states(*seen)) == {JobState.DONE}

    async def test_a_call_is_seen_whole_or_not_at_all(self, store_url: str) -> None:
        async with self.hands(store_url) as hands:
            seen: list[int] = []

            async def look() -> None:
                seen.append(len(await hands[3].list_jobs(JobFilter(), limit=1000)))

            async def feed(number: int) -> None:
                for _ in range(8):
                    await asyncio.sleep(0)
                    await hands[number].add_many(5, lane=f"l{number}")

            await _while(look, *(feed(number) for number in range(3)))
            assert all(count % 5 == 0 for count in seen), seen

    async def test_a_job_is_acknowledged_or_rescued_and_never_both(self, store_url: str) -> None:
        async with self.hands(store_url) as hands:
            for fetch_number in range(5):
                ids = await hands[0].add_many(20) + [await hands[0].add(lane=f"l{n}") for n in range(3)]
                await hands[0].begin(f"v{fetch_number}")
                jobs = await hands[0].fetch(f"v{fetch_number}", 100)
                await hands[0].store.sessions.end(f"v{fetch_number}")
                ends = (
                    hands[1].jobs.acknowledge(f"v{fetch_number}", [Acknowledgement(job.id, job.fence, Outcome.DONE)])
                    for job in jobs
                )
                acknowledging = asyncio.gather(*ends)
                found = await asyncio.gather(hands[2].jobs.rescue(limit=7), hands[3].jobs.rescue())
                acknowledged = {job.id for job, one in zip(jobs, await acknowledging, strict=True) if one.accepted[0]}
                rescued = [job.id for some in found for job in some]

                assert len(rescued) == len(set(rescued))
                assert acknowledged.isdisjoint(rescued)
                assert acknowledged | set(rescued) == set(ids)
                for job_id in rescued:
                    await hands[0].jobs.cancel(job_id, Attribution("test", "over"))

    async def test_a_job_is_cancelled_or_fetched_and_never_both(self, store_url: str) -> None:
        async with self.hands(store_url) as hands:
            for fetch_number in range(5):
                ids = [await hands[0].add(lane=f"l{n % 3}" if n % 2 else "") for n in range(8)]
                fetching = asyncio.gather(hands[2].fetch("s1", 3), hands[3].fetch("s2", 20))
                states = await asyncio.gather(
                    *(hands[1].jobs.cancel(job_id, Attribution("ann", "not wanted")) for job_id in ids)
                )
                running = {job.id for jobs in await fetching for job in jobs}
                for job_id, state in zip(ids, states, strict=True):
                    if state is JobState.CANCELLED:
                        assert job_id not in running, (
                            f"fetch_number {fetch_number}: {job_id} was cancelled and given to a session"
                        )
                    else:
                        assert job_id in running
                for session in ("s1", "s2"):
                    await hands[0].jobs.return_unstarted(session)

                assert set(await hands[0].states(*ids)) == {JobState.CANCELLED}
                assert await hands[0].fetch() == []

    async def test_nothing_of_a_lane_is_fetched_after_it_was_held(self, store_url: str) -> None:
        async with self.hands(store_url) as hands:
            held, over = 0, False
            late: list[int] = []

            async def work(number: int) -> None:
                hand = hands[number]
                while not over:
                    await asyncio.sleep(0)
                    before = held
                    jobs = await hand.fetch(f"s{number}", 2)
                    if before and before == held:
                        late.extend(job.id for job in jobs)
                    if jobs:
                        await hand.done(*jobs)

            async def person() -> None:
                nonlocal held, over
                try:
                    for fetch_number in range(1, 7):
                        await hands[3].add_many(10, lane="l")
                        await hands[3].jobs.hold("l", Attribution("ann", "deploying"))
                        held = fetch_number
                        await asyncio.sleep(0)
                        await hands[3].add_many(2, lane="l")
                        await hands[3].state((await hands[3].add_many(1, lane="l"))[0])
                        held = 0
                        assert await hands[3].jobs.release("l", ANN), fetch_number
                finally:
                    over = True

            await asyncio.gather(person(), *(work(number) for number in range(3)))
            assert late == []

    async def test_those_who_fetch_at_once_get_different_jobs(self, store_url: str) -> None:
        async with self.hands(store_url) as hands:
            ids = [*await hands[0].add_many(150), *await hands[0].add_many(100, lane="l")]
            for _ in range(50):
                ids.append(await hands[0].add(lane=f"l{len(ids)}"))
            got: list[int] = []
            for _ in range(4):
                fetches = [hands[n % _HANDS].fetch(f"s{n}", 13, run=4) for n in range(12)]
                for jobs in await asyncio.gather(*fetches):
                    got += [job.id for job in jobs]

            assert len(got) == len(set(got))
            assert len([job_id for job_id in got if job_id in ids[150:250]]) <= 4, "a lane was given twice"
            assert set(ids[:150]) | set(ids[250:]) <= set(got)


async def _while(do: Callable[[], Coroutine[Any, Any, None]], *work: Coroutine[Any, Any, None]) -> None:
    """Do something again and again until the work is over."""
    over = False

    async def repeat() -> None:
        while not over:
            await do()
            await asyncio.sleep(0)

    repeating = asyncio.create_task(repeat())
    try:
        await asyncio.gather(*work)
    finally:
        over = True
        await repeating
