"""What a fetch, a acknowledgement and a promotion touch does not grow with what waits: a million jobs, lanes by the
hundred thousand, one lane a hundred thousand deep. They go by indexes, whatever the planner believes about the
tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock.backends import from_url
from interlock.ports.sessions import SessionCard
from interlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FETCH = (
    "select j.* from interlock.job_fetch('default', 's', '{default/q}', '{n}', 100, 100, 1, 1, $1, 5, null) f"
    " cross join lateral interlock.job_fetched_rows('default', f.ids, f.fences) j"
)
ACKNOWLEDGE = (
    "select * from interlock.job_acknowledge("
    "'default', 's', row($1, $2, null, $3, null, null, null, null, null)::interlock.acknowledgements, 3, null)"
)
JOBS = """
insert into interlock.job (id, position, enqueued_at, due_at, keep_result, priority, on_failure, coalesces, paced, pool,
                           name, lane, arguments, options)
select n, case when $3::text is not null then n end, n, n, 0, 0, 0, false, false, 'default/q', 'n',
       'default/' || replace($3, '%', n::text), '{}', '' from generate_series($1::bigint, $2::bigint) n
"""
READY = """
insert into interlock.job_ready (pool, sort, id, class, limited, name)
select 'default/q', n, n, 0, false, 'n' from generate_series($1::bigint, $2::bigint) n
"""
SCHEDULED = """
insert into interlock.job_scheduled (pool, at, id, priority, class, limited, name, lane)
select 'default/q', $3::bigint + n, n, 0, 0, false, 'n', $4 from generate_series($1::bigint, $2::bigint) n
"""
FAR = 4102444800000000
"""A time that does not come."""
SCANS = "select relname, seq_tup_read from pg_stat_xact_user_tables where schemaname = 'interlock' order by relname"
LOWEST = [-(2**63)]


@pytest.fixture
async def connection(complete_postgres_url: str) -> AsyncIterator[Any]:
    store = from_url(complete_postgres_url, settings=Settings())
    await store.open()
    await store.sessions.begin(SessionCard("s", "host", 7, "test"), 600.0)
    connection = await asyncpg.connect(complete_postgres_url)
    await connection.execute("set synchronous_commit = off")
    yield connection
    await connection.close()
    await store.close()


async def pages(connection: Any, sql: str, *args: Any) -> int:
    """How many pages a statement touches, all that its functions do included."""
    told = json.loads(await connection.fetchval(f"explain (analyze, buffers, format json) {sql}", *args))
    plan = told[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def fetched(connection: Any) -> list[Any]:
    rows: list[Any] = await connection.fetch(FETCH, LOWEST)
    return rows


async def cost(connection: Any) -> tuple[int, int]:
    """Pages of a fetch of 100 and of a acknowledgement of 100, once plans are made."""
    for _ in range(2):
        rows = await fetched(connection)
        assert len(rows) == 100
        ends = ([row["id"] for row in rows], [row["fence"] for row in rows], [0.0] * 100)
        await connection.fetch(ACKNOWLEDGE, *ends)
    fetch = await pages(connection, FETCH, LOWEST)
    rows = await fetched(connection)
    ends = ([row["id"] for row in rows], [row["fence"] for row in rows], [0.0] * 100)
    return fetch, await pages(connection, ACKNOWLEDGE, *ends)


@pytest.mark.full
async def test_a_million_jobs_that_wait_cost_a_fetch_and_a_acknowledgement_nothing(connection: Any) -> None:
    await connection.execute(JOBS, 1, 2000, None)
    await connection.execute(READY, 1, 2000)
    few = await cost(connection)
    await connection.execute(JOBS, 2001, 1_000_000, None)
    await connection.execute(READY, 2001, 1_000_000)
    await connection.execute(SCHEDULED, 1, 300_000, FAR, None)
    many = await cost(connection)

    assert many[0] < few[0] * 1.5 + 300, (few, many)
    assert many[1] < few[1] * 1.5 + 300, (few, many)


@pytest.mark.full
async def test_neither_a_hundred_thousand_lanes_nor_a_deep_one_slow_the_fetch(connection: Any) -> None:
    await connection.execute(JOBS, 1, 1000, "few-%")
    await connection.execute("insert into interlock.job_signal select 'default', position, lane from interlock.job")
    few = await cost(connection)
    await connection.execute(JOBS, 1001, 101_000, "many-%")
    await connection.execute(JOBS, 101_001, 201_000, "deep")
    await connection.execute("insert into interlock.job_lane (lane, low) select distinct lane, 0 from interlock.job"
                             " on conflict do nothing")  # fmt: skip
    await connection.execute(
        "insert into interlock.job_ready (pool, sort, id, class, limited, name, lane)"
        " select distinct on (lane) 'default/q', id, id, 0, false, 'n', lane from interlock.job j"
        " where not exists (select from interlock.job_ready r where r.lane = j.lane) order by lane, position"
    )
    many = await cost(connection)

    assert many[0] < few[0] * 1.5 + 500, (few, many)
    assert many[1] < few[1] * 1.5 + 500, (few, many)


async def scanned(connection: Any, sql: str, *args: Any) -> list[str]:
    """The tables that a statement and its functions read from end to end."""
    transaction = connection.transaction()
    await transaction.start()
    before = dict(await connection.fetch(SCANS))  # it also knows of what was done just before
    await connection.fetch(sql, *args)
    after = dict(await connection.fetch(SCANS))
    await transaction.rollback()
    return [table for table, read in after.items() if read - before.get(table, 0) > 1000]


@pytest.mark.full
@pytest.mark.parametrize("analyzed", [False, True], ids=["statistics of empty tables", "fresh statistics"])
async def test_fetch_acknowledgement_and_promotion_go_by_their_indexes_with_a_million_waiting(
    connection: Any, analyzed: bool
) -> None:
    await connection.execute("analyze interlock.job, interlock.job_ready, interlock.job_scheduled, interlock.job_lane")
    await connection.execute(JOBS, 1, 600_000, None)
    await connection.execute(READY, 1, 600_000)
    await connection.execute(JOBS, 600_001, 700_000, "lane-%")
    await connection.execute("insert into interlock.job_signal select 'default', position, lane from interlock.job"
                             " where lane is not null limit 2000")  # fmt: skip
    await connection.execute(JOBS, 700_001, 1_000_000, None)
    await connection.execute(SCHEDULED, 700_001, 1_000_000, FAR, None)
    await connection.execute("update interlock.job_scheduled set at = id where id <= 701000")
    if analyzed:
        await connection.execute(
            "analyze interlock.job, interlock.job_ready, interlock.job_scheduled, interlock.job_signal"
        )

    promoted = await scanned(connection, "select interlock.job_promote('default', '{default/q}', 5000000, 1000)")
    fetch = await scanned(connection, FETCH, LOWEST)
    rows = await fetched(connection)
    ends = ([row["id"] for row in rows], [row["fence"] for row in rows], [0.0] * 100)
    acknowledged = await scanned(connection, ACKNOWLEDGE, *ends)

    assert (promoted, fetch, acknowledged) == ([], [], [])


async def test_enqueuing_goes_by_indexes_too_with_plans_made_when_there_was_nothing(connection: Any) -> None:
    at_once, later = (
        "select interlock.enqueue('n', p_lane => 'l')",
        "select interlock.enqueue('n', p_lane => 'l', p_delay => 9)",
    )
    for _ in range(3):
        await connection.execute(at_once)
        await connection.execute(later)
    await connection.execute("select setval('interlock.job_id', 400001)")
    await connection.execute(JOBS, 1000, 300_000, "lane-%")

    assert (await scanned(connection, at_once), await scanned(connection, later)) == ([], [])


async def test_promotion_touches_what_is_due_and_not_what_is_not(connection: Any) -> None:
    async def cost_of_promotion(first: int) -> int:
        await connection.execute(JOBS, first, first + 99, None)
        await connection.execute(SCHEDULED, first, first + 99, 0, None)
        return await pages(connection, "select interlock.job_promote('default', '{default/q}', 5000000000, 1000)")

    await cost_of_promotion(1)
    few = await cost_of_promotion(1001)
    await connection.execute(SCHEDULED, 10_001, 1_010_000, FAR, None)
    many = await cost_of_promotion(2001)

    assert many < few * 1.5 + 100, (few, many)


async def test_a_missing_index_would_be_seen(connection: Any) -> None:
    await connection.execute(JOBS, 1, 20_000, "lane-%")
    await connection.execute("insert into interlock.job_signal select 'default', position, lane from interlock.job"
                             " limit 200")  # fmt: skip
    await connection.execute("drop index interlock.job_by_lane")

    assert await scanned(connection, FETCH, LOWEST) == ["job"]


async def test_slots_with_a_key_per_lane_cost_the_same_however_many_keys_are_known(connection: Any) -> None:
    async def lanes_with_slots(first: int, last: int) -> None:
        await connection.execute(JOBS, first, last, "lane-%")
        await connection.execute(
            "update interlock.job set use_key = 'slots:' || id, use_max_count = 2, use_per = 0"
            " where id between $1 and $2",
            first,
            last,
        )
        await connection.execute("insert into interlock.job_signal select 'default', position, lane from interlock.job"
                                 " where id between $1 and $2", first, last)  # fmt: skip

    await lanes_with_slots(1, 600)
    few = await cost(connection)
    await connection.execute(
        "insert into interlock.job_limit (namespace, key, max_count, per)"
        " select 'default', 'slots:' || n, 2, 0 from generate_series(1001, 30000) n"
    )
    await lanes_with_slots(1001, 1600)
    many = await cost(connection)

    assert many[0] < few[0] * 1.5 + 500, (few, many)
    assert many[1] < few[1] * 1.5 + 500, (few, many)
