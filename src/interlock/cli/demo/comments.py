"""Jobs with lanes: comments on issues, which have to appear in the order in which they were written.

An author enqueues them, the workers run them. A comment fails now and then, and is tried again.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from typing import TYPE_CHECKING, Any, cast

from interlock.cli.demo.records import Notebook
from interlock.errors import StoreUnavailableError
from interlock.jobs import Jobs, Outcome, Retry, current_job

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from interlock.cli.demo.records import Record
    from interlock.jobs import AsyncJob
    from interlock.ports.jobs import JobStore, Settled, Settlement
    from interlock.ports.store import Store
    from interlock.settings import Settings

__all__ = ["CONCURRENCY", "ISSUES", "ORDERS", "Author", "define", "witnessed"]

ORDERS = "orders.jsonl"
ISSUES = ("api#1", "api#2", "web#3", "web#4", "docs#5", "docs#6")
CONCURRENCY = 6
_EVERY = 1.0  # seconds, shared by the workers
_LEAST_EVERY = 0.1
_MOST_AT_ONCE = 5
_FAILS = 0.15
_PATIENT = Retry(attempts=1000, delay=0.2, most=1.0)


def define(jobs: Jobs, log: Notebook) -> AsyncJob[[str, str, int], None]:
    """Make the job known; its handler writes down what it does."""
    chance = random.Random()  # noqa: S311 - nothing here is a secret

    @jobs.job(lane="{run}:{issue}", retry=_PATIENT)
    async def comment(run: str, issue: str, number: int) -> None:
        job = current_job()
        told: dict[str, Any] = {"job": job.id, "lane": issue, "number": number}
        log.write("comment began", **told, attempt=job.attempt, fence=job.fence)
        try:
            await asyncio.sleep(chance.uniform(0.05, 0.25))
        except asyncio.CancelledError:
            log.write("comment stopped", **told)
            raise
        if chance.random() < _FAILS:
            log.write("comment failed", **told)
            raise ConnectionError("the forge is away")
        log.write("comment ended", **told)

    return comment


class Author:
    """Enqueues comments, each issue's in order, and knows which are not done yet."""

    def __init__(self, url: str, settings: Settings, directory: Path, workers: int) -> None:
        self._jobs = Jobs.from_url(url, settings=settings)
        self._orders = Notebook(directory / ORDERS, "author")
        self._job = define(self._jobs, self._orders)
        self._run = secrets.token_hex(2)  # in a store of somebody's own, lanes of the last demo may still be there
        self._every = max(_EVERY / workers, _LEAST_EVERY)
        self._next = 0.0
        self._random = random.Random()  # noqa: S311 - nothing here is a secret
        self._written = 0
        """The number of the last comment; they grow over all issues, and so within each."""
        self._undone: set[int] = set()
        self.count = 0
        """How many were enqueued."""

    @property
    def waiting(self) -> bool:
        """Whether any comment is not done yet."""
        return bool(self._undone)

    def lane(self, issue: str) -> str:
        """What the lane of an issue is called in the store."""
        return f"{self._run}:{issue}"

    async def open(self) -> None:
        """Begin."""
        await self._jobs.open()

    async def write(self, now: float, *, new: bool) -> None:
        """Enqueue a few more on one issue, if it is time and wanted."""
        if not new or now < self._next:
            return
        self._next = now + self._every
        issue, first = self._random.choice(ISSUES), self._written
        numbers = range(first + 1, first + 1 + self._random.randint(1, _MOST_AT_ONCE))
        self._written = numbers[-1]
        try:
            handles = await self._jobs.enqueue_many(self._job.call(self._run, issue, number) for number in numbers)
        except StoreUnavailableError:
            return  # whether they were accepted nobody knows; they are in no account
        for handle, number in zip(handles, numbers, strict=True):
            self._orders.write("enqueued", job=handle.id, lane=issue, number=number)
            self._undone.add(handle.id)
        self.count += len(handles)

    def hear(self, records: Iterable[Record]) -> None:
        """Learn which are done."""
        for record in records:
            if record["what"] in ("comment acknowledged", "comment quarantined"):
                self._undone.discard(record["job"])

    async def close(self) -> None:
        """End."""
        await self._jobs.close()
        self._orders.close()


def witnessed(store: Store, log: Notebook) -> Store:
    """The store, with every acknowledgement that it accepts written down."""
    return cast("Store", _Witnessed(store, log))


class _Witnessed:
    def __init__(self, store: Store, log: Notebook) -> None:
        self._store = store
        self.jobs = cast("JobStore", _WitnessedJobs(store.jobs, log))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _WitnessedJobs:
    def __init__(self, jobs: JobStore, log: Notebook) -> None:
        self._jobs = jobs
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    async def settle(self, session: str, settlements: Sequence[Settlement]) -> Settled:
        settled = await self._jobs.settle(session, settlements)
        for settlement, accepted in zip(settlements, settled.accepted, strict=True):
            if accepted and settlement.outcome is Outcome.DONE:
                self._log.write("comment acknowledged", job=settlement.id, fence=settlement.fence)
            elif not accepted and settlement.outcome is not Outcome.RETURNED:
                self._log.write("comment refused", job=settlement.id, fence=settlement.fence)
        return settled
