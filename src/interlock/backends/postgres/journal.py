"""The journal as rows. Entries of changes in this database are written by the functions that make the changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlock.backends.pacing import micros, seconds
from interlock.backends.postgres.clock import clock_of
from interlock.backends.queries import Queries
from interlock.ports.journal import JournalEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.postgres.connection import OrderedConnection
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution, JournalFilter, JournalPosition, NewEntry

__all__ = ["PostgresJournal", "write_attribution"]

_LATEST = 2**63 - 1


class _JournalQueries(Queries, package="interlock.backends.postgres", files=("journal",)):
    add: str
    get: str
    list_any: str
    list_actor: str
    list_subject: str
    prune: str


_sql = _JournalQueries()


def write_attribution(attribution: Attribution) -> str:
    """Write actor, reason and cause as the functions take them."""
    return json.dumps(attribution)


class PostgresJournal:
    """Keeps the journal port."""

    def __init__(self, write: OrderedConnection, read: OrderedConnection, namespace: str, clock: Clock | None) -> None:
        self._write = write
        self._read = read
        self._namespace = namespace
        self._clock = clock_of(clock)

    async def add(self, entry: NewEntry) -> int:
        """Add the entry of a change that is made in another store."""
        attribution, action, _, key, before, after, *versions = entry
        args = (write_attribution(attribution), action, key, before, after, *versions, self._clock())
        ((id,),) = await self._write.fetch(_sql.add, self._namespace, *args)  # noqa: A001
        return int(id)

    async def get(self, id: int) -> JournalEntry | None:  # noqa: A002
        """One entry."""
        rows = await self._read.fetch(_sql.get, self._namespace, id)
        return _entry(rows[0]) if rows else None

    async def list(
        self,
        filter: JournalFilter,  # noqa: A002
        *,
        limit: int = 100,
        before: JournalPosition | None = None,
    ) -> Sequence[JournalEntry]:
        """Entries, newest first."""
        at, id = (_LATEST, _LATEST) if before is None else (micros(before.at), before.id)  # noqa: A001
        since = 0 if filter.since is None else micros(filter.since)
        args: list[Any] = [self._namespace, since, at, id, filter.action, filter.subject_kind, limit]
        if filter.subject_key:
            rows = await self._read.fetch(_sql.list_subject, *args, filter.actor, filter.subject_key)
        elif filter.actor:
            rows = await self._read.fetch(_sql.list_actor, *args, filter.actor)
        else:
            rows = await self._read.fetch(_sql.list_any, *args)
        return [_entry(row) for row in rows]

    async def prune(self, keep: float, *, limit: int = 10_000) -> int:
        """Remove entries that are old enough."""
        ((removed,),) = await self._write.fetch(_sql.prune, self._namespace, micros(keep), limit, self._clock())
        return int(removed)


def _entry(row: Any) -> JournalEntry:
    id, at, *rest = row  # noqa: A001
    return JournalEntry(id, seconds(at), *rest)
