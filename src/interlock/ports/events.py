"""Events, each delivery accepted once with the jobs that it causes: the contract that every store keeps.

**Once.** A delivery is identified by its source and its ID there. Accepting is one step: it stores the event and all of
its jobs, or nothing if the delivery is stored already. So a delivery leads to its jobs once, however often and in
however many processes it is accepted, for as long as it is kept. It does not matter which attempt was first, whether
its response was lost, or how late it arrives.

**Retention.** An event is kept for the requested time, and in any case while one of its jobs is unfinished. Its payload
is stored once, regardless of the number of jobs.

**Order.** The jobs of events that are accepted together get their positions in the order of the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.jobs import NewJob
    from interlock.ports.journal import Attribution

__all__ = ["MAX_PAYLOAD_BYTES", "EventFilter", "EventStore", "EventView", "NewEvent"]

MAX_PAYLOAD_BYTES = 5 * 1024 * 1024
"""Maximum size of a payload, as JSON."""


class NewEvent(NamedTuple):
    """An event to accept, with its jobs."""

    id: int
    """An ID from ``JobStore.ids``, used once: jobs and events never share an ID."""
    source: str
    delivery: str
    """Unique within its source for as long as it is kept."""
    type: str
    """What happened, such as ``issues.opened``."""
    actor: str
    """Who caused it; empty if unknown."""
    payload: str
    """JSON."""
    keep: float
    """How many seconds the event is kept."""
    replay_of: int | None
    """The event that it repeats, if it is a replay."""
    attribution: Attribution | None
    """Actor and reason of a replay, for its journal entry. None for deliveries."""
    jobs: tuple[NewJob, ...]


class EventView(NamedTuple):
    """A stored event."""

    id: int
    source: str
    delivery: str
    type: str
    actor: str
    payload: str | None
    """None in lists."""
    received_at: float
    replay_of: int | None
    by: str
    jobs: tuple[int, ...]
    """The IDs of its jobs, including jobs that are no longer kept."""
    seen_at: float


class EventFilter(NamedTuple):
    """Which events to list. Empty means any."""

    source: str = ""
    type: str = ""
    actor: str = ""
    delivery: str = ""

    @property
    def narrowest(self) -> str:
        """The name of the most selective field that is set; ``any`` if all are empty."""
        return next((name for name in ("delivery", "actor", "type", "source") if getattr(self, name)), "any")


class EventStore(Protocol):
    """Events in one store and namespace, next to its jobs."""

    async def accept(self, events: Sequence[NewEvent]) -> Sequence[int]:
        """Accept events in one step, each with its jobs or not at all. Durable when it returns; notifies the workers of
        the queues.

        Returns for each event the ID under which its delivery is stored. Its own ID means accepted, now or by an
        earlier attempt, so a call whose response was lost can be repeated. Another ID means that it is a duplicate,
        possibly of an earlier event in the same call, and that nothing was stored for it.
        """
        ...

    async def get(self, id: int) -> EventView | None:  # noqa: A002
        """Return an event with its payload; None if it does not exist or is no longer kept."""
        ...

    async def get_many(self, ids: Sequence[int]) -> Sequence[EventView]:
        """Return the events that exist, with their payloads, in any order."""
        ...

    async def list(
        self,
        filter: EventFilter,  # noqa: A002
        *,
        limit: int = 100,
        before: int | None = None,
    ) -> Sequence[EventView]:
        """List events as one snapshot, newest first, without payloads. ``before`` continues after that ID."""
        ...

    async def prune(self, *, limit: int = 10_000) -> int:
        """Remove up to ``limit`` events whose time is over and whose jobs are finished; return how many."""
        ...
