"""Concurrent accepts: one delivery fifty times, overlapping batches, simultaneous tries of one event."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

from interlock.testing.conformance.events.driver import KEEP, EventSuite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.events import NewEvent
    from interlock.testing.conformance.events.driver import EventDriver

__all__ = ["EventRaceConformance"]


async def _everything(b: EventDriver) -> list[int]:
    """The jobs that there are, each claimed once."""
    jobs = await b.every("a", run=100)
    return [job.id for job in jobs]


class EventRaceConformance(EventSuite):
    """One unit of work per delivery, under concurrency."""

    async def test_fifty_deliveries_of_one_id_lead_to_one_job(self, store_url: str) -> None:
        async with self.event_drivers(store_url, 4) as drivers:
            for round_ in range(4):
                tries = [await drivers[n % 4].event(f"d{round_}") for n in range(50)]
                answers = await asyncio.gather(
                    *(drivers[n % 4].events.accept([event]) for n, event in enumerate(tries))
                )
                kept = {id for (id,) in answers}  # noqa: A001

                assert len(kept) == 1, "they got different events"
                (winner,) = (event for event in tries if event.id in kept)
                assert await _everything(drivers[0]) == [job.id for job in winner.jobs]
                assert await drivers[0].listed(delivery=f"d{round_}") == [winner.id]

    async def test_tries_of_one_event_that_meet_are_one(self, store_url: str) -> None:
        async with self.event_drivers(store_url, 3) as drivers:
            for round_ in range(10):
                event = await drivers[0].event(f"d{round_}", jobs=2)
                answers = await asyncio.gather(*(drivers[n % 3].events.accept([event]) for n in range(6)))

                assert [list(answer) for answer in answers] == [[event.id]] * 6
                assert sorted(await _everything(drivers[0])) == sorted(job.id for job in event.jobs)

    async def test_batches_that_overlap_in_any_order_all_come_through(self, store_url: str) -> None:
        dice = random.Random(7)
        async with self.event_drivers(store_url, 4) as drivers:
            deliveries = [f"d{n}" for n in range(40)]
            batches: list[list[NewEvent]] = []
            for n in range(24):
                some = dice.sample(deliveries, 25)
                batches.append([await drivers[n % 4].event(delivery) for delivery in some])
            answers: list[Sequence[int]] = await asyncio.gather(
                *(drivers[n % 4].events.accept(batch) for n, batch in enumerate(batches))
            )
            told: dict[str, set[int]] = {}
            for batch, kept in zip(batches, answers, strict=True):
                for event, id in zip(batch, kept, strict=True):  # noqa: A001
                    told.setdefault(event.delivery, set()).add(id)
            winners = {event.id: event for batch in batches for event in batch}

            assert {len(ids) for ids in told.values()} == {1}
            expected = [job.id for ids in told.values() for id in ids for job in winners[id].jobs]  # noqa: A001
            assert sorted(await _everything(drivers[0])) == sorted(expected)

    async def test_single_deliveries_at_the_same_time_are_all_accepted(self, store_url: str) -> None:
        async with self.event_drivers(store_url, 2) as drivers:
            events = [await drivers[n % 2].event(f"d{n % 60}", job={"lane": f"l{n % 5}"}) for n in range(120)]
            answers = await asyncio.gather(*(drivers[n % 2].events.accept([event]) for n, event in enumerate(events)))
            accepted = [event for event, (kept,) in zip(events, answers, strict=True) if kept == event.id]

            assert Counter(event.delivery for event in accepted) == Counter(f"d{n}" for n in range(60))
            got: list[int] = []
            while jobs := await drivers[0].fetch("a", run=100):
                got += [job.id for job in jobs]
                await drivers[0].done(*jobs)
            assert sorted(got) == sorted(job.id for event in accepted for job in event.jobs)

    async def test_whoever_is_cancelled_leaves_an_event_with_its_jobs_or_nothing(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            events = [await b.event(f"d{n}", jobs=2) for n in range(30)]
            tasks = [asyncio.create_task(_accept(b, event)) for event in events]
            for steps, task in enumerate(tasks):
                for _ in range(steps % 4):
                    await asyncio.sleep(0)
                if steps % 3:
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            answers = await asyncio.gather(*(b.events.accept([event]) for event in events))

            assert [kept for (kept,) in answers] == [event.id for event in events]
            assert sorted(await _everything(b)) == sorted(job.id for event in events for job in event.jobs)

    async def test_an_event_that_goes_while_it_is_delivered_again_is_there_or_new(self, store_url: str) -> None:
        async with self.event_drivers(store_url, 2) as (mine, theirs):
            for round_ in range(10):
                old = await mine.accepted("d", keep=1.0)
                await mine.work_all()
                await mine.let_pass(KEEP)
                again = await theirs.event("d", keep=1.0)
                _, (kept,) = await asyncio.gather(mine.events.prune(), theirs.events.accept([again]))

                assert kept in (old.id, again.id)
                ran = await mine.work_all()
                assert ran == ([job.id for job in again.jobs] if kept == again.id else []), round_
                await mine.let_pass(KEEP)
                await mine.events.prune()
                assert await mine.listed() == []


async def _accept(b: EventDriver, event: NewEvent) -> Sequence[int]:
    return await b.events.accept([event])
