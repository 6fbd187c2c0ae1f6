"""Reports of a worker process to the benchmark: its first fetch, and each durable acknowledgement."""

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
    """Called by hooks in each peer; all reports use the clock that the processes share."""

    def __init__(self) -> None:
        self._began = False

    def record_fetch(self) -> None:
        """Record a fetch; the first one counts as the start."""
        if not self._began:
            self._began = True
            report("began", at=time.monotonic())

    def record_acknowledgements(self, jobs: int) -> None:
        """Record that this many jobs have ended, durably."""
        report("acked", jobs=jobs, at=time.monotonic())


def run_worker(prepared: Callable[[Acks, asyncio.Event], Awaitable[Callable[[], Awaitable[None]]]]) -> None:
    """Run a worker process: prepare, wait at the barrier, and work until the stop message.

    ``prepared`` imports, connects and warms up, and returns a function that works until the event is set.
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
