"""Any number of processes may set a store up at once; an older schema is refused, a newer one is taken."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from interlock import Locks, Settings
from interlock.backends import from_url
from interlock.backends.postgres import function_set, session_settings
from interlock.errors import SchemaMismatchError, StoreError, StoreUnavailableError
from interlock.ports.migrations import Migration
from interlock.testing.clock import until
from interlock.testing.lookup import get_or_none
from interlock.testing.processes import Barrier, Worker, receive_async, report, wait_at_barrier_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from interlock.ports.migrations import Migrations

PROCESSES = 10


def migrations_of(url: str) -> Migrations:
    migrations = from_url(url, settings=Settings()).migrations
    assert migrations is not None
    return migrations


def add_pending(migrations: Migrations, sql: str = "create table interlock_later (id integer)") -> Migration:
    """Let this copy of the code know one migration more than the store has."""
    known: list[Migration] = migrations._known  # type: ignore[attr-defined]
    later = Migration(known[-1].version + 1, "later", sql)
    known.append(later)
    return later


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def as_role(url: str, role: str) -> str:
    parts = urlsplit(url)
    _, _, address = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{role}@{address}"))


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place in each kind of store that has a schema."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/interlock.db"
    url: str = request.getfixturevalue("interlock_postgres_url")
    return url


async def rows_of(url: str) -> list[tuple[int, str]]:
    """The migrations that the store itself says were applied, oldest first."""
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            return connection.execute("select version, name from interlock_migration order by version").fetchall()
    async with connected(url) as connection:
        return [
            tuple(row) for row in await connection.fetch("select version, name from interlock.migration order by 1")
        ]


async def execute(url: str, sql: str) -> None:
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            connection.execute(sql.replace("interlock.migration", "interlock_migration"))
    else:
        async with connected(url) as connection:
            await connection.execute(sql)


# -- many at once --------------------------------------------------------------------------------------------------


async def open_at_once(url: str) -> int:
    """In a process of its own: open together with the others, take a lock of one's own and a common one."""
    locks = Locks.from_url(url)
    await wait_at_barrier_async()
    async with locks:
        async with locks.acquire("common", wait=60) as lease:
            report("opened")
        await receive_async("close")
        return lease.fence


async def migrate_at_once(url: str) -> list[int]:
    """In a process of its own: bring the schema up together with the others; says which migrations it applied."""
    migrations = migrations_of(url)
    await wait_at_barrier_async()
    applied = [migration.version for migration in (await migrations.up()).migrations]
    assert (await migrations.status()).pending is None
    return applied


@pytest.mark.full
async def test_ten_processes_open_an_empty_store_at_once(store_url: str) -> None:
    workers = [Worker.spawn(f"{__name__}:open_at_once", [store_url]) for _ in range(PROCESSES)]
    try:
        await Barrier(*workers).release(timeout=60)
        for worker in workers:
            await worker.wait_for("opened", timeout=60)
        for worker in workers:
            worker.send("close")
        fences = [await worker.result(30) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()

    assert len(set(fences)) == PROCESSES
    known = (await migrations_of(store_url).status()).migrations
    assert await rows_of(store_url) == [(migration.version, migration.name) for migration in known]


@pytest.mark.full
async def test_processes_migrate_at_once_and_each_migration_is_applied_by_one(store_url: str) -> None:
    workers = [Worker.spawn(f"{__name__}:migrate_at_once", [store_url]) for _ in range(PROCESSES)]
    try:
        await Barrier(*workers).release(timeout=60)
        applied = [await worker.result(60) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()

    known = (await migrations_of(store_url).status()).migrations
    assert sorted(version for versions in applied for version in versions) == [m.version for m in known]
    assert await rows_of(store_url) == [(migration.version, migration.name) for migration in known]


@pytest.mark.full
async def test_twenty_tasks_of_one_process_migrate_at_once(store_url: str) -> None:
    answers = await asyncio.gather(*(migrations_of(store_url).up() for _ in range(20)))

    known = (await migrations_of(store_url).status()).migrations
    assert [m.version for answer in answers for m in answer.migrations] == [m.version for m in known]


async def test_a_migration_waits_for_another_one_for_longer_than_for_any_other_lock(
    interlock_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration that takes long must not make those who come meanwhile fail."""
    monkeypatch.setitem(session_settings.SESSION_SETTINGS, "lock_timeout", "1ms")
    first = await asyncpg.connect(interlock_postgres_url)
    try:
        transaction = first.transaction()
        await transaction.start()
        await first.execute("select pg_advisory_xact_lock(1229870156, 1)")
        second = asyncio.create_task(migrations_of(interlock_postgres_url).up())

        async def waits() -> bool:
            query = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
            return second.done() or bool(await first.fetchval(query))

        await until(waits)
        await asyncio.wait([second], timeout=0.2)  # far longer than it would wait for any other lock
        await transaction.rollback()
        assert (await second).migrations
    finally:
        await first.close()


# -- older and newer ---------------------------------------------------------------------------------------------


async def test_an_older_schema_is_refused_and_names_the_remedy(interlock_postgres_url: str) -> None:
    async with Locks.from_url(interlock_postgres_url):
        pass
    settings = Settings()
    store = from_url(interlock_postgres_url, settings=settings)
    assert store.migrations is not None
    later = add_pending(store.migrations)

    with pytest.raises(SchemaMismatchError, match="interlock migrate up") as raised:
        await Locks(store, settings).open()
    assert f"{later.version} {later.name}" in str(raised.value)
    assert [migration.version for migration in (await store.migrations.up()).migrations] == [later.version]

    async with Locks(store, settings) as locks, locks.acquire("key") as lease:
        lease.ensure()


async def test_an_older_file_is_brought_up_to_date(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/interlock.db"
    async with Locks.from_url(url):
        pass
    settings = Settings()
    store = from_url(url, settings=settings)
    assert store.migrations is not None
    later = add_pending(store.migrations)

    async with Locks(store, settings) as locks, locks.acquire("key") as lease:
        lease.ensure()

    assert (await rows_of(url))[-1] == (later.version, later.name)


async def test_a_newer_schema_is_taken(store_url: str) -> None:
    async with Locks.from_url(store_url):
        pass
    await execute(
        store_url,
        "insert into interlock.migration (version, name, checksum) values (9999, 'newer', '')"
        if store_url.startswith("postgres")
        else "insert into interlock.migration (version, name, applied_at) values (9999, 'newer', 0)",
    )

    async with Locks.from_url(store_url) as locks, locks.acquire("key") as lease:
        lease.ensure()

    assert (await migrations_of(store_url).up()).migrations == ()
    assert (await rows_of(store_url))[-1] == (9999, "newer")


async def test_a_migration_that_fails_changes_nothing(store_url: str) -> None:
    async with Locks.from_url(store_url):
        pass
    before = await rows_of(store_url)
    migrations = migrations_of(store_url)
    later = add_pending(
        migrations, "create table interlock_later (id integer);\ncreate table interlock_later (id integer);"
    )

    with pytest.raises(SchemaMismatchError, match=rf"Migration {later.version} \(later\) failed.*Nothing was changed"):
        await migrations.up()

    assert await rows_of(store_url) == before
    await execute(store_url, "create table interlock_later (id integer)")  # it is not there
    async with Locks.from_url(store_url) as locks, locks.acquire("key") as lease:
        lease.ensure()


async def test_a_schema_whose_record_was_lost_is_not_overwritten(store_url: str) -> None:
    async with Locks.from_url(store_url) as locks:
        await locks.acquire("key")
        await execute(store_url, "delete from interlock.migration")

        with pytest.raises(SchemaMismatchError, match=r"already exists.*interlock migrate status"):
            await Locks.from_url(store_url).open()

        assert await get_or_none(locks, "key") is not None


# -- functions -----------------------------------------------------------------------------------------------------


NOTE = "insert into interlock.function_set (version, checksum) values ($1, $2)"
ALTERED = "create or replace function interlock.seconds(p_seconds double precision) returns interval language sql"


async def open_and_close(url: str) -> None:
    async with Locks.from_url(url) as locks, locks.acquire("key") as lease:
        lease.ensure()


async def body_of(url: str, function: str) -> str:
    async with connected(url) as connection:
        body: str = await connection.fetchval("select prosrc from pg_proc where proname = $1", function)
        return body


@pytest.fixture
def newer_program(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Give this process the next version of the function set, in which ``seconds`` has another body."""

    def release() -> int:
        version, _ = function_set.current_version()
        functions = tuple(
            replace(function, statement=f"{ALTERED} immutable as $$ select p_seconds * interval '1 s' $$;")
            if function.name == "seconds"
            else function
            for function in function_set.read_functions()
        )
        monkeypatch.setattr(function_set, "read_functions", lambda: functions)
        monkeypatch.setattr(function_set, "current_version", lambda: (version + 1, "next"))
        return version + 1

    return release


async def test_older_functions_are_refused_and_migrate_up_replaces_them(
    interlock_postgres_url: str, newer_program: Callable[[], int]
) -> None:
    await open_and_close(interlock_postgres_url)
    version = newer_program()

    with pytest.raises(SchemaMismatchError, match=rf"lacks function set {version}.*interlock migrate up"):
        await Locks.from_url(interlock_postgres_url).open()
    assert "interval '1 s'" not in await body_of(interlock_postgres_url, "seconds")  # opening applies none

    applied = await migrations_of(interlock_postgres_url).up()

    assert applied.migrations == ()
    assert applied.functions is not None
    assert (applied.functions.applied_version, applied.functions.state) == (version, "current")
    assert "interval '1 s'" in await body_of(interlock_postgres_url, "seconds")
    await open_and_close(interlock_postgres_url)


async def test_a_program_works_on_newer_functions_and_leaves_them_in_place(
    interlock_postgres_url: str, newer_program: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rolling deploy: the first new process has migrated, the old ones go on and restart."""
    await open_and_close(interlock_postgres_url)
    version = newer_program()
    await migrations_of(interlock_postgres_url).up()
    monkeypatch.undo()  # this process is the older program again

    await open_and_close(interlock_postgres_url)
    applied = await migrations_of(interlock_postgres_url).up(restore=True)
    status = await migrations_of(interlock_postgres_url).status()

    assert (applied.migrations, applied.functions) == ((), None)
    assert status.functions is not None
    assert (status.functions.state, status.functions.applied_version) == ("newer", version)
    assert "interval '1 s'" in await body_of(interlock_postgres_url, "seconds")


async def test_the_same_version_with_another_checksum_is_refused_as_altered(interlock_postgres_url: str) -> None:
    await open_and_close(interlock_postgres_url)
    await execute(interlock_postgres_url, "update interlock.function_set set checksum = 'another'")
    migrations = migrations_of(interlock_postgres_url)

    with pytest.raises(SchemaMismatchError, match=r"were altered.*interlock migrate verify"):
        await Locks.from_url(interlock_postgres_url).open()
    with pytest.raises(SchemaMismatchError, match=r"were altered.*migrate up --restore"):
        await migrations.up()
    assert await migrations.verify() == ["Function set 1 was applied from other files than this program's."]

    assert (await migrations.up(restore=True)).functions is not None
    await open_and_close(interlock_postgres_url)


async def test_verify_names_functions_that_differ(interlock_postgres_url: str) -> None:
    await open_and_close(interlock_postgres_url)
    migrations = migrations_of(interlock_postgres_url)
    assert await migrations.verify() == []

    for statement in (
        f"{ALTERED} immutable as $$ select null::interval $$",
        "alter function interlock.micros(timestamptz) set jit = on",
        "alter function interlock.session_expiry(text, text) volatile",
        "alter function interlock.lock_guard security definer",
        "drop function interlock.job_day(bigint)",
        "create function interlock.durably(integer) returns void language sql as 'select'",
        "create function interlock.extra() returns void language sql as 'select'",
        "update interlock.migration set checksum = '' where version = 1",
    ):
        await execute(interlock_postgres_url, statement)

    assert sorted(await migrations.verify()) == [
        "Function durably exists with 2 signatures instead of one.",
        "Function extra is not one of this program's.",
        "Function job_day is missing.",
        "Function lock_guard differs from this program's.",
        "Function micros differs from this program's.",
        "Function seconds differs from this program's.",
        "Function session_expiry differs from this program's.",
        "Migration 1 (sessions_and_locks) was applied from another file than this program's.",
    ]


async def test_verify_says_what_is_pending_or_newer(store_url: str) -> None:
    migrations = migrations_of(store_url)
    (before,) = await migrations.verify()
    await migrations.up()
    assert await migrations.verify() == []
    newer = (
        "insert into interlock.migration (version, name, applied_at) values (9999, 'newer', 0)"
        if store_url.startswith("sqlite")
        else "insert into interlock.function_set (version, checksum) values (9999, '')"
    )
    await execute(store_url, newer)
    (after,) = await migrations.verify()

    assert "lacks migrations 1 sessions_and_locks" in before
    assert "9999, which is newer than this program's" in after


async def test_verify_names_tables_of_a_file_that_differ(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/interlock.db"
    migrations = migrations_of(url)
    await migrations.up()
    await execute(url, "create table interlock_extra (id integer)")
    await execute(url, "alter table interlock_migration add column extra integer")
    await execute(url, "drop table interlock_session")

    assert await migrations.verify() == [
        "interlock_extra is not one of this program's.",
        "interlock_migration differs from this program's.",
        "interlock_session is missing.",
    ]


# -- rights --------------------------------------------------------------------------------------------------------


@pytest.fixture
async def limited(interlock_postgres_url: str) -> AsyncIterator[str]:
    """A role that may connect and do nothing else; gives its URL."""
    role = "limited_" + interlock_postgres_url.rpartition("_")[2]
    async with connected(interlock_postgres_url) as connection:
        await connection.execute(f"create role {role} login")
        yield as_role(interlock_postgres_url, role)
        await connection.execute(f"drop owned by {role}; drop role {role}")


async def refused(url: str) -> str:
    with pytest.raises(StoreError) as raised:
        await Locks.from_url(url).open()
    assert not isinstance(raised.value, StoreUnavailableError)  # trying again would not help
    return str(raised.value)


async def test_a_role_that_may_not_create_is_told_so(limited: str) -> None:
    said = await refused(limited)

    assert "permission denied for database" in said
    assert "interlock migrate up" in said


async def test_a_role_without_rights_on_the_tables_is_told_so(interlock_postgres_url: str, limited: str) -> None:
    async with Locks.from_url(interlock_postgres_url):
        pass

    assert "permission denied for schema interlock" in await refused(limited)
    role = str(urlsplit(limited).username)
    await execute(interlock_postgres_url, f"grant usage on schema interlock to {role}")
    assert "permission denied for table" in await refused(limited)


async def test_a_role_that_may_only_use_the_tables_can_work(interlock_postgres_url: str, limited: str) -> None:
    role = str(urlsplit(limited).username)
    async with Locks.from_url(interlock_postgres_url):
        pass
    await execute(interlock_postgres_url, migrations_of(interlock_postgres_url).grants(workers=[role]))

    async with Locks.from_url(limited) as locks, locks.acquire("key") as lease:
        lease.ensure()


async def test_a_wrong_database_or_role_is_told_so(interlock_postgres_url: str) -> None:
    assert "does not exist" in await refused(interlock_postgres_url + "_not_there")
    assert "does not exist" in await refused(as_role(interlock_postgres_url, "nobody_of_this_name"))
