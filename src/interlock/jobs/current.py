"""The job that is running here, for its handler."""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
from contextvars import ContextVar
from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from interlock import callers, operations
from interlock.clock import as_datetime
from interlock.errors import InvalidArgumentError, MisuseError
from interlock.jobs.causes import caused_by_job, read_cause
from interlock.jobs.log_buffer import message_text
from interlock.values import describe_type

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping, MutableMapping
    from datetime import datetime

    from interlock.jobs.causes import Cause
    from interlock.jobs.handle import Handle
    from interlock.jobs.job import Call
    from interlock.jobs.log_buffer import LogBuffer, LogBuffers
    from interlock.ports.jobs import FetchedJob

__all__ = [
    "CURRENT",
    "LOGGER_NAME",
    "MAX_FOLLOW_UPS",
    "MAX_FOLLOW_UP_BYTES",
    "CurrentJob",
    "JobLog",
    "cause_here",
    "current_engine",
    "current_job",
    "register_runner",
]

LOGGER_NAME = "interlock.job"
"""The logger behind ``current_job().log``."""
MAX_FOLLOW_UPS = 1000
"""How many follow-ups one job may have."""
MAX_FOLLOW_UP_BYTES = 4 * 1024 * 1024
"""How large the arguments of all follow-ups of one job may be together."""
_NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})
_log = logging.getLogger(LOGGER_NAME)
_PROCESS = secrets.token_hex(2)  # jobs of other stores have the same IDs, and their locks may share a store


class JobLog(logging.LoggerAdapter[logging.Logger]):
    """The log of a job: ``current_job().log("copying %s", name)``, or ``.info``, ``.warning`` and so on.

    Lines from level INFO on are kept with the job, also if a logger's level rejects them. The logger ``interlock.job``
    gets them too, with the job before the message. A call never waits for the store and never fails the job.
    """

    def __init__(self, job: CurrentJob) -> None:
        super().__init__(_log, {"job_id": job.id, "job": job.name, "attempt": job.attempt})
        self._job = job
        self._prefix = f"{job.name} {job.id} (attempt {job.attempt}): "

    def __call__(self, message: object, *args: object, level: int | str = logging.INFO) -> None:
        """Add a line to the job's log; an unknown level counts as INFO."""
        number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO) if isinstance(level, str) else level
        if number < logging.INFO or self.logger.isEnabledFor(number):
            self.log(number, message, *args, stacklevel=2)
        else:
            self._job.write(number, message_text(message, args))

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Add a line to the job's log, and pass it to the logger."""
        enabled = self.isEnabledFor(level)
        if enabled or level >= logging.INFO:
            self._job.write(level, message_text(msg, args, kwargs.get("exc_info")))
        if enabled:
            with contextlib.suppress(Exception):  # of a logging handler or a filter
                super().log(level, msg, *args, **kwargs | {"stacklevel": kwargs.get("stacklevel", 1) + 1})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Put the job before the message, and its fields on the record beside the caller's."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return f"{self._prefix}{msg}", kwargs


class CurrentJob:
    """The running job. Created for every start, so everything but the fetched job is computed on demand."""

    __slots__ = ("_buffer", "_caller", "_log", "arguments", "fetched", "follow_ups", "logs", "thread")

    _buffer: LogBuffer
    _log: JobLog
    _caller: callers.Caller
    thread: int
    """The thread that runs the handler, if it is a plain function."""

    def __init__(
        self, fetched: FetchedJob, logs: LogBuffers | None = None, arguments: Mapping[str, Any] = _NO_ARGUMENTS
    ) -> None:
        self.fetched = fetched
        self.arguments = arguments
        """What its handler gets, by name: its arguments and resources."""
        self.logs = logs
        """Where its lines and its progress go; None if they are not kept."""
        self.follow_ups: list[Call[Any]] | None = None
        """What to enqueue when it is done; see :meth:`follow_up`."""

    @property
    def id(self) -> int:
        """The job's ID."""
        return self.fetched.id

    @property
    def name(self) -> str:
        """The name of its definition."""
        return self.fetched.name

    @property
    def attempt(self) -> int:
        """1 for the first. Snoozes and worker crashes do not count."""
        return self.fetched.attempt

    @property
    def fence(self) -> int:
        """Larger than in every earlier fetch of this job. Pass it to a system that can refuse an older one."""
        return self.fetched.fence

    @property
    def lane(self) -> str:
        """The lane; empty for none."""
        return self.fetched.lane

    @property
    def queue(self) -> str:
        """The queue it was enqueued in."""
        return self.fetched.queue

    @property
    def crashes(self) -> int:
        """How many workers died while this job was their only suspect."""
        return self.fetched.crashes

    @property
    def enqueued_at(self) -> datetime:
        """When it was accepted, by the store's clock."""
        return as_datetime(self.fetched.enqueued_at)

    @property
    def after(self) -> tuple[Handle[Any], ...]:
        """Handles of the jobs that this one waited for, in the order given: ``await handle.result(wait=0)``."""
        from interlock.jobs.handle import Handle
        from interlock.jobs.options import after_in

        engine: Any = current_engine.get()
        return tuple(Handle(engine.service, needed) for needed in after_in(self.fetched.options))

    @property
    def cause(self) -> Cause | None:
        """What enqueued it: an event, a schedule, or another job. None for a program outside of handlers."""
        return read_cause(self.fetched.cause)

    @property
    def event_id(self) -> int | None:
        """The event that it handles, or that the chain of jobs that led to it began with."""
        cause = self.cause
        if cause is not None and cause.event is not None:
            return cause.event
        event = None
        if '"event"' in self.fetched.arguments:
            with contextlib.suppress(ValueError, AttributeError):
                event = json.loads(self.fetched.arguments).get("event")
        return event if isinstance(event, int) and not isinstance(event, bool) else None

    def follow_up(self, *calls: Call[Any]) -> None:
        """Enqueue jobs together with this job's own end: ``current_job().follow_up(mail.call(account))``.

        The store accepts them in the transaction that acknowledges this job as done, so they are enqueued exactly once.
        If the handler fails, is retried or cancelled, or its acknowledgement comes too late, they are not enqueued.
        Their delays count from then on. Works in threads too.
        """
        engine: Any = current_engine.get()
        listed = [] if self.follow_ups is None else self.follow_ups
        for call in calls:
            if not isinstance(getattr(call, "arguments", None), str):
                raise InvalidArgumentError(
                    f"Expected a call, got {describe_type(call)}.", remedy="Pass the result of job.call(…)."
                )
            if engine is not None and call.job.jobs is not engine.service:
                raise MisuseError(
                    f"The job {call.job.name!r} belongs to another app.",
                    remedy="Enqueue it there: await job.enqueue(…).",
                )
            if call.job.connection is not None:
                raise MisuseError(
                    f"The follow-up {call.job.name!r} has a connection, but the worker enqueues it after the handler.",
                    remedy="Leave out connection=…, or enqueue it in the handler's transaction.",
                )
        if len(listed) + len(calls) > MAX_FOLLOW_UPS:
            raise InvalidArgumentError(
                f"Job {self.id} has more than {MAX_FOLLOW_UPS:,} follow-ups.",
                remedy="Enqueue them in the handler with enqueue_many, or let one follow-up enqueue them.",
            )
        size = sum(len(call.arguments) for call in (*listed, *calls))
        if size > MAX_FOLLOW_UP_BYTES:
            raise InvalidArgumentError(
                f"The arguments of the follow-ups of job {self.id} have {size:,} bytes; the maximum is"
                f" {MAX_FOLLOW_UP_BYTES:,}.",
                remedy="Pass references instead of data, or enqueue them in the handler.",
            )
        self.follow_ups = [*listed, *calls]

    @property
    def scheduled_for(self) -> datetime | None:
        """The time of the schedule that enqueued it, for which it was enqueued; None if no schedule did."""
        cause = self.cause
        return None if cause is None or cause.at is None else as_datetime(cause.at)

    @property
    def log(self) -> JobLog:
        """The job's log: call it, ``job.log("copied %d files", count)``, or use it as a logger, ``job.log.warning(…)``.

        The lines are kept with the job within bounds, and shown on its page and by ``interlock jobs logs``.
        """
        try:
            return self._log
        except AttributeError:
            self._log = JobLog(self)
            return self._log

    def progress(self, fraction: float, message: str | None = None) -> None:
        """Report how far the job has come: a number from 0 to 1, and what it is doing.

        The last call counts; it may go back. Without a message the last one stays. A number outside of 0 to 1 counts as
        the nearest, with a warning in the job's log. A call never waits for the store and never fails the job.
        """
        if self.logs is not None:
            self._buffer_of(self.logs).set_progress(fraction, message)

    def write(self, level: int, text: str) -> None:
        """Add text to the job's log only."""
        if self.logs is not None:
            self._buffer_of(self.logs).write(level, text)

    def _buffer_of(self, logs: LogBuffers) -> LogBuffer:
        """The buffer of this fetch. It is kept, so that after the end of the fetch nothing opens another one."""
        try:
            return self._buffer
        except AttributeError:
            self._buffer = logs.of(self.fetched)
            return self._buffer

    @property
    def caller(self) -> callers.Caller:
        """The job in the graph of waits."""
        try:
            return self._caller
        except AttributeError:
            self._caller = callers.Caller(f"job:{self.fetched.id}:{_PROCESS}")
            return self._caller


CURRENT: ContextVar[CurrentJob | None] = ContextVar("interlock_job", default=None)
"""Set by the worker before each handler; None outside of jobs."""

current_engine: ContextVar[object] = ContextVar("interlock_job_engine", default=None)
"""The engine whose jobs run here; set once for each runner."""

_runners: set[asyncio.Task[Any] | None] = set()


def current_job() -> CurrentJob:
    """The job that is running here, also in tasks and threads that its handler starts with its context."""
    job = CURRENT.get()
    if job is None:
        raise MisuseError("No job is running here.", remedy="Call current_job() inside a handler that a worker runs.")
    return job


def cause_here() -> str:
    """The cause of what is enqueued here, as stored: the job that is running here; empty outside of jobs."""
    job = CURRENT.get()
    return "" if job is None else caused_by_job(job.id, job.event_id)


def register_runner(task: asyncio.Task[Any]) -> None:
    """Mark a task that runs handlers. Tasks that a handler starts wait as themselves, as usual."""
    _runners.add(task)
    task.add_done_callback(_runners.discard)


def _party_of_job(task: asyncio.Task[Any] | None) -> callers.Caller | None:
    if task not in _runners:
        return None
    job = CURRENT.get()
    return None if job is None else job.caller


def _party_of_handler_thread() -> callers.Caller | None:
    job = CURRENT.get()
    return job.caller if job is not None and getattr(job, "thread", None) == get_ident() else None


def _cause() -> operations.Cause | None:
    """The job that runs here, and its event if it has one, for the journal."""
    job = CURRENT.get()
    return None if job is None else (job.event_id, job.id, job.fence)


callers.add_caller_lookup(_party_of_job)
callers.add_thread_lookup(_party_of_handler_thread)
operations.add_cause_lookup(_cause)
