"""Every supported driver behind one interface, for tests that do the same with each."""

from __future__ import annotations

import inspect
import sqlite3
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import aiosqlite
import asyncpg
import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from interlock.connections import adapter_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from interlock import Handle
    from interlock.jobs import Job

__all__ = ["DRIVERS", "Driver", "Transaction", "enqueue"]


class Transaction:
    """An open connection of a driver, and its own ways to execute, commit and roll back."""

    def __init__(self, connection: Any, *, execute: Any = None, commit: Any = None, rollback: Any = None) -> None:
        self.connection = connection
        self._execute = execute or connection.execute
        self._commit = commit or connection.commit
        self._rollback = rollback or connection.rollback

    async def execute(self, sql: str) -> None:
        await _awaited(self._execute(sql))

    async def commit(self) -> None:
        await _awaited(self._commit())

    async def rollback(self) -> None:
        await _awaited(self._rollback())


class Driver(NamedTuple):
    """A driver, the store that it reaches, and how a transaction of it begins."""

    store: str
    blocking: bool
    open: Callable[[str], AbstractAsyncContextManager[Transaction]]
    """Takes the URL of the store."""


async def enqueue(job: Job[..., Any], connection: Any, /, *args: Any, **kwargs: Any) -> Handle[Any]:
    """Enqueue one job on a connection, in the way that suits it."""
    bound = job.options(connection=connection)
    if adapter_of(connection).blocking:
        return bound.enqueue_sync(*args, **kwargs).handle
    return await bound.enqueue(*args, **kwargs)


async def _awaited(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


def _path(url: str) -> str:
    return "/" + url.removeprefix("sqlite:///").lstrip("/")


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _asyncpg(url: str) -> AsyncIterator[Transaction]:
    connection = await asyncpg.connect(url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        yield Transaction(connection, commit=transaction.commit, rollback=transaction.rollback)
    finally:
        await connection.close()


@asynccontextmanager
async def _asyncpg_pool(url: str) -> AsyncIterator[Transaction]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Transaction(connection, commit=transaction.commit, rollback=transaction.rollback)
        if connection.is_in_transaction():
            await transaction.rollback()


@asynccontextmanager
async def _psycopg(url: str) -> AsyncIterator[Transaction]:
    connection = psycopg.connect(url)
    try:
        yield Transaction(connection)
    finally:
        connection.close()


@asynccontextmanager
async def _psycopg_async(url: str) -> AsyncIterator[Transaction]:
    connection = await psycopg.AsyncConnection.connect(url)
    try:
        yield Transaction(connection)
    finally:
        await connection.close()


# -- SQLite ------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _sqlite3(url: str) -> AsyncIterator[Transaction]:
    connection = sqlite3.connect(_path(url))
    try:
        yield Transaction(connection)
    finally:
        connection.close()


@asynccontextmanager
async def _aiosqlite(url: str) -> AsyncIterator[Transaction]:
    async with aiosqlite.connect(_path(url)) as connection:
        yield Transaction(connection)


# -- SQLAlchemy --------------------------------------------------------------------------------------------------------


def _sqlalchemy(scheme: str, *, session: bool) -> Callable[[str], AbstractAsyncContextManager[Transaction]]:
    @asynccontextmanager
    async def begin(url: str) -> AsyncIterator[Transaction]:
        engine = create_engine(f"{scheme}:{url.partition(':')[2]}")
        try:
            with Session(engine) if session else engine.connect() as connection:
                yield Transaction(connection, execute=lambda sql: connection.execute(text(sql)))
        finally:
            engine.dispose()

    return begin


def _sqlalchemy_async(scheme: str, *, session: bool) -> Callable[[str], AbstractAsyncContextManager[Transaction]]:
    @asynccontextmanager
    async def begin(url: str) -> AsyncIterator[Transaction]:
        engine = create_async_engine(f"{scheme}:{url.partition(':')[2]}")
        async with AsyncExitStack() as stack:
            stack.push_async_callback(engine.dispose)
            connection = await stack.enter_async_context(AsyncSession(engine) if session else engine.connect())
            yield Transaction(connection, execute=lambda sql: connection.execute(text(sql)))

    return begin


DRIVERS = {
    "asyncpg Connection": Driver("postgres", False, _asyncpg),
    "asyncpg Pool": Driver("postgres", False, _asyncpg_pool),
    "psycopg Connection": Driver("postgres", True, _psycopg),
    "psycopg AsyncConnection": Driver("postgres", False, _psycopg_async),
    "SQLAlchemy Session, psycopg": Driver("postgres", True, _sqlalchemy("postgresql+psycopg", session=True)),
    "SQLAlchemy Connection, psycopg": Driver("postgres", True, _sqlalchemy("postgresql+psycopg", session=False)),
    "SQLAlchemy Session, psycopg2": Driver("postgres", True, _sqlalchemy("postgresql+psycopg2", session=True)),
    "SQLAlchemy Connection, psycopg2": Driver("postgres", True, _sqlalchemy("postgresql+psycopg2", session=False)),
    "SQLAlchemy AsyncSession, asyncpg": Driver(
        "postgres", False, _sqlalchemy_async("postgresql+asyncpg", session=True)
    ),
    "SQLAlchemy AsyncConnection, asyncpg": Driver(
        "postgres", False, _sqlalchemy_async("postgresql+asyncpg", session=False)
    ),
    "SQLAlchemy AsyncSession, psycopg": Driver(
        "postgres", False, _sqlalchemy_async("postgresql+psycopg_async", session=True)
    ),
    "SQLAlchemy AsyncConnection, psycopg": Driver(
        "postgres", False, _sqlalchemy_async("postgresql+psycopg_async", session=False)
    ),
    "sqlite3 Connection": Driver("sqlite", True, _sqlite3),
    "aiosqlite Connection": Driver("sqlite", False, _aiosqlite),
    "SQLAlchemy Session, sqlite3": Driver("sqlite", True, _sqlalchemy("sqlite+pysqlite", session=True)),
    "SQLAlchemy Connection, sqlite3": Driver("sqlite", True, _sqlalchemy("sqlite+pysqlite", session=False)),
    "SQLAlchemy AsyncSession, aiosqlite": Driver("sqlite", False, _sqlalchemy_async("sqlite+aiosqlite", session=True)),
    "SQLAlchemy AsyncConnection, aiosqlite": Driver(
        "sqlite", False, _sqlalchemy_async("sqlite+aiosqlite", session=False)
    ),
}
"""Every supported driver, by the name that docs/transactions.md gives it."""
