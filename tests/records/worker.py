"""A process that changes records, for tests of races: ``python -m tests.records.worker URL TASK NUMBER``."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from interlock import App
from interlock.deadlocks import retry_on_deadlock
from interlock.errors import DeadlockError

if TYPE_CHECKING:
    from interlock.records import Records


class Counter(BaseModel):
    """A record that counts."""

    id: str
    version: int = 0
    count: int = 0
    payload: dict[str, Any] = Field(default_factory=dict)


def declare(app: App) -> Records[Counter]:
    return app.records(Counter, correctable=["payload"], wait=60)


def add(counter: Counter) -> None:
    counter.count += 1


async def increment(records: Records[Counter], number: int) -> None:
    """Ten tasks that each change one record five times, in every way."""

    async def run() -> None:
        for _ in range(2):
            await records.update("one", add, by=f"process {number}")
            await records.update_many(["two", "one"], add)
        async with records.edit("one") as counter:
            counter.count += 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(10):
            tasks.create_task(run())


async def correct(records: Records[Counter], number: int) -> None:
    """Ten tasks, each with a correction of its own and one that all processes make."""

    async def run(task: int) -> None:
        mine = await records.correct("one", {f"payload.p{number}t{task}": task}, source="s", reason="r")
        assert not mine.already_applied
        await records.correct("one", {f"payload.all{task}": task}, source="s", reason="r")

    async with asyncio.TaskGroup() as tasks:
        for task in range(10):
            tasks.create_task(run(task))


async def cross(records: Records[Counter], number: int) -> None:
    """Edit two records in an order that is opposite to that of the other process."""
    first, second = ("one", "two") if number % 2 else ("two", "one")
    deadlocks = 0
    met_at = 0.0

    @retry_on_deadlock()
    async def run() -> None:
        nonlocal deadlocks, met_at
        try:
            async with records.edit(first) as outer:
                if not met_at:
                    print("ready", flush=True)
                    await asyncio.to_thread(sys.stdin.readline)
                    met_at = time.monotonic()
                async with records.edit(second) as inner:
                    outer.count += 1
                    inner.count += 1
        except DeadlockError:
            deadlocks += 1
            raise

    await run()
    print(f"{deadlocks} {time.monotonic() - met_at}", flush=True)


async def main(url: str, task: str, number: int) -> None:
    app = App(url)
    records = declare(app)
    async with app:
        await {"increment": increment, "correct": correct, "cross": cross}[task](records, number)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
