"""The composition root: one object that knows the stores, the settings, and everything built on them."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Never, Self, TypeVar, Unpack

from interlock.arguments import checked_url
from interlock.backends import from_url
from interlock.claims import Claims
from interlock.cursors import Cursors
from interlock.errors import CapabilityError, InvalidArgumentError, MisuseError
from interlock.events import Events
from interlock.insight import Insight
from interlock.jobs import Jobs, Lanes, Queues, Retry
from interlock.jobs.jobs import MiddlewareT, engine_of
from interlock.jobs.resources import Resources
from interlock.journal import Journal
from interlock.limits import Limits
from interlock.locks import Locks
from interlock.portal import Host, Portal, keep_forever
from interlock.ports.store import Capability
from interlock.record_strategies import StrategyOverrides
from interlock.records.declaration import leave_declarations, warn_about_unused
from interlock.settings import Settings
from interlock.store_client import StoreClient
from interlock.sync import Sync
from interlock.telemetry.metrics import Together
from interlock.values import describe_type

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from prometheus_client.registry import Collector
    from pydantic import BaseModel

    from interlock.arguments import Seconds, Wait
    from interlock.events.handler import EventDecorator, IgnoreRule
    from interlock.events.source import Source
    from interlock.jobs import JobState, Outcome
    from interlock.jobs.end_hooks import EndHookDecorator, EndHookOptions
    from interlock.jobs.jobs import JobDecorator
    from interlock.jobs.options import JobDefinitionOptions
    from interlock.jobs.worker import Worker
    from interlock.limits.kinds import Limit
    from interlock.pipelines import Pipeline
    from interlock.ports.store import Store
    from interlock.record_strategies import StrategyChoice
    from interlock.records import Machine, Records
    from interlock.records.engine import RecordEngine
    from interlock.schedules import Schedules
    from interlock.schedules.options import CronOptions, ScheduleOptions
    from interlock.service import Service
    from interlock.settings import SettingsChanges
    from interlock.telemetry.pipelines import PipelineMetrics
    from interlock.web import Credentials, Web

__all__ = ["App"]

M = TypeVar("M", bound="BaseModel")
Lifespan = Callable[
    [Any], AbstractAsyncContextManager[Mapping[Any, Any] | None] | AsyncIterator[Mapping[Any, Any] | None]
]
"""A function of the app that is an async context manager, or an async generator that yields once."""
LifespanT = TypeVar("LifespanT", bound=Lifespan)


class App:
    """An application on Interlock.

    ``url`` names the durable store: ``memory://``, ``sqlite:///bot.db`` or ``postgresql://…``. ``locks`` moves only
    :attr:`locks` to another store, ``claims`` only :attr:`claims`. Everything opens with ``async with app:``, and then
    ``lifespan`` is entered, which creates what handlers share; see :meth:`lifespan`. On a store that offers no jobs,
    such as Redis, the rest works and :attr:`jobs` says so.
    """

    def __init__(
        self,
        url: str,
        *,
        locks: str | None = None,
        claims: str | None = None,
        lifespan: Lifespan | None = None,
        settings: Settings | None = None,
        **changes: Unpack[SettingsChanges],
    ) -> None:
        self.settings = Settings.of(settings, changes)
        self._strategies = StrategyOverrides.read(self.settings.record_strategies)
        for given in (url, locks or url, claims or url):
            checked_url(given)
        needs: dict[str, list[Capability]] = {}
        places: dict[type[Service[Any]], str] = {
            Locks: locks or url,
            Claims: claims or url,
            Cursors: url,
            Limits: url,
        }
        for part, place in places.items():
            needs.setdefault(place, []).append(part.needs)
        store_clients = {
            place: self._client(partial(from_url, place, settings=self.settings, needs=needed))
            for place, needed in needs.items()
        }
        self._store_clients = tuple(store_clients.values())
        durable = store_clients[url].store
        for store_client in self._store_clients:
            if Capability.JOURNAL in durable.capabilities:
                store_client.journal = durable.journal
        self.locks = Locks(store_clients[places[Locks]])
        """One holder per key at a time."""
        self.claims = Claims(store_clients[places[Claims]])
        """Each thing once."""
        self.cursors = Cursors(store_clients[url])
        """Where pollers stand."""
        self.limits = Limits(store_clients[url])
        """How much at once, and how often."""
        store = store_clients[url].store
        self._store = store.name
        self._jobs = Jobs(store_clients[url]) if Jobs.needs in store.capabilities else None
        self._lanes = None if self._jobs is None else Lanes(self._jobs)
        self._queues = None if self._jobs is None else Queues(self._jobs)
        self._journal = Journal(store_clients[url]) if Capability.JOURNAL in store.capabilities else None
        self._events: Events | None = None
        if self._jobs is not None and Events.needs in store.capabilities:
            self._events = Events(store_clients[url], jobs=self._jobs)
        self._schedules: Schedules | None = None
        if self._jobs is not None:
            from interlock.schedules import Schedules

            self._schedules = Schedules(store_clients[url], jobs=self._jobs)
        self.insight = Insight(
            store, locks=store_clients[places[Locks]].store, claims=store_clients[places[Claims]].store
        )
        """Questions about all of it."""
        for concept in (self.locks, self.claims, self.limits, self._jobs, self._events, self._schedules):
            if concept is not None:
                concept.explain_with(self.insight.explain)
        self._durable = store_clients[url]
        self._record_engine: RecordEngine | None = None
        self._record_locks: Locks | None = None
        self._records: dict[str, Records[Any]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._declaring: set[asyncio.Task[None]] = set()
        self._pipelines: dict[str, Pipeline[Any]] = {}
        self._pipeline_metrics: PipelineMetrics | None = None
        self._opened: AsyncExitStack | None = None
        self._lifespan: Lifespan | None = None
        self.resources = Resources() if self._jobs is None else self._jobs.resources
        """What the lifespan provided, by type: ``app.resources[httpx.AsyncClient]``. Empty while the app is closed."""
        if lifespan is not None:
            self.lifespan(lifespan)
        self._sync: Sync | None = None
        self._portal = Portal(
            Host(
                "The app",
                open=self._open,
                close=self._close,
                loop=lambda: None if self._opened is None else self._loop,
                in_use=lambda: any(part.in_use() for part in self._parts()),
                forget=self._forget,
            )
        )
        for service in self._parts():
            service.enter_by(self._portal)

    def _client(self, make: Callable[[], Store]) -> StoreClient:
        return StoreClient(make(), self.settings, remake=make)

    def _parts(self) -> list[Service[Any]]:
        """Everything that opens and closes with the app, in this order."""
        durable = (self._record_locks, self._jobs, self._events, self._schedules)
        parts = (self.locks, self.claims, self.cursors, self.limits, *durable)
        return [part for part in parts if part is not None]

    @property
    def sync(self) -> Sync:
        """Everything for synchronous code: ``with app.sync.locks.acquire(key): …``; see :mod:`interlock.sync`."""
        if self._sync is None:
            self._sync = Sync(self._portal, self.locks, self.claims, self.limits, lambda: self.jobs)
        return self._sync

    @property
    def portal(self) -> Portal:
        """The way from synchronous code into this app."""
        return self._portal

    @property
    def jobs(self) -> Jobs:
        """Durable units of work."""
        if self._jobs is None:
            raise self._lacks("jobs")
        return self._jobs

    @property
    def lanes(self) -> Lanes:
        """The order that jobs keep."""
        if self._lanes is None:
            raise self._lacks("jobs")
        return self._lanes

    @property
    def queues(self) -> Queues:
        """The pools of work that workers subscribe to."""
        if self._queues is None:
            raise self._lacks("jobs")
        return self._queues

    @property
    def events(self) -> Events:
        """Deliveries from outside, and their handlers."""
        if self._events is None:
            raise self._lacks("events")
        return self._events

    @property
    def schedules(self) -> Schedules:
        """Cron expressions and intervals that enqueue jobs."""
        if self._schedules is None:
            raise self._lacks("schedules")
        return self._schedules

    @property
    def journal(self) -> Journal:
        """Who changed what, when and why."""
        if self._journal is None:
            raise self._lacks("journal")
        return self._journal

    def _lacks(self, what: str) -> CapabilityError:
        return CapabilityError(
            f"{self._store} offers no {what}.",
            remedy="Give the App a durable store, and Redis only what it is good for: "
            "App('postgresql://…', locks='redis://…').",
        )

    def source(self, source: Source) -> Source:
        """Take events from a source: ``app.source(GitHub(secret=…))``; see :meth:`Events.source`."""
        return self.events.source(source)

    def on(
        self,
        pattern: str,
        *,
        ignore: IgnoreRule | None = None,
        include_own: bool = False,
        **how: Unpack[JobDefinitionOptions],
    ) -> EventDecorator:
        """A decorator that makes a handler of events: ``@app.on("github.issues.*", lane=…)``; see :meth:`Events.on`."""
        return self.events.on(pattern, ignore=ignore, include_own=include_own, **how)

    def job(self, *function: Never, **how: Unpack[JobDefinitionOptions]) -> JobDecorator:
        """A decorator that makes a job of a function: ``@app.job(lane="{repo}#{number}")``; see :meth:`Jobs.job`."""
        return self.jobs.job(*function, **how)

    def cron(self, expression: str, /, **how: Unpack[CronOptions]) -> JobDecorator:
        """A decorator that defines a job and runs it by the clock: ``@app.cron("*/5 * * * *", timezone=…)``.

        See :meth:`Schedules.cron`.
        """
        return self.schedules.cron(expression, **how)

    def every(self, interval: Seconds, /, **how: Unpack[ScheduleOptions]) -> JobDecorator:
        """A decorator for a job that runs at an interval: ``@app.every(30)``; see :meth:`Schedules.every`."""
        return self.schedules.every(interval, **how)

    def lifespan(self, function: LifespanT) -> LifespanT:
        """Run an async context manager while the app is open: ``@app.lifespan``, or ``App(url, lifespan=…)``.

        It is a function of the app, with or without ``@asynccontextmanager``. What comes before its ``yield`` runs when
        the app opens, after its stores; the rest runs when the app closes, after its workers have stopped. It may yield
        resources by type, ``yield {httpx.AsyncClient: client}``, which handlers get as parameters with the default
        ``INJECTED``.
        """
        if self._lifespan is not None:
            raise MisuseError("The app already has a lifespan.", remedy="Enter both context managers in one function.")
        if not callable(function):
            raise MisuseError(
                f"The lifespan is {describe_type(function)}.",
                remedy="Pass a function: async def lifespan(app): … yield ….",
            )
        self._lifespan = function
        return function

    def on_end(
        self,
        *states: JobState | Literal["done", "failed", "discarded", "cancelled", "superseded", "quarantined", "expired"],
        **how: Unpack[EndHookOptions],
    ) -> EndHookDecorator:
        """A decorator for a function that runs after the end of every job; see :meth:`Jobs.on_end`."""
        return self.jobs.on_end(*states, **how)

    def middleware(self, function: MiddlewareT) -> MiddlewareT:
        """Run ``async def middleware(job, call_next)`` around every handler; see :meth:`Jobs.middleware`."""
        return self.jobs.middleware(function)

    def worker(
        self,
        *,
        concurrency: int = 50,
        queues: Iterable[str] | Mapping[str, int | None] = ("default",),
        finish_within: Wait = 25.0,
    ) -> Worker:
        """A worker in this process; see :meth:`Jobs.worker`."""
        return self.jobs.worker(concurrency=concurrency, queues=queues, finish_within=finish_within)

    async def drain(self, *, wait: Seconds = 60.0, queues: Iterable[str] | None = None) -> dict[Outcome, int]:
        """Run all jobs that can run now, in this process, until none is ready. For tests; see :meth:`Jobs.drain`."""
        return await self.jobs.drain(wait=wait, queues=queues)

    def records(
        self,
        model: type[M],
        *,
        name: str | None = None,
        machine: Machine | None = None,
        strategies: Mapping[str, StrategyChoice] | None = None,
        wait: Wait = 5.0,
        correctable: Iterable[str] | None = None,
        sources: Iterable[str] | None = None,
    ) -> Records[M]:
        """Declare the records of a pydantic model: ``intents = app.records(Intent, machine=…)``.

        ``name`` is their kind in the store; the default is the model's name. ``machine`` is checked on every write.
        ``strategies`` chooses a strategy for an operation, such as ``{"update": "pessimistic"}``, or one with its own
        wait, such as ``{"transition": ("pessimistic", 2)}``; ``wait`` is that of all others. ``correctable`` are the
        fields that corrections may change (all of the model's own), ``sources`` those who may make them (everyone).
        Strategies and waits of the settings (``record_strategies``) and of the environment override these.
        """
        from interlock.records.engine import RecordEngine
        from interlock.records.records import Records

        if self._record_engine is None:
            if Capability.RECORDS not in self._durable.store.capabilities:
                raise self._lacks("records")
            locks = self.locks
            if not locks.uses(self._durable):
                if self._opened is not None:
                    raise MisuseError(
                        "Records cannot be declared after the app was opened, because its locks are in another store.",
                        remedy="Call app.records(…) before async with app.",
                    )
                # The lease on a record is in the record's own store, wherever the other locks are.
                locks = self._record_locks = Locks(self._durable)
                locks.enter_by(self._portal)
            self._record_engine = RecordEngine(self._durable, locks)
        records = Records(
            self._record_engine,
            model,
            name=name,
            machine=machine,
            strategies=strategies,
            wait=wait,
            correctable=correctable,
            sources=sources,
            overrides=self._strategies,
        )
        if records.kind in self._records:
            raise InvalidArgumentError(
                f"Records of the kind {records.kind!r} are already declared.", remedy="Give one of them a name=…."
            )
        self._records[records.kind] = records
        if self._opened is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._declare, records)
        return records

    def _declare(self, records: Records[Any]) -> None:
        """Leave the declaration of a kind that was declared after the app was opened."""
        if self._opened is not None:
            leaving = leave_declarations(self._durable, [(records.kind, records.declaration)])
            task = asyncio.get_running_loop().create_task(leaving, name="interlock-record-kind")
            self._declaring.add(task)
            task.add_done_callback(self._declaring.discard)

    def pipeline(
        self,
        name: str,
        records: Records[M],
        *,
        stages: Iterable[object],
        mode: str = "failfast",
        failed: object = "failed",
        queue: str = "default",
        priority: int = 50,
        limits: Iterable[Limit] = (),
        retry: Retry = Retry.NEVER,
    ) -> Pipeline[M]:
        """Declare ordered stages over records: ``app.pipeline("intake", intents, stages=[normalize, publish])``.

        A stage is a coroutine function that takes the record, and perhaps the run, or an object with such a method;
        ``Stage(…)`` gives it options. ``mode`` decides what a failed stage means: the run fails (``failfast``), goes on
        (``continue``), or fails only if the stage is required (``selective``). ``failed`` is the status of a record
        whose run has failed, if the machine allows it; None leaves the status as it is. ``retry`` decides when a failed
        stage is tried again; the other options are those of jobs.
        """
        from interlock.pipelines import Pipeline
        from interlock.telemetry.pipelines import PipelineMetrics

        if self._records.get(records.kind) is not records or self._record_engine is None:
            raise InvalidArgumentError(
                f"The records {records.kind!r} are not of this app.", remedy="Pass what app.records(…) returned."
            )
        if self._pipeline_metrics is None:
            self._pipeline_metrics = PipelineMetrics(self._store, self.settings.metrics_prefix)
        pipeline = Pipeline(
            self.jobs,
            name,
            records,
            self._record_engine,
            self._pipeline_metrics,
            stages,
            mode=mode,
            failed=failed,
            queue=queue,
            priority=priority,
            limits=limits,
            retry=retry,
        )
        self._pipelines[pipeline.name] = pipeline
        return pipeline

    @property
    def pipelines(self) -> Mapping[str, Pipeline[Any]]:
        """The declared pipelines by name."""
        return MappingProxyType(self._pipelines)

    @property
    def record_kinds(self) -> Mapping[str, Records[Any]]:
        """The declared records by kind."""
        return MappingProxyType(self._records)

    def web(
        self, *, credentials: Credentials | None = None, dashboard: bool = True, allowed_hosts: str | Iterable[str] = ()
    ) -> Web:
        """This app's web app: webhooks, health, metrics and the dashboard. ASGI: mount it anywhere, or run it alone.

        Without ``credentials`` (those of the environment's ``INTERLOCK_WEB_CREDENTIALS``, if it is set) only this
        machine sees the dashboard, with the token in ``web.token``: open ``web.login_url("http://localhost:8000")``.
        ``allowed_hosts`` are further names (or one) under which it may be asked for.
        """
        try:
            from interlock.web import Credentials, Web

            return Web(
                self,
                credentials=Credentials.from_environment() if credentials is None else credentials,
                dashboard=dashboard,
                allowed_hosts=allowed_hosts,
            )
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("interlock"):
                raise
            raise MisuseError(
                f"The web app needs the package {error.name}, which is not installed.",
                remedy="Run: pip install 'interlock[web]'.",
            ) from error

    @property
    def store_name(self) -> str:
        """The backend of the durable store: memory, sqlite, postgres or redis."""
        return self._store

    @property
    def is_open(self) -> bool:
        """Whether everything is open: inside ``async with app:``."""
        return self._opened is not None

    def _wait_for_stores(self) -> None:
        """Let opening wait for a store that is away, however long that takes."""
        for store_client in self._store_clients:
            store_client.open_wait = math.inf

    async def __aenter__(self) -> Self:
        async with self._portal.handed_over():
            await self._open(lifespan=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _open(self, *, lifespan: bool = False) -> None:
        """Open all parts. The lifespan is for handlers, so synchronous code that opens the app does without it."""
        async with AsyncExitStack() as stack:
            for part in self._parts():
                await stack.enter_async_context(part)
            if self._records:
                declared = [(kind, records.declaration) for kind, records in self._records.items()]
                await leave_declarations(self._durable, declared)
            if lifespan and self._lifespan is not None:
                await self._enter_lifespan(stack, self._lifespan)
            self._opened, self._loop = stack.pop_all(), asyncio.get_running_loop()
        warn_about_unused(self._strategies.kinds, self._records)

    async def _enter_lifespan(self, stack: AsyncExitStack, lifespan: Lifespan) -> None:
        manager: Any = (asynccontextmanager(lifespan) if inspect.isasyncgenfunction(lifespan) else lifespan)(self)
        if not hasattr(manager, "__aenter__"):
            if inspect.iscoroutine(manager):
                manager.close()
            raise MisuseError(
                f"The lifespan returned {describe_type(manager)}.",
                remedy="Write `async def lifespan(app)` with one `yield`, or use @asynccontextmanager.",
            )
        stack.callback(self.resources.clear)
        self.resources.provide(await stack.enter_async_context(manager))
        if self._jobs is not None:
            # What handlers use stays until the last of them has ended.
            stack.push_async_callback(engine_of(self._jobs).stop_workers)

    async def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await asyncio.gather(*self._declaring, return_exceptions=True)
            await opened.aclose()

    def _forget(self) -> None:
        """Become closed in a process that was just forked. What was open belongs to its parent."""
        keep_forever(self._opened, self._declaring)
        for store_client in self._store_clients:
            store_client.forget()
        for part in self._parts():
            part.forget_engine()
        self._opened, self._loop, self._declaring = None, None, set()

    @property
    def metrics(self) -> Together:
        """A Prometheus collector for all that this app counts and times."""
        locks = self.locks.metrics
        locks.records = None if self._record_engine is None else self._record_engine.metrics
        collectors: list[Collector] = [locks, self.claims.metrics, self.limits.metrics]
        if self._jobs is not None:
            collectors += [self._jobs.metrics, self._jobs.journal_metrics]
        if self._events is not None:
            collectors.append(self._events.metrics)
        if self._schedules is not None:
            collectors.append(self._schedules.metrics)
        if self._pipeline_metrics is not None:
            collectors.append(self._pipeline_metrics)
        return Together(*collectors)
