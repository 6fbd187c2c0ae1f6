"""Whatever PostgreSQL answers comes out as an error of Interlock, and a webhook is told to come again."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from typing import TYPE_CHECKING

import asyncpg
import pytest

from interlock import App, Locks, Settings
from interlock.backends.postgres.errors import translated
from interlock.errors import StoreError, StoreUnavailableError
from interlock.testing.servers import PostgresServer
from tests.databases import new_database
from tests.web.client import ask
from tests.web.test_mounting import bot, delivery

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORT = Settings(store_wait=0.5, stuck_work="report")
OF_THE_SERVER = sorted(
    {
        kind
        for _, kind in inspect.getmembers(asyncpg.exceptions, inspect.isclass)
        if issubclass(kind, asyncpg.PostgresError) and getattr(kind, "sqlstate", None)
    },
    key=lambda kind: str(kind.sqlstate),
)


def test_every_error_of_the_server_becomes_one_of_ours() -> None:
    for kind in OF_THE_SERVER:
        with pytest.raises(StoreError) as caught, translated():
            raise kind("of the server")
        assert "of the server" in str(caught.value)
        assert isinstance(caught.value.__cause__, kind)


@pytest.mark.parametrize("state", ["58030", "58P01", "53100", "57P05", "25P03", "25P04", "40003"])
def test_what_may_pass_may_be_repeated(state: str) -> None:
    with pytest.raises(StoreUnavailableError), translated():
        raise asyncpg.PostgresError.new({"C": state, "M": "may pass", "S": "ERROR", "V": "ERROR"})


# -- opening -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameter", ["no_such_parameter=1", "work_mem=much", "max_connections=5"])
async def test_a_parameter_that_the_server_does_not_take_is_said_at_once(
    interlock_postgres_url: str, parameter: str
) -> None:
    locks = Locks.from_url(f"{interlock_postgres_url}?{parameter}", settings=Settings(store_wait=30))
    async with asyncio.timeout(10):
        with pytest.raises(StoreError, match=parameter.partition("=")[0]) as caught:
            await locks.open()
    assert not isinstance(caught.value, StoreUnavailableError)
    assert "URL" in caught.value.remedy


# -- at work -----------------------------------------------------------------------------------------------------------


async def test_an_event_that_the_disk_refuses_is_to_be_sent_again(complete_postgres_url: str) -> None:
    connection = await asyncpg.connect(complete_postgres_url)
    app = bot(complete_postgres_url, store_wait=0.5)
    async with app:
        web = app.web(dashboard=False)
        for state, error in (("58030", StoreUnavailableError), ("XX001", StoreError), ("22023", StoreError)):
            await fail(connection, "event", state)
            answer = await ask(web, "POST", "/webhooks/github", *delivery(1))
            assert (answer.status, answer.header("retry-after")) == (503, "5")
            headers, body = delivery(1)
            with pytest.raises(error):
                await app.events.receive("github", dict(headers), body)
        await connection.execute("drop trigger failing on interlock.event")
        assert (await ask(web, "POST", "/webhooks/github", *delivery(1))).status == 202
    await connection.close()


async def fail(connection: asyncpg.Connection[asyncpg.Record], table: str, state: str) -> None:
    """Let every insert into a table fail with an error code."""
    await connection.execute(
        f"""
        create or replace function pg_temp.no() returns trigger language plpgsql as
            $$ begin raise 'could not read block 7' using errcode = '{state}'; end $$;
        drop trigger if exists failing on interlock.{table};
        create trigger failing before insert on interlock.{table} execute function pg_temp.no()
        """
    )


@pytest.fixture(scope="module")
def small_queue() -> Iterator[PostgresServer]:
    """A server whose NOTIFY queue is full soon."""
    with PostgresServer(settings={"fsync": "off", "max_notify_queue_pages": "64"}) as server:
        yield server


@pytest.mark.full
async def test_a_full_notify_queue_is_an_outage_that_names_its_cause(small_queue: PostgresServer) -> None:
    for name in new_database(small_queue, migrated=True):
        url = small_queue.url(name)
        listens, tells = await asyncpg.connect(url), await asyncpg.connect(url)
        async with App(url, settings=SHORT) as app:
            await app.locks.acquire("repo")
            await listens.execute("listen elsewhere; begin")
            with contextlib.suppress(asyncpg.ProgramLimitExceededError):
                while True:
                    await tells.execute(
                        "select pg_notify('elsewhere', repeat('x', 7900) || i) from generate_series(1, 9) i"
                    )
            with pytest.raises(StoreUnavailableError, match="NOTIFY queue") as caught:
                await app.locks.force_release("repo", reason="a test", by="me")
            assert "pg_stat_activity" in caught.value.remedy

            await listens.execute("rollback; unlisten *")
            await tells.execute("select pg_notification_queue_usage()")  # which moves the queue's tail
            assert await app.locks.force_release("repo", reason="a test", by="me")
        await tells.close()
        await listens.close()
