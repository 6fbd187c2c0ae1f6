"""Latency of an idle worker in another process: from the enqueue of a job to the start of its handler."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from benchmarks.jobs import enqueues
from benchmarks.jobs.worker_side import START
from interlock.testing.processes import Barrier, Worker

if TYPE_CHECKING:
    from interlock.testing.processes import Message

__all__ = ["idle_latencies"]

_IDLE_SECONDS = 0.03
"""After this time, a worker has acknowledged the last job and is waiting for a notification."""


async def idle_latencies(way: str, url: str, target: str, samples: int) -> list[float]:
    """Latencies in milliseconds, in order."""
    async with (
        Worker.spawn(target, (url,)) as worker,
        Worker.spawn("benchmarks.jobs.latency:run_enqueuer", (way, url)) as enqueuer,
    ):
        await Barrier(worker, enqueuer, name=START).release(timeout=60)
        await asyncio.sleep(1.0)
        found = []
        for number in range(1, samples + 1):
            enqueuer.send("enqueue", number=number)
            asked: Message = await enqueuer.wait_for(_of(number, "asked"))
            started: Message = await worker.wait_for(_of(number, "started"))
            found.append((started["at"] - asked["at"]) * 1000)
            await asyncio.sleep(_IDLE_SECONDS)
        return found[len(found) // 10 :]


def _of(number: int, name: str) -> Any:
    return lambda message: message["name"] == name and message["number"] == number


def run_enqueuer(way: str, url: str) -> None:
    import uvloop

    from interlock.testing.processes import receive_async, report, wait_at_barrier_async

    async def run() -> None:
        async with enqueues._WAYS[way](url) as enqueuer:
            await enqueuer.one(0)
            await wait_at_barrier_async(START)
            while True:
                asked = await receive_async("enqueue")
                at = time.monotonic()
                await enqueuer.one(asked["number"])
                report("asked", number=asked["number"], at=at)

    uvloop.run(run())
