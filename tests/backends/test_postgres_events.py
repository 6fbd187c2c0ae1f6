"""Events on PostgreSQL alone: what happens while another transaction is under way, and what statements touch."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from interlock.backends import from_url
from interlock.backends.postgres.events import _sql
from interlock.backends.postgres.job_enqueue import columns
from interlock.jobs.listing import list_jobs
from interlock.ports.events import NewEvent
from interlock.ports.job_views import JobFilter
from interlock.settings import Settings
from interlock.testing.conformance.jobs.driver import new_job
from tests.backends.others import blocked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.store import Store

MANY = """
insert into interlock.event (
    id, received_at, kept_until, namespace, source, delivery, type, actor, replayed_by, jobs, payload)
select n, n, n + 1000, $3, 'src' || n % 3, 'd' || n, 't' || n % 1000, 'a' || n % 1000, '', array[n + 1000000000], '{}'
from generate_series($1::bigint, $2::bigint) n
"""


async def new(store: Store, delivery: str, jobs: int = 1) -> NewEvent:
    number, *numbers = await store.jobs.ids(1 + jobs)
    caused = tuple(new_job(one) for one in numbers)
    return NewEvent(number, "src", delivery, "push", "ann", "{}", 3600.0, None, None, caused)


async def accept(connection: Any, events: Sequence[NewEvent]) -> list[int]:
    """As the store does, on a connection of one's own."""
    ids, sources, deliveries, types, actors, payloads, keeps, replays, bys, jobs = zip(*events, strict=True)
    about = (ids, sources, deliveries, types, actors, payloads, keeps, replays, bys, [*map(len, jobs)])
    _, work = columns(job for event in events for job in event.jobs)
    return list(await connection.fetchval(_sql.accept, "default", *about, *work, None))


async def jobs_of(store: Store) -> list[int]:
    return sorted(view.id for view in await list_jobs(store.insight, JobFilter(), 100))


class TestUnderWay:
    @pytest.mark.parametrize("committed", [True, False])
    async def test_who_comes_second_waits_to_hear_what_became_of_the_first(
        self, store: Store, other: Any, committed: bool
    ) -> None:
        first, second = await new(store, "d"), await new(store, "d", 2)
        transaction = other.transaction()
        await transaction.start()
        assert await accept(other, [first]) == [first.id]
        async with blocked(other, store.events.accept([second])) as (waiting,):
            await (transaction.commit() if committed else transaction.rollback())
            (kept,) = await waiting

        winner = first if committed else second
        assert kept == winner.id
        assert await jobs_of(store) == [job.id for job in winner.jobs]

    @pytest.mark.parametrize("committed", [True, False])
    async def test_a_first_try_that_is_still_under_way_and_its_repetition_are_one(
        self, store: Store, other: Any, committed: bool
    ) -> None:
        event = await new(store, "d", 2)
        transaction = other.transaction()
        await transaction.start()
        await accept(other, [event])
        async with blocked(other, store.events.accept([event])) as (waiting,):
            await (transaction.commit() if committed else transaction.rollback())
            assert list(await waiting) == [event.id]

        assert await accept(other, [event]) == [event.id], "the first try, which comes late"
        assert await jobs_of(store) == [job.id for job in event.jobs]

    async def test_batches_in_opposite_orders_do_not_wait_for_one_another(
        self, store: Store, other: Any, complete_postgres_url: str
    ) -> None:
        # Whoever added in the order of the call would have added z or a, and then wait for m, holding it.
        middle = await new(store, "m")
        down = [await new(store, delivery) for delivery in "zma"]
        up = [await new(store, delivery) for delivery in "amz"]
        transaction = other.transaction()
        await transaction.start()
        await accept(other, [middle])
        second = from_url(complete_postgres_url, settings=Settings())
        await second.open()
        async with blocked(other, store.events.accept(down), second.events.accept(up)) as tasks:
            await transaction.commit()
            one, two = await asyncio.gather(*tasks)
        await second.close()

        z, a = down[0].id, down[2].id
        assert list(one) == [z, middle.id, a]
        assert list(two) == [a, middle.id, z]

    async def test_whoever_enqueues_waits_for_no_delivery(self, store: Store, other: Any) -> None:
        event = await new(store, "d")
        transaction = other.transaction()
        await transaction.start()
        await accept(other, [event])
        (job_id,) = await store.jobs.ids(1)
        await asyncio.wait_for(store.jobs.enqueue([new_job(job_id, lane="l")]), 2)
        apart = await new(store, "e")
        assert list(await asyncio.wait_for(store.events.accept([apart]), 2)) == [apart.id]
        await transaction.commit()

    async def test_one_at_fault_does_not_take_those_with_it_that_go_together(self, store: Store) -> None:
        used, good = await new(store, "a"), [await new(store, f"g{n}") for n in range(5)]
        await store.events.accept([used])
        bad = (await new(store, "b"))._replace(id=used.id)
        answers = await asyncio.gather(
            *(store.events.accept([event]) for event in (*good[:2], bad, *good[2:])), return_exceptions=True
        )

        assert [answer for answer in answers if not isinstance(answer, BaseException)] == [[e.id] for e in good]
        assert [type(answer).__name__ for answer in answers if isinstance(answer, BaseException)] == ["MisuseError"]

    async def test_what_comes_together_shares_its_round_trip(self, store: Store, other: Any) -> None:
        events = [await new(store, f"d{n}") for n in range(50)]
        await store.events.accept([await new(store, "warm-up")])
        before = await other.fetchval("select pg_current_xact_id()::text::bigint")
        await asyncio.gather(*(store.events.accept([event]) for event in events))
        after = await other.fetchval("select pg_current_xact_id()::text::bigint")

        assert after - before <= 5, "fifty deliveries took more than a few transactions"

    async def test_what_is_being_removed_is_waited_for_by_nobody_who_prunes(self, store: Store, other: Any) -> None:
        await other.execute(MANY, 1, 10, "default")
        transaction = other.transaction()
        await transaction.start()
        await other.execute("select * from interlock.event where id <= 3 for update")

        assert await asyncio.wait_for(store.events.prune(), 2) == 7
        await transaction.rollback()
        assert await store.events.prune() == 3


class TestPlans:
    async def pages(self, connection: Any, sql: str, *args: Any) -> int:
        """How many pages a statement touches, all that its functions do included."""
        for _ in range(7):  # until its plan is made once and for all
            told = json.loads(await connection.fetchval(f"explain (analyze, buffers, format json) {sql}", *args))
        plan = told[0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    async def test_what_a_statement_touches_does_not_grow_with_what_is_kept(self, store: Store, other: Any) -> None:
        assert store.name == "postgres"
        await other.execute("set synchronous_commit = off")
        await other.execute(MANY, 1_000_000, 1_050_000, "elsewhere")
        await other.execute(MANY, 1, 50_000, "default")
        await other.execute("analyze interlock.event")
        page = (40_000, 50, None)

        for name, wanted in (
            ("list_any", ("", "", "", "")),
            ("list_source", ("src1", "", "", "")),
            ("list_type", ("", "t7", "", "")),
            ("list_actor", ("", "", "a7", "")),
            ("list_delivery", ("", "", "", "d1700")),
        ):
            touched = await self.pages(other, getattr(_sql, name), "default", *wanted, *page)
            assert touched < 100, (name, touched)
        assert await self.pages(other, _sql.get_many, "default", list(range(1, 50_000, 1000)), None) < 300
        # A thousand that are old are removed; the others are not looked at.
        assert await self.pages(other, "select interlock.event_prune('default', 100, null)") < 1500
