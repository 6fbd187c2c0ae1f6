"""Apply and verify the schema of a database: numbered migrations of its tables, and one set of functions.

Any number of processes may do so at once: an advisory lock admits one at a time. The rules for changing functions are
in docs/decisions/0042-the-function-set-has-a-version.md.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

from interlock.backends.postgres import function_set
from interlock.backends.postgres.errors import translated
from interlock.backends.postgres.session_settings import IDLE_TIMEOUT, LOCK_TIMEOUT
from interlock.backends.statements import read_migrations
from interlock.errors import InvalidArgumentError, SchemaMismatchError
from interlock.ports.migrations import FunctionSet, Migration, SchemaStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from typing import TypeVar

    from interlock.backends.postgres.function_set import Function
    from interlock.backends.postgres.server import Server

    T = TypeVar("T")

__all__ = ["PostgresMigrations"]

_LOCK = "select pg_advisory_xact_lock(1229870156, 1)"
_TABLES = """
create schema if not exists interlock;
create table if not exists interlock.migration (
    version    integer primary key,
    name       text not null,
    checksum   text not null,
    applied_at timestamptz not null default clock_timestamp()
);
-- The function sets that were applied. The one with the highest version is in place.
create table if not exists interlock.function_set (
    version    integer primary key,
    checksum   text not null,
    applied_at timestamptz not null default clock_timestamp()
)
"""
# Functions may refer to others that are created after them.
_LATE_BINDING = "set local check_function_bodies = off"
# Partitions of the history for the first days; see job_make_days.
_FIRST_DAYS = "select interlock.job_make_days((extract(epoch from clock_timestamp()) * 1000000)::bigint)"
# PostgreSQL lets every role execute new functions; in this schema each role gets what it needs, see grants().
_REVOKE = "revoke all on all functions in schema interlock from public"
# These run with the rights of the schema's owner. Workers need them, roles that only read do not.
_OWNERS_FUNCTIONS = "interlock.job_make_days(bigint), interlock.job_drop_day(text, bigint), interlock.follow_timeline()"
_ENQUEUE = (
    "interlock.enqueue(text, jsonb, text, text, integer, double precision, timestamptz, jsonb, text, boolean,"
    " double precision, jsonb, text, text, double precision, bigint[], text, double precision, timestamptz),"
    " interlock.enqueue_many(json, text, double precision), interlock.enqueue_jobs(json, text, double precision, text)"
)
# So that workers may vacuum.
_MAINTAIN = "grant maintain on all tables in schema interlock to {role}"
_GRANTS = {
    "worker": (
        "grant select, insert, update, delete on all tables in schema interlock to {role}",
        "revoke insert, update, delete on interlock.migration, interlock.function_set, interlock.timeline from {role}",
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
_MAX_NAME_BYTES = 63
_MIGRATION_WAIT = 60.0  # how long to wait for another process that migrates
_EXISTS = "select to_regclass('interlock.migration') is not null"
_APPLIED = "select version, checksum, extract(epoch from applied_at)::float8 from interlock.migration"
_APPLIED_FUNCTIONS = """
select version, checksum, extract(epoch from applied_at)::float8 from interlock.function_set
order by version desc limit 1
"""
# The same as interlock.store_identity(), which an older schema does not have.
_IDENTITY = """
select concat_ws('.', (select d.oid from pg_catalog.pg_database d where d.datname = current_database()),
                 (select (extract(epoch from m.applied_at) * 1000000)::bigint from interlock.migration m
                  where m.version = 1))
"""
_NOTE_MIGRATION = "insert into interlock.migration (version, name, checksum) values ({version}, '{name}', '{checksum}')"
_NOTE_FUNCTIONS = """
insert into interlock.function_set (version, checksum) values ({version}, '{checksum}')
on conflict (version) do update set checksum = excluded.checksum, applied_at = excluded.applied_at
"""
_FUNCTIONS = """
select p.proname, p.prosrc, l.lanname, p.provolatile, p.prosecdef, p.proconfig
from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang
where p.pronamespace = 'interlock'::regnamespace order by p.proname
"""
_VOLATILITY = {b"v": "volatile", b"s": "stable", b"i": "immutable"}


class _Applied(NamedTuple):
    """A migration or function set that the database records."""

    version: int
    checksum: str
    at: float


class PostgresMigrations:
    """Implements the migrations port for one database."""

    def __init__(self, server: Server, wait: float) -> None:
        self._server = server
        self._wait = wait
        self._known = read_migrations("interlock.backends.postgres", "schema")

    async def status(self) -> SchemaStatus:
        """Return what is applied and what is pending."""
        return await self._in_transaction(self.read, self._wait)

    async def up(self, *, restore: bool = False) -> SchemaStatus:
        """Apply what is pending; with ``restore`` also replace functions that were altered."""

        async def apply(connection: Any) -> SchemaStatus:
            return await self._apply(connection, restore=restore)

        return await self._in_transaction(apply, max(_MIGRATION_WAIT, self._wait))

    async def verify(self) -> Sequence[str]:
        """Compare the database with the files: migrations by their checksums, functions by what the server stores."""
        return await self._in_transaction(self._verify, self._wait)

    def script(self, steps: SchemaStatus | None = None) -> str:
        """Return the SQL of migrations and functions, to be applied with other tools."""
        steps = steps or SchemaStatus(tuple(self._known), self._functions(None))
        parts = [f"{_LOCK};\n{_TABLES.strip()};\n"]
        for migration in steps.migrations:
            note = _NOTE_MIGRATION.format(version=migration.version, name=migration.name, checksum=migration.checksum)
            parts.append(f"-- {migration.version:04} {migration.name}\n\n{migration.sql.strip()}\n\n{note};\n")
        if steps.functions is not None:
            parts.append(f"-- functions {steps.functions.version}\n\n{_LATE_BINDING};\n")
            parts += [f"{function.comment}{function.statement}" for function in function_set.read_functions()]
            parts.append(f"{_note_functions(steps.functions)};\n")
            parts.append(f"{_FIRST_DAYS};\n")
        return "\n".join(["begin;\n", *parts, f"{_REVOKE};\n", "commit;\n"])

    def grants(self, *, workers: Sequence[str] = (), readers: Sequence[str] = (), enqueuers: Sequence[str] = ()) -> str:
        """Return the SQL that grants roles the rights they need, and no more."""
        lines = [f"{_REVOKE};\n"]
        for kind, roles in (("worker", workers), ("reader", readers), ("enqueuer", enqueuers)):
            for name in roles:
                role = _identifier(name)
                lines.append(f"\n-- {kind}\ngrant usage on schema interlock to {role};\n")
                for statement in _GRANTS[kind]:
                    grant = statement.format(role=role)
                    lines.append(f"{_from_17_on(grant) if statement is _MAINTAIN else grant};\n")
        return f"begin;\n\n{''.join(lines)}\ncommit;\n"

    async def ensure(self, status: SchemaStatus) -> None:
        """Set up an empty database; refuse an older schema, and functions that are older or were altered.

        A newer schema and newer functions are accepted: they keep what the program before them needs.
        """
        if status.empty:
            await self.up()
        elif status.pending is not None:
            raise SchemaMismatchError(f"The database lacks {status.pending}.")
        elif status.functions is not None:
            _refuse_altered(status.functions)

    async def _in_transaction(self, do: Callable[[Any], Awaitable[T]], wait: float) -> T:
        with translated():
            connection = await self._server.connect(self._wait)
            try:
                async with asyncio.timeout(wait), connection.transaction():
                    await connection.execute(f"set local idle_in_transaction_session_timeout = '{IDLE_TIMEOUT}'")
                    return await do(connection)
            finally:
                connection.terminate()

    async def identity(self) -> str:
        """Return what distinguishes this database from others."""
        return await self._in_transaction(self.read_identity, self._wait)

    async def read_identity(self, connection: Any) -> str:
        """The same, read in the connection's transaction."""
        return str(await connection.fetchval(_IDENTITY))

    async def read(self, connection: Any) -> SchemaStatus:
        """Return what is applied and what is pending, read in the connection's transaction."""
        applied: dict[int, _Applied] = {}
        functions: _Applied | None = None
        if await connection.fetchval(_EXISTS):
            applied = {row[0]: _Applied(*row) for row in await connection.fetch(_APPLIED)}
            row = await connection.fetchrow(_APPLIED_FUNCTIONS)
            functions = None if row is None else _Applied(*row)
        migrations = (
            Migration(m.version, m.name, m.sql, applied[m.version].at if m.version in applied else None)
            for m in self._known
        )
        return SchemaStatus(tuple(migrations), self._functions(functions))

    def _functions(self, applied: _Applied | None) -> FunctionSet:
        version, checksum = function_set.current_version()
        return FunctionSet(version, checksum, *(applied or ()))

    async def _apply(self, connection: Any, *, restore: bool) -> SchemaStatus:
        await connection.execute("set local statement_timeout = 0")
        # Another process's migration may take longer than anything else may wait for a lock.
        await connection.execute("set local lock_timeout = 0")
        await connection.execute(_LOCK)
        await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
        await connection.execute(_TABLES)
        before = await self.read(connection)
        pending = [migration for migration in before.migrations if migration.applied_at is None]
        for migration in pending:
            await _execute(connection, migration.sql, f"Migration {migration.version} ({migration.name})")
            await connection.execute(
                _NOTE_MIGRATION.format(version=migration.version, name=migration.name, checksum=migration.checksum)
            )
        replaced = before.functions
        if replaced is not None and replaced.state == "altered" and not restore:
            _refuse_altered(replaced)
        if replaced is not None and replaced.state in ("pending", "altered"):
            await connection.execute(_LATE_BINDING)
            statements = "\n".join(function.statement for function in function_set.read_functions())
            await _execute(connection, statements, f"Function set {replaced.version}")
            await connection.execute(_note_functions(replaced))
            await connection.execute(_FIRST_DAYS)
            await connection.execute(_REVOKE)
        else:
            replaced = None
        after = await self.read(connection)
        versions = {migration.version for migration in pending}
        migrations = tuple(migration for migration in after.migrations if migration.version in versions)
        return SchemaStatus(migrations, replaced and after.functions)

    async def _verify(self, connection: Any) -> list[str]:
        status = await self.read(connection)
        if status.pending is not None:
            return [f"The database lacks {status.pending}."]
        recorded = {row[0]: row[1] for row in await connection.fetch(_APPLIED)}
        found = [
            f"Migration {migration.version} ({migration.name}) was applied from another file than this program's."
            for migration in status.migrations
            if recorded[migration.version] != migration.checksum
        ]
        functions = status.functions
        if functions is not None and functions.state == "newer":
            found.append(
                f"The database has function set {functions.applied_version}, which is newer than this program's."
            )
            return found
        if functions is not None and functions.state == "altered":
            found.append(f"Function set {functions.version} was applied from other files than this program's.")
        return found + _differences(function_set.read_functions(), await connection.fetch(_FUNCTIONS))


def _differences(expected: Iterable[Function], rows: Sequence[Any]) -> list[str]:
    """Compare functions with the rows that the server has of them."""
    stored: dict[str, list[Any]] = {}
    for name, *row in rows:
        stored.setdefault(name, []).append(row)
    found = []
    for function in expected:
        copies = stored.pop(function.name, [])
        if not copies:
            found.append(f"Function {function.name} is missing.")
        elif len(copies) > 1:
            found.append(f"Function {function.name} exists with {len(copies)} signatures instead of one.")
        else:
            body, language, volatility, definer, settings = copies[0]
            kept = (body, language, _VOLATILITY[volatility], definer, frozenset(settings or ()))
            if kept != (
                *(function.body, function.language, function.volatility),
                *(function.security_definer, function.settings),
            ):
                found.append(f"Function {function.name} differs from this program's.")
    return found + [f"Function {name} is not one of this program's." for name in stored]


def _refuse_altered(functions: FunctionSet) -> None:
    if functions.state == "altered":
        raise SchemaMismatchError(
            f"The database's functions were altered: they have version {functions.version}, as this program's, and"
            " another checksum.",
            remedy="Run `interlock migrate verify` to see which differ, and `interlock migrate up --restore` to replace"
            " them with this program's.",
        )


async def _execute(connection: Any, sql: str, what: str) -> None:
    try:
        await connection.execute(sql)
    except asyncpg.InsufficientPrivilegeError:
        raise
    except asyncpg.PostgresError as error:
        raise SchemaMismatchError(
            f"{what} failed: {error}.", remedy="Nothing was changed. Check: interlock migrate status."
        ) from error


def _note_functions(functions: FunctionSet) -> str:
    return _NOTE_FUNCTIONS.format(version=functions.version, checksum=functions.checksum).strip()


def _identifier(name: str) -> str:
    """Quote a role's name."""
    if not name or "\0" in name or len(name.encode()) > _MAX_NAME_BYTES:
        raise InvalidArgumentError(f"Invalid role name {name!r}.", remedy="Use 1 to 63 bytes.")
    return '"' + name.replace('"', '""') + '"'


def _from_17_on(statement: str) -> str:
    """Wrap a statement that servers before PostgreSQL 17 do not support, so that they skip it."""
    condition = "current_setting('server_version_num')::integer >= 170000"
    return f"do {_literal(f'begin if {condition} then execute {_literal(statement)}; end if; end')}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
