"""The journal in SQLite. An entry is written in the transaction of the change that it describes."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from interlock.backends.journal_range import JournalRange
from interlock.backends.pacing import micros, seconds
from interlock.backends.sqlite.queries import JournalQueries
from interlock.errors import StoreError
from interlock.ports.journal import Batch, JournalEntry, JournalStatus, Seal, Unsealed, Verification

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from interlock.backends.sqlite.jobs import Run
    from interlock.clock import Clock
    from interlock.ports.journal import EntryRow, JournalFilter, JournalPosition, NewEntry

__all__ = ["SqliteJournal", "add_entry"]

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
        values = {**filter._asdict(), **JournalRange.of(filter, before)._asdict(), "limit": limit}
        return await self._fetch(_statement(filter), values)

    async def prune(self, keep: float, *, limit: int = 10_000) -> int:
        """Delete the entries of sealed batches past their retention."""
        now = micros(self._now())
        values = {"namespace": self._namespace, "before": now - micros(keep), "limit": limit, "now": now}

        def prune(db: sqlite3.Connection) -> int:
            first, last = db.execute(_sql.prunable, values).fetchone()
            if first is None:
                return 0
            span = values | {"first": first, "last": last}
            removed = db.execute(_sql.prune_entries, span).rowcount
            db.execute(_sql.prune_seals, span)
            return removed

        return await self._write(prune)

    async def unsealed(self, limit: int, *, after: int = 0) -> Unsealed:
        """Return the entries that have no batch, and the newest seal."""
        values = {"namespace": self._namespace, "limit": limit, "after": after}

        def look(db: sqlite3.Connection) -> Unsealed:
            head = _head(db, values)
            with _any_text(db):
                rows = db.execute(_sql.unsealed, values).fetchall()
            return Unsealed(micros(self._now()), self._namespace, head, rows)

        return await self._read(look)

    async def seal(self, seal: Seal, ids: Sequence[int]) -> bool:
        """Write a seal and the batch of its entries."""
        values = {"namespace": self._namespace, **seal._asdict(), "ids": json.dumps(list(ids))}

        def write(db: sqlite3.Connection) -> bool:
            if db.execute(_sql.add_seal, values).rowcount == 0:
                return False
            sealed = db.execute(_sql.set_batch, values).rowcount
            if sealed != seal.size:
                raise StoreError(
                    f"{seal.size - sealed} of {seal.size} entries of journal batch {seal.batch} are gone or have a"
                    " batch.",
                    remedy="Find out what changes the journal's table besides Interlock: interlock journal verify.",
                )
            return True

        return await self._write(write)

    async def batches(self, after: int, limit: int) -> Sequence[Batch]:
        """Return batches with what is stored of them."""
        values = {"namespace": self._namespace, "after": after, "limit": limit}

        def look(db: sqlite3.Connection) -> Sequence[Batch]:
            found = {row[0]: Batch(Seal(*row), []) for row in db.execute(_sql.seals, values)}
            rows: dict[Any, list[EntryRow]] = {batch: [] for batch in found}
            if found:  # of the same moment: a read has one snapshot
                span = {"namespace": self._namespace, "first": min(found), "last": max(found)}
                with _any_text(db):
                    for batch, *row in db.execute(_sql.entries, span):
                        if batch in rows:
                            rows[batch].append(tuple(row))
            return [batch._replace(rows=rows[number]) for number, batch in found.items()]

        return await self._read(look)

    async def strays(self, limit: int = 100) -> Sequence[tuple[Any, int]]:
        """Return entries whose batch has no seal."""
        values = {"namespace": self._namespace, "limit": limit}
        return await self._read(lambda db: db.execute(_sql.strays, values).fetchall())

    async def status(self) -> JournalStatus:
        """Return how far the journal is sealed and verified."""
        values = {"namespace": self._namespace}

        def look(db: sqlite3.Connection) -> JournalStatus:
            unsealed, since, pruned = db.execute(_sql.status, values).fetchone()
            row = db.execute(_sql.verification, values).fetchone()
            last = None if row is None else Verification(seconds(row[0]), *row[1:])
            at = None if since is None else seconds(since)
            return JournalStatus(self._namespace, unsealed, at, _head(db, values), pruned, last)

        return await self._read(look)

    async def verified(self, verification: Verification) -> None:
        """Keep the result of a verification."""
        values = {**verification._asdict(), "namespace": self._namespace, "at": micros(self._now())}
        await self._write(lambda db: db.execute(_sql.verified, values))

    async def _fetch(self, statement: str, values: dict[str, Any]) -> Sequence[JournalEntry]:
        values = {"namespace": self._namespace, **values}
        return await self._read(lambda db: [_entry(row) for row in db.execute(statement, values)])


def _statement(wanted: JournalFilter) -> str:
    """The query with the access path that narrows a filter most."""
    if wanted.subject_key:
        return _sql.list_subject
    if wanted.cause_job is not None:
        return _sql.list_cause_job
    if wanted.cause_event is not None:
        return _sql.list_cause_event
    return _sql.list_actor if wanted.actor else _sql.list_any


def _head(db: sqlite3.Connection, values: dict[str, Any]) -> Seal | None:
    row = db.execute(_sql.head, values).fetchone()
    return None if row is None else Seal(*row)


@contextmanager
def _any_text(db: sqlite3.Connection) -> Iterator[None]:
    """Read text that is not UTF-8 too: a byte that someone changed must be found, not fail the verification."""
    factory = db.text_factory
    db.text_factory = lambda value: value.decode("utf-8", "surrogateescape")
    try:
        yield
    finally:
        db.text_factory = factory


def _entry(row: Sequence[Any]) -> JournalEntry:
    id, at, *rest = row  # noqa: A001
    return JournalEntry(id, seconds(at), *rest)
