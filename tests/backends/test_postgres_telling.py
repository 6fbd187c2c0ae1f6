"""What a worker on PostgreSQL is told of its jobs, also when messages do not arrive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from interlock import App
from interlock.backends.postgres.listener import Listener
from interlock.backends.postgres.messages import PostgresMessages
from interlock.ports.jobs import JobState
from interlock.settings import Settings
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
        while (await app.jobs.get(job)).state is not state:
            await asyncio.sleep(0.05)


async def test_a_job_cancelled_and_retried_runs_though_no_messages_arrive(
    complete_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Listener, "_on_message", lambda *_: None)
    look, looks = PostgresMessages._look, 0

    async def counted(self: PostgresMessages, *, turns: bool) -> None:
        nonlocal looks
        await look(self, turns=turns)
        looks += 1

    monkeypatch.setattr(PostgresMessages, "_look", counted)
    work = Work()
    async with App(complete_postgres_url) as app:
        job = app.job(name="work")(work.__call__)
        async with app.worker(concurrency=1):
            handle = await job.enqueue()
            await until(lambda: work.started == 1)
            await app.jobs.cancel(handle, reason="oops", by="ann")
            await until_state(app, handle, JobState.CANCELLED)
            assert work.stopped == 1

            await app.jobs.retry(handle, by="ann")
            await until(lambda: work.started == 2)
            before = looks
            await until(lambda: looks >= before + 2, what="what was said of the first claim is found again")
            work.go.set()
            await until_state(app, handle, JobState.DONE)
    assert (work.started, work.stopped) == (2, 1)


async def test_a_cancelling_that_falls_into_a_reconnect_arrives(
    complete_postgres_url: str, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, listen, may_listen = Work(), Listener._listen_once, asyncio.Event()
    may_listen.set()
    listeners: list[Listener] = []

    async def listen_once(self: Listener) -> bool:
        listeners.append(self)
        await may_listen.wait()
        return await listen(self)

    monkeypatch.setattr(Listener, "_listen_once", listen_once)
    async with App(complete_postgres_url, settings=Settings(recheck_interval=600)) as app:
        job = app.job(name="work")(work.__call__)
        async with app.worker(concurrency=1):
            handle = await job.enqueue()
            await until(lambda: work.started == 1)
            await asyncio.sleep(0.2)  # all is said that is said at the beginning
            may_listen.clear()
            assert await other.fetchval("select pg_terminate_backend($1)", listeners[0]._connection.get_server_pid())
            await app.jobs.cancel(handle, reason="oops", by="ann")
            may_listen.set()
            await until_state(app, handle, JobState.CANCELLED)
    assert work.stopped == 1


async def test_a_cancelling_that_was_never_said_is_found(
    complete_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hear = Listener._on_message

    def deaf_to_losses(self: Listener, connection: Any, pid: int, channel: str, payload: str) -> None:
        if not payload.startswith("lost"):
            hear(self, connection, pid, channel, payload)

    monkeypatch.setattr(Listener, "_on_message", deaf_to_losses)
    work = Work()
    async with App(complete_postgres_url, settings=Settings(recheck_interval=0.5)) as app:
        job = app.job(name="work")(work.__call__)
        async with app.worker(concurrency=1):
            handle = await job.enqueue()
            await until(lambda: work.started == 1)
            await app.jobs.cancel(handle, reason="oops", by="ann")
            await until_state(app, handle, JobState.CANCELLED)
    assert work.stopped == 1
