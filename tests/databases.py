"""PostgreSQL databases for tests: new ones, and ones that are cleaned and used again."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

from interlock.backends import from_url
from interlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

__all__ = ["CleanDatabases", "new_database"]

_SECONDS = 60
_DISCONNECT = """
    select count(pg_terminate_backend(pid, 10000)) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""
_DEFINITIONS = """
    select array[
        (select string_agg(concat_ws(' ', oid, relname, relacl, reloptions, case relkind when 'r' then reltuples end),
                           ',' order by oid)
         from pg_class where oid >= 16384 and relnamespace <> 'pg_toast'::regnamespace),
        (select string_agg(concat_ws(' ', nspname, nspowner, nspacl), ',' order by oid) from pg_namespace),
        (select concat_ws(' ', count(*), max(xmin::text::bigint)) from pg_proc where oid >= 16384),
        (select concat_ws(' ', count(*), max(xmin::text::bigint)) from pg_constraint where oid >= 16384),
        (select concat_ws(' ', count(*), max(xmin::text::bigint)) from pg_trigger),
        (select concat_ws(' ', count(*), max(xmin::text::bigint)) from pg_attribute where attrelid >= 16384),
        (select count(*)::text from pg_statistic where starelid >= 16384),
        (select concat_ws(' ', datacl, datdba) from pg_database where datname = current_database()),
        (select count(*)::text from pg_db_role_setting
         where setdatabase = (select oid from pg_database where datname = current_database()))]
"""
"""Everything that a test could leave behind apart from rows, statistics of the planner included."""


def new_database(server: Any, template: str = "template0", *, migrated: bool = False) -> Iterator[str]:
    """Create a database, or a copy of another one; drop it afterwards."""
    name = f"interlock_{uuid.uuid4().hex}"
    server.create_database(name, template)
    try:
        if migrated:
            with ThreadPoolExecutor(1) as thread:  # the caller's may be running an event loop
                thread.submit(asyncio.run, _migrate(server.url(name))).result()
        yield name
    finally:
        server.drop_database(name)


async def _migrate(url: str) -> None:
    store = from_url(url, settings=Settings())
    await store.open()
    await store.close()


class _Contents(NamedTuple):
    """The contents of a database that has the whole schema and has not been used."""

    definitions: list[str]
    rows: dict[str, str | None]
    """For each table a digest of its rows, None for an empty one."""
    sequences: dict[str, tuple[int, bool]]


class CleanDatabases:
    """Databases with the whole schema and nothing in it, cleaned after each use instead of created for each.

    Copying a database takes far longer than most tests do. A database is used again only if its definitions,
    privileges, settings and planner statistics are those of the template; otherwise it is dropped. It has another name
    each time, so that a connection that an earlier test left behind cannot find it.
    """

    def __init__(self, server: Any, template: str) -> None:
        self._server = server
        self._template = template
        self._free: list[str] = []
        self._admin: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="clean-databases", daemon=True)
        self._thread.start()
        self._pristine = self._run(self._read_contents())

    def take(self) -> str:
        """Give the name of a clean database."""
        return self._free.pop() if self._free else self._run(self._create())

    def give_back(self, name: str) -> None:
        """Clean a database for the next test, or drop it."""
        self._run(self._recycle(name))

    def close(self) -> None:
        """Drop the databases that are left."""
        for name in self._free:
            self._run(self._execute(f"drop database if exists {name} with (force)"))
        if self._admin is not None:
            self._run(self._admin.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_SECONDS)

    async def _execute(self, statement: str) -> None:
        if self._admin is not None:
            with contextlib.suppress(asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError):
                await self._admin.execute(statement, timeout=_SECONDS)
                return
        # The server was restarted since, or this is the first statement.
        self._admin = await asyncpg.connect(self._server.url(), timeout=_SECONDS)
        await self._admin.execute(statement, timeout=_SECONDS)

    async def _create(self) -> str:
        name = _new_name()
        await self._execute(f"create database {name} template {self._template} strategy file_copy")
        return name

    async def _recycle(self, name: str) -> None:
        with contextlib.suppress(asyncpg.PostgresError, OSError):
            if await self._clean(name):
                another = _new_name()
                await self._execute(f"alter database {name} rename to {another}")
                self._free.append(another)
                return
        await self._execute(f"drop database if exists {name} with (force)")

    async def _clean(self, name: str) -> bool:
        """Empty the tables that were empty. Return whether the database is as it was."""
        connection = await asyncpg.connect(self._server.url(name), timeout=_SECONDS)
        try:
            await connection.execute(_DISCONNECT)
            pristine = self._pristine
            tables = {table for table, digest in pristine.rows.items() if digest is None}
            if used := await _used(connection, tables):
                # Tables that refer to these are emptied with them. The digests below find any that were not empty.
                await connection.execute(f"truncate {', '.join(used)} cascade")
            resets = [
                f"setval('{sequence}', {value}, {called})" for sequence, (value, called) in pristine.sequences.items()
            ]
            if resets:
                await connection.execute(f"select {', '.join(resets)}")
            if await connection.fetchval(_DEFINITIONS) != pristine.definitions:
                return False
            kept = pristine.rows.keys() - tables
            return all([await _digest(connection, table) == pristine.rows[table] for table in kept])
        finally:
            await connection.close(timeout=_SECONDS)

    async def _read_contents(self) -> _Contents:
        connection = await asyncpg.connect(self._server.url(self._template), timeout=_SECONDS)
        try:
            tables = await connection.fetch(
                "select oid::regclass::text from pg_class where oid >= 16384 and relkind = 'r'"
            )
            sequences = await connection.fetch("select oid::regclass::text from pg_class where relkind = 'S'")
            return _Contents(
                await connection.fetchval(_DEFINITIONS),
                {table: await _digest(connection, table) for (table,) in tables},
                {
                    sequence: tuple(await connection.fetchrow(f"select last_value, is_called from {sequence}"))
                    for (sequence,) in sequences
                },
            )
        finally:
            await connection.close(timeout=_SECONDS)


def _new_name() -> str:
    return f"interlock_{uuid.uuid4().hex}"


async def _used(connection: Any, tables: set[str]) -> list[str]:
    """Those of the tables that have rows, or had some: a table that was never written to has no pages."""
    written = await connection.fetch(
        "select oid::regclass::text from pg_class where oid >= 16384 and relkind = 'r' and pg_relation_size(oid) > 0"
    )
    return [table for (table,) in written if table in tables]


async def _digest(connection: Any, table: str) -> str | None:
    found: str | None = await connection.fetchval(
        f"select md5(string_agg(t::text, ',' order by t::text)) from {table} t"
    )
    return found
