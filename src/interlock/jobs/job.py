"""A job of an app: a function that workers run, called or enqueued with the arguments that it declares."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from interlock.jobs.sync import SyncHandle
from interlock.jobs.unawaited import Unawaited
from interlock.ports.jobs import NewJob

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator

    from interlock.connections import Connection
    from interlock.jobs.definition import Definition
    from interlock.jobs.end_hooks import EndHookDecorator, EndHookDefinition, EndHookOptions
    from interlock.jobs.handle import Handle
    from interlock.jobs.options import JobChanges, JobOptions
    from interlock.portal import Portal
    from interlock.ports.job_hooks import EndHook
    from interlock.ports.jobs import JobState
    from interlock.ports.limits import Use

    class Enqueuer(Protocol):
        """Where jobs are enqueued."""

        @property
        def portal(self) -> Portal: ...
        async def enqueue_call(self, call: Call[R_co], /) -> Handle[R_co]: ...
        def enqueue_on(self, connection: Connection, calls: Iterable[Call[R_co]], /) -> list[Handle[R_co]]: ...

        def define_hook(
            self, after: Definition | None, definition: EndHookDefinition, aliases: Sequence[str], hook: EndHook
        ) -> Job[..., Any]: ...


__all__ = ["AsyncJob", "Call", "Job", "NewJobs", "PlainJob"]

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Call(Generic[R_co]):
    """A job with its arguments, validated and not yet enqueued; for ``jobs.enqueue_many``."""

    __slots__ = ("arguments", "job", "key", "lane", "uses")

    def __init__(self, job: Job[..., R_co], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.job = job
        self.arguments, values = job.definition.bind(args, kwargs)
        self.lane: str = job.definition.lane_of(job.chosen, values)
        self.uses: tuple[Use, ...] = job.definition.uses_of(job.chosen, values)
        self.key: str = job.definition.key_of(job.chosen, values) if job.chosen.key is not None else ""

    def new(self, job_id: int, cause: str = "") -> NewJob:
        """The job for the store, under this ID, and what enqueues it."""
        options = self.job.chosen
        return NewJob(
            job_id,
            self.job.name,
            options.queue,
            self.lane,
            options.priority,
            options.delay,
            options.at,
            self.uses,
            options.on_failure,
            options.coalesce,
            options.keep_result,
            self.arguments,
            options.stored,
            self.job.definition.stored_hooks,
            cause,
            self.key,
            options.keep_key,
            options.after,
            options.if_failed,
            options.expires,
            options.expires_at,
        )


class NewJobs(Sequence[NewJob]):
    """Calls with their IDs, as the store accepts them.

    Each job is created when it is read: thousands that stay in memory would keep the garbage collector busy.
    """

    __slots__ = ("_calls", "_cause", "_ids")

    def __init__(self, calls: Sequence[Call[Any]], ids: Sequence[int], cause: str = "") -> None:
        self._calls = calls
        self._ids = ids
        self._cause = cause

    @property
    def keyed(self) -> bool:
        """Whether any of them has a key."""
        return any(call.key for call in self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    @overload
    def __getitem__(self, index: int, /) -> NewJob: ...

    @overload
    def __getitem__(self, index: slice, /) -> NewJobs: ...

    def __getitem__(self, index: int | slice, /) -> NewJob | NewJobs:
        if isinstance(index, slice):
            return NewJobs(self._calls[index], self._ids[index], self._cause)
        return self._calls[index].new(self._ids[index], self._cause)

    def __iter__(self) -> Iterator[NewJob]:
        for call, job_id in zip(self._calls, self._ids, strict=True):
            yield call.new(job_id, self._cause)


class Job(Generic[P, R]):
    """A job that the app defines. Calling it calls the function; ``enqueue`` has a worker run it."""

    __name__: str

    def __init__(
        self,
        jobs: Enqueuer,
        definition: Definition,
        chosen: JobOptions | None = None,
        connection: Connection | None = None,
    ) -> None:
        self.jobs = jobs
        """Where it was defined."""
        self.definition = definition
        self.chosen = chosen or definition.options
        """The options of everything enqueued through this object."""
        self.connection = connection
        """The caller's own connection, in whose transaction it is enqueued; None for the app's own."""
        self.name = definition.name
        functools.update_wrapper(self, definition.function, updated=())

    @overload
    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Handle[R]]: ...

    @overload
    def enqueue(self, *args: Any, connection: Connection, **kwargs: Any) -> Coroutine[Any, Any, Handle[R]]: ...

    def enqueue(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Handle[R]]:
        """Have a worker run it. Durable when this returns; with invalid arguments nothing is stored.

        With ``connection=`` the job belongs to the transaction of that connection, and exists if and when it commits.
        A handler's own parameter called ``connection`` has precedence: use ``options(connection=…)`` then. That form
        is also the one whose arguments type checkers check.
        """
        return Unawaited(self._enqueue(args, kwargs), self._not_enqueued)

    async def _enqueue(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handle[R]:
        return await self.jobs.enqueue_call(self._call(args, kwargs))

    def _not_enqueued(self) -> tuple[str, str, str]:
        return f"job {self.name!r} was", f"{self.__name__}.enqueue", f"{self.__name__}.enqueue_sync"

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[R]:
        if "connection" in kwargs and self.definition.takes_connection:
            return Call(self.options(connection=kwargs.pop("connection")), args, kwargs)
        return Call(self, args, kwargs)

    @overload
    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> SyncHandle[R]: ...

    @overload
    def enqueue_sync(self, *args: Any, connection: Connection, **kwargs: Any) -> SyncHandle[R]: ...

    def enqueue_sync(self, *args: Any, **kwargs: Any) -> SyncHandle[R]:
        """Have a worker run it, from synchronous code: a script, Flask, a thread, a plain-function handler.

        Durable when this returns. The first call opens the app in a background thread; see :mod:`interlock.sync`. With
        ``connection=``, a synchronous one, the job belongs to its transaction as in :meth:`enqueue`, and nothing is
        opened.
        """
        call, jobs, name = self._call(args, kwargs), self.jobs, self.__name__
        if call.job.connection is not None:
            (handle,) = jobs.enqueue_on(call.job.connection, [call])
        else:
            handle = jobs.portal.run(
                lambda: jobs.enqueue_call(call), f"{name}.enqueue_sync()", instead=f"await {name}.enqueue(…)"
            )
        return SyncHandle(jobs.portal, handle)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """The job with these arguments, not yet enqueued: ``await jobs.enqueue_many([job.call(…), …])``."""
        return Call(self, args, kwargs)

    def options(self, **changes: Unpack[JobChanges]) -> Self:
        """The same job with other options: ``await job.options(priority=80, delay=30).enqueue(…)``.

        ``delay`` counts from when the job is accepted; ``at`` is an aware datetime. ``after`` lists jobs that have to
        end first, as handles or IDs. ``if_failed`` says what to do with this job if one of them is not done:
        ``cancel`` or ``park`` it, or ``run`` it all the same. Of ``retry`` only the numbers travel with the job; the
        worker's own code decides which errors are transient or permanent. ``connection`` is the caller's own: the job
        is enqueued in its transaction, and exists if and when that commits.
        """
        connection = changes.pop("connection", self.connection)
        chosen = self.chosen.changed(self.name, self.definition.roots, changes) if changes else self.chosen
        return type(self)(self.jobs, self.definition, chosen, connection)

    def on_end(
        self,
        *states: JobState | Literal["done", "failed", "discarded", "cancelled", "superseded", "quarantined", "expired"],
        **how: Unpack[EndHookOptions],
    ) -> EndHookDecorator:
        """A decorator for a function of a :class:`JobEnd`: it runs after the end of each such job, as a job of its own.

        ``@report.on_end("failed", "cancelled", "quarantined")`` runs it after these ends; without states after every
        end. The store enqueues it in the transaction that ends the job, so it runs at least once, also if the worker
        died or a person ended the job. It applies to jobs that are enqueued by programs that define it.
        """
        from interlock.jobs.end_hooks import EndHookDecorator

        return EndHookDecorator(states, how, functools.partial(self.jobs.define_hook, self.definition))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the function here and now. Resources that are not passed are those of the open app."""
        if self.definition.injected:
            given = inspect.signature(self.definition.function).bind_partial(*args, **kwargs).arguments
            return self.definition.function(*args, **kwargs, **self.definition.added(given))
        return self.definition.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Job {self.name}>"


class AsyncJob(Job[P, R]):
    """A job whose handler is a coroutine function."""

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
            """Call the function here and now."""
            ...


class PlainJob(Job[P, R]):
    """A job whose handler is a plain function; workers run it in a thread."""

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """Call the function here and now."""
            ...
