"""The read side of records in PostgreSQL, and the declarations of their kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.pacing import seconds
from interlock.backends.postgres.clock import clock_of
from interlock.backends.postgres.queries import RecordInsightQueries
from interlock.backends.record_slices import digest_of, scan_of, slice_of
from interlock.ports.record_insight import (
    MAX_DECLARATIONS,
    MAX_RECORDS_COUNTED,
    MAX_SCANNED,
    KindDeclaration,
    StatusCount,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.postgres.connection import OrderedConnection
    from interlock.clock import Clock
    from interlock.ports.record_insight import RecordSlice

__all__ = ["PostgresRecordInsight"]

_sql = RecordInsightQueries()


class PostgresRecordInsight:
    """Implements the record insight port."""

    def __init__(self, write: OrderedConnection, read: OrderedConnection, namespace: str, clock: Clock | None) -> None:
        self._write = write
        self._read = read
        self._namespace = namespace
        self._clock = clock_of(clock)

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
        args = (self._namespace, kind, after, scan_of(contains, limit, scan), contains, limit + 1)
        if status:
            rows = await self._read.fetch(_sql.search_status, *args, status)
        else:
            rows = await self._read.fetch(_sql.search_any, *args)
        return slice_of(rows, limit)

    async def counts(self, *, limit: int = 500, bound: int = MAX_RECORDS_COUNTED) -> Sequence[StatusCount]:
        """Count the records of each kind by status."""
        rows = await self._read.fetch(_sql.counts, self._namespace, bound, limit)
        return [StatusCount(*row) for row in rows]

    async def declare(self, kind: str, text: str) -> None:
        """Keep a declaration as the newest one."""
        digest = digest_of(text)
        newest = await self._read.fetch(_sql.newest_declaration, self._namespace, kind)
        if not newest or newest[0][0] != digest:  # so that opening a program again writes nothing
            args = (kind, digest, text, self._clock(), MAX_DECLARATIONS)
            await self._write.fetch(_sql.declare, self._namespace, *args)

    async def declarations(self, kind: str = "") -> Sequence[KindDeclaration]:
        """Return the declarations, the newest of each kind first."""
        rows = await self._read.fetch(_sql.declarations, self._namespace, kind)
        return [KindDeclaration(kind, text, seconds(first), seconds(last)) for kind, text, first, last in rows]
