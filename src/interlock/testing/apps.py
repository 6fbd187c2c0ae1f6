"""Tests of one's own app: a fresh store for an app of a module, and time that the test moves.

``fresh`` gives every concept of an app another store for the duration of a block. ``virtual_time`` does the same with a
clock that stands still until the test moves it, and ``drain`` runs what is due on the way to a given time.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from interlock.backends import from_url
from interlock.clock import as_datetime
from interlock.errors import InvalidArgumentError, MisuseError
from interlock.insight import Insight
from interlock.jobs.jobs import engine_of
from interlock.jobs.worker import drain as drain_now
from interlock.ports.jobs import FetchRequest, FetchResult
from interlock.ports.store import Capability
from interlock.testing.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from interlock.app import App
    from interlock.arguments import Seconds
    from interlock.clock import Clock
    from interlock.jobs import Job, Outcome
    from interlock.ports.store import Store

__all__ = ["VirtualTime", "drain", "fresh", "jobs_of", "use_stores", "virtual_time"]

_START = datetime(2027, 1, 15, 8, 0, tzinfo=UTC)
_CONCEPTS = frozenset(
    {
        Capability.LOCKS,
        Capability.CLAIMS,
        Capability.CURSORS,
        Capability.LIMITS,
        Capability.JOBS,
        Capability.EVENTS,
        Capability.JOURNAL,
        Capability.RECORDS,
    }
)
_STEP = 1e-6
"""Added to each step in time, so that rounding does not leave what is due a moment ahead."""
_MAX_IDLE = 100


@contextmanager
def fresh(app: App, url: str = "memory://", *, clock: Clock | None = None) -> Iterator[App]:
    """Give an app another store for the duration of the block: ``with fresh(app): async with app: …``.

    Everything that was taken from the app before uses it too: jobs, locks, records, pipelines. ``url`` is that of an
    empty store; the default is a new one in memory. If the app has several stores, each is replaced. The app must not
    be open when the block begins or ends.
    """
    clients = app._store_clients  # noqa: SLF001 - the tests of an app may know what it is made of
    stores = [
        from_url(url, settings=client.settings, clock=clock, needs=_CONCEPTS & client.store.capabilities)
        for client in clients
    ]
    with use_stores(app, stores, clock):
        yield app


@contextmanager
def use_stores(app: App, stores: list[Store], clock: Clock | None = None) -> Iterator[None]:
    """Let an app use these stores, in the order of its own, for the duration of the block."""
    _check_closed(app, "before its store is replaced")
    clients = app._store_clients  # noqa: SLF001
    former = [(client.store, client.clock) for client in clients]
    insight = app.insight
    _bind(app, stores, clock)
    try:
        yield
    finally:
        if not app.is_open:  # an open app keeps the store that it uses
            for client, (store, own_clock) in zip(clients, former, strict=True):
                client.use(store, own_clock)
            _finish(app, insight)
    _check_closed(app, "before the end of the block")


def _bind(app: App, stores: list[Store], clock: Clock | None) -> None:
    clients = app._store_clients  # noqa: SLF001
    durable = stores[clients.index(app._durable)]  # noqa: SLF001
    for client, store in zip(clients, stores, strict=True):
        client.use(store, clock)
        client.journal = durable.journal if Capability.JOURNAL in durable.capabilities else None
    # Services keep their clients, so only readers have to be made anew.
    by_client = dict(zip(map(id, clients), stores, strict=True))
    places = (app.locks, app.claims)
    locks, claims = (by_client[id(part._store_client)] for part in places)  # noqa: SLF001
    _finish(app, Insight(durable, locks=locks, claims=claims, clock=clock))


def _finish(app: App, insight: Insight) -> None:
    app.insight = insight
    for concept in (app.locks, app.claims, app.limits, app._jobs, app._events, app._schedules):  # noqa: SLF001
        if concept is not None:
            concept.explain_with(insight.explain)
    if app._record_engine is not None:  # noqa: SLF001
        app._record_engine.forget()  # noqa: SLF001


def _check_closed(app: App, when: str) -> None:
    if app.is_open:
        raise MisuseError(f"The app is open; it has to be closed {when}.", remedy="Leave `async with app` first.")


# -- time --------------------------------------------------------------------------------------------------------------


class VirtualTime:
    """The time of an app in a test: it stands still until the test moves it. See :func:`virtual_time`."""

    def __init__(self, app: App, clock: VirtualClock) -> None:
        self._app = app
        self._clock = clock

    @property
    def now(self) -> datetime:
        """The current time."""
        return as_datetime(self._clock.now())

    async def advance(self, duration: Seconds) -> None:
        """Let this much time pass. Nothing runs meanwhile; see :func:`drain` for that."""
        await _advance(self._app, self._clock, _seconds(duration))

    async def travel(self, to: datetime) -> None:
        """Move to a later time."""
        await self.advance((_aware(to) - self.now).total_seconds())


@asynccontextmanager
async def virtual_time(app: App, start: datetime = _START) -> AsyncIterator[VirtualTime]:
    """Open an app on a fresh store in memory, with a clock that the test moves.

    Delays, retries, schedules, cooldowns, the expiry of claims and of results, and everything else that depends on the
    store's clock follow it. The session of the app lives on, however far the clock is moved. ``asyncio.sleep`` and the
    ``wait=`` of calls take real time. Random delays are the same in every run: ``random`` is seeded.
    """
    clock = VirtualClock(_aware(start).timestamp())
    chance = random.getstate()
    random.seed("interlock/virtual-time")
    try:
        with fresh(app, clock=clock):
            async with app:
                yield VirtualTime(app, clock)
    finally:
        random.setstate(chance)


async def drain(
    app: App, until: datetime | Seconds | None = None, *, concurrency: int = 1, wait: float = 60.0
) -> dict[Outcome, int]:
    """Run everything that is due until then, in order, and move the clock there; return the jobs by outcome.

    ``until`` is a time, or how long from now; by default only what is due now runs. The clock of the app, which has to
    be open in :func:`virtual_time`, jumps from one due time to the next, so no real time is spent waiting. Schedules
    fire, retries and delayed jobs run, rates and cooldowns allow the next start, each at its own time. Jobs run one at
    a time unless ``concurrency`` says otherwise. ``wait`` is how many real seconds the handlers of one due time may
    take.
    """
    clock = _clock_of(app)
    end = clock.now() if until is None else _end(until, clock.now())
    total: Counter[Outcome] = Counter()
    idle = 0
    while True:
        ran = await _drain_now(app, concurrency, wait)
        total.update(ran)
        seconds = await _next_in(app, clock.now())
        if clock.now() + seconds > end:
            break
        idle = 0 if ran or seconds > 0 else idle + 1
        if idle > _MAX_IDLE:
            raise MisuseError("Work is due that cannot start.", remedy="See what: app.insight.overview().")
        await _advance(app, clock, seconds + _STEP)
    if end > clock.now():
        await _advance(app, clock, end - clock.now())
    return dict(total)


async def _drain_now(app: App, concurrency: int, wait: float) -> dict[Outcome, int]:
    engine = engine_of(app.jobs)
    return await drain_now(engine, queues=await _queues(app), wait=wait, concurrency=concurrency)


async def _queues(app: App) -> tuple[str, ...]:
    defined = {job.chosen.queue for job in jobs_of(app)}
    stored = {view.queue for view in (await engine_of(app.jobs).insight.counts()).queues}
    return tuple(sorted({*defined, *stored, "default"}))


def jobs_of(app: App) -> list[Job[..., Any]]:
    """The jobs that an app defines."""
    return list(app.jobs._jobs.values())  # noqa: SLF001


async def _next_in(app: App, now: float) -> float:
    """Return the seconds until something is due: a job, room under a limit, or a schedule."""
    engine = engine_of(app.jobs)
    names = tuple(engine.definitions)
    # A fetch of nothing says when there may be something.
    answer = await engine.jobs.fetch(FetchRequest(engine.session.id, await _queues(app), names, 0, 0, 1))
    seconds = answer.recheck_in if isinstance(answer, FetchResult) else math.inf
    schedules = await app.schedules.list()
    times = [view.next_at.timestamp() for view in schedules if view.next_at is not None and view.state == "active"]
    return max(0.0, min([seconds, *(at - now for at in times if at > now)]))


async def _advance(app: App, clock: VirtualClock, seconds: float) -> None:
    """Move the clock. The session is renewed for that long first, as the heartbeat would have done."""
    clients = app._store_clients if app.is_open else ()  # noqa: SLF001
    for client in clients:
        await client.store.sessions.renew(client.session.id, seconds + client.settings.session_ttl)
    clock.advance(seconds)
    for client in clients:
        client.session.deadline = clock.monotonic() + client.settings.session_ttl - client.settings.session_margin
        await client.store.sessions.renew(client.session.id, client.settings.session_ttl)
        await client.store.sessions.sweep()
    if clients and app._jobs is not None:  # noqa: SLF001
        engine = engine_of(app.jobs)
        for fetcher in engine.fetchers:
            fetcher.session_began(engine.session)  # an open worker looks for what is due by now
    await asyncio.sleep(0)


def _clock_of(app: App) -> VirtualClock:
    clock = app._durable.clock  # noqa: SLF001
    if not isinstance(clock, VirtualClock) or not app.is_open:
        raise MisuseError("The app has no virtual time.", remedy="Use drain inside: async with virtual_time(app).")
    return clock


def _end(until: datetime | Seconds, now: float) -> float:
    return _aware(until).timestamp() if isinstance(until, datetime) else now + _seconds(until)


def _seconds(duration: Seconds) -> float:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
    if not 0 <= seconds < math.inf:
        raise InvalidArgumentError(f"Invalid duration {duration!r}.", remedy="Time goes forward only.")
    return seconds


def _aware(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise InvalidArgumentError(f"{at!r} has no time zone.", remedy="Use an aware datetime: tzinfo=UTC.")
    return at
