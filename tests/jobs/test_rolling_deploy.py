"""Two versions of an app share a store while one replaces the other, and code runs on a schema newer than its own."""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock import App, Cooldown, JobState, Retry, Slots
from interlock.ports.jobs import NewJob, OnFailure
from interlock.testing.clock import until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock import Handle, Job

on_every_store = pytest.mark.parametrize("every_store_url", ["memory", "sqlite", "postgres"], indirect=True)
on_a_schema = pytest.mark.parametrize("every_store_url", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def store_url(every_store_url: str) -> str:
    """A store that two apps of this process share."""
    return f"memory://deploy-{secrets.token_hex(4)}" if every_store_url == "memory://" else every_store_url


class Version:
    """An app that defines jobs by these names, and remembers what it ran."""

    def __init__(self, url: str, *names: str) -> None:
        self.app = App(url)
        self.ran: list[tuple[str, str]] = []
        self.jobs = {name: self._define(name) for name in names}

    def _define(self, name: str) -> Job[..., None]:
        @self.app.job(name=name, lane="{issue}")
        async def handle(issue: str) -> None:
            self.ran.append((name, issue))

        return handle


# -- names -------------------------------------------------------------------------------------------------------------


@on_every_store
async def test_a_job_that_a_worker_does_not_know_is_left_for_one_that_does(store_url: str) -> None:
    old, new = Version(store_url, "triage"), Version(store_url, "triage", "summarise")
    async with old.app, new.app:
        for number in range(20):
            await new.jobs["summarise"].enqueue(issue=f"new-{number}")
            await new.jobs["triage"].enqueue(issue=f"old-{number}")
        unknown = await new.jobs["summarise"].enqueue(issue="shared")
        behind = await new.jobs["triage"].enqueue(issue="shared")
        await old.app.drain(wait=30)

        assert sorted(old.ran) == sorted(("triage", f"old-{number}") for number in range(20)), "it serves the rest"
        assert (await unknown.status()).state is JobState.READY
        assert (await behind.status()).state is JobState.BEHIND, "a lane waits for its head, whoever can run it"
        assert (await unknown.status()).attempt == 0

        await new.app.drain(wait=30)
        assert [name for name, issue in new.ran if issue == "shared"] == ["summarise", "triage"]
        assert len(new.ran) == 22


@on_every_store
async def test_a_worker_goes_on_with_a_lane_once_the_job_it_does_not_know_is_done(store_url: str) -> None:
    old, new = Version(store_url, "triage"), Version(store_url, "summarise")
    async with old.app, new.app:
        async with old.app.worker(concurrency=2):
            first = await old.jobs["triage"].enqueue(issue="shared")
            unknown = await new.jobs["summarise"].enqueue(issue="shared")
            await first.result(wait=30)
            await until(lambda: ("triage", "shared") in old.ran)
            async with new.app.worker(concurrency=2):
                await unknown.result(wait=30)
            last = await old.jobs["triage"].enqueue(issue="shared")
            await last.result(wait=30)
        assert old.ran == [("triage", "shared")] * 2
        assert new.ran == [("summarise", "shared")]


# -- arguments ---------------------------------------------------------------------------------------------------------


@on_every_store
async def test_arguments_that_no_live_worker_can_read_park_the_job_until_one_can(store_url: str) -> None:
    ran: list[object] = []
    old, new = App(store_url, version="1.0"), App(store_url, version="2.0")

    @old.job(name="report", lane="{account}")
    async def old_report(account: str) -> None:
        ran.append(account)

    @new.job(name="report", lane="{account}")
    async def new_report(account: str, target: int) -> None:
        ran.append((account, target))

    async with old, new:
        parked = await old_report.enqueue(account="a1")
        behind = await new_report.enqueue(account="a1", target=7)
        other = await new_report.enqueue(account="a2", target=8)
        await new.drain(wait=30)

        status = await parked.status()
        assert status.state is JobState.PARKED
        assert "version 2.0" in status.error, "the reason names the version"
        assert "target" in status.error, "and what is missing"
        assert status.attempt == 0, "it never ran"
        assert (await behind.status()).state is JobState.BEHIND, "nothing overtakes it"
        assert (await other.status()).state is JobState.DONE
        assert ran == [("a2", 8)]
        assert "target" in str(await new.jobs.explain(parked.id))

        await old.drain(wait=30)
        assert ran == [("a2", 8), "a1"], "the code that can read it runs it, without anybody's help"
        assert (await behind.status()).state is JobState.PARKED, "and cannot read what the newer one wrote"
        await new.drain(wait=30)
        assert ran == [("a2", 8), "a1", ("a1", 7)]


@on_every_store
async def test_an_argument_that_newer_code_gave_a_default_is_no_trouble(store_url: str) -> None:
    ran: list[tuple[str, int]] = []
    old, new = App(store_url), App(store_url)

    @old.job(name="report")
    async def old_report(account: str) -> None: ...

    @new.job(name="report")
    async def new_report(account: str, target: int = 3) -> None:
        ran.append((account, target))

    async with old, new:
        await old_report.enqueue(account="a1")
        await new.drain(wait=30)
    assert ran == [("a1", 3)]


@on_every_store
async def test_options_that_only_newer_code_knows_do_no_harm(store_url: str) -> None:
    version = Version(store_url, "triage")
    async with version.app:
        store = version.app.jobs._store_client.store.jobs
        (number,) = await store.ids(1)
        options = '{"invented":true,"retry":{"attempts":2,"delay":1.0,"invented":{"deep":1}},"timeout":30}'
        arguments = '{"issue":"odd"}'
        usual = await version.jobs["triage"].enqueue(issue="usual")
        job = NewJob(
            number, "triage", "default", "odd", 50, 0.0, None, (), OnFailure.BLOCK, False, 60.0, arguments, options
        )
        await store.enqueue([job])
        await version.app.drain(wait=30)
        assert (await usual.status()).state is JobState.DONE
        assert (await version.app.jobs.handle(number).status()).state is JobState.DONE
    assert ("triage", "odd") in version.ran


# -- schema ------------------------------------------------------------------------------------------------------------


class Everything:
    """An app with jobs of all sorts, and a round of them."""

    def __init__(self, url: str) -> None:
        self.app = App(url)
        self.ran = 0

        @self.app.job(lane="{key}", limits=[Slots("some", 3), Cooldown("gap", 0.001, key="{key}")])
        async def limited(key: str) -> str:
            self.ran += 1
            return key

        @self.app.job(lane="{key}", retry=Retry(attempts=2, delay=0.001))
        async def on_failure(key: str) -> None:
            self.ran += 1
            raise ConnectionError("away")

        @self.app.job(lane="{key}", coalesce=True)
        async def newest(key: str) -> None:
            self.ran += 1

        @self.app.job()
        async def plain() -> int:
            self.ran += 1
            return self.ran

        self.limited, self.on_failure, self.newest, self.plain = limited, on_failure, newest, plain

    async def round(self) -> None:
        """Enqueue some of each and see all of them end as they should."""
        done = [
            *await self.app.jobs.enqueue_many([self.limited.call(key=f"k{n % 3}") for n in range(9)]),
            await self.plain.enqueue(),
            await self.plain.options(delay=0.05, priority=80).enqueue(),
            *[await self.newest.enqueue(key="n") for _ in range(3)],
        ]
        failed = await self.on_failure.enqueue(key="f")
        cancelled = await self.plain.options(delay=3600).enqueue()
        await self.app.jobs.cancel(cancelled, reason="a test", by="tests")
        await self._ended(*done, failed, cancelled)
        assert {(await handle.status()).state for handle in done} == {JobState.DONE}
        assert (await failed.status()).state is JobState.FAILED
        view = await self.app.jobs.get(failed)
        assert view is not None
        assert len(view.attempts) == 2
        assert (await cancelled.status()).state is JobState.CANCELLED
        assert await done[0].result(wait=1) == "k0"
        await self.app.lanes.hold("k0", reason="a test", by="tests")
        assert await self.app.lanes.release("k0", by="tests")
        assert await self.app.lanes.list() == []

    async def _ended(self, *handles: Handle[Any]) -> None:
        async def ended() -> bool:
            states = [(await handle.status()).state for handle in handles]
            return all(state.final for state in states)

        await until(ended, within=30)


async def migrate_further(url: str) -> list[str]:
    """What a later version may do to the schema: add columns, an index and a table. Says which tables it changed."""
    if url.startswith("sqlite"):
        with contextlib.closing(
            sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=10)
        ) as file:
            tables = [row[0] for row in file.execute(_SQLITE_TABLES)]
            for statement in _additions(tables, "interlock_later_addition"):
                file.execute(statement)
        return tables
    connection = await asyncpg.connect(url)
    try:
        tables = [row[0] for row in await connection.fetch(_POSTGRES_TABLES)]
        for statement in _additions(tables, "interlock.later_addition"):
            await connection.execute(statement)
        return tables
    finally:
        await connection.close()


_SQLITE_TABLES = "select name from sqlite_master where type = 'table' and name glob 'interlock_job*'"
_POSTGRES_TABLES = """
    select c.oid::regclass::text from pg_class c
    where c.relnamespace = 'interlock'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and c.relname ~ '^(job|lane)'
"""


def _additions(tables: Iterable[str], another: str) -> list[str]:
    some = sorted(tables)
    columns = [f"alter table {table} add column later_addition text" for table in some]
    indexes = [f"create index later_{n} on {table} (later_addition)" for n, table in enumerate(some)]
    return [*columns, *indexes, f"create table {another} (id integer primary key, {some[0].rpartition('.')[2]} text)"]


@on_a_schema
async def test_old_code_runs_on_a_newer_schema(store_url: str) -> None:
    app = Everything(store_url)
    async with app.app, app.app.worker(concurrency=5):
        await app.round()
        assert len(await migrate_further(store_url)) > 5, "under a worker that runs"
        await app.round()
    fresh = Everything(store_url)
    async with fresh.app, fresh.app.worker(concurrency=5):
        await fresh.round()
