"""What a worker process tells the benchmark: when it looked for its first job, and each durable acknowledgement."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import uvloop

from interlock.testing.processes import receive_async, report, wait_at_barrier_async

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["START", "Acks", "run_worker"]

START = "start"


class Acks:
    """Told by a peer's hooks; everything is stamped with the clock that all processes share."""

    def __init__(self) -> None:
        self._began = False

    def looked(self) -> None:
        """The worker asks the store for jobs; the first time counts as the start."""
        if not self._began:
            self._began = True
            report("began", at=time.monotonic())

    def acknowledged(self, jobs: int) -> None:
        """So many jobs have ended, and the store has said that this is on disk."""
        report("acked", jobs=jobs, at=time.monotonic())


def run_worker(prepared: Callable[[Acks, asyncio.Event], Awaitable[Callable[[], Awaitable[None]]]]) -> None:
    """Be a worker process: get ready, wait at the barrier, work until told to stop.

    ``prepared`` imports, connects and warms up, and gives what does the work until the event is set.
    """
    uvloop.run(_run(prepared))


async def _run(prepared: Callable[[Acks, asyncio.Event], Awaitable[Callable[[], Awaitable[None]]]]) -> None:
    stop = asyncio.Event()
    work = await prepared(Acks(), stop)
    await wait_at_barrier_async(START)
    working = asyncio.ensure_future(work())
    await receive_async("stop")
    stop.set()
    await working
