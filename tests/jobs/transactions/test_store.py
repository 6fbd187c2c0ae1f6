"""Enqueuing on a caller's connection stores exactly what enqueuing on the store's own does."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock.backends import from_url
from interlock.connections import run_steps, run_steps_blocking
from interlock.ports.job_hooks import EndHook, encode_hooks
from interlock.ports.jobs import IfFailed, JobState, NewJob, OnFailure
from interlock.ports.limits import Use
from interlock.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = NewJob(0, "plain", "default", "", 50, 0.0, None, (), OnFailure.BLOCK, False, 3600.0, "{}", "")
OTHER = NewJob(
    id=0,
    name="other",
    queue="q",
    lane="l\u00fc",
    priority=99,
    delay=12.5,
    at=None,
    uses=(Use("cooldown:a", 1, 0.123456), Use("slots:b", 3, 0.0)),
    on_failure=OnFailure.PARK,
    coalesce=True,
    keep_result=7.25,
    arguments='{"z":1e22,"a":"\\u0000\u00fc","z":1}',
    options='{"timeout":5.0}',
    hooks=encode_hooks([EndHook("hook", "hooks", 7, (JobState.FAILED, JobState.CANCELLED))]),
    cause="job:12;event:7",
    expires=60.5,
)
JOBS = [
    PLAIN,
    OTHER,
    OTHER._replace(
        delay=0.0, at=2e9 + 0.123456, uses=(Use("slots:b", 3, 0.0),), hooks="", cause="", expires=None, expires_at=2e9
    ),
    PLAIN._replace(uses=(Use("rate:r", 10000, 60.0),), lane="l"),
]
DIFFERENT = {"id", "position", "enqueued_at"}
"""Columns that differ between two jobs that are otherwise the same; due_at does too, unless it was given."""


def test_no_field_of_a_job_keeps_its_default_in_these_tests() -> None:
    defaults = {*zip(NewJob._fields, PLAIN, strict=True)} & {*zip(NewJob._fields, OTHER, strict=True)}

    composition = {"key", "keep_key", "after", "if_failed", "expires_at"}  # below
    assert {name for name, _ in defaults} == {"id", "at"} | composition


async def test_every_field_gets_through_on_postgresql(complete_postgres_url: str) -> None:
    store = from_url(complete_postgres_url, settings=Settings())
    await store.open()
    connection = await asyncpg.connect(complete_postgres_url)
    try:
        own = await store.jobs.ids(len(JOBS))
        await store.jobs.enqueue([job._replace(id=number) for number, job in zip(own, JOBS, strict=True)])
        theirs = (await run_steps(connection, store.jobs.enqueue_in_transaction(JOBS))).ids
        for table in ("job", "job_ready", "job_scheduled"):
            sql = f"select * from interlock.{table} where id = any ($1) order by id"
            rows = [[_compared(row) for row in await connection.fetch(sql, list(ids))] for ids in (own, theirs)]
            assert rows[0] == rows[1]
            assert rows[0]
        assert await connection.fetchval("select count(*) from interlock.job_signal") == 2
    finally:
        await connection.close()
        await store.close()


async def test_every_field_gets_through_on_sqlite(tmp_path: Path) -> None:
    store = from_url(f"sqlite:///{tmp_path}/bot.db", settings=Settings())
    await store.open()
    connection = sqlite3.connect(tmp_path / "bot.db", isolation_level=None)
    try:
        own = await store.jobs.ids(len(JOBS))
        await store.jobs.enqueue([job._replace(id=number) for number, job in zip(own, JOBS, strict=True)])
        theirs = run_steps_blocking(connection, store.jobs.enqueue_in_transaction(JOBS)).ids
        connection.row_factory = sqlite3.Row
        for table in ("interlock_job", "interlock_job_scheduled"):
            sql = f"select * from {table} where id between ? and ? order by id"
            rows = [[_compared(row) for row in connection.execute(sql, (ids[0], ids[-1]))] for ids in (own, theirs)]
            assert rows[0] == rows[1]
            assert rows[0]
    finally:
        connection.close()
        await store.close()


def _compared(row: Any) -> dict[str, Any]:
    given = 2e9 * 1e6
    return {
        name: value
        for name, value in dict(row).items()
        if name not in DIFFERENT and not (name in ("due_at", "at", "sort", "expires_at") and (value or 0) < given)
    }


@pytest.mark.parametrize("every_store_url", ["sqlite", "postgres"], indirect=True)
async def test_keys_and_jobs_to_wait_for_get_through(every_store_url: str) -> None:
    store = from_url(every_store_url, settings=Settings())
    await store.open()
    postgres = every_store_url.startswith("postgresql")
    path = every_store_url.removeprefix("sqlite:///")
    connection: Any = await asyncpg.connect(every_store_url) if postgres else sqlite3.connect(path)

    async def enqueue(*jobs: NewJob) -> tuple[list[int], list[bool]]:
        steps = store.jobs.enqueue_in_transaction(jobs)
        accepted = await run_steps(connection, steps) if postgres else run_steps_blocking(connection, steps)
        if not postgres:
            connection.commit()
        return list(accepted.ids), list(accepted.existing)

    keyed = PLAIN._replace(key="k", keep_key=60.0)
    try:
        (first, plain), existing = await enqueue(keyed, PLAIN)
        assert not any(existing)
        (again, waits), existing = await enqueue(keyed, PLAIN._replace(after=(first,), if_failed=IfFailed.PARK))
        assert (again, existing) == (first, [True, False])
        seen = {number: await store.insight.get(number) for number in (first, plain, waits)}
        states = {number: view and view.state for number, view in seen.items()}
        assert states == {first: JobState.READY, plain: JobState.READY, waits: JobState.BLOCKED}
        with pytest.raises(Exception, match="has other arguments"):
            await enqueue(keyed._replace(arguments='{"a":1}'))
        if not postgres:
            connection.rollback()
        with pytest.raises(Exception, match="unknown or no longer kept"):
            await enqueue(PLAIN._replace(after=(10**12,)))
    finally:
        if postgres:
            await connection.close()
        else:
            connection.close()
        await store.close()


@pytest.mark.parametrize(
    "wrong",
    [{"hooks": [["n", "q", 1]]}, {"hooks": [["n", "q", 1, ["Failed"]]]}, {"arguments": "[]"}, {"cause": 7}, {"x": 1}],
)
async def test_a_field_that_is_wrong_or_unknown_is_refused(complete_postgres_url: str, wrong: dict[str, Any]) -> None:
    connection = await asyncpg.connect(complete_postgres_url)
    await connection.set_type_codec("json", encoder=json.dumps, decoder=str, schema="pg_catalog")
    try:
        with pytest.raises(asyncpg.InvalidParameterValueError, match=f"Invalid {next(iter(wrong))} of job report"):
            await connection.fetchval(
                "select interlock.enqueue_many($1)", [{"name": "fine"}, {"name": "report"} | wrong]
            )
    finally:
        await connection.close()
