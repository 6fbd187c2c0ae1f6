"""Workers on real stores: people act from elsewhere, answers are lost, and the store goes away for a while."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Settings
from interlock.jobs import JobState, current_job
from interlock.testing.clock import until
from interlock.testing.proxy import ThreadedFaultProxy
from tests.remote import Remote

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

STEADY = Settings(session_ttl=30, store_wait=10.0, recheck_interval=0.5, stuck_work="report")
SHORT = Settings(session_ttl=3, store_wait=1.0, recheck_interval=0.5, stuck_work="report")


class Bot:
    """An app whose handlers note what they do, and wait until they may go on."""

    def __init__(self, url: str, settings: Settings) -> None:
        self.app = App(url, settings=settings)
        self.go = asyncio.Event()
        self.started: list[tuple[int, int]] = []
        self.stopped: list[int] = []
        self.done: list[int] = []

        @self.app.job(lane="{lane}")
        async def work(number: int, lane: str, wait: bool = False) -> int:
            self.started.append((current_job().id, current_job().fence))
            try:
                if wait:
                    await self.go.wait()
            except asyncio.CancelledError:
                self.stopped.append(number)
                raise
            self.done.append(number)
            return number

        self.work = work

    async def states(self, handles: list[Any]) -> list[JobState]:
        """How these jobs stand, as this app sees them."""
        return [(await self.app.jobs.handle(handle.id).status()).state for handle in handles]

    async def all_running(self, handles: list[Any]) -> bool:
        return set(await self.states(handles)) == {JobState.RUNNING}

    async def all_done(self, handles: list[Any]) -> bool:
        return set(await self.states(handles)) == {JobState.DONE}


@asynccontextmanager
async def bot(url: str, settings: Settings = STEADY) -> AsyncIterator[Bot]:
    made = Bot(url, settings)
    async with made.app:
        yield made


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that keeps jobs."""
    if request.param == "memory":
        return f"memory://{tmp_path.name.replace('_', '-')}"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return str(request.getfixturevalue("complete_postgres_url"))


@pytest.fixture
def server(complete_postgres_url: str, interlock_postgres_server: Any) -> Iterator[Remote]:
    """A store on a server, reached through a proxy."""
    with ThreadedFaultProxy("127.0.0.1", interlock_postgres_server.port) as proxy:
        yield Remote(complete_postgres_url, proxy)


async def test_somebody_else_cancels_what_runs_and_holds_what_waits(url: str) -> None:
    async with bot(url) as mine, bot(url) as other, mine.app.worker(concurrency=5):
        running = await mine.work.enqueue(number=1, lane="a", wait=True)
        held = [await mine.work.enqueue(number=n, lane="b", wait=n == 2) for n in (2, 3)]
        await until(lambda: len(mine.started) == 2)

        await other.app.jobs.cancel(running.id, reason="not needed", by="ann")
        await until(lambda: mine.stopped == [1])

        async def cancelled() -> bool:
            return await mine.states([running]) == [JobState.CANCELLED]

        await until(cancelled)
        await other.app.lanes.hold("b", reason="looking into it", by="ann")
        mine.go.set()

        async def held_up() -> bool:
            return await other.states(held) == [JobState.DONE, JobState.HELD]

        await until(held_up)
        assert mine.done == [2]
        await other.app.lanes.release("b", by="ann")
        await held[1].result(wait=10)
        assert mine.done == [2, 3]


async def test_jobs_fetched_in_advance_are_not_shown_as_running(url: str) -> None:
    async with bot(url) as mine, bot(url) as other:
        quick = [mine.work.call(number=n, lane=f"quick {n}") for n in range(300)]
        slow = [mine.work.call(number=n, lane=f"slow {n}", wait=True) for n in range(20)]
        handles = (await mine.app.jobs.enqueue_many([*quick, *slow]))[len(quick) :]
        async with mine.app.worker(concurrency=1):
            await until(lambda: len(mine.started) > len(quick))  # its short jobs have taught it to fetch in advance
            assert JobState.RUNNING not in await other.states(handles[1:])
            await until(partial(other.all_running, handles[:1]))
            assert JobState.RUNNING not in await other.states(handles[1:])
            mine.go.set()
            await until(partial(mine.all_done, handles))


async def test_two_workers_of_one_process_share_the_work(url: str) -> None:
    async with bot(url) as mine:
        calls = [mine.work.call(number=n, lane=f"lane {n % 7}") for n in range(300)]
        handles = await mine.app.jobs.enqueue_many(calls)
        async with mine.app.worker(concurrency=3), mine.app.worker(concurrency=4):
            await until(lambda: len(mine.done) == 300)
        assert await mine.all_done(handles)
        assert len(mine.started) == len(set(mine.started)) == 300
        for lane in range(7):
            assert [n for n in mine.done if n % 7 == lane] == list(range(lane, 300, 7))


async def test_lost_answers_lose_no_job_and_repeat_none(server: Remote) -> None:
    async with bot(server.url) as mine, mine.app.worker(concurrency=5):
        handles: list[Any] = []
        for batch in range(6):
            calls = [mine.work.call(number=batch * 20 + n, lane=f"lane {n % 5}") for n in range(20)]
            handles += await mine.app.jobs.enqueue_many(calls)
            if batch % 2:
                server.proxy.drop_replies()
            await until(lambda batch=batch: len(mine.done) >= batch * 20 + 5)  # type: ignore[misc]
        await until(lambda: mine.all_done(handles), within=30)
        assert server.proxy.fired["drop_replies"] >= 2
        assert sorted(mine.done) == list(range(120)), "a live job never runs twice"
        for lane in range(5):
            assert [n for n in mine.done if n % 5 == lane] == [n for n in range(120) if n % 5 == lane]


async def test_outages_are_survived_without_a_restart_whether_or_not_the_session_is_lost(server: Remote) -> None:
    async with bot(server.url, SHORT) as mine, bot(server.direct) as other, mine.app.worker(concurrency=5) as worker:
        long = await mine.work.enqueue(number=0, lane="long", wait=True)
        await until(lambda: mine.started)
        await until(partial(other.all_running, [long]))
        for number in range(1, 4):
            first = worker.status().session
            server.proxy.refuse()
            server.proxy.reset()
            if number == 2:
                await until(lambda: mine.stopped, within=10, what="it is stopped before the session can end")
                assert await other.states([long]) == [JobState.RUNNING], "and others are not let in before that"
            server.proxy.heal()
            handle = await other.work.enqueue(number=number, lane="short")
            assert await other.app.jobs.handle(handle.id).result(wait=20) == number
            assert (worker.status().session == first) is (number != 2)
        await until(lambda: len(mine.stopped) == 1 and worker.status().running)
        mine.go.set()
        assert await other.app.jobs.handle(long.id).result(wait=20) == 0
        status = await long.status()
        assert (status.attempt, status.crashes) == (1, 0), "that was neither a failure nor a crash"
