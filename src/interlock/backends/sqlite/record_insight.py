"""The read side of records in SQLite, and the declarations of their kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.backends.pacing import micros, seconds
from interlock.backends.record_slices import digest_of, scan_of, slice_of
from interlock.backends.sqlite.queries import RecordInsightQueries
from interlock.ports.record_insight import (
    MAX_DECLARATIONS,
    MAX_RECORDS_COUNTED,
    MAX_SCANNED,
    KindDeclaration,
    StatusCount,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from interlock.backends.sqlite.jobs import Run
    from interlock.clock import Clock
    from interlock.ports.record_insight import RecordSlice

__all__ = ["SqliteRecordInsight"]

_sql = RecordInsightQueries()


class SqliteRecordInsight:
    """Implements the record insight port."""

    def __init__(self, write: Run, read: Run, namespace: str, clock: Clock) -> None:
        self._write = write
        self._read = read
        self._namespace = namespace
        self._now = clock.now

    async def search(
        self,
        kind: str,
        *,
        status: str = "",
        contains: str = "",
        limit: int = 50,
        after: str = "",
        scan: int = MAX_SCANNED,
    ) -> RecordSlice:
        """List records of a kind by ID."""
        values: dict[str, Any] = {"namespace": self._namespace, "kind": kind, "after": after, "contains": contains}
        values |= {"scan": scan_of(contains, limit, scan), "limit": limit + 1}
        statement = _sql.search_any
        if status:
            values, statement = values | {"status": status}, _sql.search_status
        return slice_of(await self._read(lambda db: db.execute(statement, values).fetchall()), limit)

    async def counts(self, *, limit: int = 500, bound: int = MAX_RECORDS_COUNTED) -> Sequence[StatusCount]:
        """Count the records of each kind by status."""

        def count(db: sqlite3.Connection) -> list[StatusCount]:
            found: list[StatusCount] = []
            for (kind,) in db.execute(_sql.record_kinds, {"namespace": self._namespace}).fetchall():
                if len(found) >= limit:
                    break
                values = {"namespace": self._namespace, "kind": kind, "bound": bound}
                rows = db.execute(_sql.count_statuses, values | {"limit": limit - len(found)})
                found += [StatusCount(kind, *row) for row in rows]
            return found

        return await self._read(count)

    async def declare(self, kind: str, text: str) -> None:
        """Keep a declaration as the newest one."""
        key = {"namespace": self._namespace, "kind": kind}
        digest = digest_of(text)

        def newest(db: sqlite3.Connection) -> tuple[str, int] | None:
            return db.execute(_sql.newest_declaration, key).fetchone()  # type: ignore[no-any-return]

        def declare(db: sqlite3.Connection) -> None:
            last = newest(db)
            if last is not None and last[0] == digest:
                return
            at = max(micros(self._now()), 0 if last is None else last[1] + 1)
            db.execute(_sql.declare_kind, {**key, "digest": digest, "declaration": text, "at": at})
            db.execute(_sql.forget_declarations, {**key, "keep": MAX_DECLARATIONS})

        last = await self._read(newest)  # first, so that opening a program again writes nothing
        if last is None or last[0] != digest:
            await self._write(declare)

    async def declarations(self, kind: str = "") -> Sequence[KindDeclaration]:
        """Return the declarations, the newest of each kind first."""
        values = {"namespace": self._namespace, "kind": kind}
        rows = await self._read(lambda db: db.execute(_sql.declarations, values).fetchall())
        return [KindDeclaration(kind, text, seconds(first), seconds(last)) for kind, text, first, last in rows]
