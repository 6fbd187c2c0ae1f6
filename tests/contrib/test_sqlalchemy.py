"""Version checks and journal entries in the transactions of programs that use SQLAlchemy."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import threading
import time
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, event, insert, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.orm.exc import StaleDataError

from interlock import App
from interlock.backends import from_url
from interlock.contrib.sqlalchemy import (
    add_journal_entry,
    compare_and_set,
    is_deadlock_error,
    journal_change,
    retry_on_deadlock,
    version_check,
)
from interlock.errors import (
    CapabilityError,
    ConcurrencyConflictError,
    DeadlockError,
    InvalidArgumentError,
    MisuseError,
    SchemaMismatchError,
    StoreError,
)
from interlock.ports.journal import JournalFilter
from interlock.settings import Settings
from interlock.testing.processes import Worker
from tests.contrib.orders import LINES, Base, Customer, Order

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

    from interlock.ports.journal import JournalEntry

SYNC = ("postgresql+psycopg", "postgresql+psycopg2", "sqlite+pysqlite")
ASYNC = ("postgresql+asyncpg", "postgresql+psycopg_async", "sqlite+aiosqlite")


class Place:
    """A database with Interlock's schema and the tables of the program."""

    def __init__(self, interlock_url: str, scheme: str) -> None:
        self.interlock_url = interlock_url
        self.url = f"{scheme}:{interlock_url.partition(':')[2]}"

    async def entries(self) -> list[JournalEntry]:
        """The journal as Interlock reads it, oldest first."""
        store = from_url(self.interlock_url, settings=Settings())
        await store.open()
        try:
            return list(await store.journal.list(JournalFilter()))[::-1]
        finally:
            await store.close()


async def prepared(request: pytest.FixtureRequest, scheme: str, tmp_path: Path) -> Place:
    if scheme.startswith("sqlite"):
        url = f"sqlite:///{tmp_path}/interlock.db"
        async with App(url):
            pass  # sets up the schema of an empty database
    else:
        url = str(request.getfixturevalue("complete_postgres_url"))
    return Place(url, scheme)


@pytest.fixture(params=SYNC)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return await prepared(request, request.param, tmp_path)


@pytest.fixture
def engine(place: Place) -> Iterator[Engine]:
    engine = create_engine(place.url)
    create_tables(engine)
    yield engine
    drop_tables(engine)  # so that the database can be used again
    engine.dispose()


def create_tables(engine: Engine) -> None:
    Base.metadata.create_all(engine)
    LINES.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add_all([Order(id=1, card="4111"), Order(id=2, card=None)])


def drop_tables(engine: Engine) -> None:
    Base.metadata.drop_all(engine)
    LINES.metadata.drop_all(engine)


@pytest.fixture(params=ASYNC)
async def async_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return await prepared(request, request.param, tmp_path)


@pytest.fixture
async def async_engine(async_place: Place) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(async_place.url)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
        await connection.execute(insert(Order).values([{"id": 1}, {"id": 2}]))
    yield engine
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.drop_all)
    await engine.dispose()


# -- versions ---------------------------------------------------------------------------------------------------------


def test_a_lost_update_is_refused_on_flush_and_on_commit(engine: Engine) -> None:
    with Session(engine) as one, Session(engine) as two:
        mine, theirs = one.get_one(Order, 1), two.get_one(Order, 1)
        one.rollback()  # SQLite: no read is held while the other writes
        mine = one.get_one(Order, 1)
        assert (mine.version, theirs.version) == (0, 0)
        one.expunge(mine)
        one.rollback()
        theirs.status = "paid"
        two.commit()
        assert two.get_one(Order, 1).version == 1
        two.rollback()

        one.add(mine)
        mine.status = "cancelled"
        with pytest.raises(ConcurrencyConflictError, match=r"since it was read.*Nothing was written"), version_check():
            one.commit()
        one.rollback()

    with Session(engine) as session:
        assert session.get_one(Order, 1).status == "paid"


def test_without_the_check_the_error_is_sqlalchemys_own(engine: Engine) -> None:
    with Session(engine) as session:
        order = session.get_one(Order, 1)
        session.execute(update(Order.__table__).values(version=Order.version + 1))  # type: ignore[arg-type]
        order.status = "paid"
        with pytest.raises(StaleDataError):
            session.flush()


def test_compare_and_set_updates_only_the_version_it_was_given(engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        order = session.get_one(Order, 1)
        assert compare_and_set(session, Order, 1, {"status": "paid"}, version=0)
        assert (order.status, order.version) == ("paid", 1), "the loaded object follows"
        assert not compare_and_set(session, Order, 1, {"status": "cancelled"}, version=0)
        assert not compare_and_set(session, Order, 99, {"status": "paid"}, version=0)

    with engine.begin() as connection:
        connection.execute(insert(LINES).values(order_id=1, number=2, amount=3, version=7))
        assert compare_and_set(connection, LINES, (1, 2), {"amount": 4}, version=7)
        assert not compare_and_set(connection, LINES, (1, 2), {"amount": 5}, version=7)
        assert connection.execute(select(LINES.c.amount, LINES.c.version)).one() == (4, 8)


def test_what_compare_and_set_cannot_do_is_refused(engine: Engine) -> None:
    with Session(engine) as session:
        with pytest.raises(InvalidArgumentError, match="primary key has 2 columns"):
            compare_and_set(session, LINES, 1, {"amount": 4}, version=0)
        with pytest.raises(InvalidArgumentError, match="no version column"):
            compare_and_set(session, Customer, 1, {"name": "x"}, version=0)
        with pytest.raises(InvalidArgumentError, match="values contain the version"):
            compare_and_set(session, Order, 1, {"version": 4}, version=0)
        with pytest.raises(InvalidArgumentError, match="not a mapped class"):
            compare_and_set(session, dict, 1, {}, version=0)


async def test_compare_and_set_is_awaited_on_an_async_session(async_engine: AsyncEngine) -> None:
    async with AsyncSession(async_engine) as session, session.begin():
        assert await compare_and_set(session, Order, 1, {"status": "paid"}, version=0)
        assert not await compare_and_set(session, Order, 1, {"status": "paid"}, version=0)
    async with async_engine.connect() as connection:
        assert await compare_and_set(connection, Order, 1, {"status": "open"}, version=1)


# -- the journal ------------------------------------------------------------------------------------------------------


async def test_an_entry_commits_with_the_change(place: Place, engine: Engine) -> None:
    begun = time.time()
    with Session(engine) as session, session.begin():
        order = session.get_one(Order, 1)
        order.status = "shipped"
        number = journal_change(session, order, "order.ship", by="eva", reason="it is paid")

    (entry,) = await place.entries()
    assert entry.id == number
    assert abs(entry.at - begun) < 60
    assert (entry.actor, entry.reason, entry.action) == ("eva", "it is paid", "order.ship")
    assert (entry.subject_kind, entry.subject_key) == ("order", "1")
    assert (entry.before, entry.after) == ('{"status": "open"}', '{"status": "shipped"}')
    assert (entry.from_version, entry.to_version) == (0, 1)
    assert (entry.cause_event, entry.cause_job, entry.cause_fence, entry.batch) == (None, None, None, None)


async def test_a_rollback_leaves_neither_change_nor_entry(place: Place, engine: Engine) -> None:
    with Session(engine) as session:
        order = session.get_one(Order, 1)
        order.status = "shipped"
        assert journal_change(session, order, "order.ship", by="eva") is not None
        session.rollback()
    with contextlib.suppress(KeyError), Session(engine) as session, session.begin():
        add_journal_entry(session, "order.ship", 1, by="eva")
        raise KeyError

    assert await place.entries() == []
    with Session(engine) as session:
        assert session.get_one(Order, 1).status == "open"


async def test_a_conflict_leaves_no_entry(place: Place, engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        order = session.get_one(Order, 1)
        session.expunge(order)
    with engine.begin() as connection:
        connection.execute(text("update orders set version = 5 where id = 1"))
    with Session(engine) as session:
        session.add(order)
        order.status = "shipped"
        with pytest.raises(ConcurrencyConflictError):
            journal_change(session, order, "order.ship", by="eva")
        session.rollback()

    assert await place.entries() == []


async def test_what_is_added_deleted_or_unchanged_is_told_apart(place: Place, engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        order = Order(id=3, card="4111 1111", customer=Customer(id=8, name="Ann"))
        session.add(order)
        journal_change(session, order, "order.create", by="eva", redact=["card"])
        assert journal_change(session, order, "order.touch", by="eva") is None
        order.customer = Customer(id=9, name="Bob")  # the key of a related row is known only after the flush
        order.count = Order.count + 5
        order.card = "5555"
        journal_change(session, order, "order.change", by="eva", redact=["card"])
        session.delete(order)
        journal_change(session, order, "order.delete", by="eva", redact=["card"])

    created, changed, deleted = await place.entries()
    assert created.before is None
    assert created.after == ('{"id": 3, "status": "open", "count": 0, "card": "[redacted]", "customer_id": 8}')
    assert (created.from_version, created.to_version) == (None, 0)
    assert changed.before == '{"count": 0, "card": "[redacted]", "customer_id": 8}'
    assert changed.after == '{"count": 5, "card": "[redacted]", "customer_id": 9}'
    assert (changed.from_version, changed.to_version) == (0, 1)
    assert deleted.after is None
    assert deleted.before is not None
    assert '"count": 5, "card": "[redacted]"' in deleted.before
    assert (deleted.from_version, deleted.to_version) == (1, None)
    assert "4111" not in str([created, changed, deleted])


async def test_a_column_that_was_set_unread_is_looked_up(place: Place, engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        order = session.get_one(Order, 1)
        session.expire(order)
        order.status = "shipped"
        journal_change(session, order, "order.ship", by="eva")

    (entry,) = await place.entries()
    assert (entry.before, entry.after) == ('{"status": "open"}', '{"status": "shipped"}')
    assert (entry.from_version, entry.to_version) == (0, 1)


async def test_entries_work_on_any_kind_of_transaction(place: Place, engine: Engine) -> None:
    with engine.begin() as connection:
        add_journal_entry(connection, "order.count", "all", by="eva", namespace="default")
    scoped = scoped_session(sessionmaker(engine))
    add_journal_entry(scoped, "order.count", "all", by="eva", from_version=3, to_version=4)
    scoped.commit()
    scoped.remove()
    with pytest.raises(MisuseError, match="Engine is not a transaction"):
        add_journal_entry(engine, "order.count", "all", by="eva")  # type: ignore[call-overload]
    with engine.begin() as connection, pytest.raises(MisuseError, match="add_journal_entry"):
        journal_change(connection, Order(), "order.ship", by="eva")  # type: ignore[call-overload]

    assert [(entry.from_version, entry.to_version) for entry in await place.entries()] == [(None, None), (3, 4)]


async def test_entries_are_awaited_on_async_sessions(async_place: Place, async_engine: AsyncEngine) -> None:
    async with AsyncSession(async_engine) as session, session.begin():
        order = await session.get_one(Order, 1)
        order.status = "shipped"
        await journal_change(session, order, "order.ship", by="eva")
    async with AsyncSession(async_engine) as session:
        await add_journal_entry(session, "order.ship", 2, by="eva", after={"x": "ä"})
        await session.rollback()
    async with async_engine.begin() as connection:
        await add_journal_entry(connection, "order.close", 2, by="eva", before={"x": "ä"})
    scoped = async_scoped_session(async_sessionmaker(async_engine), asyncio.current_task)
    await add_journal_entry(scoped, "order.close", 3, by="eva")
    await scoped.commit()
    await scoped.remove()

    ship, close, third = await async_place.entries()
    assert (ship.action, ship.to_version, ship.after) == ("order.ship", 1, '{"status": "shipped"}')
    assert (close.subject_key, close.before) == ("2", '{"x": "ä"}')
    assert third.subject_key == "3"


async def test_a_handlers_entry_names_its_job(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/interlock.db"
    engine = create_engine(url)
    app = App(url)

    @app.job()
    async def ship(order: int) -> None:
        with Session(engine) as session, session.begin():
            add_journal_entry(session, "order.ship", order, by="worker")

    async with app:
        handle = await ship.enqueue(order=7)
        await app.drain()
        (entry,) = await Place(url, "sqlite").entries()
    engine.dispose()

    assert entry.cause_job == handle.id
    assert entry.cause_fence is not None


class Color(enum.Enum):
    RED = "red"


async def test_data_is_written_as_json_and_other_things_are_refused(place: Place, engine: Engine) -> None:
    key = uuid.UUID(int=7)
    data = {"at": datetime(2026, 1, 2, tzinfo=UTC), "price": Decimal("1.50"), "key": key, "color": Color.RED}
    with engine.begin() as connection:
        add_journal_entry(connection, "order.price", 1, by="eva", before=data, after=[1, None, "'; drop table orders"])
        for wrong in (float("nan"), object(), "\ud800"):
            with pytest.raises(InvalidArgumentError, match="after cannot be written as JSON"):
                add_journal_entry(connection, "order.price", 1, by="eva", after=wrong)

    (entry,) = await place.entries()
    assert entry.before == (f'{{"at": "2026-01-02T00:00:00Z", "price": "1.50", "key": "{key}", "color": "red"}}')
    assert entry.after == '[1, null, "\'; drop table orders"]'


def test_an_entry_needs_an_action_of_its_own_and_an_actor(engine: Engine) -> None:
    with engine.begin() as connection:
        for action in ("ship", "Order.ship", "order.", "order ship", "order.ship;", 7):
            with pytest.raises(InvalidArgumentError, match="Invalid action"):
                add_journal_entry(connection, action, 1, by="eva")  # type: ignore[call-overload]
        with pytest.raises(InvalidArgumentError, match="Interlock's own"):
            add_journal_entry(connection, "job.cancel", 1, by="eva")
        with pytest.raises(InvalidArgumentError, match="by="):
            add_journal_entry(connection, "order.ship", 1, by=" ")
        with pytest.raises(InvalidArgumentError, match="namespace"):
            add_journal_entry(connection, "order.ship", 1, by="eva", namespace="A B")
    with Session(engine) as session, pytest.raises(InvalidArgumentError, match="not in this session"):
        journal_change(session, Order(id=5), "order.ship", by="eva")


# -- what is not there ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SYNC)
def test_a_database_without_the_schema_says_what_to_run(
    request: pytest.FixtureRequest, scheme: str, tmp_path: Path
) -> None:
    if scheme.startswith("sqlite"):
        url = f"sqlite:///{tmp_path}/empty.db"
    else:
        url = str(request.getfixturevalue("interlock_postgres_url"))
    engine = create_engine(f"{scheme}:{url.partition(':')[2]}")
    with engine.connect() as connection, pytest.raises(SchemaMismatchError, match="interlock migrate up"):
        add_journal_entry(connection, "order.ship", 1, by="eva")
    engine.dispose()


def test_an_old_schema_is_noticed(place: Place, engine: Engine) -> None:
    with engine.begin() as connection:
        if place.url.startswith("sqlite"):
            connection.execute(text("alter table interlock_journal drop column cause_fence"))
        else:
            connection.execute(text("alter function interlock.journal_add rename to journal_add_old"))
    with engine.connect() as connection, pytest.raises(SchemaMismatchError):
        add_journal_entry(connection, "order.ship", 1, by="eva")


async def test_a_role_without_privileges_is_told_what_it_lacks(complete_postgres_url: str) -> None:
    engine = create_engine(Place(complete_postgres_url, "postgresql+psycopg").url)
    name = f"nobody_{uuid.uuid4().hex}"
    with engine.connect() as connection:
        connection.execute(text(f"create role {name}"))
        connection.execute(text(f"set local role {name}"))
        with pytest.raises(StoreError, match="Grant usage"):
            add_journal_entry(connection, "order.ship", 1, by="eva")
    engine.dispose()


def test_a_connection_that_commits_each_statement_is_refused(place: Place, engine: Engine) -> None:
    for automatic in (engine.execution_options(isolation_level="AUTOCOMMIT"), autocommit_engine(place.url)):
        with automatic.connect() as connection, pytest.raises(MisuseError, match="commits each statement"):
            add_journal_entry(connection, "order.ship", 1, by="eva")
        automatic.dispose()


def autocommit_engine(url: str) -> Engine:
    return create_engine(url, isolation_level="AUTOCOMMIT")


async def test_sqlite_transactions_that_begin_by_an_event_are_accepted(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/interlock.db"
    async with App(url):
        pass
    engine = create_engine(url)

    @event.listens_for(engine, "connect")
    def connected(raw: Any, _: Any) -> None:
        raw.isolation_level = None

    @event.listens_for(engine, "begin")
    def begun(connection: Any) -> None:
        connection.exec_driver_sql("begin immediate")

    with engine.begin() as connection:
        add_journal_entry(connection, "order.ship", 1, by="eva")
    engine.dispose()

    assert len(await Place(url, "sqlite").entries()) == 1


def test_another_database_is_refused_by_name() -> None:
    from sqlalchemy import Connection
    from sqlalchemy.dialects.mysql.pymysql import MySQLDialect_pymysql

    class Other(Connection):
        def __init__(self) -> None:
            self.dialect = MySQLDialect_pymysql()

    with pytest.raises(CapabilityError, match=r"mysql\+pymysql.*postgresql\+asyncpg, postgresql\+psycopg"):
        add_journal_entry(Other(), "order.ship", 1, by="eva")


# -- deadlocks and races ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
async def test_a_deadlock_of_sessions_in_threads_is_retried(complete_postgres_url: str, driver: str) -> None:
    place = Place(complete_postgres_url, f"postgresql+{driver}")
    engine = create_engine(place.url)
    create_tables(engine)
    both_hold = threading.Barrier(2, timeout=30)
    attempts: list[int] = []

    @retry_on_deadlock()
    def add(first: int, second: int) -> None:
        attempts.append(first)
        with Session(engine) as session, session.begin():
            one = session.get_one(Order, first)
            one.count += 1
            journal_change(session, one, "order.add", by="eva")
            if attempts.count(first) == 1:
                both_hold.wait()
            two = session.get_one(Order, second, with_for_update=True)
            two.count += 1
            journal_change(session, two, "order.add", by="eva")

    async with asyncio.timeout(30):
        await asyncio.gather(asyncio.to_thread(add, 1, 2), asyncio.to_thread(add, 2, 1))
    drop_tables(engine)
    engine.dispose()

    assert len(attempts) == 3, "one of the two was tried again"
    assert sorted(entry.subject_key for entry in await place.entries()) == ["1", "1", "2", "2"]


async def test_a_deadlock_of_async_sessions_is_retried_after_deadlock_timeout(complete_postgres_url: str) -> None:
    place = Place(complete_postgres_url, "postgresql+asyncpg")
    engine = create_async_engine(place.url)
    async with engine.begin() as connection:
        assert (await connection.execute(text("show deadlock_timeout"))).scalar_one() == "1s", "the server's default"
        await connection.run_sync(Base.metadata.create_all)
        await connection.execute(insert(Order).values([{"id": 1}, {"id": 2}]))
    both_hold = asyncio.Barrier(2)
    errors: list[Exception] = []

    @retry_on_deadlock()
    async def add(first: int, second: int) -> None:
        try:
            async with AsyncSession(engine) as session, session.begin():
                for key in (first, second):
                    order = await session.get_one(Order, key, with_for_update=True)
                    order.count += 1
                    await journal_change(session, order, "order.add", by="eva")
                    if key == first and not errors:
                        await both_hold.wait()
        except Exception as error:
            errors.append(error)
            raise

    begun = time.monotonic()
    async with asyncio.timeout(30):
        await asyncio.gather(add(1, 2), add(2, 1))
    seconds = time.monotonic() - begun
    async with AsyncSession(engine) as session:
        assert list((await session.execute(select(Order.count, Order.version))).all()) == [(2, 2), (2, 2)]
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.drop_all)
    await engine.dispose()

    (error,) = errors
    assert is_deadlock_error(error)
    assert 1 <= seconds < 5, "deadlock_timeout (1 s), plus the retry"
    assert len(await place.entries()) == 4, "what was rolled back left no entry"


async def test_a_deadlock_that_repeats_is_given_up(complete_postgres_url: str) -> None:
    @retry_on_deadlock(max_retries=2, base_delay=0.001, jitter=0)
    def fail() -> None:
        engine = create_engine(Place(complete_postgres_url, "postgresql+psycopg").url)
        try:
            with engine.begin() as connection:
                connection.execute(text("do $$ begin raise sqlstate '40P01'; end $$"))
        finally:
            engine.dispose()

    with pytest.raises(DeadlockError, match="after 2 deadlock retries") as caught:
        fail()
    assert isinstance(caught.value.__cause__, OperationalError)


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "sqlite+pysqlite"])
async def test_two_processes_that_race_lose_no_update_and_no_entry(
    request: pytest.FixtureRequest, scheme: str, tmp_path: Path
) -> None:
    place = await prepared(request, scheme, tmp_path)
    engine = create_engine(place.url)
    create_tables(engine)
    arguments = [place.url, 25]
    async with (
        Worker.spawn("tests.contrib.orders:increment", arguments) as one,
        Worker.spawn("tests.contrib.orders:increment", arguments) as two,
    ):
        conflicts = [await one.result(60), await two.result(60)]

    with Session(engine) as session:
        assert session.execute(select(Order.count, Order.version).where(Order.id == 1)).one() == (50, 50)
    drop_tables(engine)
    engine.dispose()
    entries = await place.entries()
    versions = sorted((entry.from_version, entry.to_version) for entry in entries)
    assert versions == [(number, number + 1) for number in range(50)], f"{conflicts} conflicts"
