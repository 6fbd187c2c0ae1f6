"""From a delivery to its jobs: verify, read, route, and accept the event with its jobs in one step."""

from __future__ import annotations

import inspect
import json
import logging
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

from interlock.clock import as_datetime
from interlock.errors import (
    EventRefusedError,
    InterlockError,
    MalformedEventError,
    SignatureError,
    StoreUnavailableError,
)
from interlock.events.event import Event, event_of
from interlock.events.payloads import plain_text
from interlock.events.receipt import Receipt, ReceiptStatus
from interlock.events.source import Incoming
from interlock.jobs.causes import caused_by_event
from interlock.jobs.job import Call
from interlock.jobs.jobs import engine_of
from interlock.ports.events import MAX_PAYLOAD_BYTES, NewEvent
from interlock.store_client import repeat
from interlock.telemetry.budget import LogBudget
from interlock.telemetry.events import EventMetrics
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from interlock.events.handler import Handler
    from interlock.events.router import Router
    from interlock.events.source import Source
    from interlock.jobs import Jobs
    from interlock.jobs.engine import JobEngine
    from interlock.ports.events import EventView
    from interlock.store_client import StoreClient

__all__ = ["EventEngine"]

_log = logging.getLogger("interlock.events")
_REFUSALS: dict[type[InterlockError], str] = {
    SignatureError: "signature",
    MalformedEventError: "malformed",
    EventRefusedError: "refused",
    StoreUnavailableError: "unavailable",
}


class EventEngine:
    """The event engine, from opening to closing. With ``own_jobs``, it also opens and closes the jobs."""

    def __init__(self, store_client: StoreClient, router: Router, jobs: Jobs, *, own_jobs: bool) -> None:
        self.events = store_client.store.events
        self.metrics = EventMetrics(store_client.store.name, store_client.settings.metrics_prefix)
        self.jobs: JobEngine
        self._store_client = store_client
        self._settings = store_client.settings
        self._clock = store_client.clock
        self._router = router
        self._jobs = jobs
        self._own_jobs = own_jobs
        self._closed = False
        self._refusal_budgets: dict[tuple[str, str], LogBudget] = {}

    async def open(self) -> None:
        """Open the engine."""
        if self._own_jobs:
            await self._jobs.open()
        self.jobs = engine_of(self._jobs)

    async def close(self) -> None:
        """Close the engine. Pending accepts are not retried."""
        self._closed = True
        if self._own_jobs:
            await self._jobs.close()

    # -- receiving ---------------------------------------------------------------------------------------------------

    async def receive(self, source: Source, own: frozenset[str], headers: Mapping[str, str], body: bytes) -> Receipt:
        """Receive one delivery of a source. Unsigned deliveries go no further."""
        try:
            _verify(source, headers, body)
            incoming = _read(source, headers, body)
            receipt = await self._take(source.name, own, incoming)
        except InterlockError as error:
            self._refused(source.name, error)
            raise
        self.metrics.received(source.name, receipt.status)
        return receipt

    async def _take(self, source: str, own: frozenset[str], incoming: Incoming) -> Receipt:
        delivery, kind, actor, payload, text, ignored = incoming
        if ignored:
            return self._ignored(source, incoming, ignored)
        numbers = await self._numbers(f"{source}.{kind}")
        event = Event(
            id=numbers[0],
            source=source,
            type=kind,
            delivery=delivery,
            actor=actor,
            payload=payload,
            received_at=as_datetime(self._clock.now()),
        )
        return await self._route(event, numbers, text or _written(payload), own)

    async def _numbers(self, name: str) -> list[int]:
        """IDs for an event and for as many jobs as it may cause; none if no handler matches."""
        heard = len(self._router.matching(name))
        return await self.jobs.take_ids(1 + heard) if heard else [0]

    async def _route(
        self,
        event: Event,
        numbers: Sequence[int],
        text: str,
        own: frozenset[str],
        accept: Callable[[NewEvent], Awaitable[int]] | None = None,
    ) -> Receipt:
        """Accept an event with a job for each of its handlers."""
        handlers, cause = self._router.route(event, own)
        if not handlers:
            return self._ignored(event.source, event, cause)
        new = self._new(event, numbers, text, handlers)
        kept = await (self._accept if accept is None else accept)(new)
        if kept != new.id:
            emit(_log, logging.INFO, "event_duplicate", source=new.source, delivery=new.delivery, id=kept)
            return Receipt(ReceiptStatus.DUPLICATE, kept, (), f"already accepted as event {kept}")
        for job in new.jobs:
            self.jobs.metrics.of(job.name).enqueued += 1
        jobs = tuple(job.id for job in new.jobs)
        emit(
            _log,
            logging.DEBUG,
            "event_accepted",
            source=new.source,
            delivery=new.delivery,
            type=new.type,
            id=kept,
            jobs=jobs,
        )
        return Receipt(ReceiptStatus.ACCEPTED, kept, jobs)

    def _new(self, event: Event, numbers: Sequence[int], text: str, handlers: Sequence[Handler]) -> NewEvent:
        return NewEvent(
            event.id,
            event.source,
            event.delivery,
            event.type,
            event.actor,
            text,
            self._settings.keep_events,
            event.replay_of,
            None,
            tuple(
                _call(handler, event).new(number, caused_by_event(event.id))
                for handler, number in zip(handlers, numbers[1:], strict=False)
            ),
        )

    async def _accept(self, event: NewEvent) -> int:
        """The ID under which it is kept. A call whose answer was lost is repeated; the store accepts it once."""
        clock = self._clock.monotonic
        begun = clock()
        (kept,) = await repeat(
            lambda: self.events.accept([event]), self._settings.store_wait, clock, failed=lambda: not self._closed
        )
        self.metrics.accepting.observe(clock() - begun)
        return kept

    def _ignored(self, source: str, what: Event | Incoming, cause: str) -> Receipt:
        emit(_log, logging.DEBUG, "event_ignored", source=source, delivery=what.delivery, type=what.type, cause=cause)
        return Receipt(ReceiptStatus.IGNORED, cause=cause)

    def _refused(self, source: str, error: InterlockError) -> None:
        cause = next((word for kind, word in _REFUSALS.items() if isinstance(error, kind)), "error")
        self.metrics.refused(source, cause)
        budget = self._refusal_budgets.get((source, cause))
        if budget is None:
            budget = self._refusal_budgets[source, cause] = LogBudget(monotonic=self._clock.monotonic)
        suppressed = budget.admit()  # anyone can send unsigned requests
        if suppressed is not None:
            text = error.message
            emit(_log, logging.WARNING, "event_refused", source=source, cause=cause, error=text, suppressed=suppressed)

    # -- replaying ---------------------------------------------------------------------------------------------------

    async def replay(self, view: EventView, own: frozenset[str], by: str, reason: str) -> Receipt:
        """Route a stored event again, as a new one."""
        old = event_of(view)
        numbers = await self._numbers(old.name)
        event = Event(
            id=numbers[0],
            source=old.source,
            type=old.type,
            # A random delivery ID cannot have been sent from outside.
            delivery=f"replay-of-{old.id}-{secrets.token_hex(8)}",
            actor=old.actor,
            payload=old.payload,
            received_at=as_datetime(self._clock.now()),
            replay_of=old.id,
        )
        accept = partial(self._store_client.operations.replay, by=by, reason=reason)
        return await self._route(event, numbers, view.payload or "{}", own, accept)


def _verify(source: Source, headers: Mapping[str, str], body: bytes) -> None:
    """Verify a delivery. If the source fails in any way, the delivery does not count as verified."""
    verify: Callable[[Mapping[str, str], bytes], object] = source.verify
    try:
        answer = verify(headers, body)
    except InterlockError:
        raise
    except Exception as error:
        raise SignatureError(f"The source failed to verify the delivery: {type(error).__name__}.") from error
    if answer is not None:
        # The author of the source expected the return value to be checked.
        if inspect.iscoroutine(answer):
            answer.close()
        raise SignatureError(f"verify() returned {type(answer).__name__}; it has to return None, or raise.")


def _read(source: Source, headers: Mapping[str, str], body: bytes) -> Incoming:
    if len(body) > MAX_PAYLOAD_BYTES:
        raise MalformedEventError(
            f"The delivery has {len(body):,} bytes; the maximum is {MAX_PAYLOAD_BYTES:,}.",
            remedy="Configure the sender to send smaller payloads.",
        )
    try:
        incoming = source.read(headers, body)
    except InterlockError:
        raise
    except Exception as error:
        raise MalformedEventError(f"The source failed to read the delivery: {type(error).__name__}.") from error
    if not isinstance(incoming, Incoming):  # pyright: ignore[reportUnnecessaryIsInstance] - sources without types
        raise MalformedEventError(f"read() of the source returned {type(incoming).__name__}, not an Incoming.")
    if not isinstance(incoming.payload, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MalformedEventError(f"The payload is of type {type(incoming.payload).__name__}, not a dict.")
    plain_text("The delivery ID", incoming.delivery)
    plain_text("The type", incoming.type)
    if incoming.actor != "":
        plain_text("The actor", incoming.actor)
    return incoming


def _call(handler: Handler, event: Event) -> Call[Any]:
    try:
        return Call(handler.job, (event,), {})
    except Exception as error:
        why = error.message if isinstance(error, InterlockError) else f"{type(error).__name__}."
        raise EventRefusedError(
            f"Could not compute the lane or a limit of {handler.job.name!r} for {event.name}: {why}",
            remedy="Fix the template or the function, then deliver the event again.",
        ) from error


def _written(payload: dict[str, Any]) -> str:
    """Serialize a payload that a source created."""
    try:
        text = json.dumps(payload, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise MalformedEventError(f"The payload cannot be stored: {type(error).__name__}.") from error
    if "\\u0000" in text:
        raise MalformedEventError("The payload contains a NUL character.")
    return text
