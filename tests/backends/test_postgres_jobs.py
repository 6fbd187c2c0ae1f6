"""Jobs on PostgreSQL alone: from anybody's own transaction, and what happens between two statements."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock.backends.job_codes import OutcomeCode
from interlock.ports.jobs import Acknowledgement, FetchRequest, FetchResult, Outcome
from interlock.ports.journal import Attribution
from interlock.ports.limits import Use
from interlock.ports.sessions import SessionCard
from interlock.testing.conformance.jobs.driver import new_job
from tests.backends.others import blocked

if TYPE_CHECKING:
    from interlock.ports.store import Store

ACKNOWLEDGE = (
    "select * from interlock.job_acknowledge('default', 's', row($1, $2, $3::smallint[], array[0.0], null, null, null,"
    " null, null)::interlock.acknowledgements, 3, null)"
)
WISH = FetchRequest("s", ("q",), ("n",), 10, 10, 5)


async def fetch(store: Store) -> list[Any]:
    batch = await store.jobs.fetch(WISH)
    assert isinstance(batch, FetchResult)
    return list(batch.jobs)


async def test_any_program_enqueues_in_its_own_transaction(store: Store, other: Any) -> None:
    sql = (
        "select interlock.enqueue('n', '{\"a\": 1}', 'q', p_lane => 'l', p_limits => '[[\"b\", 2, 0], [\"a\", 3, 60]]')"
    )
    transaction = other.transaction()
    await transaction.start()
    lost = await other.fetchval(sql)
    await transaction.rollback()
    kept = await other.fetchval(sql)
    assert await store.insight.get(lost) is None
    (job,) = await fetch(store)

    assert (job.id, job.lane, job.arguments, job.slots) == (kept, "l", '{"a": 1}', ("b",))
    view = await store.insight.get(kept)
    assert view is not None
    assert view.uses == (Use("a", 3, 60.0), Use("b", 2, 0.0))


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ("''", "name"),
        ("null", "name"),
        ("'two words'", "name"),
        ("'n', '[]'", "arguments"),
        ("'n', null", "arguments"),
        ("'n', jsonb_build_object('a', repeat('x', 1048576))", "arguments"),
        ("'n', p_queue => ''", "queue"),
        ("'n', p_lane => repeat('x', 513)", "lane"),
        ("'n', p_lane => null", "lane"),
        ("'n', p_priority => 101", "priority"),
        ("'n', p_delay => -1", "delay"),
        ("'n', p_delay => 'NaN'", "delay"),
        ("'n', p_at => 'infinity'", "at"),
        ("'n', p_on_failure => 'never'", "on_failure"),
        ("'n', p_coalesce => true", "coalesce"),
        ("'n', p_keep_result => -1", "keep_result"),
        ("'n', p_options => '[]'", "options"),
        ("'n', p_namespace => ''", "namespace"),
        ("'n', p_limits => '{}'", "limits"),
        ("'n', p_limits => '[[\"a\", 0, 0]]'", "limits"),
        ("'n', p_limits => '[[\"a\", 1]]'", "limits"),
        ("'n', p_limits => '[[\"\", 1, 0]]'", "limits"),
        ("'n', p_limits => '[[\"a\", 1, -1]]'", "limits"),
        ("'n', p_limits => '[[\"a\", 1, 0], [\"a\", 2, 0]]'", "limits"),
    ],
)
async def test_what_cannot_be_a_job_is_refused_from_sql(store: Store, other: Any, wrong: str, what: str) -> None:
    assert store.name == "postgres"
    with pytest.raises(asyncpg.InvalidParameterValueError, match=f"Invalid {what} of"):
        await other.fetchval(f"select interlock.enqueue({wrong})")
    assert await other.fetchval("select count(*) from interlock.job") == 0


async def test_a_job_that_was_accepted_before_another_comes_first_though_it_was_committed_late(
    store: Store, other: Any
) -> None:
    transaction = other.transaction()
    await transaction.start()
    early = await other.fetchval("select interlock.enqueue('n', '{}', 'q', 'l')")
    second, third = await store.jobs.ids(2)
    await store.jobs.enqueue([new_job(second, lane="l")])
    assert [job.id for job in await fetch(store)] == [second]
    await store.jobs.return_unstarted("s")
    await transaction.commit()
    await store.jobs.enqueue([new_job(third, lane="l")])
    got = []
    while jobs := await fetch(store):
        got += [job.id for job in jobs]
        await store.jobs.acknowledge("s", [Acknowledgement(job.id, job.fence, Outcome.DONE) for job in jobs])

    assert got.index(early) < got.index(third)
    assert sorted(got) == sorted([early, second, third])


async def test_a_lane_does_not_stand_still_when_a_job_comes_as_it_runs_empty(store: Store, other: Any) -> None:
    first, second = await store.jobs.ids(2)
    await store.jobs.enqueue([new_job(first, lane="l")])
    (job,) = await fetch(store)
    transaction = other.transaction()
    await transaction.start()
    await other.fetch(
        ACKNOWLEDGE,
        [job.id],
        [job.fence],
        None,
    )
    await store.jobs.enqueue([new_job(second, lane="l")])
    assert await fetch(store) == []
    await transaction.commit()

    assert [job.id for job in await fetch(store)] == [second]


async def test_who_waits_for_the_end_of_a_job_that_ends_just_now_hears_that_it_has(store: Store, other: Any) -> None:
    (job_id,) = await store.jobs.ids(1)
    await store.jobs.enqueue([new_job(job_id)])
    (job,) = await fetch(store)
    transaction = other.transaction()
    await transaction.start()
    await other.fetch(
        ACKNOWLEDGE,
        [job.id],
        [job.fence],
        None,
    )
    async with blocked(other, store.jobs.watch_end("s", [job_id])) as (waiting,):
        await transaction.commit()

    assert list(await waiting) == [job_id]


async def test_a_fetcher_does_not_wait_for_one_that_is_at_the_same_lanes(store: Store, other: Any) -> None:
    ids = list(await store.jobs.ids(2))
    await store.jobs.enqueue([new_job(job_id, lane=f"l{job_id}") for job_id in ids])
    (first, *_) = await fetch(store)
    await store.jobs.return_unstarted("s")
    transaction = other.transaction()
    await transaction.start()
    await other.fetch("select from interlock.job_lane where lane = $1 for update", f"default/l{first.id}")
    async with asyncio.timeout(3):
        got = await fetch(store)
    await transaction.rollback()

    assert [job.id for job in got] == [job_id for job_id in ids if job_id != first.id]
    assert [job.id for job in await fetch(store)] == [first.id]


async def test_who_ends_a_run_does_not_wait_for_a_fetch_under_way(store: Store, other: Any) -> None:
    first, second = await store.jobs.ids(2)
    await store.jobs.enqueue([new_job(first, lane="l")])
    (job,) = await fetch(store)
    await store.jobs.enqueue([new_job(second, lane="l")])
    await store.sessions.begin(SessionCard("t", "host", 7, "test"), 600.0)
    transaction = other.transaction()
    await transaction.start()
    lowest = -(2**63)
    await other.fetch(
        "select * from interlock.job_fetch('default', 't', '{default/q}', '{n}', 10, 10, 5, 0, $1, 5, null)", [lowest]
    )
    assert await other.fetchval("select count(*) from interlock.job_signal") == 0, "it was seen to by the fetch"
    async with asyncio.timeout(3):
        await store.jobs.acknowledge("s", [Acknowledgement(job.id, job.fence, Outcome.DONE)])
    await transaction.commit()

    assert [job.id for job in await fetch(store)] == [second]


async def test_who_ends_a_run_sees_what_a_fetch_under_way_puts_behind_it(store: Store, other: Any) -> None:
    first, second = await store.jobs.ids(2)
    await store.jobs.enqueue([new_job(first, lane="l")])
    (job,) = await fetch(store)
    await store.jobs.enqueue([new_job(second, lane="l", delay=60.0)])
    await store.sessions.begin(SessionCard("t", "host", 7, "test"), 600.0)
    transaction = other.transaction()
    await transaction.start()
    await other.fetch(
        "select * from interlock.job_fetch("
        "'default', 't', '{default/q}', '{n}', 10, 10, 5, 0, $1, 5, extract(epoch from now()) + 120)",
        [-(2**63)],
    )
    assert await other.fetchval("select count(*) from interlock.job_scheduled") == 0, "it was due for the fetch"
    async with blocked(other, store.jobs.acknowledge("s", [Acknowledgement(job.id, job.fence, Outcome.DONE)])) as (
        acknowledging,
    ):
        await transaction.commit()
    await acknowledging

    assert [job.id for job in await fetch(store)] == [second]


async def test_a_start_counts_from_when_the_wait_for_its_limit_was_over(store: Store, other: Any) -> None:
    use = (Use("k", 5, 60.0),)
    first, second = await store.jobs.ids(2)
    await store.jobs.enqueue([new_job(first, uses=use)])
    await fetch(store)
    await store.jobs.enqueue([new_job(second, uses=use)])
    transaction = other.transaction()
    await transaction.start()
    await other.fetch("select from interlock.job_limit for update")
    async with blocked(other, fetch(store)) as (fetching,):
        let_go = await other.fetchval("select interlock.micros(clock_timestamp())")
        await transaction.commit()
    (job,) = await fetching

    assert job.id == second
    assert await other.fetchval("select at from interlock.job_limit_start where id = $1", second) >= let_go
    assert await other.fetchval("select fetched_at from interlock.job_fetched where fence = $1", job.fence) >= let_go
    await store.jobs.acknowledge("s", [Acknowledgement(job.id, job.fence, Outcome.RETURNED)])
    assert await other.fetchval("select count(*) from interlock.job_limit_start where id = $1", second) == 0


async def test_jobs_that_coalesce_are_locked_in_the_order_in_which_all_lock(store: Store, other: Any) -> None:
    low, middle, high, last = await store.jobs.ids(4)
    for number in (high, low, last):  # as processes do that take ids in advance
        await store.jobs.enqueue([new_job(number, lane="l", coalesce=True)])
    await store.jobs.enqueue([new_job(middle, name="x")])
    transaction = other.transaction()
    await transaction.start()
    await other.fetch("select from interlock.job where id = $1 for update", middle)
    waiting = store.jobs.watch_end("s", [low, middle, high])
    async with blocked(other, waiting, fetch(store)) as (awaiting, fetching):
        await transaction.commit()

    assert [job.id for job in await fetching] == [last]
    assert list(await awaiting) in ([], [low, high], [high, low])


async def test_days_that_others_have_filled_do_not_keep_empty_ones(store: Store, other: Any) -> None:
    day = 86_400_000_000
    now = await other.fetchval("select interlock.micros(clock_timestamp())")
    await other.execute("insert into interlock.job_namespace values ('default'), ('left')")
    for ago in range(60, 28, -1):
        first = (now - ago * day) // day * day
        name = await other.fetchval("select interlock.job_day($1)", first)
        await other.execute(
            f"create table interlock.{name} partition of interlock.job_history"
            f" for values from ({first}) to ({first + day})"
        )
        if ago > 48:
            await other.execute(
                "insert into interlock.job_history (id, enqueued_at, due_at, fence, keep_result, finished_at, attempt,"
                " priority, crashes, state, on_failure, coalesces, paced, pool, name, arguments, options, error)"
                " values ($1, 0, 0, 1, 0, $2, 1, 50, 0, 0, 0, false, false, 'left/q', 'n', '{}', '{}', '')",
                ago,
                now - ago * day,
            )
    old = (
        "select count(*) from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = 'interlock.job_history'::regclass and c.relname < interlock.job_day($1)"
    )
    for _ in range(60):
        await store.jobs.prune(7 * 86_400.0)

    assert await other.fetchval(old, now - 8 * day) == 12


@pytest.mark.parametrize("act", ["cancel", "retry"])
@pytest.mark.parametrize("done", [True, False])
async def test_an_act_on_a_job_that_ends_meanwhile_leaves_no_lane_behind(
    store: Store, other: Any, act: str, done: bool
) -> None:
    (job_id,) = await store.jobs.ids(1)
    await store.jobs.enqueue([new_job(job_id, lane="l")])
    (job,) = await fetch(store)
    transaction = other.transaction()
    await transaction.start()
    await other.execute(
        ACKNOWLEDGE,
        [job_id],
        [job.fence],
        None if done else [OutcomeCode.FAILED],
    )
    work = (
        store.jobs.cancel(job_id, Attribution("ann", "not wanted"))
        if act == "cancel"
        else store.jobs.retry(job_id, Attribution("ann"))
    )
    async with blocked(other, work) as (acting,):
        await transaction.commit()
        await acting

    if act == "retry" and not done:
        await store.jobs.cancel(job_id, Attribution("ann", "not wanted"))
    assert await other.fetchval("select count(*) from interlock.job_lane") == 0
    assert (await store.insight.lanes(limit=10)).lanes == []
