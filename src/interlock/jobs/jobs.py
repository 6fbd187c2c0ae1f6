"""The public face of jobs: ``app.jobs``, or alone ``Jobs.from_url(url)``."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Never, ParamSpec, TypeVar, Unpack, overload

from interlock.arguments import checked_key, checked_limit, checked_wait
from interlock.errors import CapabilityError, InvalidArgumentError, MisuseError, NotFoundError
from interlock.jobs.definition import Definition, NamedDefinition
from interlock.jobs.engine import JobEngine
from interlock.jobs.explain import Explanation, explain_job, explain_lane
from interlock.jobs.handle import Handle, JobStatus
from interlock.jobs.job import AsyncJob, Call, Job, PlainJob
from interlock.jobs.options import JobOptions, checked_aliases, checked_name
from interlock.jobs.parked_lanes import failure_of, with_its_lane
from interlock.jobs.results import end_of, newest, result_in
from interlock.ports.insight import MAX_WORKERS
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState
from interlock.ports.store import Capability
from interlock.service import Service
from interlock.values import describe_type

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from interlock.arguments import Seconds, Wait
    from interlock.clock import Clock
    from interlock.jobs.options import JobDefinitionOptions
    from interlock.jobs.worker import Worker
    from interlock.operations import Operations
    from interlock.ports.insight import WorkerStanding
    from interlock.ports.job_views import JobView, LaneView, QueueView
    from interlock.ports.jobs import Outcome
    from interlock.ports.store import Store
    from interlock.reasons import Reason
    from interlock.settings import Settings
    from interlock.store_client import StoreClient
    from interlock.telemetry.jobs import JobMetrics

__all__ = ["JobDecorator", "Jobs"]

P = ParamSpec("P")
R = TypeVar("R")

_DEFAULT_WAIT = 60.0


class Jobs(Service[JobEngine]):
    """Durable units of work in one store: in order within their lanes, under their limits, run by workers.

    Jobs are defined before or after opening; whatever talks to the store needs it open.
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
                f"{found.name} offers no jobs.", remedy="Use memory://, sqlite:// or postgresql:// for the app's store."
            )
        self._jobs: dict[str, Job[..., Any]] = {}
        self._definitions: dict[str, Definition] = {}

    def _new_engine(self, store_client: StoreClient) -> JobEngine:
        return JobEngine(store_client, self._definitions)

    @property
    def engine(self) -> JobEngine:
        """What is behind this face while it is open, for concepts that are built on jobs."""
        return self._running

    @property
    def metrics(self) -> JobMetrics:
        """What these jobs have counted and timed; register it with a Prometheus registry."""
        return self._opened.metrics

    # -- defining ----------------------------------------------------------------------------------------------------

    def job(self, *function: Never, **how: Unpack[JobDefinitionOptions]) -> JobDecorator:
        """A decorator that makes a job of a function, ``async def`` or plain ``def`` (which runs in a thread).

        ``name`` is the function's own unless given. ``aliases`` are names that the job had before: workers run what was
        enqueued under them too. ``lane`` is a template over the arguments or a function of them:
        jobs of one lane run in order, one at a time. ``limits`` hold across all processes. ``priority`` is 0 to 100.
        ``retry`` says when a failure is tried again and ``timeout`` how many seconds an attempt may take;
        ``on_failure`` what becomes of the lane: it waits (``block``), goes on (``skip``), or is parked after the last
        attempt (``park``). With ``coalesce`` the newest job of the lane does the work of those directly before it.
        The result is kept for ``keep_result`` seconds.
        """
        if function:
            raise MisuseError("A job is defined with parentheses.", remedy="Write @app.job(), also without options.")
        given: dict[str, Any] = dict(how)
        name, aliases = given.pop("name", None), given.pop("aliases", ())
        return JobDecorator(self, name, JobOptions.of(given), checked_aliases(aliases))

    def define(self, definition: Definition, aliases: Sequence[str] = ()) -> Job[..., Any]:
        """Make a job known, by its name and by those that it had before."""
        names = (definition.name, *aliases)
        for name in names:
            if name in self._definitions or names.count(name) > 1:
                raise MisuseError(
                    f"There are two jobs called {name!r}, by name or alias.",
                    remedy="Give one of them another name: name=…, or remove the alias.",
                )
        kind = AsyncJob[..., Any] if definition.is_async else PlainJob[..., Any]
        job = self._jobs[definition.name] = kind(self, definition)
        for name in names:
            self._definitions[name] = definition
        return job

    def __getitem__(self, name: str) -> Job[..., Any]:
        """A job that was defined here, by its name or an alias."""
        definition = self._definitions.get(name)
        job = None if definition is None else self._jobs.get(definition.name)
        if job is None:
            known = ", ".join(sorted(self._jobs)) or "none"
            raise NotFoundError(f"There is no job called {name!r} here.", remedy=f"Defined are: {known}.")
        return job

    def __contains__(self, name: object) -> bool:
        return name in self._definitions

    def named(self, name: str) -> Job[..., Any]:
        """A job by its name, also one whose handler is in another program: ``jobs.named("report").options(…)``.

        If it is defined here, by this name or alias, it is that job. Otherwise its arguments are checked when a worker
        reads them, and it has none of its definition's options: give the queue, lane and limits that it needs.
        """
        checked = checked_name("job", name)
        return self[checked] if checked in self._definitions else AsyncJob[..., Any](self, NamedDefinition(checked))

    @property
    def names(self) -> tuple[str, ...]:
        """The jobs that were defined here."""
        return tuple(self._jobs)

    # -- enqueuing ---------------------------------------------------------------------------------------------------

    @overload
    async def enqueue(self, call: Call[R], /) -> Handle[R]: ...

    @overload
    async def enqueue(self, name: str, /, **arguments: Any) -> Handle[Any]: ...

    async def enqueue(self, call: Call[R] | str, /, **arguments: Any) -> Handle[Any]:
        """Have one job run, by its name: ``await jobs.enqueue("report", account="a1")``; see :meth:`named`.

        Or a call: ``await jobs.enqueue(job.call(…))``, which is ``await job.enqueue(…)``.
        """
        if isinstance(call, str):
            call = self.named(call).call(**arguments)
        elif arguments:
            raise InvalidArgumentError(
                f"A call has its arguments already; given were {', '.join(map(repr, arguments))}.",
                remedy="Pass them to job.call(…).",
            )
        self._check(call)
        (number,) = await self._running.enqueue([call])
        return Handle(self, number)

    async def enqueue_many(self, calls: Iterable[Call[R]]) -> list[Handle[R]]:
        """Have several jobs run, accepted all or none and in this order: ``[job.call(…), other.call(…)]``."""
        given = list(calls)
        for call in given:
            self._check(call)
        if not given:
            return []
        return [Handle(self, number) for number in await self._running.enqueue(given)]

    def _check(self, call: Call[Any]) -> None:
        if not isinstance(call, Call):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise InvalidArgumentError(
                f"What is enqueued is a call, not {describe_type(call)}.", remedy="Pass what job.call(…) returns."
            )
        if call.job.jobs is not self:
            raise MisuseError(
                f"The job {call.job.name!r} was defined elsewhere.", remedy="Enqueue it where it was defined."
            )

    # -- one job -----------------------------------------------------------------------------------------------------

    def handle(self, job: int) -> Handle[Any]:
        """A handle of a job by its id, from whatever process it was enqueued."""
        return Handle(self, _number(job))

    async def result_of(self, job: int | Handle[Any], wait: Wait = _DEFAULT_WAIT) -> Any:
        """What a job gives; see :meth:`Handle.result`."""
        view = await end_of(self._running, _number(job), checked_wait(wait))
        return result_in(view, self._definitions.get(view.name))

    async def status_of(self, job: int | Handle[Any]) -> JobStatus:
        """How a job stands; see :meth:`Handle.status`."""
        return JobStatus.of(await newest(self._running, _number(job)))

    async def cancel(self, job: int | Handle[Any], *, reason: str, by: str) -> JobState:
        """End a job that does not run, and have one that does stopped; says how it stands then.

        A job that runs is still ``running`` when this returns. Whatever it does then but end well counts as cancelled.
        """
        return await self._operations.cancel(_number(job), by=by, reason=reason)

    async def retry(self, job: int | Handle[Any], *, by: str, reason: str = "") -> JobState:
        """Make a job ready now that is scheduled, parked, or ended without success; return its state."""
        return await self._operations.retry(_number(job), by=by, reason=reason)

    async def retry_all(
        self, *states: JobState, name: str = "", queue: str = "", lane: str = "", by: str, reason: str = ""
    ) -> dict[int, JobState]:
        """Retry every job in one of these states that matches, the oldest first; says how each stands then.

        However many there are: ``len(await app.jobs.matching(…))`` counts them first. A job that changed meanwhile, so
        that there is nothing to retry, is left as it is.
        """
        if not states:
            raise InvalidArgumentError(
                "retry_all needs at least one state.", remedy="Say which jobs: retry_all(JobState.FAILED, by=…)."
            )
        chosen = _filter(states, name, queue, lane)
        return await self._operations.retry_all(chosen, by=by, reason=reason)

    async def cancel_all(
        self, *states: JobState, name: str = "", queue: str = "", lane: str = "", by: str, reason: str
    ) -> dict[int, JobState]:
        """Cancel every job in one of these states that matches, the oldest first; return the state of each.

        ``len(await app.jobs.matching(…))`` counts them first. A job that ended meanwhile is left as it is.
        """
        if not states:
            raise InvalidArgumentError(
                "cancel_all needs at least one state.", remedy="Say which jobs: cancel_all(JobState.READY, by=…)."
            )
        chosen = _filter(states, name, queue, lane)
        return await self._operations.cancel_all(chosen, by=by, reason=reason)

    async def matching(self, *states: JobState, name: str = "", queue: str = "", lane: str = "") -> list[int]:
        """The IDs of all jobs that match, the oldest first."""
        chosen = _filter(states, name, queue, lane)
        return await self._operations.matching(chosen)

    @property
    def _operations(self) -> Operations:
        return self._running.store_client.operations

    async def find(self, job: int | Handle[Any]) -> JobView | None:
        """One job with its arguments, result and attempts; None if it is not known, or no longer."""
        return await self._running.jobs.find(_number(job))

    async def look(
        self, *states: JobState, name: str = "", queue: str = "", lane: str = "", limit: int = 100
    ) -> Sequence[JobView]:
        """Jobs as one snapshot, newest first, without arguments, results and attempts."""
        chosen = _filter(states, name, queue, lane)
        return await self._running.jobs.look(chosen, limit=checked_limit(limit))

    async def explain(self, job: int | Handle[Any]) -> Explanation[Reason]:
        """Why a job waits, where it runs or how it ended, and what to do about it."""
        engine, number = self._running, _number(job)
        situation = await engine.jobs.situation(number)
        if situation is None:
            raise NotFoundError(f"There is no job {number}.", remedy="Look which there are: interlock jobs list.")
        head = None
        if situation.job.state is JobState.BEHIND and situation.lane_head is not None:
            head = await engine.jobs.situation(situation.lane_head)
        situation = await with_its_lane(engine.jobs, situation)
        failure = await failure_of(engine.jobs, situation.job.lane, situation)
        return explain_job(situation, head, failure=failure, workers=await self._workers())

    # -- lanes and queues --------------------------------------------------------------------------------------------

    async def hold(self, lane: str, *, reason: str, by: str) -> None:
        """Let no further job of a lane start until it is released. What runs goes on."""
        await self._operations.hold(lane, by=by, reason=reason)

    async def release(self, lane: str, *, by: str, reason: str = "") -> bool:
        """Let a held or parked lane continue; False if it was neither."""
        return await self._operations.release(lane, by=by, reason=reason)

    async def lanes(self, *, limit: int = 100) -> Sequence[LaneView]:
        """Lanes that are not empty or are held, as one snapshot."""
        return await self._running.jobs.lanes(limit=checked_limit(limit))

    async def lane(self, lane: str) -> LaneView | None:
        """One lane; None if it is empty and nobody holds it."""
        views = await self._running.jobs.lanes(checked_key(lane))
        return views[0] if views else None

    async def explain_lane(self, lane: str) -> Explanation[Reason]:
        """Why a lane waits, or where its head runs, and what to do about it."""
        view = await self.lane(lane)
        jobs = self._running.jobs
        head = None if view is None or view.head is None else await jobs.situation(view.head)
        failure = await failure_of(jobs, lane, view)
        return explain_lane(lane, view, head, failure=failure, workers=await self._workers())

    async def _workers(self) -> Sequence[WorkerStanding]:
        """The live workers, as many as are told of."""
        return await self._running.store_client.store.insight.workers(limit=MAX_WORKERS)

    async def queues(self) -> Sequence[QueueView]:
        """All queues, what is in them and who works on them, as one snapshot."""
        return await self._running.jobs.queues()

    # -- running -----------------------------------------------------------------------------------------------------

    def worker(
        self, *, concurrency: int = 50, queues: Iterable[str] = ("default",), finish_within: Wait = 25.0
    ) -> Worker:
        """A worker in this process: ``async with jobs.worker(): …``, or ``await jobs.worker().run()``.

        When it is told to finish, running jobs have ``finish_within`` seconds. What is left is then cancelled and
        returned without counting an attempt.
        """
        from interlock.jobs.worker import Worker

        return Worker(self._running, concurrency=concurrency, queues=_queues(queues), finish_within=finish_within)

    async def drain(self, *, wait: Seconds = _DEFAULT_WAIT, queues: Iterable[str] | None = None) -> dict[Outcome, int]:
        """Run whatever can run now, in this process, until nothing is ready; counts by outcome. For tests.

        Engine on all queues unless told otherwise. Raises :class:`JobTimeoutError` if that takes longer than ``wait``.
        """
        from interlock.jobs.worker import drain

        seconds = checked_wait(wait)
        engine = self._running
        if queues is None:
            defined = (job.chosen.queue for job in self._jobs.values())
            queues = {*defined, *(view.queue for view in await engine.jobs.queues())}
        return await drain(engine, queues=tuple(sorted(_queues(queues))), wait=seconds)


class JobDecorator:
    """Makes a job of the function that it decorates."""

    __slots__ = ("_aliases", "_jobs", "_name", "_options")

    def __init__(self, jobs: Jobs, name: str | None, options: JobOptions, aliases: Sequence[str] = ()) -> None:
        self._aliases = aliases
        self._jobs = jobs
        self._name = name
        self._options = options

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncJob[P, R]: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainJob[P, R]: ...

    def __call__(self, function: Callable[..., Any], /) -> Any:
        """The job; calling it still calls the function."""
        frame = inspect.currentframe()
        # Types defined next to the function, inside another one, are found too.
        local = frame.f_back.f_locals if frame is not None and frame.f_back is not None else None
        definition = Definition(function, self._options, name=self._name, local=local)
        return self._jobs.define(definition, self._aliases)


def _number(job: object) -> int:
    if isinstance(job, Handle):
        return job.id
    if not isinstance(job, int) or isinstance(job, bool) or not 0 < job < 2**63:
        raise InvalidArgumentError(f"{job!r} is no id of a job.", remedy="Pass a handle, or the number of a job.")
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
            f"{state!r} is no state of a job.", remedy=f"Known are: {', '.join(JobState)}."
        ) from None


def _queues(queues: Any) -> tuple[str, ...]:
    if isinstance(queues, str) or not hasattr(queues, "__iter__"):
        raise InvalidArgumentError(f"queues is {queues!r}.", remedy="Pass a list of names.")
    names = tuple(dict.fromkeys(checked_name("queue", queue) for queue in queues))
    if not names:
        raise InvalidArgumentError("No queue was given.", remedy="Pass at least one.")
    return names
