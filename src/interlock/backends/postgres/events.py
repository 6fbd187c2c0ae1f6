"""Events as rows, next to the jobs that they cause. Each operation is one statement: one round trip."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from interlock.backends.pacing import seconds
from interlock.backends.postgres.batching import new_batcher
from interlock.backends.postgres.clock import clock_of
from interlock.backends.postgres.connection import OrderedConnection
from interlock.backends.postgres.errors import UNIQUE_VIOLATION, sqlstate
from interlock.backends.postgres.job_enqueue import columns
from interlock.backends.postgres.journal import write_attribution
from interlock.backends.postgres.queries import EventQueries
from interlock.errors import MisuseError, StoreError
from interlock.ports.events import EventView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from interlock.backends.postgres.connection import OrderedConnections
    from interlock.backends.postgres.pool import Pool
    from interlock.clock import Clock
    from interlock.ports.events import EventFilter, NewEvent
    from interlock.settings import Settings

__all__ = ["PostgresEvents"]

_sql = EventQueries()
_LOOKS = {
    "delivery": _sql.list_delivery,
    "actor": _sql.list_actor,
    "type": _sql.list_type,
    "source": _sql.list_source,
    "any": _sql.list_any,
}
_JOB_COLUMNS = 26  # the fields of interlock.new_jobs


class PostgresEvents:
    """Implements the events port. ``enqueued`` is called with the queues that have new jobs."""

    def __init__(
        self,
        connections: OrderedConnections,
        pool: Pool,
        settings: Settings,
        clock: Clock | None,
        enqueued: Callable[[Iterable[str]], None],
    ) -> None:
        wait = settings.store_wait / 2
        self._namespace = settings.namespace
        self._clock = clock_of(clock)
        self._reads = connections.reads
        self._entries, self._loads, self._upkeep = (OrderedConnection(pool, wait) for _ in range(3))
        self._batcher = new_batcher(partial(self._accept, self._entries), wait)
        self._enqueued = enqueued

    async def accept(self, events: Sequence[NewEvent]) -> Sequence[int]:
        """Accept events. Calls that come at the same time are batched."""
        if not events:
            return []
        kept: Sequence[int] = await self._batcher.submit(events)
        self._enqueued({job.queue for event in events for job in event.jobs})
        return kept

    async def get(self, id: int) -> EventView | None:  # noqa: A002
        """Return one event."""
        rows = await self._reads.fetch(_sql.get_many, self._namespace, [id], self._clock())
        return _view(rows[0]) if rows else None

    async def get_many(self, ids: Sequence[int]) -> Sequence[EventView]:
        """Return the events that are kept. Workers call this, and do not wait for other readers."""
        rows = await self._loads.fetch(_sql.get_many, self._namespace, list(ids), self._clock())
        return [_view(row) for row in rows]

    async def list(
        self,
        filter: EventFilter,  # noqa: A002
        *,
        limit: int = 100,
        before: int | None = None,
    ) -> Sequence[EventView]:
        """List events, newest first."""
        sql = _LOOKS[filter.narrowest]
        rows = await self._reads.fetch(sql, self._namespace, *filter, before, limit, self._clock())
        return [_view(row) for row in rows]

    async def prune(self, *, limit: int = 10_000) -> int:
        """Remove events that were kept long enough."""
        ((pruned,),) = await self._upkeep.fetch(_sql.prune, self._namespace, limit, self._clock())
        return int(pruned)

    async def close(self) -> None:
        """Wait for submitted operations."""
        await self._batcher.close()
        await self._entries.close()
        await self._loads.close()
        await self._upkeep.close()

    async def _accept(self, connection: OrderedConnection, requests: Sequence[Sequence[NewEvent]]) -> Sequence[Any]:
        events = [event for request in requests for event in request]
        jobs = [job for event in events for job in event.jobs]
        ids, sources, deliveries, types, actors, payloads, keeps, replays, by, all_jobs = zip(*events, strict=True)
        attributions = [None if one is None else write_attribution(one) for one in by] if any(by) else None
        about = (ids, sources, deliveries, types, actors, payloads, keeps, replays, attributions, [*map(len, all_jobs)])
        work = columns(jobs)[1] if jobs else (None,) * _JOB_COLUMNS
        try:
            ((kept,),) = await connection.fetch_here(_sql.accept, self._namespace, *about, *work, self._clock())
        except StoreError as error:
            if sqlstate(error) != UNIQUE_VIOLATION:
                raise
            raise MisuseError(f"An event or one of its jobs has an ID that was used before: {error}.") from error
        answers = iter(kept)
        return [[next(answers) for _ in request] for request in requests]


def _view(row: Any) -> EventView:
    *about, received_at, replay_of, by, jobs, seen_at = row
    return EventView._make((*about, seconds(received_at), replay_of, by, tuple(jobs), seen_at))
