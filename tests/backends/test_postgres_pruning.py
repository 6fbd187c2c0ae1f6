"""Pruning reads what it removes and little more, one process at a time, and nobody waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.backends.others import blocked
from tests.backends.test_postgres_job_plans import connection, pages

if TYPE_CHECKING:
    from interlock.ports.store import Store

__all__ = ["connection"]

DAY = 86_400_000_000
ROWS = 200_000
HISTORY = """
insert into interlock.job_history (id, enqueued_at, due_at, fence, keep_result, finished_at, attempt, priority, crashes,
                                   state, on_failure, coalesces, paced, pool, name, arguments, options, error)
select n, 0, 0, 1, 0, $1::bigint - n * ($2::bigint / $3::bigint), 1, 50, 0, 0, 0, false, false, 'default/q', 'n', '{}',
       '{}', ''
from generate_series($3::bigint, 1, -1) n
"""
PRUNE = "select interlock.job_prune('default', $1, $2, null)"


async def test_what_is_kept_costs_pruning_nothing(connection: Any) -> None:
    now = await connection.fetchval("select interlock.micros(clock_timestamp())")
    await connection.execute("insert into interlock.job_namespace values ('default'), ('other')")  # no whole days
    await connection.execute("select interlock.job_make_days($1)", now - DAY)
    await connection.execute(HISTORY, now, DAY, ROWS)
    keep = DAY // 2
    while await connection.fetchval(PRUNE, keep, 10_000):
        pass
    left = await connection.fetchval("select count(*) from interlock.job_history")
    await connection.execute(
        "update interlock.job_history set finished_at = $1 where id in (select id from interlock.job_history"
        " order by finished_at limit 20)",
        now - keep,
    )

    touched = await pages(connection, PRUNE, keep, 10_000)

    assert await connection.fetchval("select count(*) from interlock.job_history") < left
    assert ROWS * 0.4 < left < ROWS * 0.6
    assert touched < 500  # the rows that are kept are on more than 2,000


async def test_history_of_any_age_goes_and_none_too_early(connection: Any) -> None:
    now = await connection.fetchval("select interlock.micros(clock_timestamp())")
    await connection.execute("insert into interlock.job_namespace values ('default'), ('other')")
    await connection.execute(HISTORY, now, 100 * DAY, 1000)  # most of it falls on no day's table

    for _ in range(20):
        await connection.fetchval(PRUNE, 50 * DAY, 100)

    assert await connection.fetchval("select count(*) from interlock.job_history") == 499
    assert await connection.fetchval("select min(finished_at) from interlock.job_history") > now - 50 * DAY


async def test_what_went_by_days_goes_row_by_row_once_another_namespace_is_there(connection: Any) -> None:
    now = await connection.fetchval("select interlock.micros(clock_timestamp())")
    await connection.execute("insert into interlock.job_namespace values ('default')")
    await connection.execute("select interlock.job_make_days($1)", now - 2 * DAY)
    await connection.execute(HISTORY, now, 2 * DAY, 100)
    await connection.fetchval(PRUNE, DAY, 1000)
    before = await connection.fetchval("select count(*) from interlock.job_history where finished_at <= $1", now - DAY)

    await connection.execute("insert into interlock.job_namespace values ('other')")
    await connection.fetchval(PRUNE, DAY, 1000)

    assert before > 0 or now % DAY < 2_000_000_000  # the day that ended so long ago began just now
    assert await connection.fetchval("select count(*) from interlock.job_history") == 49


async def test_one_process_prunes_at_a_time(connection: Any, store: Store) -> None:
    now = await connection.fetchval("select interlock.micros(clock_timestamp())")
    await connection.execute(HISTORY, now, DAY, 100)
    transaction = connection.transaction()
    await transaction.start()
    assert await connection.fetchval(PRUNE, 0, 10) == 10

    assert await store.jobs.prune(0.0) == 0
    await transaction.rollback()

    assert await store.jobs.prune(0.0) == 100


async def test_rescue_does_not_wait_for_pruning(connection: Any, store: Store) -> None:
    await connection.execute("insert into interlock.job_result values (1, 0, 'default', '1')")
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("select from interlock.job_result for update")

    async with blocked(connection, store.jobs.prune(0.0)) as (pruning,):
        assert await store.jobs.rescue() == []
        assert not pruning.done()
        await transaction.commit()

    assert await pruning == 1
