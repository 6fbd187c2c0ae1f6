"""Events as a program sees them. Times are aware and in UTC, payloads are decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock.clock import as_datetime
from interlock.errors import MisuseError
from interlock.events.event import Event, event_of

if TYPE_CHECKING:
    from datetime import datetime

    from interlock.ports import events as port

__all__ = ["EventView", "event_view"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """One event that is kept, with the jobs that it caused."""

    id: int
    source: str
    """Where it came from, such as ``github``."""
    type: str
    """What happened, such as ``issues.opened``."""
    delivery: str
    """The source's ID of the delivery."""
    actor: str
    """Who did it; empty if unknown."""
    payload: dict[str, Any] | None
    """None in lists."""
    received_at: datetime
    """When it was accepted, by the store's clock."""
    replay_of: int | None
    """The event that it repeats, if it was replayed."""
    by: str
    """Who replayed it; empty for a delivery from outside."""
    jobs: tuple[int, ...]
    """The IDs of the jobs that it caused, including those that are no longer kept."""
    seen_at: datetime

    @property
    def event(self) -> Event:
        """The event as handlers receive it, for instance to enqueue a handler for it again."""
        if self.payload is None:
            raise MisuseError(
                f"Event {self.id} comes from a list, which has no payloads.", remedy="Use: await app.events.get(id)."
            )
        return Event(
            id=self.id,
            source=self.source,
            type=self.type,
            delivery=self.delivery,
            actor=self.actor,
            payload=self.payload,
            received_at=self.received_at,
            replay_of=self.replay_of,
        )


def event_view(row: port.EventView) -> EventView:
    """The view of an event, from what the store returned. Raises ``MalformedEventError`` for an invalid payload."""
    return EventView(
        id=row.id,
        source=row.source,
        type=row.type,
        delivery=row.delivery,
        actor=row.actor,
        payload=None if row.payload is None else event_of(row).payload,
        received_at=as_datetime(row.received_at),
        replay_of=row.replay_of,
        by=row.by,
        jobs=tuple(row.jobs),
        seen_at=as_datetime(row.seen_at),
    )
