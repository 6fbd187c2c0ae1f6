"""Creates and updates the file's tables. Any number of processes may do so at once: SQLite admits one writer."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

from interlock.backends.sqlite.connection import begin, connect, execute_when_free, translate_errors
from interlock.backends.statements import read_migrations
from interlock.errors import CapabilityError, SchemaMismatchError
from interlock.ports.migrations import Migration, SchemaStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.sqlite.file import DatabaseFile
    from interlock.clock import Clock

__all__ = ["SqliteMigrations"]

_TABLE = """
create table if not exists interlock_migration (
    version    integer primary key,
    name       text not null,
    applied_at real not null
)
"""
_OBJECTS = "select name, sql from sqlite_schema where name like 'interlock!_%' escape '!'"
_NOW = "(julianday('now') - 2440587.5) * 86400.0"


class SqliteMigrations:
    """Implements the migrations port for one file."""

    def __init__(self, file: DatabaseFile, wait: float, clock: Clock) -> None:
        self._file = file
        self._wait = wait
        self._clock = clock
        self._known = read_migrations("interlock.backends.sqlite", "schema")

    async def status(self) -> SchemaStatus:
        """Return what is applied and what is pending."""
        return SchemaStatus(tuple(await asyncio.to_thread(self._status)))

    async def up(self, *, restore: bool = False) -> SchemaStatus:
        """Apply what is pending. A file has no functions that ``restore`` could replace."""
        return SchemaStatus(tuple(await asyncio.to_thread(self._up)))

    async def verify(self) -> Sequence[str]:
        """Compare the file's tables and indexes with those that the migrations create."""
        return await asyncio.to_thread(self._verify)

    def script(self, steps: SchemaStatus | None = None) -> str:
        """Return the SQL of migrations, to be applied with other tools."""
        parts = [
            f"-- {m.version:04} {m.name}\n\n{m.sql.strip()}\n\n"
            f"insert into interlock_migration (version, name, applied_at) values ({m.version}, '{m.name}', {_NOW});\n\n"
            for m in (self._known if steps is None else steps.migrations)
        ]
        return f"begin immediate;\n{_TABLE.rstrip()};\n\n{''.join(parts)}commit;\n"

    def grants(self, *, workers: Sequence[str] = (), readers: Sequence[str] = (), enqueuers: Sequence[str] = ()) -> str:
        """Raise ``CapabilityError``: a file has no roles."""
        raise CapabilityError("A SQLite file has no roles.", remedy="Set the mode and owner of the file instead.")

    def _status(self) -> list[Migration]:
        if not self._file.path.exists():
            return list(self._known)
        with translate_errors(self._file.path):
            deadline = time.monotonic() + self._wait
            db = connect(self._file, deadline)
            try:
                return self._with_times(_applied(db, deadline))
            finally:
                db.close()

    def _up(self) -> list[Migration]:
        with translate_errors(self._file.path):
            self._file.create()
            deadline = time.monotonic() + self._wait
            db = connect(self._file, deadline)
            try:
                if len(_applied(db, deadline)) >= len(self._known):
                    return []
                begin(db, deadline)
                db.execute(_TABLE)
                applied = _applied(db, deadline)
                if applied and max(applied) > self._known[-1].version:
                    return []
                done = [migration for migration in self._known if migration.version not in applied]
                for migration in done:
                    self._apply(db, migration)
                db.execute("commit")
                return self._with_times(_applied(db, deadline))[-len(done) :] if done else []
            finally:
                db.close()

    def _verify(self) -> list[str]:
        status = SchemaStatus(tuple(self._status()))
        if status.pending is not None:
            return [f"The file lacks {status.pending}."]
        with translate_errors(self._file.path), closing(sqlite3.connect(":memory:")) as model:
            deadline = time.monotonic() + self._wait
            with closing(connect(self._file, deadline)) as db:
                newest = max(_applied(db, deadline))
                if newest > self._known[-1].version:
                    return [f"The file has migration {newest}, which is newer than this program's."]
                found = dict(execute_when_free(db, _OBJECTS, deadline).fetchall())
            model.execute(_TABLE)
            for migration in self._known:
                model.executescript(migration.sql)
            expected = dict(model.execute(_OBJECTS).fetchall())
        differing = {name for name, _ in expected.items() ^ found.items()}
        return [_difference(name, name in expected, name in found) for name in sorted(differing)]

    def _apply(self, db: sqlite3.Connection, migration: Migration) -> None:
        try:
            for statement in _split(migration.sql):
                db.execute(statement)
            db.execute(
                "insert into interlock_migration (version, name, applied_at) values (?, ?, ?)",
                (migration.version, migration.name, self._clock.now()),
            )
        except sqlite3.Error as error:
            raise SchemaMismatchError(
                f"Migration {migration.version} ({migration.name}) failed: {error}.",
                remedy="Nothing was changed. Look at: interlock migrate status.",
            ) from error

    def _with_times(self, applied: dict[int, float]) -> list[Migration]:
        return [Migration(m.version, m.name, m.sql, applied.get(m.version)) for m in self._known]


def _applied(db: sqlite3.Connection, deadline: float) -> dict[int, float]:
    if not execute_when_free(db, "select 1 from sqlite_schema where name = 'interlock_migration'", deadline).fetchone():
        return {}
    found = execute_when_free(db, "select version, applied_at from interlock_migration order by version", deadline)
    return dict(found.fetchall())


def _difference(name: str, expected: bool, found: bool) -> str:
    if expected and found:
        return f"{name} differs from this program's."
    return f"{name} is missing." if expected else f"{name} is not one of this program's."


def _split(script: str) -> list[str]:
    """Split a script into statements; executescript would commit the current transaction."""
    statements: list[str] = []
    current = ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements
