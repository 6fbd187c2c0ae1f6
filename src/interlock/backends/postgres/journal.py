"""The journal in PostgreSQL. Entries of changes in this database are written by the functions that make the changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlock.backends.journal_range import JournalRange
from interlock.backends.pacing import micros, seconds
from interlock.backends.postgres.batching import new_batcher
from interlock.backends.postgres.clock import clock_of
from interlock.backends.queries import Queries
from interlock.ports.journal import Batch, JournalEntry, JournalStatus, Seal, Unsealed, Verification

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.backends.postgres.connection import OrderedConnection
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution, EntryRow, JournalFilter, JournalPosition, NewEntry
    from interlock.settings import Settings

__all__ = ["PostgresJournal", "write_attribution"]

_SEAL = len(Seal._fields)


class _JournalQueries(Queries, package="interlock.backends.postgres", files=("journal",)):
    add: str
    get: str
    list_any: str
    list_actor: str
    list_subject: str
    list_cause_job: str
    list_cause_event: str
    prune: str
    unsealed: str
    head: str
    seal: str
    batches: str
    strays: str
    status: str
    verification: str
    verified: str


_sql = _JournalQueries()


def write_attribution(attribution: Attribution) -> str:
    """Encode actor, reason and cause as the functions take them."""
    return json.dumps(attribution)


class PostgresJournal:
    """Implements the journal port."""

    def __init__(
        self, write: OrderedConnection, read: OrderedConnection, settings: Settings, clock: Clock | None
    ) -> None:
        self._write = write
        self._read = read
        self._namespace = settings.namespace
        self._clock = clock_of(clock)
        self._adds = new_batcher(self._add, settings.store_wait / 2)

    async def add(self, entry: NewEntry) -> int:
        """Add an entry that is not part of a change in this store, together with others that come at the same time."""
        return int(await self._adds.submit(entry))

    async def close(self) -> None:
        """Wait for submitted entries."""
        await self._adds.close()

    async def _add(self, entries: Sequence[NewEntry]) -> Sequence[int]:
        rows = [
            (write_attribution(attribution), action, key, before, after, *versions)
            for attribution, action, _, key, before, after, *versions in entries
        ]
        columns = zip(*rows, strict=True)
        found = await self._write.fetch_here(_sql.add, self._namespace, *columns, self._clock())
        return [id for (id,) in found]  # noqa: A001

    async def get(self, id: int) -> JournalEntry | None:  # noqa: A002
        """Get one entry."""
        rows = await self._read.fetch(_sql.get, self._namespace, id)
        return _entry(rows[0]) if rows else None

    async def list(
        self,
        filter: JournalFilter,  # noqa: A002
        *,
        limit: int = 100,
        before: JournalPosition | None = None,
    ) -> Sequence[JournalEntry]:
        """List entries, newest first."""
        rows = await self._read.fetch(
            _statement(filter),
            self._namespace,
            *JournalRange.of(filter, before),
            *(filter.action, filter.subject_kind, filter.subject_key),
            *(filter.actor, filter.cause_job, filter.cause_event, limit),
        )
        return [_entry(row) for row in rows]

    async def prune(self, keep: float, *, limit: int = 10_000) -> int:
        """Remove the entries of sealed batches that are old enough."""
        ((removed,),) = await self._write.fetch(_sql.prune, self._namespace, micros(keep), limit, self._clock())
        return int(removed)

    async def unsealed(self, limit: int, *, after: int = 0) -> Unsealed:
        """Return the entries that have no batch, and the newest seal."""
        # The seal first: if a batch is sealed in between, this one is refused. The other way around it would be wrong.
        now, head = await self._head()
        rows = await self._read.fetch(_sql.unsealed, self._namespace, limit, after)
        return Unsealed(now, self._namespace, head, [tuple(row) for row in rows])

    async def seal(self, seal: Seal, ids: Sequence[int]) -> bool:
        """Write a seal and the batch of its entries."""
        batch, previous, sealed_at, size, *rest = seal[:10]
        ((sealed,),) = await self._write.fetch(_sql.seal, self._namespace, batch, previous, sealed_at, *rest, ids, size)
        return bool(sealed)

    async def batches(self, after: int, limit: int) -> Sequence[Batch]:
        """Return batches with what is stored of them."""
        return _batches(await self._read.fetch(_sql.batches, self._namespace, after, limit))

    async def strays(self, limit: int = 100) -> Sequence[tuple[Any, int]]:
        """Return entries whose batch has no seal."""
        rows = await self._read.fetch(_sql.strays, self._namespace, limit)
        return [(batch, id) for batch, id in rows]  # noqa: A001

    async def status(self) -> JournalStatus:
        """Return how far the journal is sealed and verified."""
        ((unsealed, since, pruned),) = await self._read.fetch(_sql.status, self._namespace)
        _, head = await self._head()
        rows = await self._read.fetch(_sql.verification, self._namespace)
        last = Verification(seconds(rows[0][0]), *tuple(rows[0])[1:]) if rows else None
        return JournalStatus(self._namespace, unsealed, None if since is None else seconds(since), head, pruned, last)

    async def verified(self, verification: Verification) -> None:
        """Keep the result of a verification."""
        await self._write.fetch(_sql.verified, self._namespace, self._clock(), *verification[1:])

    async def _head(self) -> tuple[int, Seal | None]:
        ((now, *seal),) = await self._read.fetch(_sql.head, self._namespace, self._clock())
        return now, None if seal[0] is None else Seal(*seal)


def _statement(wanted: JournalFilter) -> str:
    """The query with the access path that narrows a filter most."""
    if wanted.subject_key:
        return _sql.list_subject
    if wanted.cause_job is not None:
        return _sql.list_cause_job
    if wanted.cause_event is not None:
        return _sql.list_cause_event
    return _sql.list_actor if wanted.actor else _sql.list_any


def _batches(rows: Iterable[Any]) -> list[Batch]:
    """Group rows of a seal and one of its entries by seal; the first row of a batch has its leaves."""
    found: list[Batch] = []
    entries: list[EntryRow] = []
    for row in rows:
        values = tuple(row)
        if not found or found[-1].seal.batch != values[0]:
            entries = []
            found.append(Batch(Seal(*values[:_SEAL]), entries))
        if values[_SEAL] is not None:
            entries.append(values[_SEAL:])
    return found


def _entry(row: Any) -> JournalEntry:
    id, at, *rest = row  # noqa: A001
    return JournalEntry(id, seconds(at), *rest)
