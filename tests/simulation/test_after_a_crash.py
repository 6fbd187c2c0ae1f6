"""How long work takes after a worker died, in virtual time: ten-minute builds, in the real engine, in seconds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pytest

from interlock.jobs import current_job
from interlock.jobs.definition import Definition
from interlock.jobs.listing import list_jobs
from interlock.jobs.options import JobOptions
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState
from interlock.testing.simulator import Process, SimulatedProcess, World
from interlock.testing.simulator.processes import PROCESS
from tests.simulation.workload import at_once

if TYPE_CHECKING:
    from interlock.jobs import Job

_BUILD = 600.0
_begun: WeakKeyDictionary[Process, list[int]] = WeakKeyDictionary()


async def _build() -> None:
    _begun.setdefault(PROCESS.get(), []).append(current_job().id)
    await asyncio.sleep(_BUILD)


def _views(world: World) -> list[JobState]:
    return [view.state for view in at_once(list_jobs(world.store.insight, JobFilter(), 1000))]


async def _work(process: SimulatedProcess) -> Job[..., Any]:
    job = process.jobs.define(Definition(_build, JobOptions.of({}), name="build"))
    await process.jobs.open()
    process.jobs.worker(concurrency=50).open()
    return job


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_fifty_builds_of_ten_minutes_take_two_rounds_after_a_crash(workers: int) -> None:
    world = World(1, max_seconds=10_000.0, max_steps=2_000_000)

    async def main(world: World) -> float:
        first = world.spawn()
        job = await first.start(_work(first))
        await first.start(first.jobs.enqueue_many([job.call() for _ in range(50)]))
        assert await world.until(lambda: len(_begun.get(first.process, ())) == 50, within=10.0)
        first.crash()
        crashed_at = world.clock.now()
        for _ in range(workers):
            process = world.spawn()
            process.start(_work(process))
        assert await world.until(lambda: set(_views(world)) == {JobState.DONE}, within=9000.0, every=5.0)
        return world.clock.now() - crashed_at

    minutes = world.run(main) / 60

    assert minutes <= (21 if workers == 1 else 11)
