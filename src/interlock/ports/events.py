"""Events: what came in from outside, each delivery once, with the jobs that it causes. The contract of every store.

**Once.** A delivery is known by its source and its id there. Accepting is one step: either the event and all of its
jobs are stored, or, if the delivery is kept already, nothing is. So one delivery leads to its jobs once, however often
and by however many processes it is accepted, for as long as it is kept. It does not matter which of the tries was
first, whether its answer was lost, or whether it comes late.

**Kept.** An event is kept for as long as was asked for, and in any case while one of its jobs is unfinished. Its
payload is stored once, whatever the number of jobs.

**Order.** The jobs of events that are accepted together take their positions in the order of the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.jobs import NewJob
    from interlock.ports.journal import Attribution

__all__ = ["MOST_PAYLOAD_BYTES", "EventFilter", "EventStore", "EventView", "NewEvent"]

MOST_PAYLOAD_BYTES = 5 * 1024 * 1024
"""Size of a payload, as JSON."""


class NewEvent(NamedTuple):
    """An event to accept, with what it causes."""

    id: int
    """One of those that ``JobStore.ids`` gave, used once: ids of jobs and events never meet."""
    source: str
    delivery: str
    """Unique within its source for as long as it is kept."""
    type: str
    """What happened, such as ``issues.opened``."""
    actor: str
    """Who did it; empty if that is not known."""
    payload: str
    """JSON."""
    keep: float
    """How many seconds to keep it."""
    replay_of: int | None
    """The event that it repeats, if it was replayed by hand."""
    attribution: Attribution | None
    """Who replayed it and why: the journal gets an entry. None for what came from outside."""
    jobs: tuple[NewJob, ...]


class EventView(NamedTuple):
    """One event, as it is kept."""

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
    """The ids of the jobs that it caused, unfinished or not, also those that are no longer kept."""
    seen_at: float


class EventFilter(NamedTuple):
    """Which events to list. Empty means any."""

    source: str = ""
    type: str = ""
    actor: str = ""
    delivery: str = ""

    @property
    def narrowest(self) -> str:
        """The name of that of its fields which leaves the fewest events; ``any`` if all are empty."""
        return next((name for name in ("delivery", "actor", "type", "source") if getattr(self, name)), "any")


class EventStore(Protocol):
    """Events in one store and namespace, next to its jobs."""

    async def accept(self, events: Sequence[NewEvent]) -> Sequence[int]:
        """Accept events, each with its jobs or not at all, all in one step. Durable when it returns; whoever works on
        the queues of the jobs is told.

        Says for each under which id its delivery is kept. Its own: it was accepted, now or by an earlier try of the
        same event, so a call whose answer was lost can be repeated. Another: it is a duplicate, and nothing was
        stored for it; also of an event before it in the same call.
        """
        ...

    async def get(self, id: int) -> EventView | None:  # noqa: A002
        """One event with its payload; None if it is not known, or no longer."""
        ...

    async def get_many(self, ids: Sequence[int]) -> Sequence[EventView]:
        """Those of these events that are kept, with their payloads, in any order."""
        ...

    async def list(
        self,
        filter: EventFilter,  # noqa: A002
        *,
        limit: int = 100,
        before: int | None = None,
    ) -> Sequence[EventView]:
        """Events as one snapshot, newest first, without payloads. ``before`` goes on behind the event of that id."""
        ...

    async def prune(self, *, most: int = 10_000) -> int:
        """Remove events that were kept long enough and whose jobs are finished, a bounded amount; says how many."""
        ...
