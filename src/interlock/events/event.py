"""An event, as handlers receive it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock.clock import as_datetime
from interlock.errors import MalformedEventError

if TYPE_CHECKING:
    from datetime import datetime

    from interlock.ports.events import EventView

__all__ = ["Event", "event_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened outside and was delivered to this app."""

    id: int
    """Its ID. A job and an event never share an ID."""
    source: str
    """Where it came from, such as ``github``."""
    type: str
    """What happened, such as ``issues.opened``."""
    delivery: str
    """The source's ID of the delivery."""
    actor: str
    """Who caused it; empty if unknown."""
    payload: dict[str, Any]
    received_at: datetime
    """When it was accepted, by the store's clock."""
    replay_of: int | None = None
    """The event that it replays, if any."""

    @property
    def name(self) -> str:
        """Source and type, which patterns are matched against."""
        return f"{self.source}.{self.type}"


def event_of(view: EventView) -> Event:
    """A stored event with its own payload, which the handler may change.

    Raises ``MalformedEventError`` if the payload cannot be decoded.
    """
    from pydantic_core import from_json

    try:
        payload: dict[str, Any] = from_json(view.payload or "{}")
    except ValueError as error:
        raise MalformedEventError(
            f"The payload of event {view.id} cannot be decoded: {error}.", remedy="Deliver it again."
        ) from error
    return Event(
        id=view.id,
        source=view.source,
        type=view.type,
        delivery=view.delivery,
        actor=view.actor,
        payload=payload,
        received_at=as_datetime(view.received_at),
        replay_of=view.replay_of,
    )
