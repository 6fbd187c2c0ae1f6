"""A job of an app: a function that workers run, called or enqueued with the arguments that it declares."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from interlock.ports.jobs import NewJob

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from interlock.jobs.definition import Definition
    from interlock.jobs.handle import Handle
    from interlock.jobs.options import Changes, JobOptions
    from interlock.ports.limits import Use

    class Accepts(Protocol):
        """Where jobs are enqueued."""

        async def enqueue(self, call: Call[R], /) -> Handle[R]: ...


__all__ = ["AsyncJob", "Call", "Job", "Lot", "PlainJob"]

P = ParamSpec("P")
R = TypeVar("R")


class Call(Generic[R]):
    """A job with its arguments, checked and not yet enqueued; for ``jobs.enqueue_many``."""

    __slots__ = ("arguments", "job", "lane", "uses")

    def __init__(self, job: Job[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.job = job
        self.arguments, values = job.definition.bind(args, kwargs)
        self.lane: str = job.definition.lane_of(job.chosen, values)
        self.uses: tuple[Use, ...] = job.definition.uses_of(job.chosen, values)

    def new(self, number: int) -> NewJob:
        """What the store is to accept, under this id."""
        options = self.job.chosen
        return NewJob(
            number,
            self.job.name,
            options.queue,
            self.lane,
            options.priority,
            options.delay,
            options.at,
            self.uses,
            options.failing,
            options.coalesce,
            options.keep_result,
            self.arguments,
            options.stored,
        )


class Lot(Sequence[NewJob]):
    """Calls with their ids, as the store is to accept them. Each is made when it is read: thousands at once that stay
    would keep the garbage collector busy."""

    __slots__ = ("_calls", "_ids")

    def __init__(self, calls: Sequence[Call[Any]], ids: Sequence[int]) -> None:
        self._calls = calls
        self._ids = ids

    def __len__(self) -> int:
        return len(self._calls)

    @overload
    def __getitem__(self, place: int, /) -> NewJob: ...

    @overload
    def __getitem__(self, place: slice, /) -> Lot: ...

    def __getitem__(self, place: int | slice, /) -> NewJob | Lot:
        if isinstance(place, slice):
            return Lot(self._calls[place], self._ids[place])
        return self._calls[place].new(self._ids[place])

    def __iter__(self) -> Iterator[NewJob]:
        for call, number in zip(self._calls, self._ids, strict=True):
            yield call.new(number)


class Job(Generic[P, R]):
    """A job that the app defines. Calling it just calls the function; ``enqueue`` has a worker run it."""

    def __init__(self, jobs: Accepts, definition: Definition, chosen: JobOptions | None = None) -> None:
        self.jobs = jobs
        """Where it was defined."""
        self.definition = definition
        self.chosen = chosen or definition.options
        """How what is enqueued through this object is treated."""
        self.name = definition.name
        functools.update_wrapper(self, definition.function, updated=())

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Have it run by a worker. Durable when this returns; wrong arguments are refused and nothing is stored."""
        return await self.jobs.enqueue(Call(self, args, kwargs))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """The job with these arguments, not yet enqueued: ``await jobs.enqueue_many([job.call(…), …])``."""
        return Call(self, args, kwargs)

    def options(self, **changes: Unpack[Changes]) -> Self:
        """The same job, treated differently: ``await job.options(priority=80, delay=30).enqueue(…)``.

        ``delay`` is in seconds from when it is accepted, ``at`` a time with a zone. Of ``retry`` only the figures
        travel with the job; which errors are meant is for the code of the worker to say.
        """
        chosen = self.chosen.changed(self.name, self.definition.roots, changes)
        return type(self)(self.jobs, self.definition, chosen)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the function, here and now."""
        return self.definition.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Job {self.name}>"


class AsyncJob(Job[P, R]):
    """A job whose handler is a coroutine function."""

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
            """Call the function, here and now."""
            ...


class PlainJob(Job[P, R]):
    """A job whose handler is a plain function; workers run it in a thread."""

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """Call the function, here and now."""
            ...
