"""Several processes with the same schedules: each time fires once, and no edit is lost, whoever is killed."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from interlock.jobs.causes import read_cause
from interlock.schedules import timing
from interlock.testing.processes import Barrier, Worker
from tests.schedules.ticking import EVERY, bot

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES = 8
FIRINGS = 200
EDITS = 1000


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(timing, "MIN_EVERY", EVERY)
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/interlock.db"
    return str(request.getfixturevalue("complete_postgres_url"))


@pytest.mark.full
async def test_200_times_fire_once_each_while_8_processes_are_killed(url: str) -> None:
    chosen = random.Random(7)
    app = bot(url)
    async with app, AsyncExitStack() as stack:

        async def new() -> Worker:
            return await stack.enter_async_context(Worker.spawn("tests.schedules.ticking:fire", (url,)))

        workers = [await new() for _ in range(PROCESSES)]
        for worker in workers:
            await worker.wait_for("ready", timeout=60)
        kills, started = 0, (await app.schedules.get("tick")).fired
        while (await app.schedules.get("tick")).fired < started + FIRINGS:
            await asyncio.sleep(chosen.uniform(0.2, 0.9))  # any moment will do
            victim = chosen.randrange(PROCESSES)
            workers[victim].kill()
            workers[victim] = await new()
            kills += 1
        for worker in workers:
            worker.kill()
        schedule = await app.schedules.get("tick")
        jobs = await app.jobs.list(name="tick", limit=10_000)
        causes = [read_cause(job.cause) for job in jobs]
        times = sorted(cause.at for cause in causes if cause is not None and cause.at is not None)

    assert kills >= 5
    assert len(jobs) == len(times) == schedule.fired >= started + FIRINGS
    steps = [round((at - times[0]) / EVERY) for at in times]
    assert steps == list(range(len(times))), "each time of the grid has one job"
    assert (schedule.missed, schedule.skipped) == (0, 0)


@pytest.mark.full
async def test_1000_edits_by_8_processes_are_all_kept_or_refused(url: str) -> None:
    app = bot(url)
    async with app, AsyncExitStack() as stack:
        await app.schedules.save("edited", job="note", every=3600, arguments={"text": "x"}, grace=0, by="test")
        each = EDITS // PROCESSES
        workers = [
            await stack.enter_async_context(Worker.spawn("tests.schedules.ticking:edit", (url, each)))
            for _ in range(PROCESSES)
        ]
        await Barrier(*workers).release(timeout=60)
        refused = 0
        for worker in workers:
            refused += (await worker.wait_for("refused", timeout=120))["count"]
        schedule = await app.schedules.get("edited")
        entries = await app.journal.list(kind="schedule", key="edited", limit=10_000)

    assert schedule.grace == EDITS, "an edit was lost unnoticed"
    assert refused > 0, "the processes did not compete"
    assert len(entries) == EDITS + 1
