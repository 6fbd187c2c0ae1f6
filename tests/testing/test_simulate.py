"""The handlers of one's own app in the simulator: a planted race is found, and the mended bot passes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Retry
from interlock.errors import MisuseError
from interlock.testing import SimulationFailedError, simulate
from interlock.testing.simulator import Faults

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.jobs import Job
    from interlock.testing import Simulation

NAMES = [f"label-{number}" for number in range(4)]

app = App("sqlite:////nonexistent/bot.db")


class Forge:
    """A remote service: whoever sets the labels of an issue replaces them all."""

    def __init__(self) -> None:
        self.labels: dict[int, frozenset[str]] = {}

    async def get(self, issue: int) -> frozenset[str]:
        """Read the labels."""
        await asyncio.sleep(0)
        return self.labels.get(issue, frozenset())

    async def put(self, issue: int, labels: frozenset[str]) -> None:
        """Replace the labels."""
        await asyncio.sleep(0)
        self.labels[issue] = labels


forge = Forge()


async def add(issue: int, name: str) -> None:
    await forge.put(issue, await forge.get(issue) | {name})


@app.job(retry=Retry(attempts=20, delay=0.1, max_delay=0.5))
async def racy(issue: int, name: str) -> None:
    await add(issue, name)


@app.job(lane="{issue}", retry=Retry(attempts=20, delay=0.1, max_delay=0.5))
async def laned(issue: int, name: str) -> None:
    await add(issue, name)


@app.job(retry=Retry(attempts=20, delay=0.1, max_delay=0.5))
async def locked(issue: int, name: str) -> None:
    async with app.locks.acquire(f"issue:{issue}", wait=60):
        await add(issue, name)


def labeling(job: Job[..., Any]) -> Callable[[Simulation], Awaitable[None]]:
    """A scenario in which labels arrive one after the other, seldom at the same time."""

    async def scenario(run: Simulation) -> None:
        forge.labels.clear()
        for name in NAMES:
            await job.enqueue(issue=7, name=name)
            await asyncio.sleep(run.random.random() * 0.2)
        await run.finish()
        assert forge.labels[7] == set(NAMES), f"lost: {set(NAMES) - forge.labels[7]}"

    return scenario


def test_a_planted_race_is_found_and_repeats_with_its_seed() -> None:
    with pytest.raises(SimulationFailedError) as caught:
        simulate(app, labeling(racy), seeds=1000)
    failed = caught.value
    assert failed.seed <= 1000
    assert "lost: " in str(failed)
    assert f"seeds=[{failed.seed}]" in str(failed)
    assert any("racy job" in line for line in failed.trace)
    with pytest.raises(SimulationFailedError) as again:
        simulate(app, labeling(racy), seeds=[failed.seed])
    assert again.value.trace == failed.trace


@pytest.mark.parametrize("job", [laned, locked], ids=["lane", "lock"])
def test_the_mended_bot_passes(job: Job[..., Any]) -> None:
    report = simulate(app, labeling(job), seeds=12)
    assert (report.seeds, report.jobs) == (12, 12 * len(NAMES))
    assert report.faults


@pytest.mark.full
@pytest.mark.timeout(300)
def test_the_mended_bot_passes_many_seeds() -> None:
    report = simulate(app, labeling(locked), seeds=range(1000, 1300))
    assert report.jobs == 300 * len(NAMES)
    assert report.faults["crashed_after"] > 3


def test_the_app_is_as_it_was_afterwards() -> None:
    own = App("memory://")

    @own.job()
    async def work() -> None: ...

    handler = own.jobs["work"].definition.function

    async def scenario(run: Simulation) -> None:
        await work.enqueue()
        await run.finish()

    simulate(own, scenario, seeds=2)
    assert (type(own), type(own.locks).__name__) == (App, "Locks")
    assert own.jobs["work"].definition.function is handler
    assert not own.is_open

    async def use() -> None:
        async with own:
            await work.enqueue()
            await own.drain()
            assert len(await own.jobs.list()) == 1

    asyncio.run(use())


def test_jobs_that_never_end_and_errors_of_the_scenario_are_reported() -> None:
    own = App("memory://")

    @own.job(retry=Retry(attempts=1000, delay=5))
    async def never() -> None:
        raise ConnectionError("no")

    async def waits(run: Simulation) -> None:
        await never.enqueue()
        await run.finish(within=60)

    async def fails(run: Simulation) -> None:
        run.note("about to fail")
        raise ValueError(run.seed)

    with pytest.raises(SimulationFailedError, match=r"jobs did not end within 60 s: 1 \(never\)"):
        simulate(own, waits, seeds=1, faults=Faults())
    with pytest.raises(SimulationFailedError, match="ValueError: 5") as caught:
        simulate(own, fails, seeds=[5])
    assert caught.value.trace[-1].endswith("about to fail") or "about to fail" in str(caught.value)


def test_plain_functions_are_refused() -> None:
    own = App("memory://")

    @own.job()
    def plain() -> None: ...

    async def scenario(run: Simulation) -> None: ...

    with pytest.raises(MisuseError, match="'plain' is a plain function"):
        simulate(own, scenario)
