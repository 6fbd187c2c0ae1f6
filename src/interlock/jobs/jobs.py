"""The public service of jobs: ``app.jobs``, or alone ``Jobs.from_url(url)``."""

from __future__ import annotations

import asyncio
import builtins
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Never, ParamSpec, TypeVar, Unpack, cast, overload

from interlock.arguments import checked_key, checked_limit, checked_line_number, checked_wait
from interlock.connections import run_steps, run_steps_blocking
from interlock.errors import CapabilityError, InvalidArgumentError, MisuseError, NotFoundError
from interlock.jobs.current import CurrentJob, cause_here
from interlock.jobs.definition import Definition, NamedDefinition
from interlock.jobs.end_hooks import EndHookDecorator, EndHookDefinition
from interlock.jobs.engine import JobEngine
from interlock.jobs.handle import Handle, JobStatus
from interlock.jobs.job import AsyncJob, Call, Job, NewJobs, PlainJob
from interlock.jobs.listing import list_jobs
from interlock.jobs.options import JobOptions, checked_aliases, checked_name
from interlock.jobs.queue_names import warn_about_unused_queues
from interlock.jobs.resources import Resources
from interlock.jobs.results import end_of, newest, result_in
from interlock.jobs.sync import SyncJobs
from interlock.jobs.unawaited import Unawaited
from interlock.jobs.views import job_view, log_line, progress_view
from interlock.operations import unknown_job
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState
from interlock.ports.journal import Action
from interlock.ports.store import Capability
from interlock.service import Service
from interlock.values import describe_type

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from interlock.arguments import Seconds, Wait
    from interlock.clock import Clock
    from interlock.connections import Connection
    from interlock.explanation import Explanation
    from interlock.jobs.end_hooks import EndHookOptions
    from interlock.jobs.engine import Enqueued
    from interlock.jobs.options import JobDefinitionOptions
    from interlock.jobs.views import JobView, LogLine, Progress
    from interlock.jobs.worker import Worker
    from interlock.operations import BulkResult, Operations
    from interlock.ports.job_hooks import EndHook
    from interlock.ports.jobs import Outcome
    from interlock.ports.store import Store
    from interlock.ports.transactions import EnqueuedInTransaction, Steps
    from interlock.reasons import Reason
    from interlock.settings import Settings
    from interlock.store_client import StoreClient
    from interlock.telemetry.jobs import JobMetrics
    from interlock.telemetry.journal import JournalMetrics

__all__ = ["JobDecorator", "Jobs", "Middleware", "engine_of", "explain_with"]

P = ParamSpec("P")
R = TypeVar("R")
R1 = TypeVar("R1")
R2 = TypeVar("R2")
R3 = TypeVar("R3")
R4 = TypeVar("R4")
R5 = TypeVar("R5")
R6 = TypeVar("R6")

Middleware = Callable[[CurrentJob, Callable[[], Awaitable[Any]]], Coroutine[Any, Any, Any]]
"""A coroutine function that runs around a handler: ``async def middleware(job, call_next)``."""
MiddlewareT = TypeVar("MiddlewareT", bound=Middleware)
_DEFAULT_WAIT = 60.0
_LOG_PART = 500
_FOLLOW_PAUSE = 0.5


class Jobs(Service[JobEngine]):
    """Durable units of work in one store: in order within their lanes, under their limits, run by workers.

    Jobs can be defined before or after opening. Everything that talks to the store needs it open.
    """

    needs = Capability.JOBS
    _these = "These jobs"

    def __init__(
        self, store: Store | StoreClient, settings: Settings | None = None, *, clock: Clock | None = None
    ) -> None:
        super().__init__(store, settings, clock=clock)
        found = self._store_client.store
        if self.needs not in found.capabilities:
            raise CapabilityError(
                f"The {found.name} store does not support jobs.",
                remedy="Use memory://, sqlite:// or postgresql:// for the app's store.",
            )
        self._jobs: dict[str, Job[..., Any]] = {}
        self._definitions: dict[str, Definition] = {}
        self._middleware: list[Middleware] = []
        self._end_hooks: list[EndHook] = []
        self.resources = Resources()
        """What the lifespan of the app provides to handlers."""

    def _new_engine(self, store_client: StoreClient) -> JobEngine:
        engine = JobEngine(store_client, self._definitions)
        engine.service, engine.middleware, engine.resources = self, self._middleware, self.resources
        return engine

    @property
    def sync(self) -> SyncJobs:
        """The same for synchronous code: scripts, threads, plain functions."""
        return SyncJobs(self)

    @property
    def metrics(self) -> JobMetrics:
        """The metrics of these jobs; register them with a Prometheus registry."""
        return self._opened.metrics

    @property
    def journal_metrics(self) -> JournalMetrics:
        """The metrics of the journal that these workers seal."""
        return self._opened.journal_metrics

    # -- defining ----------------------------------------------------------------------------------------------------

    def job(self, *function: Never, **how: Unpack[JobDefinitionOptions]) -> JobDecorator:
        """A decorator that defines a job from a function: ``async def``, or plain ``def``, which runs in a thread.

        ``name`` defaults to the function's name. ``aliases`` are former names of the job: workers also run the jobs
        that were enqueued under them. ``lane`` is a template over the arguments or a function of them: jobs of one lane
        run in order, one at a time. ``limits`` hold across all processes. ``priority`` is 0 to 100. ``retry`` decides
        when a failure is retried, and ``timeout`` how long an attempt may take. ``on_failure`` decides about the lane:
        it waits (``block``), continues (``skip``), or is parked after the last attempt (``park``). With ``coalesce``
        the newest job of the lane does the work of those directly before it. The result is kept for ``keep_result``.
        Of jobs with the same ``key``, a template over the arguments or a function of them, only the first is accepted,
        until ``keep_key`` after its end (24 hours by default). A job that has not started when it ``expires``, seconds
        after it was accepted, is never started. ``capture_logs`` is a level of logging: what the handler logs from that
        level on is kept with the job.
        """
        if function:
            raise MisuseError("@app.job is used without parentheses.", remedy="Write @app.job(), also without options.")
        given: dict[str, Any] = dict(how)
        name, aliases = given.pop("name", None), given.pop("aliases", ())
        return JobDecorator(self, name, JobOptions.of(given), checked_aliases(aliases))

    def define(self, definition: Definition, aliases: Sequence[str] = ()) -> Job[..., Any]:
        """Add a job by its name and its former names."""
        names = (definition.name, *aliases)
        for name in names:
            if name in self._definitions or names.count(name) > 1:
                raise MisuseError(
                    f"Two jobs have the name or alias {name!r}.",
                    remedy="Give one of them another name: name=…, or remove the alias.",
                )
        kind = AsyncJob[..., Any] if definition.is_async else PlainJob[..., Any]
        definition.resources = self.resources
        if not isinstance(definition, EndHookDefinition):
            for hook in self._end_hooks:
                definition.add_hook(hook)
        job = self._jobs[definition.name] = kind(self, definition)
        for name in names:
            self._definitions[name] = definition
        return job

    def on_end(
        self,
        *states: JobState | Literal["done", "failed", "discarded", "cancelled", "superseded", "quarantined", "expired"],
        **how: Unpack[EndHookOptions],
    ) -> EndHookDecorator:
        """A decorator for a function that runs after the end of every job defined here; see :meth:`Job.on_end`.

        It does not run after the ends of hooks themselves.
        """
        return EndHookDecorator(states, how, partial(self.define_hook, None))

    def define_hook(
        self, after: Definition | None, definition: EndHookDefinition, aliases: Sequence[str], hook: EndHook
    ) -> Job[..., Any]:
        """Add an end hook of one job, or of all."""
        if isinstance(after, EndHookDefinition):
            raise MisuseError(f"{after.name!r} is an end hook itself.", remedy="Do it at the end of that hook.")
        if after is not None and self._definitions.get(after.name) is not after:
            raise MisuseError(
                f"{after.name!r} is not defined here, so its hooks are not known here.",
                remedy="Add the hook where the job is defined.",
            )
        job = self.define(definition, aliases)
        if after is not None:
            after.add_hook(hook)
            return job
        self._end_hooks.append(hook)
        for one in dict.fromkeys(self._definitions.values()):
            if not isinstance(one, EndHookDefinition):
                one.add_hook(hook)
        return job

    def middleware(self, function: MiddlewareT) -> MiddlewareT:
        """Run ``async def middleware(job, call_next)`` around every handler here, the first defined outermost.

        ``await call_next()`` runs the handler and returns its result; what the middleware returns is the job's result.
        An error in the middleware counts as the handler's. The handler sees the context variables that it sets, also in
        a thread.
        """
        if not inspect.iscoroutinefunction(function):
            raise MisuseError(
                f"Middleware is {describe_type(function)}.", remedy="Write: async def middleware(job, call_next)."
            )
        self._middleware.append(function)
        return function

    def __getitem__(self, name: str) -> Job[..., Any]:
        """A job defined here, by its name or an alias."""
        definition = self._definitions.get(name)
        job = None if definition is None else self._jobs.get(definition.name)
        if job is None:
            known = ", ".join(sorted(self._jobs)) or "none"
            raise NotFoundError(f"No job named {name!r} is defined here.", remedy=f"Defined jobs: {known}.")
        return job

    def __contains__(self, name: object) -> bool:
        return name in self._definitions

    def named(self, name: str) -> Job[..., Any]:
        """A job by its name, also if its handler is in another program: ``jobs.named("report").options(…)``.

        A job that is defined here by this name or alias is returned as it is. Otherwise the worker validates the
        arguments, and the definition's options are unknown here: pass the queue, lane and limits that it needs.
        """
        checked = checked_name("job", name)
        return self[checked] if checked in self._definitions else AsyncJob[..., Any](self, NamedDefinition(checked))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the jobs defined here."""
        return tuple(self._jobs)

    # -- enqueuing ---------------------------------------------------------------------------------------------------

    @overload
    def enqueue(self, call: Call[R], /) -> Coroutine[Any, Any, Handle[R]]: ...

    @overload
    def enqueue(self, name: str, /, **arguments: Any) -> Coroutine[Any, Any, Handle[Any]]: ...

    def enqueue(self, call: Call[R] | str, /, **arguments: Any) -> Coroutine[Any, Any, Handle[Any]]:
        """Enqueue one job by its name: ``await jobs.enqueue("report", account="a1")``; see :meth:`named`.

        Also takes a call: ``await jobs.enqueue(job.call(…))`` is ``await job.enqueue(…)``.
        """

        async def enqueue() -> Handle[Any]:
            return await self.enqueue_call(self.call_of(call, arguments))

        return Unawaited(enqueue(), partial(_not_enqueued, call))

    async def enqueue_call(self, call: Call[R], /) -> Handle[R]:
        """Enqueue one job; what every form of enqueuing one comes to."""
        self._check(call)
        if call.job.connection is not None:
            (handle,) = await self._enqueue_in_transaction([call], call.job.connection)
            return handle
        return self._handles(await self._running.accept([call]))[0]

    def call_of(self, call: Call[R] | str, arguments: dict[str, Any]) -> Call[Any]:
        """The call that :meth:`enqueue` enqueues."""
        if isinstance(call, str):
            call = self.named(call).call(**arguments)
        elif arguments:
            raise InvalidArgumentError(
                f"A call already has its arguments, but got {', '.join(map(repr, arguments))}.",
                remedy="Pass them to job.call(…).",
            )
        self._check(call)
        return call

    @overload
    async def enqueue_many(  # type: ignore[overload-overlap]
        self, calls: tuple[Call[R1], Call[R2]], /, *, connection: Connection | None = None
    ) -> tuple[Handle[R1], Handle[R2]]: ...

    @overload
    async def enqueue_many(  # type: ignore[overload-overlap]
        self, calls: tuple[Call[R1], Call[R2], Call[R3]], /, *, connection: Connection | None = None
    ) -> tuple[Handle[R1], Handle[R2], Handle[R3]]: ...

    @overload
    async def enqueue_many(  # type: ignore[overload-overlap]
        self, calls: tuple[Call[R1], Call[R2], Call[R3], Call[R4]], /, *, connection: Connection | None = None
    ) -> tuple[Handle[R1], Handle[R2], Handle[R3], Handle[R4]]: ...

    @overload
    async def enqueue_many(  # type: ignore[overload-overlap]
        self, calls: tuple[Call[R1], Call[R2], Call[R3], Call[R4], Call[R5]], /, *, connection: Connection | None = None
    ) -> tuple[Handle[R1], Handle[R2], Handle[R3], Handle[R4], Handle[R5]]: ...

    @overload
    async def enqueue_many(  # type: ignore[overload-overlap]
        self,
        calls: tuple[Call[R1], Call[R2], Call[R3], Call[R4], Call[R5], Call[R6]],
        /,
        *,
        connection: Connection | None = None,
    ) -> tuple[Handle[R1], Handle[R2], Handle[R3], Handle[R4], Handle[R5], Handle[R6]]: ...

    @overload
    async def enqueue_many(
        self, calls: Iterable[Call[R]], /, *, connection: Connection | None = None
    ) -> builtins.list[Handle[R]]: ...

    async def enqueue_many(self, calls: Iterable[Call[Any]], /, *, connection: Connection | None = None) -> Any:
        """Enqueue several jobs, all or none, in this order. Returns a handle of each.

        A tuple of up to six calls of different jobs gives a tuple of handles, each typed like its job:
        ``report, mail = await jobs.enqueue_many((build.call(7), send.call("a@b")))``. Any other iterable gives a list.

        With ``connection=``, the caller's own, the jobs belong to its transaction, and exist if and when it commits.
        """
        given = builtins.list(calls)
        for call in given:
            self._check(call)
        connection = _connection_of(given, connection)
        handles: builtins.list[Handle[Any]]
        if connection is not None:
            handles = await self._enqueue_in_transaction(given, connection)
        else:
            handles = self._handles(await self._running.accept(given)) if given else []
        return tuple(handles) if isinstance(calls, tuple) else handles

    async def _enqueue_in_transaction(
        self, calls: Sequence[Call[Any]], connection: Connection
    ) -> builtins.list[Handle[Any]]:
        return self._uncommitted(calls, await run_steps(connection, self._steps(calls)))

    def enqueue_on(self, connection: Connection, calls: Iterable[Call[R]], /) -> builtins.list[Handle[R]]:
        """Enqueue jobs in the transaction of a synchronous connection. Needs neither an event loop nor an open app."""
        given = builtins.list(calls)
        for call in given:
            self._check(call)
        connection = _connection_of(given, connection) or connection
        return self._uncommitted(given, run_steps_blocking(connection, self._steps(given)))

    def _steps(self, calls: Sequence[Call[Any]]) -> Steps[EnqueuedInTransaction]:
        jobs = NewJobs(calls, [0] * len(calls), cause_here())  # the store assigns the IDs
        return self._store_client.store.jobs.enqueue_in_transaction(jobs)

    def _uncommitted(self, calls: Sequence[Call[Any]], accepted: EnqueuedInTransaction) -> builtins.list[Handle[Any]]:
        if self._engine is not None:
            for call in calls:
                self._engine.metrics.of(call.job.name).enqueued_in_transaction += 1
        if not any(accepted.existing):
            return [Handle(self, job_id, uncommitted=True, accepted_at=accepted.at) for job_id in accepted.ids]
        # One that exists may have been enqueued in the same transaction.
        return [
            Handle(self, job_id, created=not existing, uncommitted=True, accepted_at=None if existing else accepted.at)
            for job_id, existing in zip(accepted.ids, accepted.existing, strict=True)
        ]

    async def ensure_committed(self, job: int, accepted_at: float | None) -> None:
        """Raise ``NotFoundError`` if a job that was enqueued in a caller's transaction does not exist."""
        view = await self._running.repeat(lambda: self._running.insight.get(job))
        if view is None or (accepted_at is not None and view.enqueued_at != accepted_at):
            raise NotFoundError(
                f"Job {job} does not exist: the transaction in which it was enqueued has not been committed, or was"
                " rolled back; or the job ended long ago and is no longer kept.",
                remedy="Commit the transaction first.",
            )

    def _handles(self, enqueued: Enqueued) -> builtins.list[Handle[Any]]:
        ids, existing = enqueued
        if not existing:
            return [Handle(self, job_id) for job_id in ids]
        return [Handle(self, existing.get(job_id, job_id), created=job_id not in existing) for job_id in ids]

    def _check(self, call: Call[Any]) -> None:
        if not isinstance(call, Call):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise InvalidArgumentError(
                f"Expected a call, got {describe_type(call)}.", remedy="Pass the result of job.call(…)."
            )
        if call.job.jobs is not self:
            raise MisuseError(f"The job {call.job.name!r} was defined on other Jobs.", remedy="Enqueue it there.")

    # -- one job -----------------------------------------------------------------------------------------------------

    def handle(self, job: int) -> Handle[Any]:
        """A handle of a job by its ID; any process may have enqueued it."""
        return Handle(self, _number(job))

    async def result_of(self, job: int | Handle[Any], wait: Wait = _DEFAULT_WAIT) -> Any:
        """The result of a job; see :meth:`Handle.result`."""
        view = await end_of(self._running, _number(job), checked_wait(wait))
        return result_in(view, self._definitions.get(view.name))

    async def status_of(self, job: int | Handle[Any]) -> JobStatus:
        """The status of a job; see :meth:`Handle.status`."""
        return JobStatus.of(await newest(self._running, _number(job)))

    async def cancel(self, job: int | Handle[Any], *, reason: str, by: str) -> JobState:
        """End a job, or ask the worker that has fetched it to stop it; returns its state.

        A job at a worker is still ``fetched`` or ``running`` when this returns. Unless it succeeds after all, it ends
        as cancelled.
        """
        return await self._operations.cancel(_number(job), by=by, reason=reason)

    async def retry(self, job: int | Handle[Any], *, by: str, reason: str = "") -> JobState:
        """Make a job ready now that is scheduled, parked, or ended without success; returns its state."""
        return await self._operations.retry(_number(job), by=by, reason=reason)

    async def retry_all(
        self, *states: JobState, name: str = "", queue: str = "", lane: str = "", by: str, reason: str = ""
    ) -> BulkResult[int]:
        """Retry every job in one of these states that matches, the oldest first.

        ``len(await app.jobs.matching(…))`` counts them first. A job that needs no retry any more is left as it is.
        """
        return await self._apply(Action.JOB_RETRY, _filter(states, name, queue, lane), by, reason)

    async def cancel_all(
        self, *states: JobState, name: str = "", queue: str = "", lane: str = "", by: str, reason: str
    ) -> BulkResult[int]:
        """Cancel every job in one of these states that matches, the oldest first.

        ``len(await app.jobs.matching(…))`` counts them first. A job that ended meanwhile is left as it is.
        """
        return await self._apply(Action.JOB_CANCEL, _filter(states, name, queue, lane), by, reason)

    async def _apply(self, action: Action, wanted: JobFilter, by: str, reason: str) -> BulkResult[int]:
        if not wanted.states:
            raise InvalidArgumentError(
                "An operation on all jobs that match needs at least one state.",
                remedy="Pass one: retry_all(JobState.FAILED, by=…).",
            )
        return await self._operations.apply(action, wanted, by=by, reason=reason)

    async def matching(self, *states: JobState, name: str = "", queue: str = "", lane: str = "") -> builtins.list[int]:
        """The IDs of all jobs that match, the oldest first."""
        return await self._operations.matching(_filter(states, name, queue, lane))

    @property
    def _operations(self) -> Operations:
        return self._running.store_client.operations

    async def get(self, job: int | Handle[Any]) -> JobView:
        """One job with its arguments, result and attempts; raises ``NotFoundError`` if it is unknown or not kept."""
        number = _number(job)
        engine = self._running
        async with engine.store_client.store.snapshot():
            row = await engine.insight.get(number)
            statuses = await engine.insight.log_statuses([number])
        if row is None:
            raise unknown_job(number)
        return job_view(row, statuses.get(number))

    async def progress_of(self, job: int | Handle[Any]) -> Progress | None:
        """How far a job has come; see :meth:`Handle.progress`."""
        engine = self._running
        row = await newest(engine, _number(job))
        return progress_view(row, (await engine.insight.log_statuses([row.id])).get(row.id))

    async def logs(self, job: int | Handle[Any], *, after: int = 0, follow: bool = False) -> AsyncIterator[LogLine]:
        """The lines of a job's log with numbers above ``after``: ``async for line in app.jobs.logs(id): …``.

        With ``follow`` it waits for further lines until the job has ended. They arrive about a second after they were
        written. Raises ``NotFoundError`` if the job is unknown or not kept.
        """
        engine, number = self._running, _number(job)
        after = checked_line_number(after)
        while True:
            view = await engine.repeat(lambda: engine.insight.get(number))  # before the lines: the last are there then
            if view is None:
                raise unknown_job(number)
            more = True
            while more:
                start = after
                part = await engine.repeat(lambda: engine.insight.log(number, after=start, limit=_LOG_PART))  # noqa: B023
                more = part.more
                for entry in part.entries:
                    after = entry.number
                    yield log_line(entry)
            if view.state.final or not follow:
                return
            await asyncio.sleep(_FOLLOW_PAUSE)

    async def explain(self, job: int | Handle[Any]) -> Explanation[Reason]:
        """Why a job waits, where it is running or how it ended, and what to do about it."""
        return await self._explain("job", _number(job))

    # -- running -----------------------------------------------------------------------------------------------------

    def worker(
        self,
        *,
        concurrency: int = 50,
        queues: Iterable[str] | Mapping[str, int | None] = ("default",),
        finish_within: Wait = 25.0,
    ) -> Worker:
        """A worker in this process: ``async with jobs.worker(): …``, or ``await jobs.worker().run()``.

        ``queues={"mail": 2, "default": 50}`` gives each queue a concurrency of its own; the queues whose number is None
        share ``concurrency``. A queue that no job of the app is declared for is logged as a warning.

        When it is told to finish, running jobs get ``finish_within`` seconds. Then they are cancelled and returned,
        which does not count as an attempt.
        """
        from interlock.jobs.worker import Worker, WorkerGroup

        if isinstance(queues, Mapping):
            numbers = dict(cast("Mapping[str, int | None]", queues))
            warn_about_unused_queues(numbers, {job.chosen.queue for job in self._jobs.values()})
            return WorkerGroup(self._running, concurrency=concurrency, queues=numbers, finish_within=finish_within)
        names = _queues(queues)
        warn_about_unused_queues(names, {job.chosen.queue for job in self._jobs.values()})
        return Worker(self._running, concurrency=concurrency, queues=names, finish_within=finish_within)

    async def drain(self, *, wait: Seconds = _DEFAULT_WAIT, queues: Iterable[str] | None = None) -> dict[Outcome, int]:
        """Run every job that can run now, in this process, until none is ready; returns counts by outcome. For tests.

        Works on all queues by default. Raises :class:`JobTimeoutError` if that takes longer than ``wait``.
        """
        from interlock.jobs.worker import drain

        seconds = checked_wait(wait)
        engine = self._running
        if queues is None:
            defined = (job.chosen.queue for job in self._jobs.values())
            queues = {*defined, *(view.queue for view in (await engine.insight.counts()).queues)}
        return await drain(engine, queues=tuple(sorted(_queues(queues))), wait=seconds)

    async def list(
        self, *states: JobState, name: str = "", queue: str = "", lane: str = "", limit: int = 100
    ) -> Sequence[JobView]:
        """Jobs as one snapshot, the newest (largest) ID first, without arguments, results and attempts."""
        chosen, engine = _filter(states, name, queue, lane), self._running
        async with engine.store_client.store.snapshot():
            rows = await list_jobs(engine.insight, chosen, checked_limit(limit))
            statuses = await engine.insight.log_statuses([row.id for row in rows if row.state.at_worker])
        return [job_view(row, statuses.get(row.id)) for row in rows]


def engine_of(jobs: Jobs) -> JobEngine:
    """The engine of open jobs, for concepts that are built on jobs."""
    return jobs._running  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the accessor of this package


async def explain_with(jobs: Jobs, kind: str, ref: str) -> Explanation[Reason]:
    """Explain a lane or a queue of these jobs."""
    return await jobs._explain(kind, ref)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above


class JobDecorator:
    """Defines a job from the function that it decorates."""

    __slots__ = ("_added", "_aliases", "_jobs", "_name", "_options")

    def __init__(
        self,
        jobs: Jobs,
        name: str | None,
        options: JobOptions,
        aliases: Sequence[str] = (),
        *,
        added: Callable[[Job[..., Any]], None] | None = None,
    ) -> None:
        self._added = added
        self._aliases = aliases
        self._jobs = jobs
        self._name = name
        self._options = options

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncJob[P, R]: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainJob[P, R]: ...

    def __call__(self, function: Callable[..., Any], /) -> Any:
        """Define the job; calling it still calls the function."""
        frame = inspect.currentframe()
        # Types that are local to the enclosing function are found too.
        local = frame.f_back.f_locals if frame is not None and frame.f_back is not None else None
        definition = Definition(function, self._options, name=self._name, local=local)
        job = self._jobs.define(definition, self._aliases)
        if self._added is not None:
            self._added(job)
        return job


def _connection_of(calls: Sequence[Call[Any]], given: Connection | None) -> Connection | None:
    """The connection for calls that are enqueued together: the one that was given, or the one that they all have."""
    found = {id(call.job.connection): call.job.connection for call in calls}
    if given is not None:
        found.pop(id(None), None)
        found[id(given)] = given
    if len(found) > 1:
        raise MisuseError(
            "The calls belong to different connections.",
            remedy="Pass one connection to enqueue_many, or enqueue them apart.",
        )
    return next(iter(found.values()), None)


def _not_enqueued(call: Call[Any] | str) -> tuple[str, str, str]:
    """What to say about a call of :meth:`Jobs.enqueue` that was not awaited."""
    name = getattr(getattr(call, "job", None), "name", call)
    return f"job {name!r} was", "jobs.enqueue", "sync.jobs.enqueue"


def _number(job: object) -> int:
    if isinstance(job, Handle):
        return job.id
    if not isinstance(job, int) or isinstance(job, bool) or not 0 < job < 2**63:
        raise InvalidArgumentError(f"{job!r} is not a job ID.", remedy="Pass a handle or the ID of a job.")
    return job


def _filter(states: Iterable[JobState], name: str, queue: str, lane: str) -> JobFilter:
    return JobFilter(
        tuple(map(_state, states)),
        name and checked_name("job", name),
        queue and checked_name("queue", queue),
        lane and checked_key(lane),
    )


def _state(state: object) -> JobState:
    try:
        return JobState(state)  # type: ignore[arg-type]
    except ValueError:
        raise InvalidArgumentError(
            f"{state!r} is not a job state.", remedy=f"Valid states: {', '.join(JobState)}."
        ) from None


def _queues(queues: Any) -> tuple[str, ...]:
    if isinstance(queues, str) or not hasattr(queues, "__iter__"):
        raise InvalidArgumentError(f"Invalid queues {queues!r}.", remedy="Pass a list of names.")
    names = tuple(dict.fromkeys(checked_name("queue", queue) for queue in queues))
    if not names:
        raise InvalidArgumentError("No queue was given.", remedy="Pass at least one.")
    return names
