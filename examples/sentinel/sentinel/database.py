"""The console's own tables, in the database that Interlock uses too, so that one transaction can change both.

Statements are written once, with ``?`` for parameters and ``returning`` for what changed, and run on SQLite and
PostgreSQL.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from sentinel.current import current_console

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    import aiosqlite

__all__ = [
    "Database",
    "Row",
    "Transaction",
    "execute_in_transaction",
    "execute_insert",
    "execute_query",
    "open_database",
    "timestamp",
]

T = TypeVar("T")
Row = dict[str, Any]

_CONNECTIONS = 4
_BUSY_SECONDS = 30.0
_SCHEMA = """
create table if not exists accounts (
    id {id},
    name text not null unique,
    created_at text not null
);
create table if not exists targets (
    id {id},
    item text not null,
    account_id {integer} not null references accounts (id),
    status text not null default 'pending' check (status in ('pending', 'processing', 'completed', 'failed')),
    job_id {integer},
    fence {integer} not null default 0,
    created_at text not null,
    updated_at text not null,
    check (status <> 'processing' or job_id is not null)
);
create index if not exists targets_by_status on targets (status, id);
create table if not exists scheduled_tasks (
    id {id},
    task_type text not null,
    cron_expression text,
    interval_seconds {integer},
    is_active {integer} not null default 1,
    version {integer} not null default 1,
    created_at text not null,
    updated_at text not null
);
create table if not exists report_logs (
    id {id},
    target_id {integer},
    action text not null default 'execute_report',
    success {integer} not null,
    error_message text,
    job_id {integer},
    created_at text not null
);
create index if not exists report_logs_by_target on report_logs (target_id, id);
create index if not exists report_logs_by_job on report_logs (job_id);
create table if not exists config (
    name text primary key,
    value text not null
);
"""


class Transaction(Protocol):
    """One open transaction."""

    @property
    def connection(self) -> Any:
        """The driver's own connection, which ``connection=`` of Interlock takes."""
        ...

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and return its rows."""
        ...


class Database(Protocol):
    """Connections to one database."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Commit at the end of the block; roll back if it raises."""
        ...

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run one statement on its own and return its rows."""
        ...

    async def open(self) -> None:
        """Connect, and create the tables that do not exist yet."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


def open_database(url: str) -> Database:
    """Return the database of a store's URL, to be opened."""
    return _Sqlite(url) if url.startswith("sqlite:") else _Postgres(url)


def timestamp() -> str:
    """The current time as the tables have it: ``2026-11-16T18:30:00.000Z``."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def execute_in_transaction(operation: Callable[[Transaction], Awaitable[T]]) -> T:
    """Run an operation in a transaction of its own and return its result."""
    async with current_console().database.transaction() as transaction:
        return await operation(transaction)


async def execute_query(statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
    """Run one statement and return its rows."""
    return await current_console().database.fetch(statement, parameters)


async def execute_insert(statement: str, parameters: Sequence[Any] = ()) -> int:
    """Insert a row and return its ID."""
    rows = await execute_query(f"{statement} returning id", parameters)
    return int(rows[0]["id"])


class _SqliteTransaction:
    def __init__(self, connection: aiosqlite.Connection) -> None:
        self.connection = connection

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        rows = await self.connection.execute_fetchall(statement, tuple(parameters))
        return [dict(row) for row in rows]


class _Sqlite:
    """A few connections to one file. Transactions take the write lock when they begin, so they never have to retry."""

    def __init__(self, url: str) -> None:
        self._path = unquote(urlsplit(url).path)[1:]
        self._idle: asyncio.Queue[aiosqlite.Connection] = asyncio.Queue()

    async def open(self) -> None:
        import aiosqlite

        for _ in range(_CONNECTIONS):
            connection = await aiosqlite.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
            connection.row_factory = sqlite3.Row
            await connection.execute("pragma foreign_keys = on")
            await connection.execute("pragma synchronous = full")
            self._idle.put_nowait(connection)
        tables = _SCHEMA.format(id="integer primary key autoincrement", integer="integer")
        async with self.transaction() as transaction:
            for statement in filter(str.strip, tables.split(";")):
                await transaction.fetch(statement)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        connection = await self._idle.get()
        try:
            await connection.execute("begin immediate")
            yield _SqliteTransaction(connection)
            await connection.commit()
        finally:
            # After a commit there is nothing to roll back. Shielded, because a connection must not go back to the
            # others with a transaction open.
            await asyncio.shield(self._give_back(connection))

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        connection = await self._idle.get()
        try:
            return await _SqliteTransaction(connection).fetch(statement, parameters)
        finally:
            await asyncio.shield(self._give_back(connection))

    async def _give_back(self, connection: aiosqlite.Connection) -> None:
        await connection.rollback()
        self._idle.put_nowait(connection)

    async def close(self) -> None:
        for _ in range(_CONNECTIONS):
            connection = await self._idle.get()
            await connection.close()


class _PostgresTransaction:
    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        numbers = count(1)
        numbered = "".join(f"${next(numbers)}" if letter == "?" else letter for letter in statement)
        return [dict(row) for row in await self.connection.fetch(numbered, *parameters)]


class _Postgres:
    """A pool of connections."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: Any = None

    async def open(self) -> None:
        import asyncpg

        driver: Any = asyncpg  # it has no types
        self._pool = await driver.create_pool(self._url, min_size=1, max_size=_CONNECTIONS)
        tables = _SCHEMA.format(id="bigint generated by default as identity primary key", integer="bigint")
        async with self.transaction() as transaction:
            # Two processes that start at once would both find no table, and one of them would fail.
            await transaction.fetch("select pg_advisory_xact_lock(hashtext('sentinel'))")
            for statement in filter(str.strip, tables.split(";")):
                await transaction.fetch(statement)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        async with self._pool.acquire() as connection, connection.transaction():
            yield _PostgresTransaction(connection)

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        async with self._pool.acquire() as connection:
            return await _PostgresTransaction(connection).fetch(statement, parameters)

    async def close(self) -> None:
        await self._pool.close()
