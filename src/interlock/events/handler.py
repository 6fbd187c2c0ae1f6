"""An event handler: a job whose argument is an event, with the pattern and the lane of its events."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from interlock.arguments import checked_key
from interlock.errors import InvalidArgumentError, MisuseError
from interlock.events.event import Event, event_of
from interlock.events.source import checked_actors
from interlock.jobs.definition import Definition
from interlock.key_functions import call_key_function
from interlock.templates import Template

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from interlock.events.loader import Loader
    from interlock.events.patterns import Pattern
    from interlock.jobs.arguments import Codec
    from interlock.jobs.job import AsyncJob, Job, PlainJob
    from interlock.jobs.options import JobOptions
    from interlock.ports.limits import Use

__all__ = ["EventDefinition", "Handler", "EventDecorator", "IgnoreRule", "stored_event"]

IgnoreRule = Callable[[Event], bool] | str | tuple[str, ...] | list[str] | frozenset[str] | set[str]
"""A function that returns true for events to ignore, or the actors whose events to ignore."""
R = TypeVar("R")


class EventDefinition(Definition):
    """A job whose handler takes an event. The job stores the event's ID; templates are over the payload."""

    __slots__ = ("_loader", "_parameter")

    def __init__(
        self,
        function: Callable[..., Any],
        options: JobOptions,
        loader: Loader,
        *,
        name: str | None = None,
        local: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(function, options, name=name, local=local)
        if len(self.parameters) != 1:
            raise MisuseError(
                f"{self.name!r} takes {len(self.parameters)} arguments; an event handler takes one.",
                remedy="Write: async def handler(event: Event) -> None.",
            )
        (self._parameter,) = self.parameters
        self._loader = loader
        self.prepare = self._load

    @property
    def roots(self) -> None:
        """Check nothing: templates are over the payload, whose fields are not known in advance."""
        return

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The stored event's ID."""
        given = [*args, *kwargs.values()]
        if len(given) != 1 or not isinstance(given[0], Event) or kwargs.keys() - {self._parameter}:
            raise InvalidArgumentError(
                f"{self.name!r} takes one event.", remedy="Pass an Event that was accepted here."
            )
        (event,) = given
        if not 0 < event.id < 2**63:
            raise InvalidArgumentError(
                f"The event with ID {event.id!r} is not stored.",
                remedy="Only an event that was accepted can be handled; see app.events.get.",
            )
        return stored_event(event.id), {"event": event}

    def lane_of(self, options: JobOptions, values: Mapping[str, Any]) -> str:
        """The lane of an event; none if its payload lacks a field of the template."""
        lane, event = options.lane, values["event"]
        if lane is None:
            return ""
        if callable(lane):
            found = call_key_function(f"lane of {self.name!r}", lane, event)
        else:
            found = Template.of(lane).find(event.payload)
        return checked_key(found) if found else ""

    def key_of(self, options: JobOptions, values: Mapping[str, Any]) -> str:
        """The idempotency key for an event; none if its payload lacks a field of the template."""
        key, event = options.key, values["event"]
        if key is None:
            return ""
        if callable(key):
            found = call_key_function(f"key of {self.name!r}", key, event)
        else:
            found = Template.of(key).find(event.payload)
        return checked_key(found) if found else ""

    def uses_of(self, options: JobOptions, values: Mapping[str, Any]) -> tuple[Use, ...]:
        """The limits for an event."""
        event = values["event"]
        return options.uses_of(event.payload, event)

    def _arguments_of(self, hints: dict[str, Any]) -> Codec:
        from interlock.jobs.arguments import Codec

        for name in self.parameters:
            if hints.get(name, Event) not in (Event, Any):
                raise MisuseError(
                    f"Parameter {name!r} of {self.name!r} is not declared as an event.",
                    remedy=f"Declare it: {name}: Event.",
                )
        return Codec.of_fields(f"The arguments of {self.name!r}", {"event": (int, True)})

    async def _load(self, arguments: dict[str, Any]) -> dict[str, Any]:
        event = event_of(await self._loader.load(arguments["event"]))
        return {self._parameter: event, **self.added()} if self.injected else {self._parameter: event}


class Handler:
    """A handler, and the events that it receives."""

    __slots__ = ("_actors", "_ignores", "include_own", "job", "pattern")

    def __init__(self, job: Job[..., Any], pattern: Pattern, ignore: IgnoreRule | None, *, include_own: bool) -> None:
        self.job = job
        self.pattern = pattern
        self.include_own = include_own
        self._ignores = ignore if callable(ignore) else None
        self._actors = frozenset[str]() if ignore is None or callable(ignore) else checked_actors("ignore", ignore)

    def ignores(self, event: Event) -> bool:
        """Whether it ignores this event."""
        if self._ignores is not None:
            return bool(self._ignores(event))
        return bool(self._actors) and event.actor.casefold() in self._actors


class EventDecorator:
    """A decorator that turns a function into a handler."""

    __slots__ = ("_define",)

    def __init__(self, define: Callable[[Callable[..., Any], Mapping[str, Any] | None], Job[..., Any]]) -> None:
        self._define = define

    @overload
    def __call__(self, function: Callable[[Event], Coroutine[Any, Any, R]], /) -> AsyncJob[[Event], R]: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, function: Callable[[Event], R], /) -> PlainJob[[Event], R]: ...

    def __call__(self, function: Callable[..., Any], /) -> Any:
        """The job; calling it still calls the function."""
        frame = inspect.currentframe()
        # Also find types that are defined locally, next to the function.
        local = frame.f_back.f_locals if frame is not None and frame.f_back is not None else None
        return self._define(function, local)


def stored_event(id: int) -> str:  # noqa: A002
    """The stored arguments of a job that an event causes."""
    return f'{{"event":{id}}}'
