"""The simulator's event loop keeps asyncio's promises, and its own: virtual time, pauses and kills."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING

import pytest

from interlock.testing.simulator import SeededLoop, SimulationOverrunError, SimulationStuckError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def loop() -> Iterator[SeededLoop]:
    loop = SeededLoop(1)
    yield loop
    loop.close()
    gc.collect()


def test_time_passes_only_when_nothing_is_ready(loop: SeededLoop) -> None:
    async def main() -> float:
        for _ in range(100):
            await asyncio.sleep(0)
        before = loop.time()
        await asyncio.sleep(3600)
        return before

    began = time.monotonic()
    assert loop.run_until_complete(main()) == 0.0
    assert loop.time() == 3600.0
    assert time.monotonic() - began < 5


def test_timeouts_gather_events_and_shields_work(loop: SeededLoop) -> None:
    async def later(seconds: float, what: str) -> str:
        await asyncio.sleep(seconds)
        return what

    async def main() -> None:
        event = asyncio.Event()
        loop.call_later(2, event.set)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await event.wait()
        assert loop.time() == 1.0
        assert await asyncio.wait_for(event.wait(), 5)
        assert list(await asyncio.gather(later(2, "a"), later(1, "b"))) == ["a", "b"]
        inner = asyncio.create_task(later(1, "shielded"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(inner), 0.5)
        assert await inner == "shielded"
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(later(0.1, "in a group")) for _ in range(3)]
        assert {task.result() for task in tasks} == {"in a group"}

    loop.run_until_complete(main())


def test_a_process_keeps_its_order_and_processes_interleave_by_seed() -> None:
    def order(seed: int) -> list[str]:
        loop = SeededLoop(seed)
        seen: list[str] = []

        async def count(name: str) -> None:
            for number in range(5):
                seen.append(f"{name}{number}")
                await asyncio.sleep(0)

        async def main() -> None:
            processes = [loop.new_process(name) for name in "ab"]
            for process in processes:
                loop.create_task(count(process.name), context=process.context())
            await asyncio.sleep(1)

        loop.run_until_complete(main())
        loop.close()
        return seen

    assert [event for event in order(1) if event[0] == "a"] == ["a0", "a1", "a2", "a3", "a4"]
    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(20)}) > 5


def test_a_paused_process_stands_still_and_goes_on(loop: SeededLoop) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(loop.time())

    async def main() -> None:
        process = loop.new_process("p")
        loop.create_task(tick(), context=process.context())
        await asyncio.sleep(2.5)
        loop.pause(process, 5)
        await asyncio.sleep(7)

    loop.run_until_complete(main())

    assert ticks == [1.0, 2.0, 7.5, 8.5, 9.5]


def test_a_killed_process_runs_nothing_any_more_not_even_finally(loop: SeededLoop) -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            seen.append("begun")
            await asyncio.sleep(2)
            seen.append("not reached")
        finally:
            if not loop.is_closed():
                seen.append("finally")

    async def main() -> None:
        process = loop.new_process("p")
        loop.create_task(work(), context=process.context())
        await asyncio.sleep(1)
        loop.crash(process)
        gc.collect()
        await asyncio.sleep(5)

    loop.run_until_complete(main())

    assert seen == ["begun"]
    assert not loop.complaints


def test_what_waits_for_ever_is_told_apart_from_what_takes_too_long() -> None:
    async def for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    async def too_long() -> None:
        await asyncio.sleep(100)

    async def too_busy() -> None:
        while True:
            await asyncio.sleep(0)

    for main, error, limits in (
        (for_ever, SimulationStuckError, {}),
        (too_long, SimulationOverrunError, {"max_seconds": 10.0}),
        (too_busy, SimulationOverrunError, {"max_steps": 1000}),
    ):
        loop = SeededLoop(42, **limits)
        with pytest.raises(error, match="INTERLOCK_SEED=42"):
            loop.run_until_complete(main())
        loop.close()


def test_an_error_that_nobody_looks_at_is_a_complaint(loop: SeededLoop) -> None:
    async def fail() -> None:
        raise ValueError("unseen")

    async def main() -> None:
        loop.create_task(fail())
        await asyncio.sleep(1)
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    loop.run_until_complete(main())

    assert [type(complaint["exception"]) for complaint in loop.complaints] == [ZeroDivisionError]
