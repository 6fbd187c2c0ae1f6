"""Deploys: what SIGTERM interrupts goes back without counting against the job, in time for any supervisor."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App
from interlock.jobs.worker.worker import FINISH_WITHIN, RETURN_SECONDS, STOP_SECONDS
from interlock.ports.jobs import MAX_CRASHES, JobState
from interlock.testing.clock import until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from interlock import Handle
    from interlock.ports.job_views import JobView

BOT = """
import asyncio, pathlib, time
from interlock import App

app = App({url!r}, session_ttl=1.0, recheck_interval=0.2)
here = pathlib.Path({here!r})

def begun():
    with open(here / "begun", "a") as log:
        log.write("x")

@app.job(name="build", lane="{{repo}}")
async def build(repo: str, how: str) -> None:
    begun()
    while not (here / "go").exists():
        if how == "blocks the loop":
            time.sleep(0.005)
        elif how == "runs in the executor":
            await asyncio.to_thread(endless)
        elif how == "swallows its cancellation":
            try:
                await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                pass
        else:
            await asyncio.sleep(0.005)

def endless():
    while not (here / "go").exists():
        time.sleep(0.005)

@app.job(name="thread")
def thread() -> None:
    begun()
    endless()
"""

on_sqlite = pytest.mark.parametrize("every_store_url", ["sqlite"], indirect=True)
on_both_stores = pytest.mark.parametrize(
    "every_store_url", ["sqlite", pytest.param("postgres", marks=pytest.mark.full)], indirect=True
)


class Service:
    """A program that is deployed over and over."""

    def __init__(self, directory: Path, url: str, spawn: Callable[..., subprocess.Popen[str]]) -> None:
        self.directory = directory
        self.processes: list[subprocess.Popen[str]] = []
        self._spawn = spawn
        (directory / "bot.py").write_text(BOT.format(url=url, here=str(directory)))
        self.app = App(url, session_ttl=5.0)

        @self.app.job(name="build", lane="{repo}")
        async def build(repo: str, how: str) -> None: ...

        @self.app.job(name="thread")
        async def thread() -> None: ...

        self.build, self.thread = build, thread

    @property
    def begun(self) -> int:
        """How often a handler has begun."""
        path = self.directory / "begun"
        return len(path.read_text()) if path.exists() else 0

    async def start(self, *options: str, jobs: int = 1) -> subprocess.Popen[str]:
        """Start a worker, and wait until it runs so many jobs."""
        before = self.begun
        with (self.directory / "stderr").open("a") as stderr:
            process = self._spawn("run", "bot:app", *options, cwd=self.directory, stdout=stderr, stderr=stderr)
        self.processes.append(process)
        await until(lambda: self.begun >= before + jobs, within=60)
        return process

    async def ended(self, process: subprocess.Popen[str], within: float = 30.0) -> int:
        await until(lambda: process.poll() is not None, within=within)
        return int(process.returncode)

    async def enqueue(self, how: str) -> Handle[None]:
        """A job that goes on like this until it is let go."""
        return await (self.thread.enqueue() if how == "in a thread" else self.build.enqueue(repo=how, how=how))

    async def rescued(self, job: Any) -> None:
        """Wait until no worker has the job, with this process as the one that rescues."""

        async def is_free() -> bool:
            await self.app.jobs._store_client.store.jobs.rescue()
            return not (await self.view(job)).state.at_worker

        await until(is_free, within=30)

    async def view(self, job: Any) -> JobView:
        view = await self.app.jobs.get(job)
        assert view is not None
        return view


@pytest.fixture
async def service(
    tmp_path: Path, every_store_url: str, spawn: Callable[..., subprocess.Popen[str]]
) -> AsyncIterator[Service]:
    service = Service(tmp_path, every_store_url, spawn)
    try:
        async with service.app:
            yield service
    finally:
        (tmp_path / "go").touch()
        for process in service.processes:
            process.kill()
            await asyncio.to_thread(process.wait)


def test_a_process_ends_before_a_supervisor_kills_it() -> None:
    assert FINISH_WITHIN + STOP_SECONDS + RETURN_SECONDS < 30


@pytest.mark.full
@on_both_stores
async def test_a_long_job_goes_back_uncounted_at_every_deploy(service: Service) -> None:
    job = await service.build.enqueue(repo="r", how="sleeps")
    behind = await service.build.enqueue(repo="r", how="sleeps")
    for _ in range(MAX_CRASHES):
        process = await service.start("--finish-within", "0.1")
        process.send_signal(signal.SIGTERM)
        assert await service.ended(process) == 0
        view = await service.view(job)
        assert (view.state, view.crashes, view.attempt) == (JobState.READY, 0, 0), "back at once, and uncounted"
        assert (await service.view(behind)).state is JobState.BEHIND

    process = await service.start()
    (service.directory / "go").touch()
    await asyncio.gather(job.result(wait=30), behind.result(wait=30))
    process.send_signal(signal.SIGTERM)
    assert await service.ended(process) == 0
    assert (await service.view(job)).attempts[-1].number == 1


@pytest.mark.full
@on_sqlite
async def test_a_supervisor_that_does_not_wait_counts_no_crash_either(service: Service) -> None:
    job = await service.build.enqueue(repo="r", how="sleeps")
    for _ in range(MAX_CRASHES):
        process = await service.start("--finish-within", "60")
        process.send_signal(signal.SIGTERM)
        await until(lambda: leaving(service), within=30)
        process.kill()
        await service.ended(process)
        await service.rescued(job)

    view = await service.view(job)
    assert (view.state, view.crashes, view.attempt) == (JobState.READY, 0, 0)
    assert [attempt.outcome for attempt in view.attempts] == ["interrupted"] * MAX_CRASHES


async def leaving(service: Service) -> bool:
    """Whether the store knows of the newest process that it was told to end."""
    store: Any = service.app.jobs._store_client.store
    statement = "select leaving from interlock_job_worker where pid = ?"
    row = await store.jobs._look(lambda db: db.execute(statement, [service.processes[-1].pid]).fetchone())
    return bool(row and row[0])


@pytest.mark.full
@on_sqlite
@pytest.mark.parametrize(
    "how",
    [
        ["in a thread", "runs in the executor", "swallows its cancellation", "sleeps"],
        ["blocks the loop"],
        ["in a thread", "of several processes"],
    ],
    ids=["stuck", "blocked", "several"],
)
async def test_what_does_not_stop_ends_with_the_process_and_counts_no_crash(service: Service, how: list[str]) -> None:
    several = ["--processes", "2"] if how[-1] == "of several processes" else []
    kinds = [kind for kind in how if kind != "of several processes"]
    jobs = [await service.enqueue(kind) for kind in kinds]
    process = await service.start("--finish-within", "0.1", *several, jobs=len(jobs))
    told = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert await service.ended(process) == 70
    assert time.monotonic() - told < 0.1 + STOP_SECONDS + RETURN_SECONDS + 10, "ten more for a busy machine"
    for job in jobs:
        await service.rescued(job)
        view = await service.view(job)
        assert (view.state, view.crashes, view.attempt) == (JobState.READY, 0, 0)
