"""Databases that tests take turns with are as good as new each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock import App, Locks

if TYPE_CHECKING:
    from tests.databases import CleanDatabases


async def run(server: Any, name: str, statement: str) -> Any:
    connection = await asyncpg.connect(server.url(name))
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_a_database_that_was_given_back_has_a_new_name_and_nothing_in_it(
    interlock_postgres_server: Any, clean_databases: CleanDatabases
) -> None:
    name = clean_databases.take()
    async with Locks.from_url(interlock_postgres_server.url(name)) as locks, locks.acquire("key") as lease:
        fence = lease.fence

    clean_databases.give_back(name)

    again = clean_databases.take()
    try:
        assert again != name
        async with Locks.from_url(interlock_postgres_server.url(again)) as locks:
            assert await locks.list() == []
            async with locks.acquire("key") as lease:
                assert lease.fence == fence
    finally:
        clean_databases.give_back(again)


async def test_connections_that_a_test_leaves_behind_are_ended(
    interlock_postgres_server: Any, clean_databases: CleanDatabases
) -> None:
    name = clean_databases.take()
    left = await asyncpg.connect(interlock_postgres_server.url(name))

    clean_databases.give_back(name)

    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await left.fetchval("select 1")


@pytest.mark.parametrize(
    "change",
    [
        "create table interlock.more ()",
        "alter table interlock.session add column more int",
        "create function interlock.more() returns int language sql as 'select 1'",
        "grant usage on schema interlock to public",
        "analyze interlock.session",
        "drop schema interlock cascade",
    ],
)
async def test_a_database_whose_definitions_changed_is_not_used_again(
    interlock_postgres_server: Any, clean_databases: CleanDatabases, change: str
) -> None:
    name = clean_databases.take()
    await run(interlock_postgres_server, name, "insert into interlock.session select * from interlock.session")
    await run(interlock_postgres_server, name, change)

    clean_databases.give_back(name)

    another = clean_databases.take()
    try:
        assert await run(interlock_postgres_server, another, "select to_regclass('interlock.more') is null")
        assert (
            await run(
                interlock_postgres_server, "postgres", f"select count(*) from pg_database where datname = '{name}'"
            )
            == 0
        )
    finally:
        clean_databases.give_back(another)


async def test_a_database_is_used_again_after_a_worker_has_filled_its_tables(
    interlock_postgres_server: Any, clean_databases: CleanDatabases
) -> None:
    name = clean_databases.take()
    oid = await run(interlock_postgres_server, name, f"select oid from pg_database where datname = '{name}'")
    app = App(interlock_postgres_server.url(name))

    @app.job(lane="{key}")
    async def work(key: str) -> None: ...

    async with app:
        await work.enqueue(key="a")
        await app.drain()

    clean_databases.give_back(name)

    again = clean_databases.take()
    try:
        assert (
            await run(
                interlock_postgres_server, again, "select oid from pg_database where datname = current_database()"
            )
            == oid
        )
        assert await run(interlock_postgres_server, again, "select count(*) from interlock.job_session") == 0
    finally:
        clean_databases.give_back(again)
