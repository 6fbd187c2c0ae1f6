"""Enqueuing in a caller's own transaction: its forms, its errors, its locks, and how soon workers know."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import sys
import threading
from typing import TYPE_CHECKING, Any

import aiosqlite
import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from interlock import App, Cooldown, Slots, current_job
from interlock.connections import adapter_of, register_adapter
from interlock.errors import (
    CapabilityError,
    InvalidArgumentError,
    KeyConflictError,
    MisuseError,
    NotFoundError,
    SchemaMismatchError,
    StoreError,
    StoreUnavailableError,
)
from interlock.jobs import Outcome
from tests.jobs.transactions.drivers import DRIVERS, enqueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def defined(url: str) -> App:
    app = App(url)

    @app.job(lane="{account}", limits=[Slots("reports", 5), Cooldown("account", 90, key="{account}")])
    async def report(account: str) -> str:
        return account

    @app.job()
    async def query(connection: str) -> str:
        return connection

    return app


@pytest.fixture
async def app(complete_postgres_url: str) -> AsyncIterator[App]:
    async with defined(complete_postgres_url) as app:
        yield app


@pytest.fixture
async def connection(complete_postgres_url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(complete_postgres_url)
    yield connection
    await connection.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bot.db"


@pytest.fixture
async def small_app(file: Path) -> AsyncIterator[App]:
    async with defined(f"sqlite:///{file}") as app:
        yield app


# -- forms -------------------------------------------------------------------------------------------------------------


async def test_the_connection_is_an_argument_or_an_option(app: App, connection: Any) -> None:
    report, query = app.jobs["report"], app.jobs["query"]
    transaction = connection.transaction()
    await transaction.start()
    handles = [
        await report.enqueue("a", connection=connection),
        await report.options(connection=connection, priority=80).enqueue(account="b"),
        await report.options(connection=connection).options(delay=0).enqueue(account="c"),
        await query.options(connection=connection).enqueue(connection="a handler's own argument"),
        await app.jobs.named("elsewhere").options(connection=connection).enqueue(connection=7),
        *await app.jobs.enqueue_many((report.call("d"), query.call("e")), connection=connection),
        *await app.jobs.enqueue_many([report.options(connection=connection).call("f")]),
    ]
    outside = await query.enqueue(connection="its own")
    assert [view.id for view in await app.jobs.list()] == [outside.id]
    await transaction.commit()

    assert {view.id for view in await app.jobs.list()} == {outside.id, *(handle.id for handle in handles)}
    assert (await app.drain())[Outcome.DONE] == 8
    assert await handles[3].result() == "a handler's own argument"
    assert await report.options(connection=connection).options(connection=None).enqueue("g")


def test_synchronous_code_needs_no_event_loop_until_it_waits(file: Path) -> None:
    app = defined(f"sqlite:///{file}")
    asyncio.run(opened_once(app))
    report, query = app.jobs["report"], app.jobs["query"]
    with sqlite3.connect(file) as own:
        handles = [
            report.enqueue_sync("a", connection=own),
            report.options(connection=own).enqueue_sync(account="b"),
            query.options(connection=own).enqueue_sync(connection="a handler's own argument"),
            *app.sync.jobs.enqueue_many([report.call("c")], connection=own),
        ]
        assert "interlock-sync" not in {thread.name for thread in threading.enumerate()}
    own.close()

    assert [handle.status().lane for handle in handles] == ["a", "b", "", "c"]
    app.sync.close()


async def opened_once(app: App) -> None:
    async with app:
        pass  # creates the tables


async def test_calls_of_different_connections_are_not_enqueued_together(app: App, connection: Any) -> None:
    report = app.jobs["report"]
    ours = report.options(connection=connection).call("a")
    with pytest.raises(MisuseError, match="different connections"):
        await app.jobs.enqueue_many([ours, report.call("b")])
    with pytest.raises(MisuseError, match="different connections"):
        await app.jobs.enqueue_many([ours], connection=object())  # type: ignore[arg-type]
    assert await app.jobs.enqueue_many([], connection=connection) == []
    assert not await app.jobs.list()


async def test_a_thousand_jobs_keep_their_order(app: App, connection: Any) -> None:
    report = app.jobs["report"]
    async with connection.transaction():
        handles = await app.jobs.enqueue_many([report.call("a") for _ in range(1001)], connection=connection)

    ids = [handle.id for handle in handles]
    assert len(set(ids)) == 1001
    assert [row[0] for row in await connection.fetch("select id from interlock.job order by position")] == ids


async def test_what_a_handler_enqueues_on_a_connection_knows_its_cause(app: App, complete_postgres_url: str) -> None:
    @app.job()
    async def parent() -> int:
        connection = await asyncpg.connect(complete_postgres_url)
        try:
            handle = await app.jobs["report"].enqueue("a", connection=connection)
            with pytest.raises(MisuseError, match="has a connection"):
                current_job().follow_up(app.jobs["report"].options(connection=connection).call("b"))
        finally:
            await connection.close()
        return handle.id

    handle = await parent.enqueue()
    await app.drain()

    assert (await app.jobs.get(await handle.result())).cause == f"job:{handle.id}"


async def test_a_connection_with_habits_of_its_own_works_too(
    app: App, connection: Any, complete_postgres_url: str, file: Path
) -> None:
    report = app.jobs["report"]
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    assert await report.enqueue("a", connection=connection)
    with psycopg.connect(complete_postgres_url, row_factory=dict_row) as other:
        assert app.jobs.enqueue_on(other, [report.call("b")])
    async with defined(f"sqlite:///{file}") as small:
        for factory in (sqlite3.Row, lambda _, row: {"row": row}):
            own = sqlite3.connect(file)
            own.row_factory = factory
            small.jobs.enqueue_on(own, [small.jobs["report"].call("c")])
            own.commit()
            own.close()
        assert len(await small.jobs.list()) == 2
    assert len(await app.jobs.list()) == 2


async def test_scoped_sessions_of_sqlalchemy_work_too(small_app: App, file: Path) -> None:
    report = small_app.jobs["report"]
    engine, async_engine = create_engine(f"sqlite:///{file}"), create_async_engine(f"sqlite+aiosqlite:///{file}")
    scoped = scoped_session(sessionmaker(engine))
    small_app.jobs.enqueue_on(scoped, [report.call("a")])
    scoped.commit()
    scoped.remove()
    async_scoped = async_scoped_session(async_sessionmaker(async_engine), asyncio.current_task)
    await report.enqueue("b", connection=async_scoped)
    await async_scoped.commit()
    await async_scoped.remove()
    engine.dispose()
    await async_engine.dispose()

    assert len(await small_app.jobs.list()) == 2


async def test_a_synchronous_function_inside_an_asynchronous_session_works_too(small_app: App, file: Path) -> None:
    report = small_app.jobs["report"]
    engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
    async with engine.begin() as connection:
        await connection.run_sync(lambda own: small_app.jobs.enqueue_on(own, [report.call("a")]))
    await engine.dispose()

    assert len(await small_app.jobs.list()) == 1


async def test_without_a_transaction_it_is_one_of_its_own(
    app: App, connection: Any, complete_postgres_url: str, small_app: App, file: Path
) -> None:
    report, small = app.jobs["report"], small_app.jobs["report"]
    handle = await report.enqueue("a", connection=connection)
    assert (await handle.status()).lane == "a"
    with psycopg.connect(complete_postgres_url, autocommit=True) as other:
        app.jobs.enqueue_on(other, [report.call("b"), report.call("c")])
        assert len(await app.jobs.list()) == 3
    options: list[dict[str, Any]] = [{"isolation_level": None}]
    if sys.version_info >= (3, 12):
        options.append({"autocommit": True})
    for number, option in enumerate(options, 1):
        own = sqlite3.connect(file, **option)
        small_app.jobs.enqueue_on(own, [small.call("a"), small.call("b")])
        assert len(await small_app.jobs.list()) == 2 * number
        assert not own.in_transaction
        own.close()


async def test_an_app_that_is_not_open_enqueues_too(complete_postgres_url: str, connection: Any) -> None:
    closed = defined(complete_postgres_url)
    handle = await closed.jobs["report"].enqueue("a", connection=connection)
    async with closed:
        assert (await handle.status()).lane == "a"
        assert await closed.drain() == {Outcome.DONE: 1}


async def test_a_job_that_got_the_id_of_a_rolled_back_one_is_not_mistaken_for_it(small_app: App, file: Path) -> None:
    report = small_app.jobs["report"]
    own = sqlite3.connect(file)
    (lost,) = small_app.jobs.enqueue_on(own, [report.call("a")])
    own.rollback()
    (kept,) = small_app.jobs.enqueue_on(own, [report.call("b")])
    own.commit()
    own.close()

    assert lost.id == kept.id
    assert (await kept.status()).lane == "b"
    with pytest.raises(NotFoundError, match="was rolled back"):
        await lost.status()


async def test_a_failed_enqueue_leaves_the_rest_of_the_transaction(small_app: App, file: Path) -> None:
    own = sqlite3.connect(file)
    own.execute("create table orders (id integer)")
    own.execute("create trigger refuse before insert on interlock_job_ready begin select raise(abort, 'no'); end")
    own.commit()
    own.execute("insert into orders values (7)")
    with pytest.raises(sqlite3.IntegrityError, match="no"):
        small_app.jobs.enqueue_on(own, [small_app.jobs["query"].call("a")])
    own.commit()

    assert own.execute("select count(*) from orders").fetchone() == (1,)
    assert own.execute("select count(*) from interlock_job").fetchone() == (0,)
    own.close()


# -- errors ------------------------------------------------------------------------------------------------------------


async def test_what_is_not_a_connection_is_refused(app: App, complete_postgres_url: str, file: Path) -> None:
    report = app.jobs["report"]
    engine = create_engine(f"sqlite:///{file}")
    own = sqlite3.connect(file)
    async with asyncpg.create_pool(complete_postgres_url, min_size=0) as pool:
        for wrong in (complete_postgres_url, pool, engine, own.cursor(), object()):
            with pytest.raises(MisuseError, match=r"not a supported connection.*asyncpg, psycopg 3, SQLAlchemy"):
                await report.enqueue("a", connection=wrong)  # type: ignore[call-overload]
    own.close()


async def test_a_connection_that_would_block_is_refused_in_asynchronous_code(small_app: App, file: Path) -> None:
    own = sqlite3.connect(file)
    with pytest.raises(MisuseError, match=r"sqlite3.Connection would block the event loop.*enqueue_sync"):
        await small_app.jobs["report"].enqueue("a", connection=own)
    own.close()


async def test_an_asynchronous_connection_is_refused_in_synchronous_code(app: App, connection: Any) -> None:
    with pytest.raises(MisuseError, match=r"asyncpg.Connection is asynchronous.*Await enqueue"):
        app.jobs.enqueue_on(connection, [app.jobs["report"].call("a")])


async def test_a_closed_connection_is_refused(app: App, small_app: App, complete_postgres_url: str, file: Path) -> None:
    report, small = app.jobs["report"], small_app.jobs["report"]
    closed = await asyncpg.connect(complete_postgres_url)
    await closed.close()
    async with asyncpg.create_pool(complete_postgres_url, min_size=0) as pool:
        async with pool.acquire() as released:
            pass
        for wrong in (closed, released):
            with pytest.raises(MisuseError, match="is closed"):
                await report.enqueue("a", connection=wrong)
    other = psycopg.connect(complete_postgres_url)
    other.close()
    own = sqlite3.connect(file)
    own.close()
    engine = create_engine(f"sqlite:///{file}")
    alchemy = engine.connect()
    alchemy.close()
    for jobs, wrong in ((app.jobs, other), (small_app.jobs, own), (small_app.jobs, alchemy)):
        with pytest.raises(MisuseError, match="is closed"):
            jobs.enqueue_on(wrong, [jobs["report"].call("a")])
    async with aiosqlite.connect(file) as gone:
        pass
    with pytest.raises(MisuseError, match="is closed"):
        await small.enqueue("a", connection=gone)
    async_engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
    async_alchemy = await async_engine.connect()
    await async_alchemy.close()
    with pytest.raises(MisuseError, match="is closed"):
        await small.enqueue("a", connection=async_alchemy)
    engine.dispose()
    await async_engine.dispose()


async def test_a_connection_to_another_kind_of_database_is_refused(
    app: App, small_app: App, connection: Any, file: Path
) -> None:
    own = sqlite3.connect(file)
    with pytest.raises(MisuseError, match=r"sqlite3.Connection, which is connected to SQLite, but .* PostgreSQL"):
        app.jobs.enqueue_on(own, [app.jobs["report"].call("a")])
    own.close()
    with pytest.raises(MisuseError, match=r"asyncpg.Connection, which is connected to PostgreSQL, but .* SQLite"):
        await small_app.jobs["report"].enqueue("a", connection=connection)
    engine = create_engine(f"sqlite:///{file}")
    with Session(engine) as session, pytest.raises(MisuseError, match=r"sqlalchemy.Session, which is connected to SQL"):
        app.jobs.enqueue_on(session, [app.jobs["report"].call("a")])
    engine.dispose()


async def test_a_connection_to_another_database_is_refused(app: App, interlock_postgres_url: str) -> None:
    other = await asyncpg.connect(interlock_postgres_url)
    try:
        with pytest.raises(SchemaMismatchError, match=r"does not have this version of Interlock's schema.*migrate up"):
            await app.jobs["report"].enqueue("a", connection=other)
        async with App(interlock_postgres_url):
            pass  # now it has the schema
        async with other.transaction():
            with pytest.raises(MisuseError, match="leads to another database than the app's"):
                await app.jobs["report"].enqueue("a", connection=other)
            with pytest.raises(MisuseError, match="leads to another database than the app's"):
                await app.jobs["report"].options(key="k").enqueue("a", connection=other)
            assert await other.fetchval("select count(*) from interlock.job") == 0  # the transaction is intact
    finally:
        await other.close()


async def test_a_connection_to_another_file_is_refused(small_app: App, file: Path, tmp_path: Path) -> None:
    calls = [small_app.jobs["report"].call("a")]
    async with App(f"sqlite:///{tmp_path}/other.db"):
        pass
    for path, message in ((str(tmp_path / "other.db"), "other.db, but the app's"), (":memory:", "in memory, but")):
        own = sqlite3.connect(path)
        with pytest.raises(MisuseError, match=message):
            small_app.jobs.enqueue_on(own, calls)
        own.close()
    (tmp_path / "link.db").symlink_to(file)
    own = sqlite3.connect(tmp_path / "link.db")
    small_app.jobs.enqueue_on(own, calls)
    own.rollback()
    own.close()
    empty = defined(f"sqlite:///{tmp_path}/empty.db")
    own = sqlite3.connect(tmp_path / "empty.db")
    own.execute("create table orders (id integer)")
    with pytest.raises(SchemaMismatchError, match="no such table"):
        empty.jobs.enqueue_on(own, [empty.jobs["report"].call("a")])
    own.close()


async def test_an_aborted_or_read_only_transaction_is_reported(app: App, connection: Any, file: Path) -> None:
    report = app.jobs["report"]
    transaction = connection.transaction()
    await transaction.start()
    with pytest.raises(asyncpg.DivisionByZeroError):
        await connection.execute("select 1 / 0")
    with pytest.raises(MisuseError, match=r"aborted the transaction.*Roll it back"):
        await report.enqueue("a", connection=connection)
    await transaction.rollback()
    async with connection.transaction(readonly=True):
        with pytest.raises(MisuseError, match="read-only"):
            await report.enqueue("a", connection=connection)
    async with defined(f"sqlite:///{file}") as small:
        own = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
        with pytest.raises(MisuseError, match="read-only"):
            small.jobs.enqueue_on(own, [small.jobs["report"].call("a")])
        own.close()


async def test_a_locked_file_is_reported(small_app: App, file: Path) -> None:
    first, second = sqlite3.connect(file), sqlite3.connect(file, timeout=0)
    small_app.jobs.enqueue_on(first, [small_app.jobs["report"].call("a")])
    with pytest.raises(StoreUnavailableError, match=r"locked.*BEGIN IMMEDIATE"):
        small_app.jobs.enqueue_on(second, [small_app.jobs["report"].call("a")])
    first.rollback()
    small_app.jobs.enqueue_on(second, [small_app.jobs["report"].call("a")])
    second.commit()
    first.close()
    second.close()

    assert len(await small_app.jobs.list()) == 1


async def test_a_role_needs_the_privileges_of_an_enqueuer_and_no_more(app: App, connection: Any) -> None:
    migrations = app.jobs._store_client.store.migrations
    assert migrations is not None
    grants = re.sub(r"^(begin|commit);$", "", migrations.grants(enqueuers=["interlock_clerk"]), flags=re.MULTILINE)
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute("create role interlock_clerk")
        await connection.execute(grants)
        await connection.execute("set local role interlock_clerk")
        await app.jobs["report"].options(key="k").enqueue("a", connection=connection)
        await connection.execute("reset role; revoke execute on all functions in schema interlock from interlock_clerk")
        assert await connection.fetchval("select count(*) from interlock.job") == 1
        await connection.execute("set local role interlock_clerk")
        with pytest.raises(StoreError, match=r"permission denied.*grants --enqueuer"):
            await app.jobs["report"].enqueue("a", connection=connection)
    finally:
        await transaction.rollback()


@pytest.mark.parametrize("driver", ["asyncpg Connection", "psycopg Connection", "SQLAlchemy AsyncSession, asyncpg"])
async def test_a_key_is_part_of_the_transaction(app: App, driver: str, complete_postgres_url: str) -> None:
    report, query = app.jobs["report"], app.jobs["query"].options(key="k")
    async with DRIVERS[driver].open(complete_postgres_url) as transaction:
        lost = await enqueue(query, transaction.connection, connection="a")
        await transaction.rollback()
    async with DRIVERS[driver].open(complete_postgres_url) as transaction:
        kept = await enqueue(query, transaction.connection, connection="b")
        again = await enqueue(query, transaction.connection, connection="b")
        after = await enqueue(report.options(after=[kept], expires=60), transaction.connection, account="c")
        await transaction.commit()
    assert (kept.created, again.created, again.id, lost.created) == (True, False, kept.id, True)
    assert [(await handle.status()).state for handle in (again, after)] == ["ready", "blocked"]
    async with DRIVERS[driver].open(complete_postgres_url) as transaction:
        with pytest.raises(KeyConflictError, match=f"^Key k of job query belongs to job {kept.id}, which has other"):
            await enqueue(query, transaction.connection, connection="c")
        await transaction.rollback()
    async with DRIVERS[driver].open(complete_postgres_url) as transaction:
        with pytest.raises(NotFoundError, match="waits for job 123456789, which is unknown"):
            await enqueue(report.options(after=[123456789]), transaction.connection, account="d")
        await transaction.rollback()


async def test_invalid_arguments_do_not_touch_the_transaction(app: App, connection: Any) -> None:
    async with connection.transaction():
        with pytest.raises(InvalidArgumentError):
            await app.jobs["report"].enqueue(account=7, connection=connection)
        with pytest.raises(InvalidArgumentError):
            await app.jobs["query"].enqueue(connection=connection)  # the handler's own argument
        assert await connection.fetchval("select 1") == 1


async def test_the_memory_store_has_no_connection() -> None:
    async with defined("memory://") as app:
        own = sqlite3.connect(":memory:")
        with pytest.raises(CapabilityError, match="no database"):
            app.jobs.enqueue_on(own, [app.jobs["report"].call("a")])
        own.close()


def test_other_packages_can_be_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        __module__ = "some_driver.wrapper"

    class Made:
        blocking = True

        def perform(self, step: object) -> None: ...

    monkeypatch.setattr("interlock.connections.adapters._adapters", {})
    register_adapter("some_driver", lambda connection: Made() if isinstance(connection, Other) else None)

    assert isinstance(adapter_of(Other()), Made)


# -- locks and notifications -------------------------------------------------------------------------------------------


async def test_transactions_that_enqueue_in_opposite_order_never_wait_for_each_other(
    app: App, connection: Any, complete_postgres_url: str
) -> None:
    other = await asyncpg.connect(complete_postgres_url)
    report = app.jobs["report"]
    transactions = [each.transaction() for each in (connection, other)]
    for each, transaction in zip((connection, other), transactions, strict=True):
        await transaction.start()
        await each.execute("set local lock_timeout = '1ms'")  # a statement that waits for a lock fails
    for each, account in ((connection, "a"), (other, "b"), (connection, "b"), (other, "a")):
        await report.enqueue(account, connection=each)
        await app.jobs.enqueue_many(
            [report.call("c"), report.call("d")][:: 1 if each is other else -1], connection=each
        )
    await report.enqueue("a")  # nor does the app's own
    for transaction in transactions:
        await transaction.commit()
    await other.close()

    assert len(await app.jobs.list()) == 13


async def test_transactions_on_one_file_take_turns_in_any_order(small_app: App, file: Path) -> None:
    report = small_app.jobs["report"]

    def enqueue_in_turn(*accounts: str) -> None:
        own = sqlite3.connect(file, timeout=30)
        for _ in range(10):
            for account in accounts:
                small_app.jobs.enqueue_on(own, [report.call(account)])
            own.commit()
        own.close()

    await asyncio.gather(*(asyncio.to_thread(enqueue_in_turn, *order) for order in ("ab", "ba")))

    assert len(await small_app.jobs.list()) == 40


@pytest.mark.parametrize("store", ["postgres", "sqlite"])
async def test_a_worker_starts_the_job_soon_after_the_commit(
    store: str, request: pytest.FixtureRequest, file: Path
) -> None:
    url = str(request.getfixturevalue("complete_postgres_url")) if store == "postgres" else f"sqlite:///{file}"
    app = App(url, recheck_interval=60)  # polling would take this long
    started = asyncio.Event()

    @app.job()
    async def report() -> None:
        started.set()

    async with app, app.worker():
        first = await report.enqueue()
        await first.result()  # the worker waits for more now
        started.clear()
        if store == "postgres":
            connection = await asyncpg.connect(url)
            async with connection.transaction():
                await report.enqueue(connection=connection)
            await connection.close()
        else:
            async with aiosqlite.connect(file) as own:
                await report.enqueue(connection=own)
                await own.commit()
        await asyncio.wait_for(started.wait(), 20)
