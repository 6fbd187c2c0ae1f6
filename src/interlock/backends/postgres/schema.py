"""Brings the database's schema up to date. Safe from any number of processes at once: one advisory lock lets in one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg

from interlock.backends.postgres.lane import IDLE_TIMEOUT, LOCK_TIMEOUT, Server, translated
from interlock.backends.statements import read_functions, read_migrations
from interlock.errors import InvalidArgumentError, SchemaMismatchError
from interlock.ports.migrations import Migration

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PostgresMigrations"]

_LOCK = "select pg_advisory_xact_lock(1229870156, 1)"
_TABLE = """
create schema if not exists interlock;
create table if not exists interlock.migration (
    version    integer primary key,
    name       text not null,
    applied_at timestamptz not null default clock_timestamp()
)
"""
# Functions may refer to others that are created after them.
_LATE_BINDING = "set local check_function_bodies = off"
# The parts of the history for the first days; see job_make_days.
_FIRST_DAYS = "select interlock.job_make_days((extract(epoch from clock_timestamp()) * 1000000)::bigint)"
# PostgreSQL lets every role execute new functions; in this schema each role gets what it needs, see grants().
_REVOKE = "revoke all on all functions in schema interlock from public"
# They run with the rights of the schema's owner. Workers need them, roles that only read do not.
_OWNERS_FUNCTIONS = "interlock.job_make_days(bigint), interlock.job_drop_day(text, bigint), interlock.follow_timeline()"
_ENQUEUE = (
    "interlock.enqueue(text, jsonb, text, text, integer, double precision, timestamptz, jsonb, text, boolean,"
    " double precision, jsonb, text)"
)
# So that workers may vacuum.
_MAINTAIN = "grant maintain on all tables in schema interlock to {role}"
_GRANTS = {
    "worker": (
        "grant select, insert, update, delete on all tables in schema interlock to {role}",
        "revoke insert, update, delete on interlock.migration, interlock.timeline from {role}",
        "grant usage on all sequences in schema interlock to {role}",
        "grant execute on all functions in schema interlock to {role}",
        _MAINTAIN,
    ),
    "reader": (
        "grant select on all tables in schema interlock to {role}",
        "grant execute on all functions in schema interlock to {role}",
        f"revoke execute on function {_OWNERS_FUNCTIONS}, {_ENQUEUE} from {{role}}",
    ),
    "enqueuer": (f"grant execute on function {_ENQUEUE} to {{role}}",),
}
_MOST_NAME_BYTES = 63
_PATIENCE = 60.0  # with another process's migration
_EXISTS = "select to_regclass('interlock.migration') is not null"
_APPLIED = "select version, extract(epoch from applied_at)::float8 from interlock.migration order by version"


class PostgresMigrations:
    """Keeps the migrations port for one database."""

    def __init__(self, server: Server, wait: float) -> None:
        self._server = server
        self._wait = wait
        self._known = read_migrations("interlock.backends.postgres", "schema")
        self._functions = read_functions("interlock.backends.postgres")

    async def status(self) -> Sequence[Migration]:
        """What is applied and what is pending."""
        return await self._in_transaction(self._read, self._wait)

    async def up(self) -> Sequence[Migration]:
        """Apply what is pending."""
        return await self._in_transaction(self._apply, max(_PATIENCE, self._wait))

    def script(self, migrations: Sequence[Migration] | None = None) -> str:
        """The SQL of migrations, to be applied by hand."""
        steps = [
            f"-- {m.version:04} {m.name}\n\n{m.sql.strip()}\n\n"
            f"insert into interlock.migration (version, name) values ({m.version}, '{m.name}');\n\n"
            for m in (self._known if migrations is None else migrations)
        ]
        functions = "\n".join([f"{_LATE_BINDING};\n", *self._functions, f"{_FIRST_DAYS};\n"])
        return f"begin;\n\n{_LOCK};\n{_TABLE.rstrip()};\n\n{''.join(steps)}{functions}{_REVOKE};\n\ncommit;\n"

    def grants(self, *, workers: Sequence[str] = (), readers: Sequence[str] = (), enqueuers: Sequence[str] = ()) -> str:
        """The SQL that gives roles the rights they need, no more."""
        lines = [f"{_REVOKE};\n"]
        for kind, roles in (("worker", workers), ("reader", readers), ("enqueuer", enqueuers)):
            for name in roles:
                role = _identifier(name)
                lines.append(f"\n-- {kind}\ngrant usage on schema interlock to {role};\n")
                for statement in _GRANTS[kind]:
                    grant = statement.format(role=role)
                    lines.append(f"{_from_17_on(grant) if statement is _MAINTAIN else grant};\n")
        return f"begin;\n\n{''.join(lines)}\ncommit;\n"

    async def ensure(self) -> None:
        """See that the schema fits: an empty database is set up, an older schema is refused with the remedy.

        A newer one is taken: migrations keep what the code before them needs.
        """
        status = await self.status()
        pending = [migration for migration in status if migration.applied_at is None]
        if len(pending) == len(status):
            await self.up()
        elif pending:
            names = ", ".join(f"{migration.version} {migration.name}" for migration in pending)
            raise SchemaMismatchError(f"The database lacks: {names}.")

    async def _in_transaction(self, do: Any, wait: float) -> list[Migration]:
        with translated():
            connection = await self._server.connect(self._wait)
            try:
                async with asyncio.timeout(wait), connection.transaction():
                    await connection.execute(f"set local idle_in_transaction_session_timeout = '{IDLE_TIMEOUT}'")
                    return await do(connection)  # type: ignore[no-any-return]
            finally:
                connection.terminate()

    async def _read(self, connection: Any) -> list[Migration]:
        applied: dict[int, float] = {}
        if await connection.fetchval(_EXISTS):
            applied = {row[0]: row[1] for row in await connection.fetch(_APPLIED)}
        return [Migration(m.version, m.name, m.sql, applied.get(m.version)) for m in self._known]

    async def _apply(self, connection: Any) -> list[Migration]:
        await connection.execute("set local statement_timeout = 0")
        # Another process may migrate for longer than anybody else may wait for a lock.
        await connection.execute("set local lock_timeout = 0")
        await connection.execute(_LOCK)
        await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
        await connection.execute(_TABLE)
        done = [migration for migration in await self._read(connection) if migration.applied_at is None]
        for migration in done:
            try:
                await connection.execute(migration.sql)
            except asyncpg.InsufficientPrivilegeError:
                raise
            except asyncpg.PostgresError as error:
                raise SchemaMismatchError(
                    f"Migration {migration.version} ({migration.name}) failed: {error}.",
                    remedy="Nothing was changed. Look at: interlock migrate status.",
                ) from error
            await connection.execute(
                "insert into interlock.migration (version, name) values ($1, $2)",
                migration.version,
                migration.name,
            )
        if done:
            await connection.execute(_LATE_BINDING)
            await connection.execute("\n".join(self._functions))
            await connection.execute(_FIRST_DAYS)
            await connection.execute(_REVOKE)
        applied = {migration.version for migration in done}
        return [migration for migration in await self._read(connection) if migration.version in applied]


def _identifier(name: str) -> str:
    """A role's name as SQL."""
    if not name or "\0" in name or len(name.encode()) > _MOST_NAME_BYTES:
        raise InvalidArgumentError(f"Invalid role name {name!r}.", remedy="Use 1 to 63 bytes.")
    return '"' + name.replace('"', '""') + '"'


def _from_17_on(statement: str) -> str:
    """A statement that servers before PostgreSQL 17 do not know."""
    condition = "current_setting('server_version_num')::integer >= 170000"
    return f"do {_literal(f'begin if {condition} then execute {_literal(statement)}; end if; end')}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
