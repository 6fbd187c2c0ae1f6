"""Jobs of one call that go to PostgreSQL in several statements: all of them or none, whatever happens between two."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App
from interlock.backends.postgres import job_enqueue
from interlock.backends.postgres.job_enqueue import PART, PART_BYTES
from interlock.errors import MisuseError, StoreUnavailableError
from interlock.testing.conformance.jobs.driver import new_job
from tests.backends.others import blocked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.ports.jobs import NewJob
    from interlock.ports.store import Store

MANY = 2 * PART + 1
ALL = "select count(*) from interlock.job"


def end_connections(ordered: Any) -> None:
    """End every connection that the ordered connection could be using."""
    for member in list(ordered._pool._members):
        member.connection.terminate()


def at_part(monkeypatch: pytest.MonkeyPatch, number: int, happens: Callable[[], None]) -> list[int]:
    """Something happens before that part is made, the first time; the sizes of the parts are written down."""
    sizes: list[int] = []

    def columns(jobs: Any) -> Any:
        part = list(jobs)
        sizes.append(len(part))
        if len(sizes) == number:
            happens()
        return real(part)

    real = job_enqueue.columns
    monkeypatch.setattr(job_enqueue, "columns", columns)
    return sizes


async def new(store: Store, **changes: Any) -> Sequence[NewJob]:
    return [new_job(number, **changes) for number in await store.jobs.ids(MANY)]


async def test_they_go_in_parts_and_keep_their_order(store: Store, other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = at_part(monkeypatch, 0, lambda: None)
    jobs = await new(store, lane="l")
    await store.jobs.enqueue(jobs)

    assert sizes == [PART, PART, 1]
    rows = await other.fetch("select id from interlock.job order by position")
    assert [row["id"] for row in rows] == [job.id for job in jobs]


async def test_a_part_has_so_many_bytes_at_most(store: Store, other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = at_part(monkeypatch, 0, lambda: None)
    text = "x" * (PART_BYTES // 4)
    jobs = [new_job(number, arguments=text) for number in await store.jobs.ids(9)]
    await store.jobs.enqueue(jobs)

    assert sizes == [4, 4, 1]
    assert await other.fetchval(ALL) == 9


async def test_one_that_cannot_be_accepted_keeps_all_out(store: Store, other: Any) -> None:
    jobs = await new(store)
    await store.jobs.enqueue(jobs[-1:])
    with pytest.raises(MisuseError, match="accepted before"):
        await store.jobs.enqueue(jobs)

    assert await other.fetchval(ALL) == 1
    await store.jobs.enqueue(jobs[:-1])  # and the store is as good as before
    assert await other.fetchval(ALL) == MANY


@pytest.mark.parametrize("part", [2, 3])
async def test_a_connection_lost_between_two_parts_leaves_nothing(
    store: Store, other: Any, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    jobs = await new(store)
    entries = store.jobs._enqueue._entries  # type: ignore[attr-defined]
    at_part(monkeypatch, part, lambda: end_connections(entries))
    with pytest.raises(StoreUnavailableError):
        await store.jobs.enqueue(jobs)
    assert await other.fetchval(ALL) == 0

    await store.jobs.enqueue(jobs, again=True)
    assert await other.fetchval(ALL) == MANY


async def test_a_caller_hears_nothing_of_it(
    complete_postgres_url: str, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(complete_postgres_url)

    @app.job()
    async def count(number: int) -> None: ...

    async with app:
        entries = app.jobs._running.jobs._enqueue._entries  # type: ignore[attr-defined]
        at_part(monkeypatch, 2, lambda: end_connections(entries))
        handles = await app.jobs.enqueue_many([count.call(number) for number in range(MANY)])

    assert len({handle.id for handle in handles}) == MANY
    rows = await other.fetch("select id, arguments::json ->> 'number' as number from interlock.job")
    assert {row["id"]: int(row["number"]) for row in rows} == {handle.id: n for n, handle in enumerate(handles)}


async def test_its_transaction_ends_also_if_nobody_hears_of_our_end(store: Store, other: Any) -> None:
    await other.execute("create table said (setting text)")
    entries = store.jobs._enqueue._entries  # type: ignore[attr-defined]
    await entries.run_each(
        "insert into said select $1 || current_setting('idle_in_transaction_session_timeout')", [("a",), ("b",)]
    )

    assert [row["setting"] for row in await other.fetch("select setting from said order by 1")] == ["a10s", "b10s"]


async def test_nobody_waits_for_a_long_list(store: Store, other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_enqueue, "_BULK", MANY - 1)
    jobs = await new(store, lane="l")
    (number,) = await store.jobs.ids(1)
    await other.execute("begin; lock interlock.job_signal")  # which only jobs of lanes need
    async with blocked(other, store.jobs.enqueue(jobs)) as (bulk,):
        async with asyncio.timeout(3):
            await store.jobs.enqueue([new_job(number)])
        assert not bulk.done()
        await other.execute("commit")
    await bulk

    assert await other.fetchval(ALL) == MANY + 1
