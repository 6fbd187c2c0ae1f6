"""The journal in SQLite. An entry is written in the transaction of the change that it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.backends.pacing import micros, seconds
from interlock.backends.sqlite.queries import JournalQueries
from interlock.ports.journal import JournalEntry, JournalFilter, JournalPosition, NewEntry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from interlock.backends.sqlite.jobs import Run
    from interlock.clock import Clock

__all__ = ["SqliteJournal", "add_entry"]

_LATEST = 2**63 - 1


_sql = JournalQueries()


def add_entry(db: sqlite3.Connection, namespace: str, now: float, entry: NewEntry) -> int:
    """Write an entry in the current transaction; ``now`` is in seconds."""
    values: dict[str, Any] = {**entry._asdict(), **entry.attribution._asdict()}
    del values["attribution"]
    (id,) = db.execute(_sql.add, values | {"namespace": namespace, "at": micros(now)}).fetchone()  # noqa: A001
    return int(id)


class SqliteJournal:
    """Implements the journal port. Reads never wait for writers."""

    def __init__(self, write: Run, read: Run, namespace: str, clock: Clock) -> None:
        self._write = write
        self._read = read
        self._namespace = namespace
        self._now = clock.now

    async def add(self, entry: NewEntry) -> int:
        """Add the entry of a change that is made in another store."""
        return await self._write(lambda db: add_entry(db, self._namespace, self._now(), entry))

    async def get(self, id: int) -> JournalEntry | None:  # noqa: A002
        """Get one entry."""
        rows = await self._fetch(_sql.get, {"id": id})
        return rows[0] if rows else None

    async def list(
        self,
        filter: JournalFilter,  # noqa: A002
        *,
        limit: int = 100,
        before: JournalPosition | None = None,
    ) -> Sequence[JournalEntry]:
        """List entries, newest first."""
        statement = _sql.list_subject if filter.subject_key else _sql.list_actor if filter.actor else _sql.list_any
        at, id = (_LATEST, _LATEST) if before is None else (micros(before.at), before.id)  # noqa: A001
        since = 0 if filter.since is None else micros(filter.since)
        values = {**filter._asdict(), "since": since, "before_at": at, "before_id": id, "limit": limit}
        return await self._fetch(statement, values)

    async def prune(self, keep: float, *, limit: int = 10_000) -> int:
        """Delete entries past their retention."""
        values = {"namespace": self._namespace, "before": micros(self._now() - keep), "limit": limit}
        return await self._write(lambda db: db.execute(_sql.prune, values).rowcount)

    async def _fetch(self, statement: str, values: dict[str, Any]) -> Sequence[JournalEntry]:
        values = {"namespace": self._namespace, **values}
        return await self._read(lambda db: [_entry(row) for row in db.execute(statement, values)])


def _entry(row: Sequence[Any]) -> JournalEntry:
    id, at, *rest = row  # noqa: A001
    return JournalEntry(id, seconds(at), *rest)
