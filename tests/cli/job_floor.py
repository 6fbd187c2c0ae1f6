"""A store with jobs in every state, brought about through the port, in real time and without a worker."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

from interlock.backends import from_url
from interlock.ports.jobs import Acknowledgement, FetchedJob, FetchRequest, FetchResult, Outcome
from interlock.ports.limits import Use
from interlock.ports.sessions import SessionCard
from interlock.settings import Settings
from interlock.testing.conformance.jobs.driver import new_job

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from interlock.ports.store import Store

__all__ = ["ONE", "PACE", "JobFloor", "data", "floor", "run"]

ONE = Use("slots:containers", 1, 0.0)
PACE = Use("cooldown:account:a1", 1, 90.0)

QUEUES = ("default", "mail")
NAMES = ("report", "sync")


class JobFloor:
    """Jobs are named ``report`` and in queue ``default`` unless told otherwise; ``worker`` fetches them."""

    def __init__(self, store: Store) -> None:
        self.jobs = store.jobs
        self.insight = store.insight
        self._store = store
        self._sessions = 0

    async def begin(self, session: str) -> None:
        """Somebody who could fetch."""
        await self._store.sessions.begin(SessionCard(session, "elsewhere", 7, "bot.py"), 60)

    async def register_worker(self, *names: str, queue: str = "default") -> None:
        """The worker says that it works, and on what."""
        await self.jobs.register_worker("worker", [queue], list(names), 10)

    async def add(self, **changes: Any) -> int:
        """Accept one job."""
        (number,) = await self.jobs.ids(1)
        await self.jobs.enqueue([new_job(number, **{"name": "report", "queue": "default", **changes})])
        return number

    async def fail_many(self, count: int, **changes: Any) -> list[int]:
        """So many dead letters, in order."""
        ids = await self.jobs.ids(count)
        how = {"name": "report", "queue": "default", **changes}
        await self.jobs.enqueue([new_job(number, **how) for number in ids])
        while batch := (await self._fetch("worker", count)).jobs:
            acknowledgements = [Acknowledgement(job.id, job.fence, Outcome.FAILED, error="no") for job in batch]
            await self.jobs.acknowledge("worker", acknowledgements)
        return list(ids)

    async def fetch(self, session: str = "worker") -> FetchedJob:
        """Fetch what is next."""
        batch = await self._fetch(session)
        assert batch.jobs, "there is nothing to fetch"
        return batch.jobs[0]

    async def fetch_and_die(self) -> FetchedJob:
        """Let a worker fetch what is next and die; nobody has rescued the job yet."""
        await self.begin("dead")
        job = await self.fetch("dead")
        await self._store.sessions.end("dead")
        return job

    async def stand(self) -> None:
        """Let a fetcher see that there is nothing it could have, so that jobs stand where they belong."""
        batch = await self._fetch("worker")
        assert not batch.jobs

    async def _fetch(self, session: str, limit: int = 1) -> FetchResult:
        """One job or more, or none after a fetch that was not cut short."""
        for _ in range(100):
            batch = await self.jobs.fetch(FetchRequest(session, QUEUES, NAMES, limit, limit, limit))
            assert isinstance(batch, FetchResult)
            if batch.jobs or batch.recheck_in >= 1:
                return batch
        raise AssertionError("the fetch is cut short for ever")

    async def end(self, job: FetchedJob, outcome: Outcome = Outcome.DONE, **how: Any) -> None:
        """End a fetch of the worker."""
        acknowledged = await self.jobs.acknowledge("worker", [Acknowledgement(job.id, job.fence, outcome, **how)])
        assert acknowledged.accepted == [True] or tuple(acknowledged.accepted) == (True,)

    async def ended(self, outcome: Outcome, how: dict[str, Any] | None = None, **changes: Any) -> int:
        """A job that was fetched and ended so."""
        number = await self.add(**changes)
        job = await self.fetch()
        assert job.id == number
        await self.end(job, outcome, **(how or {}))
        return number

    async def crash(self, number: int, times: int) -> None:
        """Let so many workers die with a job that is next."""
        for _ in range(times):
            self._sessions += 1
            session = f"victim-{self._sessions}"
            await self.begin(session)
            assert (await self.fetch(session)).id == number
            await self._store.sessions.end(session)
            await self.jobs.rescue()


@contextlib.asynccontextmanager
async def floor(url: str) -> AsyncGenerator[JobFloor]:
    """An open store, with a session for the worker."""
    store = from_url(url, settings=Settings())
    await store.open()
    try:
        made = JobFloor(store)
        await made.begin("worker")
        yield made
    finally:
        await store.close()


async def run(cli: Callable[..., Any], url: str, *args: str, code: int = 0) -> Any:
    """Run a command while the test's own store stays open."""
    result = await asyncio.to_thread(cli, *args, "--url", url)
    assert result.exit_code == code, result.output
    return result


async def data(cli: Callable[..., Any], url: str, *args: str, code: int = 0) -> Any:
    """What a command prints for programs."""
    return json.loads((await run(cli, url, *args, "--json", code=code)).stdout)
