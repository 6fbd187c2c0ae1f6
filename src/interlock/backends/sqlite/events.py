"""Events in SQLite, next to the jobs they cause. One immediate transaction accepts both."""

from __future__ import annotations

import json
import sqlite3
from itertools import islice
from typing import TYPE_CHECKING, Any

from interlock.backends.pacing import micros, seconds
from interlock.backends.sqlite.job_enqueue import enqueue
from interlock.backends.sqlite.queries import EventQueries
from interlock.batcher import Batcher
from interlock.errors import MisuseError
from interlock.ports.events import EventFilter, EventView
from interlock.ports.journal import Action

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.sqlite.job_rows import JobRows
    from interlock.backends.sqlite.jobs import SqliteJobs
    from interlock.ports.events import NewEvent

__all__ = ["SqliteEvents"]

_sql = EventQueries()
_LOOKS = {
    "delivery": _sql.list_by_delivery,
    "actor": _sql.list_by_actor,
    "type": _sql.list_by_type,
    "source": _sql.list_by_source,
    "any": _sql.list_all,
}
_LATEST = 2**63 - 1
_KEPT_ON = 3_600_000_000
"""How much longer an event with an unfinished job is kept before it is checked again, in microseconds."""


class SqliteEvents:
    """Implements the events port in the transactions of the jobs.

    With ``batch`` the events of several callers are written together. The writer's thread shares its commits between
    callers in any case; a batch also spares the work per caller, which competes with a busy event loop.
    """

    def __init__(self, jobs: SqliteJobs, *, batch: bool = True) -> None:
        self._jobs = jobs
        self._batcher = Batcher(self._accept_requests) if batch else None

    async def accept(self, events: Sequence[NewEvent]) -> Sequence[int]:
        """Accept events with their jobs."""
        if not events:
            return []
        return await (self._accept(events) if self._batcher is None else self._batcher.submit(events))

    async def close(self) -> None:
        """Wait until everything that was submitted is written."""
        if self._batcher is not None:
            await self._batcher.close()

    async def _accept_requests(self, requests: list[Sequence[NewEvent]]) -> list[list[int]]:
        ids = iter(await self._accept([event for request in requests for event in request]))
        return [list(islice(ids, len(request))) for request in requests]

    async def _accept(self, events: Sequence[NewEvent]) -> list[int]:
        return await self._jobs.write(lambda rows: _accepted(rows, events))

    async def get(self, id: int) -> EventView | None:  # noqa: A002
        """Get one event."""
        return next(iter(await self.get_many([id])), None)

    async def get_many(self, ids: Sequence[int]) -> Sequence[EventView]:
        """Get the events that are kept."""
        wanted = json.dumps(list(ids))
        return await self._jobs.read(lambda rows: [_view(rows, row) for row in rows.all(_sql.events_by_id, ids=wanted)])

    async def list(
        self,
        filter: EventFilter,  # noqa: A002
        *,
        limit: int = 100,
        before: int | None = None,
    ) -> Sequence[EventView]:
        """List events, newest first."""
        return await self._jobs.read(lambda rows: _look(rows, filter, limit, before))

    async def prune(self, *, limit: int = 10_000) -> int:
        """Delete what is past its retention."""
        return await self._jobs.write(lambda rows: _prune(rows, limit))


def _accepted(rows: JobRows, events: Sequence[NewEvent]) -> list[int]:
    try:
        return _accept(rows, events)
    except sqlite3.IntegrityError as error:
        raise MisuseError(f"The ID of an event or of one of its jobs was used before: {error}.") from error


def _accept(rows: JobRows, events: Sequence[NewEvent]) -> list[int]:
    names = [(event.delivery, event.source) for event in events]
    kept = {
        (delivery, source): int(id)
        for delivery, source, id in rows.all(_sql.known_deliveries, names=json.dumps(names))  # noqa: A001
    }
    new: list[NewEvent] = []
    for name, event in zip(names, events, strict=True):
        if name not in kept:
            kept[name] = event.id
            new.append(event)
    rows.each_named(_sql.add_event, [_row(event) for event in new])
    jobs = [job for event in new for job in event.jobs]
    if jobs:
        enqueue(rows, jobs, again=False, strict=False)
    for event in new:
        if event.attribution is not None:
            after = {"event": event.id, "jobs": [job.id for job in event.jobs]}
            rows.journal(Action.EVENT_REPLAY, event.replay_of, event.attribution, None, after)
    return [kept[name] for name in names]


def _row(event: NewEvent) -> dict[str, Any]:
    row = event._asdict()
    row["by"] = "" if event.attribution is None else event.attribution.actor
    del row["attribution"]
    row["jobs"] = json.dumps([job.id for job in event.jobs])
    row["keep"] = micros(event.keep)
    return row


def _look(rows: JobRows, wanted: EventFilter, limit: int, before: int | None) -> list[EventView]:
    found = (_LATEST,) if before is None else rows.one(_sql.received_at, id=before)
    # Of an event that was deleted only its ID is known.
    place = {"at": _LATEST if found is None else found[0], "known": found is not None}
    statement = _LOOKS[wanted.narrowest]
    values: dict[str, Any] = {**wanted._asdict(), **place, "before": before or _LATEST, "limit": limit}
    return [_view(rows, row) for row in rows.all(statement, **values)]


def _prune(rows: JobRows, limit: int) -> int:
    due = rows.all(_sql.expired_events, limit=limit)
    busy = [id for id, unfinished in due if unfinished]  # noqa: A001
    old = [id for id, unfinished in due if not unfinished]  # noqa: A001
    if busy:
        rows.run(_sql.extend_retention, ids=json.dumps(busy), until=rows.now + _KEPT_ON)
    if old:
        rows.run(_sql.delete_events, ids=json.dumps(old))
    return len(old)


def _view(rows: JobRows, row: Sequence[Any]) -> EventView:
    *about, received_at, replay_of, by, jobs = row
    return EventView._make((*about, seconds(received_at), replay_of, by, tuple(json.loads(jobs)), seconds(rows.now)))
