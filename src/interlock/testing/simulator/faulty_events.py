"""The event store as one simulated process sees it, through its wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.testing.simulator.job_events import JobsEnqueued

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.events import EventFilter, EventStore, EventView, NewEvent
    from interlock.testing.simulator.watcher import Watcher
    from interlock.testing.simulator.wire import Wire

__all__ = ["FaultyEvents"]


class FaultyEvents:
    """Wrap another store's event port."""

    def __init__(self, events: EventStore, wire: Wire, watcher: Watcher) -> None:
        self._events = events
        self._call = wire.call
        self._watcher = watcher
        self._accepted: set[int] = set()

    async def accept(self, events: Sequence[NewEvent]) -> Sequence[int]:
        """Accept events with their jobs."""

        async def operation() -> Sequence[int]:
            kept = await self._events.accept(events)
            new = [event for event, id in zip(events, kept, strict=True) if event.id == id]  # noqa: A001
            jobs = [job for event in new if event.id not in self._accepted for job in event.jobs]
            self._accepted.update(event.id for event in new)
            if jobs:
                self._watcher.saw(JobsEnqueued, jobs)
            return kept

        return await self._call("accept", [f"e{event.id}" for event in events], operation)

    async def get(self, id: int) -> EventView | None:  # noqa: A002
        """One event."""
        return await self._call("find_event", (), lambda: self._events.get(id))

    async def get_many(self, ids: Sequence[int]) -> Sequence[EventView]:
        """Events that are kept."""
        return await self._call("find_events", (), lambda: self._events.get_many(ids))

    async def list(
        self,
        filter: EventFilter,  # noqa: A002
        *,
        limit: int = 100,
        before: int | None = None,
    ) -> Sequence[EventView]:
        """Events, newest first."""
        return await self._call("look_events", (), lambda: self._events.list(filter, limit=limit, before=before))

    async def prune(self, *, limit: int = 10_000) -> int:
        """Remove old events. Faults do not matter here, so it does not take the wire."""
        return await self._events.prune(limit=limit)
