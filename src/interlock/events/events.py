"""The public API of events: ``app.events``, or ``Events.from_url(url)`` without an App."""

from __future__ import annotations

import inspect
import logging
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Unpack

from interlock.arguments import checked_limit, checked_reason
from interlock.errors import CapabilityError, InvalidArgumentError, MisuseError, NotFoundError
from interlock.events.engine import EventEngine
from interlock.events.handler import EventDecorator, EventDefinition, Handler
from interlock.events.loader import Loader
from interlock.events.patterns import Pattern
from interlock.events.router import Router
from interlock.events.source import Source, checked_actors, checked_source_name
from interlock.events.views import event_view
from interlock.jobs.jobs import Jobs
from interlock.jobs.options import JobOptions, checked_aliases
from interlock.operations import unknown_event
from interlock.ports.events import EventFilter
from interlock.ports.journal import Action
from interlock.ports.store import Capability
from interlock.service import Service
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Mapping, Sequence

    from interlock.clock import Clock
    from interlock.events.event import Event
    from interlock.events.handler import IgnoreRule
    from interlock.events.receipt import Receipt
    from interlock.events.views import EventView
    from interlock.explanation import Explanation
    from interlock.jobs.job import Job
    from interlock.jobs.options import JobDefinitionOptions
    from interlock.operations import BulkResult, Operations
    from interlock.ports import events as port
    from interlock.ports.store import Store
    from interlock.settings import Settings
    from interlock.store_client import StoreClient
    from interlock.telemetry.events import EventMetrics

__all__ = ["Events"]

_log = logging.getLogger("interlock.events")


class Events(Service[EventEngine]):
    """Deliveries from outside, each accepted once, and their handlers.

    Sources and handlers can be defined before or after opening; operations on the store need it open.
    """

    needs = Capability.EVENTS
    _these = "These events"

    def __init__(
        self,
        store: Store | StoreClient,
        settings: Settings | None = None,
        *,
        clock: Clock | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        super().__init__(store, settings, clock=clock)
        store_client = self._store_client
        if self.needs not in store_client.store.capabilities:
            raise CapabilityError(
                f"{store_client.store.name} offers no events.",
                remedy="Use memory://, sqlite:// or postgresql:// for the app's store.",
            )
        self.jobs = Jobs(store_client) if jobs is None else jobs
        """The jobs of its handlers."""
        self._own_jobs = jobs is None
        self._sources: dict[str, Source] = {}
        self._own: dict[str, frozenset[str]] = {}
        self._router = Router()
        self._loader = Loader(store_client.store.events, store_client.settings.store_wait, store_client.clock.monotonic)

    def _new_engine(self, store_client: StoreClient) -> EventEngine:
        return EventEngine(store_client, self._router, self.jobs, own_jobs=self._own_jobs)

    async def open(self) -> None:
        """Open the store and start this process's session in it, unless another component already has."""
        await super().open()
        for handler in self._router.handlers:
            source = handler.pattern.source
            if source is not None and source not in self._sources:
                emit(
                    _log,
                    logging.WARNING,
                    "handler_source_unregistered",
                    handler=handler.job.name,
                    pattern=handler.pattern.text,
                    sources=", ".join(sorted(self._sources)),
                )

    def forget_engine(self) -> None:
        """Become closed in a process that was just forked, with the jobs if no other service has them."""
        super().forget_engine()
        if self._own_jobs:
            self.jobs.forget_engine()

    @property
    def metrics(self) -> EventMetrics:
        """The metrics of these events; register them with a Prometheus registry."""
        return self._opened.metrics

    # -- defining ----------------------------------------------------------------------------------------------------

    def source(self, source: Source) -> Source:
        """Register a source, such as ``GitHub(secret=…)``."""
        if not isinstance(source, Source):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise InvalidArgumentError(
                f"{type(source).__name__} is not a source.", remedy="Pass GitHub(…), Hmac(…) or a source of your own."
            )
        name = checked_source_name(source.name)
        for step in (source.verify, source.read):
            if inspect.iscoroutinefunction(step):
                raise InvalidArgumentError(
                    f"{step.__name__} of the source {name!r} is a coroutine function.",
                    remedy="Make it a plain function that only reads the bytes.",
                )
        if name in self._sources:
            raise MisuseError(f"Duplicate source name {name!r}.", remedy="Give one of them another name: name=….")
        self._own[name] = checked_actors("own", getattr(source, "own", ()))
        self._sources[name] = source
        return source

    @property
    def sources(self) -> Mapping[str, Source]:
        """The sources by name."""
        return MappingProxyType(self._sources)

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """The handlers, in the order in which they were defined."""
        return self._router.handlers

    def on(
        self,
        pattern: str,
        *,
        ignore: IgnoreRule | None = None,
        include_own: bool = False,
        **how: Unpack[JobDefinitionOptions],
    ) -> EventDecorator:
        """A decorator that turns a function of an event into a job: ``@app.on("github.issues.*", lane=…)``.

        The pattern is matched against the event's name, which is its source and type: ``*`` matches one part, ``**`` at
        the end any number. ``lane`` is a template over the payload or a function of the event; an event whose payload
        lacks a field of the template has no lane. ``ignore`` is a function of the event, or a list of actors. Events
        that the app itself caused (``own`` of the source) reach only handlers with ``include_own``. The other options
        are those of any job; see :meth:`Jobs.job`.
        """
        if not isinstance(pattern, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise MisuseError("A handler needs a pattern.", remedy='Write: @app.on("github.issues.*").')
        checked = Pattern(pattern)
        given: dict[str, Any] = dict(how)
        name, aliases = given.pop("name", None), checked_aliases(given.pop("aliases", ()))
        options = JobOptions.of(given)

        def define(function: Callable[..., Any], local: Mapping[str, Any] | None) -> Job[..., Any]:
            definition = EventDefinition(function, options, self._loader, name=name, local=local)
            job = self.jobs.define(definition, aliases)
            self._router.add(Handler(job, checked, ignore, include_own=include_own))
            return job

        return EventDecorator(define)

    # -- receiving ---------------------------------------------------------------------------------------------------

    async def receive(self, source_name: str, headers: Mapping[str, str], body: bytes) -> Receipt:
        """Receive a delivery: verify its bytes, read and route it, and accept it with its jobs in one step.

        Durable when this returns. Raises ``NotFoundError`` for an unknown source, ``SignatureError`` for an unsigned
        delivery, ``MalformedEventError`` if it cannot be read, ``EventRefusedError`` if a rule of the app failed, and
        ``StoreUnavailableError``; in the last case it can safely be delivered again.
        """
        source = self._sources.get(source_name)
        if source is None:
            known = ", ".join(sorted(self._sources)) or "none"
            raise NotFoundError(f"Unknown source {source_name!r}.", remedy=f"Valid values: {known}.")
        return await self._running.receive(source, self._own[source_name], headers, body)

    async def replay(self, event: int | Event, *, by: str, reason: str = "") -> Receipt:
        """Route a stored event again, with the current handlers and as a new event; ``by`` is the actor."""
        checked_reason("Replaying an event", reason or "by hand", by)
        engine, number = self._running, _number(event)
        view = await self._row(number)
        return await engine.replay(view, self._own.get(view.source, frozenset()), by, reason)

    async def replay_all(
        self,
        *,
        source: str = "",
        type: str = "",  # noqa: A002 - as everywhere else
        actor: str = "",
        delivery: str = "",
        by: str,
        reason: str = "",
    ) -> BulkResult[int]:
        """Replay every stored event that matches, the oldest first; see :meth:`replay` and :meth:`matching`.

        Events that the replays create are not replayed. An event that no current handler takes counts as unchanged.
        """
        return await self.replay_matching(_filter(source, type, actor, delivery), by=by, reason=reason)

    async def matching(
        self,
        *,
        source: str = "",
        type: str = "",  # noqa: A002 - as everywhere else
        actor: str = "",
        delivery: str = "",
    ) -> builtins.list[int]:
        """The IDs of all events that match, the oldest first; ``len()`` counts them before an operation on all."""
        return await self._operations.matching(_filter(source, type, actor, delivery))

    async def replay_matching(
        self, wanted: EventFilter, *, by: str, reason: str = "", events: Sequence[int] | None = None
    ) -> BulkResult[int]:
        """Replay what matches a filter, or those of ``events`` that still match."""

        async def change(event: int) -> bool:
            return (await self.replay(event, by=by, reason=reason)).event is not None

        return await self._operations.apply(
            Action.EVENT_REPLAY, wanted, by=by, reason=reason, refs=events, change=change
        )

    @property
    def _operations(self) -> Operations:
        return self._running.jobs.store_client.operations

    # -- reading -----------------------------------------------------------------------------------------------------

    async def get(self, event: int | Event) -> EventView:
        """Return one event with its payload and its jobs. Raises :class:`NotFoundError` if it is not kept."""
        return event_view(await self._row(_number(event)))

    async def list(
        self,
        *,
        source: str = "",
        type: str = "",  # noqa: A002 - as everywhere else
        actor: str = "",
        delivery: str = "",
        limit: int = 100,
        before: int | None = None,
    ) -> Sequence[EventView]:
        """List events as one snapshot, newest first, without payloads. ``before`` is the ID of the last event seen."""
        chosen = _filter(source, type, actor, delivery)
        start = None if before is None else _number(before)
        rows = await self._running.events.list(chosen, limit=checked_limit(limit), before=start)
        return [event_view(row) for row in rows]

    async def explain(self, event: int | Event) -> Explanation:
        """Explain an event: the jobs that it caused, their states, and what to do."""
        return await self._explain("event", _number(event))

    async def _row(self, number: int) -> port.EventView:
        engine = self._running
        row = await engine.jobs.repeat(lambda: engine.events.get(number))
        if row is None:
            raise unknown_event(number)
        return row


def _number(event: object) -> int:
    number = getattr(event, "id", event)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 2**63:
        raise InvalidArgumentError(f"{event!r} is not an event.", remedy="Pass an event or its ID.")
    return number


def _filter(*given: str) -> EventFilter:
    return EventFilter(*(_text(*field) for field in zip(EventFilter._fields, given, strict=True)))


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise InvalidArgumentError(f"Invalid {name} {value!r}.", remedy="Use a string; an empty one matches all.")
    return value
