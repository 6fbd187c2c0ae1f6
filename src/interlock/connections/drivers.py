"""One adapter for each driver. None of them imports its driver before a connection of that driver is used."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from interlock.errors import MisuseError
from interlock.ports.transactions import Statement

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from interlock.connections.adapters import Adapter
    from interlock.ports.transactions import Step, Work

__all__ = [
    "aiosqlite_adapter",
    "asyncpg_adapter",
    "check_database",
    "check_open",
    "describe",
    "psycopg_adapter",
    "run_work",
    "sqlalchemy_adapter",
    "sqlite3_adapter",
]

_PLACEHOLDER = re.compile(r"\$(\d+)")
_DIALECTS = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}
_SAVEPOINT = "interlock_enqueue"


def describe(connection: object) -> str:
    """Name the class of a connection, for messages."""
    kind = type(connection)
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}" if kind.__module__ != "builtins" else repr(kind)


def check_database(step: Step, found: str, connection: object) -> None:
    """Raise an error if a connection leads to another kind of database than a step is for."""
    if step.database != found:
        raise MisuseError(
            f"connection= got {describe(connection)}, which is connected to {found}, but the app's store is in"
            f" {step.database}.",
            remedy="Pass a connection to the app's own database.",
        )


def check_open(connection: object, *, closed: bool) -> None:
    """Raise an error for a connection that is closed."""
    if closed:
        raise MisuseError(
            f"The connection ({describe(connection)}) is closed.", remedy="Pass a connection that is open."
        )


# -- asyncpg -----------------------------------------------------------------------------------------------------------


def asyncpg_adapter(connection: Any) -> Adapter | None:
    """Return the adapter for a connection of asyncpg, also of its pool."""
    names = {cls.__name__ for cls in type(connection).__mro__}
    return _Asyncpg(connection) if names & {"Connection", "PoolConnectionProxy"} else None


class _Asyncpg:
    blocking = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def perform(self, step: Step) -> Any:
        import asyncpg

        check_database(step, "PostgreSQL", self._connection)
        assert isinstance(step, Statement)
        try:
            closed = self._connection.is_closed()
        except asyncpg.InterfaceError:  # it was returned to its pool
            closed = True
        check_open(self._connection, closed=closed)
        return await self._connection.fetch(step.sql, *step.values)


# -- psycopg 3 ---------------------------------------------------------------------------------------------------------


def psycopg_adapter(connection: Any) -> Adapter | None:
    """Return the adapter for a connection of psycopg, asynchronous or not."""
    names = {cls.__name__ for cls in type(connection).__mro__}
    if "AsyncConnection" in names:
        return _AsyncPsycopg(connection)
    return _Psycopg(connection) if "Connection" in names else None


class _Psycopg:
    blocking = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def perform(self, step: Step) -> Any:
        from psycopg.rows import tuple_row

        sql, values = _psycopg_statement(self._connection, step)
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(sql, values).fetchall()


class _AsyncPsycopg:
    blocking = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def perform(self, step: Step) -> Any:
        from psycopg.rows import tuple_row

        sql, values = _psycopg_statement(self._connection, step)
        async with self._connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(sql, values)
            return await cursor.fetchall()


def _psycopg_statement(connection: Any, step: Step) -> tuple[str, dict[str, str | None]]:
    check_database(step, "PostgreSQL", connection)
    assert isinstance(step, Statement)
    check_open(connection, closed=bool(connection.closed))
    return _by_name(step)


def _by_name(step: Statement) -> tuple[str, dict[str, str | None]]:
    """Return the statement and its values with psycopg's placeholders, by name."""
    values = {f"p{number}": value for number, value in enumerate(step.values, 1)}
    return _PLACEHOLDER.sub(r"%(p\1)s", step.sql), values


# -- sqlite3 -----------------------------------------------------------------------------------------------------------


def sqlite3_adapter(connection: Any) -> Adapter | None:
    """Return the adapter for a connection of the standard library's module."""
    import sqlite3

    return _Sqlite3(connection) if isinstance(connection, sqlite3.Connection) else None


class _Sqlite3:
    blocking = True

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def perform(self, step: Step) -> Any:
        check_database(step, "SQLite", self._connection)
        assert not isinstance(step, Statement)
        return run_work(self._connection, step)


class _Tuples:
    """A SQLite connection whose rows are tuples, even if the caller has set a row factory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /) -> sqlite3.Cursor:
        return self._cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        return self._cursor().executemany(sql, parameters)

    def _cursor(self) -> sqlite3.Cursor:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor


def run_work(connection: sqlite3.Connection, work: Work) -> Any:
    """Do the work in the connection's transaction, all or nothing.

    If there is none, begin one: left open for the caller's ``commit()`` if the connection is of the kind that begins
    transactions by itself, and committed here if it commits each statement.
    """
    import sqlite3

    try:
        inside = connection.in_transaction
    except sqlite3.ProgrammingError as error:
        if "closed" not in str(error):
            raise
        check_open(connection, closed=True)
        raise
    database = _Tuples(connection)
    database.execute(f"savepoint {_SAVEPOINT}" if inside else "begin immediate")
    try:
        result = work.run(database)
        if inside:
            database.execute(f"release {_SAVEPOINT}")
        elif _commits_each_statement(connection):
            database.execute("commit")
    except BaseException:
        if connection.in_transaction:  # some errors have already rolled everything back
            for statement in (f"rollback to {_SAVEPOINT}", f"release {_SAVEPOINT}") if inside else ("rollback",):
                database.execute(statement)
        raise
    return result


def _commits_each_statement(connection: sqlite3.Connection) -> bool:
    # The attribute exists from Python 3.12 on; -1 means that isolation_level decides, as before.
    autocommit = getattr(connection, "autocommit", -1)
    return connection.isolation_level is None if autocommit == -1 else bool(autocommit)


# -- aiosqlite ---------------------------------------------------------------------------------------------------------


def aiosqlite_adapter(connection: Any) -> Adapter | None:
    """Return the adapter for a connection of aiosqlite."""
    return _Aiosqlite(connection) if any(cls.__name__ == "Connection" for cls in type(connection).__mro__) else None


class _Aiosqlite:
    blocking = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def perform(self, step: Step) -> Any:
        check_database(step, "SQLite", self._connection)
        assert not isinstance(step, Statement)
        return await _on_its_thread(self._connection, step)


async def _on_its_thread(connection: Any, work: Work) -> Any:
    """Do the work on the thread of a connection of aiosqlite, as one call: its public methods are a statement each."""
    try:
        own = connection._conn  # noqa: SLF001 - tests/packaging checks that these exist
    except ValueError:  # it was closed, or never opened
        check_open(connection, closed=True)
        raise
    return await connection._execute(run_work, own, work)  # noqa: SLF001


# -- SQLAlchemy --------------------------------------------------------------------------------------------------------


def sqlalchemy_adapter(connection: Any) -> Adapter | None:
    """Return the adapter for a session or connection of SQLAlchemy, asynchronous or not, over any supported driver."""
    names = {cls.__name__ for cls in type(connection).__mro__}
    if names & {"scoped_session", "async_scoped_session"}:
        connection = connection()
        names = {cls.__name__ for cls in type(connection).__mro__}
    if names & {"AsyncSession", "AsyncConnection"}:
        return _AsyncSqlalchemy(connection)
    return _Sqlalchemy(connection) if names & {"Session", "Connection"} else None


class _Sqlalchemy:
    blocking = True

    def __init__(self, transaction: Any) -> None:
        self._transaction = transaction

    def perform(self, step: Step) -> Any:
        return _perform_sqlalchemy(self._transaction, step)


class _AsyncSqlalchemy:
    blocking = False

    def __init__(self, transaction: Any) -> None:
        self._transaction = transaction

    def perform(self, step: Step) -> Awaitable[Any]:
        closed = getattr(self._transaction, "closed", False)
        check_open(self._transaction, closed=closed is True)
        return self._transaction.run_sync(_perform_sqlalchemy, step)  # type: ignore[no-any-return]


def _perform_sqlalchemy(transaction: Any, step: Step) -> Any:
    connection = transaction if hasattr(transaction, "exec_driver_sql") else transaction.connection()
    check_open(connection, closed=connection.closed)
    dialect = connection.dialect
    check_database(step, _DIALECTS.get(dialect.name, dialect.name), transaction)
    if isinstance(step, Statement):
        statement = (step.sql, step.values) if dialect.driver == "asyncpg" else _by_name(step)
        return connection.exec_driver_sql(*statement).fetchall()
    connection.exec_driver_sql("select 1")  # so that SQLAlchemy knows of a transaction to commit
    raw = connection.connection.dbapi_connection
    if hasattr(raw, "run_async"):  # aiosqlite
        return raw.run_async(lambda own: _on_its_thread(own, step))
    return run_work(raw, step)
