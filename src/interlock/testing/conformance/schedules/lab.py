"""Several processes with schedules on one store, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from interlock.jobs.engine import JobEngine
from interlock.jobs.jobs import Jobs
from interlock.ports.job_views import JobFilter
from interlock.ports.journal import JournalFilter
from interlock.schedules.engine import ScheduleEngine
from interlock.schedules.schedules import Schedules
from interlock.settings import Settings
from interlock.store_client import StoreClient
from interlock.testing.conformance.jobs.driver import JobDriver, JobSuite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.ports.schedules import ScheduleStore

__all__ = ["Lab", "Process", "ScheduleSuite"]


class Process:
    """A process with jobs and schedules, in a session of the driver. It has no worker: the test fires and runs."""

    def __init__(self, driver: JobDriver, session: str) -> None:
        client = StoreClient(driver.store, Settings(), driver.clock)
        self.session = session
        self.jobs = Jobs(client)
        self.schedules = Schedules(client, jobs=self.jobs)
        self._client = client

    def open(self) -> Process:
        """Let the API work."""
        engine = self.schedules._new_engine(self._client)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        assert isinstance(engine, ScheduleEngine)
        definitions = self.jobs._definitions  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        engine.connect(JobEngine(self._client, definitions), lambda: self.session)
        self.schedules._engine = engine  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        self.schedules._loop = asyncio.get_running_loop()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        self.scheduler = engine.scheduler
        return self

    async def fire(self) -> float:
        """Fire what is due; returns the seconds until the next time."""
        return await self.scheduler.step()


class Lab:
    """The store, its clock and its processes."""

    def __init__(self, driver: JobDriver) -> None:
        self.driver = driver
        self.store = driver.store
        self.schedules: ScheduleStore = driver.store.schedules

    def process(self, session: str = "a") -> Process:
        """A process that defines the job ``report``, and nothing else yet."""
        process = Process(self.driver, session)

        @process.jobs.job()
        async def report(account: str = "none", count: int = 1) -> None:
            """Do nothing: the test runs no jobs."""

        return process

    async def passes(self, seconds: float) -> None:
        """Let time pass, with all sessions alive."""
        await self.driver.let_pass(seconds)

    async def set_time(self, at: float) -> None:
        """Let time pass until then."""
        await self.passes(at - self.driver.now)

    async def enqueued(self, name: str = "") -> list[int]:
        """The jobs that exist, oldest first."""
        return [view.id for view in reversed(await self.driver.list_jobs(JobFilter(name=name), limit=100_000))]

    async def finish(self, name: str = "report") -> int:
        """Run all jobs that can run; returns how many."""
        count = 0
        while jobs := await self.driver.fetch("a", queues=("default",), names=(name,)):
            await self.driver.done(*jobs)
            count += len(jobs)
        return count

    async def journal(self, name: str) -> list[tuple[str, str]]:
        """The actions on a schedule and their actors, oldest first."""
        entries = await self.store.journal.list(JournalFilter(subject_kind="schedule", subject_key=name))
        return [(entry.action, entry.actor) for entry in reversed(entries)]


class ScheduleSuite(JobSuite):
    """Tests in such a lab."""

    @asynccontextmanager
    async def lab(self, url: str, **settings: Any) -> AsyncIterator[Lab]:
        """A fresh lab."""
        async with self.job_driver(url, **settings) as driver:
            yield Lab(driver)
