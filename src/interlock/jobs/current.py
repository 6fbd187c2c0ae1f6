"""The job that runs here: what a handler can know of itself."""

from __future__ import annotations

import logging
import secrets
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from interlock import callers
from interlock.clock import as_datetime
from interlock.errors import MisuseError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import MutableMapping
    from datetime import datetime

    from interlock.ports.jobs import FetchedJob

__all__ = ["CURRENT", "CurrentJob", "JobLog", "current_job", "runs_jobs", "workplace"]

_log = logging.getLogger("interlock.job")
_PROCESS = secrets.token_hex(2)  # other stores have jobs of the same number, whose locks may be in the same place


class JobLog(logging.LoggerAdapter[logging.Logger]):
    """Says with every line which job it is from."""

    def __init__(self, job: FetchedJob) -> None:
        super().__init__(_log, {"job_id": job.id, "job": job.name, "attempt": job.attempt})
        self._prefix = f"{job.name} {job.id} (attempt {job.attempt}): "

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Put the job before the message, and its parts on the record, next to what the caller adds."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return f"{self._prefix}{msg}", kwargs


class CurrentJob:
    """The job that runs here. One is made for every start, so all but the fetch is made when it is first asked for."""

    __slots__ = ("_caller", "_log", "fetched")

    _log: JobLog
    _caller: callers.Caller

    def __init__(self, fetched: FetchedJob) -> None:
        self.fetched = fetched

    @property
    def id(self) -> int:
        """Its number."""
        return self.fetched.id

    @property
    def name(self) -> str:
        """Which job it is."""
        return self.fetched.name

    @property
    def attempt(self) -> int:
        """1 for the first. Snoozing and crashes of workers do not count."""
        return self.fetched.attempt

    @property
    def fence(self) -> int:
        """Larger than that of every fetch of this job before. Pass it to whatever can refuse an older one."""
        return self.fetched.fence

    @property
    def lane(self) -> str:
        """Empty for none."""
        return self.fetched.lane

    @property
    def queue(self) -> str:
        """Where it was enqueued."""
        return self.fetched.queue

    @property
    def crashes(self) -> int:
        """How many workers died while it was their only suspect."""
        return self.fetched.crashes

    @property
    def enqueued_at(self) -> datetime:
        """When it was accepted, by the store's clock."""
        return as_datetime(self.fetched.enqueued_at)

    @property
    def log(self) -> JobLog:
        """A logger that names the job in every line."""
        try:
            return self._log
        except AttributeError:
            self._log = JobLog(self.fetched)
            return self._log

    @property
    def caller(self) -> callers.Caller:
        """Who the job is in the graph of waits."""
        try:
            return self._caller
        except AttributeError:
            self._caller = callers.Caller(f"job:{self.fetched.id}:{_PROCESS}")
            return self._caller


CURRENT: ContextVar[CurrentJob | None] = ContextVar("interlock_job", default=None)
"""Set by the worker before each handler; None where no job runs."""

workplace: ContextVar[object] = ContextVar("interlock_workplace", default=None)
"""The engine whose jobs run here; set once for each runner."""

_runners: set[asyncio.Task[Any] | None] = set()


def current_job() -> CurrentJob:
    """The job that runs here. Also known to the tasks and threads that its handler starts with its context."""
    job = CURRENT.get()
    if job is None:
        raise MisuseError("No job runs here.", remedy="Call current_job() inside a handler that a worker runs.")
    return job


def runs_jobs(task: asyncio.Task[Any]) -> None:
    """Say that handlers run in this task. Tasks that they start are callers of their own, as always."""
    _runners.add(task)
    task.add_done_callback(_runners.discard)


def _party_of_job(task: asyncio.Task[Any] | None) -> callers.Caller | None:
    if task not in _runners:
        return None
    job = CURRENT.get()
    return None if job is None else job.caller


callers.add_caller_lookup(_party_of_job)
