"""End hooks: jobs that the store enqueues when another job has ended, for any cause.

``@report.on_end("failed", "cancelled", "quarantined")`` makes a job of a function that takes a :class:`JobEnd`. The
store enqueues it in the transaction that ends the other job, so a hook runs at least once after every end, also if the
worker died, a person cancelled the job, or a newer job superseded it.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, overload

from interlock.clock import as_datetime
from interlock.errors import InvalidArgumentError, MisuseError
from interlock.jobs.definition import Definition
from interlock.jobs.options import JobOptions, checked_aliases
from interlock.ports.job_hooks import EndHook
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from datetime import datetime

    from interlock.arguments import Seconds
    from interlock.jobs.arguments import Codec
    from interlock.jobs.job import AsyncJob, Job, PlainJob
    from interlock.jobs.retry import Retry

__all__ = ["EndHookDecorator", "EndHookDefinition", "EndHookOptions", "JobEnd", "hook_of"]

R = TypeVar("R")
_FIELDS = {
    "job": int,
    "name": str,
    "queue": str,
    "lane": str,
    "state": str,
    "error": str,
    "attempt": int,
    "superseded_by": int | None,
    "ended_at": float,
    "arguments": dict[str, Any],
}


class EndHookOptions(TypedDict, total=False):
    """The options of an end hook: those of a job, without lane, limits and times."""

    name: str
    aliases: Iterable[str]
    queue: str
    priority: int
    retry: Retry
    timeout: Seconds | None
    capture_logs: str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """How a job ended, for its end hooks."""

    job: int
    """Its ID."""
    name: str
    queue: str
    lane: str
    """Empty for none."""
    state: JobState
    """The final state."""
    error: str
    """Why it failed, or was cancelled or discarded; empty if it is done."""
    attempt: int
    """The number of attempts."""
    superseded_by: int | None
    """The newer job of its lane that does its work, if it was superseded."""
    ended_at: datetime
    arguments: Mapping[str, Any]
    """Its arguments as JSON values, by name. For an event handler they are the event's ID."""


class EndHookDefinition(Definition):
    """A job whose handler takes the end of another job."""

    __slots__ = ("_parameter",)

    def __init__(
        self,
        function: Callable[..., Any],
        options: JobOptions,
        *,
        name: str | None = None,
        local: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(function, options, name=name, local=local)
        if len(self.parameters) != 1:
            raise MisuseError(
                f"{self.name!r} takes {len(self.parameters)} arguments; an end hook takes one.",
                remedy="Write: async def hook(end: JobEnd) -> None.",
            )
        (self._parameter,) = self.parameters
        read = self.read
        self.read = lambda text: self._end_in(read(text))

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The end of a job as stored. Usually the store enqueues hooks; this is for tests."""
        given = [*args, *kwargs.values()]
        if len(given) != 1 or not isinstance(given[0], JobEnd) or kwargs.keys() - {self._parameter}:
            raise InvalidArgumentError(
                f"{self.name!r} takes the end of a job.", remedy="The store enqueues it; in a test, pass a JobEnd."
            )
        end: JobEnd = given[0]
        values = {field: getattr(end, field) for field in _FIELDS}
        values |= {"ended_at": end.ended_at.timestamp(), "arguments": dict(end.arguments)}
        return json.dumps(values, separators=(",", ":")), values

    @property
    def roots(self) -> None:
        """Check nothing: hooks have no templates."""
        return

    def _arguments_of(self, hints: dict[str, Any]) -> Codec:
        from interlock.jobs.arguments import Codec

        for name in self.parameters:
            if hints.get(name, JobEnd) not in (JobEnd, Any):
                raise MisuseError(
                    f"Parameter {name!r} of {self.name!r} is not declared as the end of a job.",
                    remedy=f"Declare it: {name}: JobEnd.",
                )
        fields = {name: (hint, True) for name, hint in _FIELDS.items()}
        return Codec.of_fields(f"The arguments of {self.name!r}", fields)

    def _end_in(self, values: dict[str, Any]) -> dict[str, Any]:
        stored = {field: values.pop(field) for field in _FIELDS}
        stored |= {"state": JobState(stored["state"]), "ended_at": as_datetime(stored["ended_at"])}
        return {self._parameter: JobEnd(**stored), **values}


class EndHookDecorator:
    """Makes an end hook of the function that it decorates."""

    __slots__ = ("_add", "_options", "_states")

    def __init__(
        self,
        states: Sequence[object],
        options: Mapping[str, Any],
        add: Callable[[EndHookDefinition, Sequence[str], EndHook], Job[..., Any]],
    ) -> None:
        self._states = _checked_states(states)
        self._options = dict(options)
        if unknown := sorted(self._options.keys() - EndHookOptions.__annotations__.keys()):
            raise MisuseError(
                f"Unknown option {unknown[0]!r} of an end hook.",
                remedy=f"Valid options: {', '.join(sorted(EndHookOptions.__annotations__))}.",
            )
        self._add = add

    @overload
    def __call__(self, function: Callable[[JobEnd], Coroutine[Any, Any, R]], /) -> AsyncJob[[JobEnd], R]: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, function: Callable[[JobEnd], R], /) -> PlainJob[[JobEnd], R]: ...

    def __call__(self, function: Callable[..., Any], /) -> Any:
        """Define the hook as a job; calling it still calls the function."""
        frame = inspect.currentframe()
        # Types that are local to the enclosing function are found too.
        local = frame.f_back.f_locals if frame is not None and frame.f_back is not None else None
        given = dict(self._options)
        name, aliases = given.pop("name", None), checked_aliases(given.pop("aliases", ()))
        definition = EndHookDefinition(function, JobOptions.of(given), name=name, local=local)
        return self._add(definition, aliases, hook_of(definition, self._states))


def hook_of(definition: Definition, states: tuple[JobState, ...]) -> EndHook:
    """The hook as it travels with jobs."""
    return EndHook(definition.name, definition.options.queue, definition.options.priority, states)


def _checked_states(states: Sequence[object]) -> tuple[JobState, ...]:
    final = tuple(state for state in JobState if state.final)
    for state in states:
        if callable(state):
            raise MisuseError("on_end is used without parentheses.", remedy="Write @job.on_end(), also without states.")
        if state not in final:
            raise InvalidArgumentError(
                f"{state!r} is not a final job state.", remedy=f"Valid states: {', '.join(final)}."
            )
    return tuple(dict.fromkeys(JobState(state) for state in states)) or final  # type: ignore[arg-type]
