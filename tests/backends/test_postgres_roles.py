"""Each role of a PostgreSQL database can do what it is for, and nothing else."""

from __future__ import annotations

import asyncio
import hmac
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from interlock import App, GitHub, Settings, Slots
from interlock.backends import from_url
from interlock.errors import StoreError
from interlock.insight import Insight
from interlock.ports.jobs import Outcome
from interlock.testing.conformance.driver import ANN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.ports.store import Store

SECRET = "s3cr3t"
DAY = 86_400_000_000
KINDS = ("worker", "reader", "enqueuer", "stranger")


def as_role(url: str, role: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}"))


@pytest.fixture
async def owner(complete_postgres_url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(complete_postgres_url)
    yield connection
    await connection.close()


@pytest.fixture
async def roles(complete_postgres_url: str, owner: Any) -> AsyncIterator[dict[str, str]]:
    """One role of each kind, with what the printed SQL grants it; the stranger has the use of the schema alone."""
    suffix = uuid.uuid4().hex[:12]
    names = {kind: f"{kind}_{suffix}" for kind in KINDS}
    for name in names.values():
        await owner.execute(f"create role {name} login")
    migrations = from_url(complete_postgres_url, settings=Settings()).migrations
    assert migrations is not None
    script = migrations.grants(workers=[names["worker"]], readers=[names["reader"]], enqueuers=[names["enqueuer"]])
    await owner.execute(script)
    await owner.execute(f"grant usage on schema interlock to {names['stranger']}")
    yield names
    for name in names.values():
        await owner.execute(f"drop owned by {name}; drop role {name}")


@pytest.fixture
def url_of(complete_postgres_url: str, roles: dict[str, str]) -> dict[str, str]:
    return {kind: as_role(complete_postgres_url, name) for kind, name in roles.items()}


async def refused(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()


def use_everything(app: App) -> Any:
    """Jobs with lanes and limits, and a source."""
    app.source(GitHub(SECRET))

    @app.job(lane="{account}", limits=[Slots("reports", 2)])
    async def report(account: str) -> str:
        return account

    @app.on("github.issues.*")
    async def triage(event: Any) -> None:
        pass

    return report


def delivery() -> tuple[dict[str, str], bytes]:
    body = b'{"action": "opened", "sender": {"login": "ann"}}'
    signature = "sha256=" + hmac.new(SECRET.encode(), body, "sha256").hexdigest()
    return {"X-GitHub-Delivery": "1", "X-GitHub-Event": "issues", "X-Hub-Signature-256": signature}, body


async def test_a_worker_can_do_all_that_work_needs(url_of: dict[str, str], owner: Any, roles: dict[str, str]) -> None:
    await owner.execute(f"create table pushed (fence bigint); grant insert on pushed to {roles['worker']}")
    app = App(url_of["worker"])
    report = use_everything(app)

    async with app:
        async with app.locks.acquire("key") as lease, lease.fenced() as transaction:
            await transaction.execute("insert into pushed values ($1)", lease.fence)
        async with app.claims.claim("delivery") as claim:
            assert claim.new
        await app.cursors["notes"].move("1", after=None)
        async with app.limits.acquire(Slots("reports", 2)):
            pass
        handle = await report.enqueue(account="a")
        await app.events.receive("github", *delivery())
        assert await app.drain() == {Outcome.DONE: 2}
        assert await handle.result(wait=10) == "a"
        other = await report.enqueue(account="b")
        await app.lanes.hold("b", reason="test", by="ann")
        await app.lanes.release("b", by="ann")
        await app.jobs.cancel(other.id, reason="test", by="ann")
        await app.locks.acquire("left")
        await app.locks.force_release("left", reason="test", by="ann")
        await app.claims.forget("delivery", reason="test", by="ann")
        store: Any = app.jobs._store_client.store
        await store.jobs.prune(0.0)
        await store.events.prune()
        await store.jobs.rescue(limit=10)
        await store.sessions.sweep()
        await app.insight.overview()


async def test_a_worker_may_vacuum(url_of: dict[str, str]) -> None:
    worker = await asyncpg.connect(url_of["worker"])
    try:
        if worker.get_server_version().major >= 17:
            assert await worker.fetchval("select has_table_privilege('interlock.job_ready', 'maintain')")
    finally:
        await worker.close()


async def test_a_worker_changes_no_tables(url_of: dict[str, str]) -> None:
    await refused(
        url_of["worker"],
        "create table interlock.mine (id integer)",
        "alter table interlock.job add column mine integer",
        "drop table interlock.job",
        "truncate interlock.job",
        "create or replace function interlock.job_day(p_at bigint) returns text language sql as $$ select '' $$",
        "insert into interlock.migration (version, name) values (99, 'mine')",
        "delete from interlock.migration",
    )


async def test_days_of_history_come_and_go_by_the_servers_clock(url_of: dict[str, str], owner: Any) -> None:
    days = "select relname from pg_class where relname ~ '^job_history_[0-9]{8}$' order by 1"
    before = [name for (name,) in await owner.fetch(days)]
    now = await owner.fetchval("select interlock.micros(clock_timestamp())")
    worker = await asyncpg.connect(url_of["worker"])

    try:
        for at in (0, now - 400 * DAY, now + 400 * DAY, 2**63 - 1, -(2**63), None):
            await worker.execute("select interlock.job_make_days($1)", at)
        for at in (now + 400 * DAY, 2**63 - 1, None):
            await worker.execute("select interlock.job_drop_day('default', $1)", at)
    finally:
        await worker.close()

    after = [name for (name,) in await owner.fetch(days)]
    today = await owner.fetchval("select interlock.job_day($1)", now)
    first, last = [await owner.fetchval("select interlock.job_day($1)", now + ahead * DAY) for ahead in (-1, 4)]
    assert today in after
    assert set(before) <= {*after}
    assert all(first <= name <= last for name in after), after


async def test_a_reader_sees_everything(url_of: dict[str, str]) -> None:
    app = App(url_of["worker"])
    report = use_everything(app)
    async with app:
        handle = await report.enqueue(account="a")
        await app.locks.acquire("key")
        await app.claims.claim("delivery")
        await app.cursors["notes"].move("1", after=None)
        store = from_url(url_of["reader"], settings=Settings())
        await store.open()
        try:
            await look_at_everything(store, handle.id)
        finally:
            await store.close()


async def look_at_everything(store: Store, job: int) -> None:
    insight = Insight(store)
    await insight.overview()
    await insight.activity()
    await insight.pulse()
    assert len((await insight.jobs()).rows) == 1
    for name in ("queues", "workers", "lanes", "locks", "limits", "claims", "events"):
        await getattr(insight, name)()
    await insight.job(job)
    for kind, name in (("lane", "a"), ("lock", "key"), ("limit", "slots:reports"), ("claim", "delivery")):
        await getattr(insight, kind)(name)
        await insight.explain(kind, name)
    await insight.explain("job", job)
    assert len(await store.cursors.list()) == 1
    assert store.migrations is not None
    await store.migrations.status()


async def test_a_reader_changes_nothing(url_of: dict[str, str], owner: Any, roles: dict[str, str]) -> None:
    tables = await owner.fetch(
        "select c.oid::regclass::text from pg_class c"
        " where c.relnamespace = 'interlock'::regnamespace and c.relkind in ('r', 'p')"
        " and has_table_privilege($1, c.oid, 'insert, update, delete, truncate')",
        roles["reader"],
    )
    sequences = await owner.fetch(
        "select c.oid::regclass::text from pg_class c"
        " where case when c.relnamespace = 'interlock'::regnamespace and c.relkind = 'S'"
        " then has_sequence_privilege($1, c.oid, 'usage, update') end",
        roles["reader"],
    )
    as_owner = await owner.fetch(
        "select p.oid::regprocedure::text from pg_proc p"
        " where p.pronamespace = 'interlock'::regnamespace and p.prosecdef"
        " and has_function_privilege($1, p.oid, 'execute')",
        roles["reader"],
    )
    assert (tables, sequences, as_owner) == ([], [], [])
    store = from_url(url_of["reader"], settings=Settings())
    await store.open()
    try:
        with pytest.raises(StoreError, match="permission denied"):
            await store.locks.force("key", "test", ANN)
        with pytest.raises(StoreError, match="permission denied"):
            await store.jobs.prune(0.0)
    finally:
        await store.close()


async def test_an_enqueuer_only_enqueues(url_of: dict[str, str], owner: Any) -> None:
    connection = await asyncpg.connect(url_of["enqueuer"])
    try:
        job = await connection.fetchval("select interlock.enqueue('report', '{\"account\": \"a\"}', p_lane => 'a')")
    finally:
        await connection.close()

    assert await owner.fetchval("select id from interlock.job") == job
    await refused(
        url_of["enqueuer"],
        "select * from interlock.job",
        "insert into interlock.job_namespace values ('mine')",
        "select interlock.job_ids(1)",
        "select nextval('interlock.job_id')",
        "select interlock.job_drop_day('default', 0)",
    )
    app = App(url_of["worker"])
    use_everything(app)
    async with app:
        assert await app.drain() == {Outcome.DONE: 1}


async def test_what_an_enqueuer_has_made_itself_is_not_run_with_the_owners_rights(
    url_of: dict[str, str], owner: Any, roles: dict[str, str]
) -> None:
    await owner.execute(f"create schema mine authorization {roles['enqueuer']}")
    connection = await asyncpg.connect(url_of["enqueuer"])
    try:
        await connection.execute(
            "create table mine.called (by name);"
            "create function mine.octet_length(text) returns integer language sql as"
            " $$ insert into mine.called values (current_user); select 1 $$;"
            "set search_path = mine, pg_catalog"
        )
        await connection.fetchval("select interlock.enqueue('report')")
        assert await connection.fetch("select * from mine.called") == []
    finally:
        await connection.close()


@pytest.mark.parametrize("at", ["infinity", "20000-01-01", "4000-01-01 BC"])
async def test_a_time_that_no_program_can_read_is_refused(url_of: dict[str, str], at: str) -> None:
    connection = await asyncpg.connect(url_of["enqueuer"])
    try:
        with pytest.raises(asyncpg.InvalidParameterValueError, match="Invalid at of"):
            await connection.execute(f"select interlock.enqueue('report', p_at => '{at}')")
    finally:
        await connection.close()


async def test_a_stranger_executes_nothing(url_of: dict[str, str], owner: Any, roles: dict[str, str]) -> None:
    functions = await owner.fetch(
        "select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'interlock'::regnamespace"
        " and has_function_privilege($1, p.oid, 'execute')",
        roles["stranger"],
    )
    assert functions == []
    await refused(
        url_of["stranger"],
        "select interlock.job_make_days(0)",
        "select interlock.enqueue('report')",
        "select * from interlock.job",
    )


async def test_names_of_roles_are_quoted(complete_postgres_url: str, owner: Any) -> None:
    migrations = from_url(complete_postgres_url, settings=Settings()).migrations
    assert migrations is not None
    role = f"""a"'; drop table interlock.job; $$ --{uuid.uuid4().hex[:8]}"""
    quoted = '"' + role.replace('"', '""') + '"'
    await owner.execute(f"create role {quoted}")
    try:
        await owner.execute(migrations.grants(workers=[role]))
        assert await owner.fetchval("select has_table_privilege($1, 'interlock.job', 'select')", role)
    finally:
        await owner.execute(f"drop owned by {quoted}; drop role {quoted}")


async def test_a_login_without_rights_opens_no_app(url_of: dict[str, str]) -> None:
    async with asyncio.timeout(30):
        with pytest.raises(StoreError, match="permission denied"):
            await App(url_of["stranger"]).__aenter__()
