"""Routing: which handlers an event reaches, and why it reaches none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock.errors import EventRefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.events.event import Event
    from interlock.events.handler import Handler

__all__ = ["Route", "Router"]

_MAX_NAMES = 1024


class Route(NamedTuple):
    """The handlers of an event."""

    handlers: Sequence[Handler]
    cause: str
    """Why there are none; empty otherwise."""


class Router:
    """The handlers of an app, by pattern."""

    def __init__(self) -> None:
        self._handlers: list[Handler] = []
        self._by_name: dict[str, tuple[Handler, ...]] = {}

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """All handlers, in the order in which they were defined."""
        return tuple(self._handlers)

    def add(self, handler: Handler) -> None:
        """Add a handler."""
        self._handlers.append(handler)
        self._by_name.clear()

    def matching(self, name: str) -> tuple[Handler, ...]:
        """The handlers whose pattern matches this name."""
        found = self._by_name.get(name)
        if found is None:
            if len(self._by_name) >= _MAX_NAMES:  # names come from outside, and there may be many
                self._by_name.clear()
            found = self._by_name[name] = tuple(one for one in self._handlers if one.pattern.fits(name))
        return found

    def route(self, event: Event, own: frozenset[str]) -> Route:
        """The handlers of an event, given the app's own accounts at its source; a failing rule refuses the event."""
        found = self.matching(event.name)
        if not found:
            return Route((), f"no handler matches {event.name}")
        if event.actor and event.actor.casefold() in own:
            found = tuple(handler for handler in found if handler.include_own)
            if not found:
                return Route((), f"{event.actor} is this app itself")
        wanted = [handler for handler in found if not _ignores(handler, event)]
        return Route(wanted, "" if wanted else f"every handler of {event.name} ignores it")


def _ignores(handler: Handler, event: Event) -> bool:
    try:
        return handler.ignores(event)
    except Exception as error:
        raise EventRefusedError(
            f"The ignore function of {handler.job.name!r} failed for {event.name}: {type(error).__name__}.",
            remedy="Fix it, then deliver the event again.",
        ) from error
