"""What a worker on PostgreSQL is told of its jobs, also when messages do not arrive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from interlock import App
from interlock.backends.postgres.listener import Listener
from interlock.ports.jobs import JobState
from interlock.testing.clock import until

if TYPE_CHECKING:
    import pytest


class Work:
    """A handler that waits to be let go."""

    def __init__(self) -> None:
        self.started = self.stopped = 0
        self.go = asyncio.Event()

    async def __call__(self) -> None:
        self.started += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise


async def until_state(app: App, job: Any, state: JobState) -> None:
    async with asyncio.timeout(10):
        while (await app.jobs.find(job)).state is not state:
            await asyncio.sleep(0.05)


async def test_a_job_cancelled_and_retried_runs_though_no_messages_arrive(
    interlock_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Listener, "_on_message", lambda *_: None)
    work = Work()
    async with App(interlock_postgres_url) as app:
        job = app.job(name="work")(work.__call__)
        async with app.worker(concurrency=1):
            handle = await job.enqueue()
            await until(lambda: work.started == 1)
            await app.jobs.cancel(handle, reason="oops", by="ann")
            await until_state(app, handle, JobState.CANCELLED)
            assert work.stopped == 1

            await app.jobs.retry(handle, by="ann")
            await until(lambda: work.started == 2)
            await asyncio.sleep(1.5)  # what was said of the first claim is found again meanwhile
            work.go.set()
            await until_state(app, handle, JobState.DONE)
    assert (work.started, work.stopped) == (2, 1)
