"""Many workers contend for one key: total time, hand-off time, and order."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from benchmarks.harness import percentile
from benchmarks.locks import peers
from interlock.testing.processes import Barrier, Worker, report, wait_at_barrier_async

if TYPE_CHECKING:
    from benchmarks.locks.peers import Acquire

Mark = tuple[float, float, float, float, int]
"""When a worker asked, was queued, entered and left, and in which process."""

_A_WHILE = 0.005

__all__ = ["Turns", "across_processes", "uncontended", "within_one_process"]


@dataclass
class Turns:
    """The result of a contended run."""

    seconds: float
    handoffs: list[float]
    inversions: int

    @property
    def p50(self) -> float:
        return percentile(self.handoffs, 0.5) * 1000

    @property
    def p99(self) -> float:
        return percentile(self.handoffs, 0.99) * 1000


async def uncontended(acquire: Acquire, seconds: float) -> float:
    """Pairs of acquire and release per second, one after the other."""
    async with acquire(0, "key"):
        pass
    count = 0
    begun = time.perf_counter()
    while (elapsed := time.perf_counter() - begun) < seconds:
        for _ in range(20):
            async with acquire(0, "key"):
                pass
        count += 20
    return count / elapsed


class Queued(logging.Handler):
    """Records when each request was queued."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.at: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "event", "") == "lock_waiting":
            self.at[record.fields["owner"]] = time.monotonic()  # type: ignore[attr-defined]


async def take_turns(acquire: Acquire, workers: int, turns: int, marks: list[Mark]) -> None:
    """Acquire the key ``turns`` times in each worker."""
    queued = Queued()
    logger = logging.getLogger("interlock.locks")
    logger.addHandler(queued)
    logger.setLevel(logging.DEBUG)

    async def work(worker: int) -> None:
        for _ in range(turns):
            asked = time.monotonic()
            async with acquire(worker, "key") as lease:
                entered = time.monotonic()
                await asyncio.sleep(0)
                # Peers do not report when a request was queued, so allow for a short delay.
                in_queue = queued.at.pop(getattr(lease, "owner", ""), asked + _A_WHILE)
                marks.append((asked, in_queue, entered, time.monotonic(), 0))

    try:
        await asyncio.gather(*(work(worker) for worker in range(workers)))
    finally:
        logger.removeHandler(queued)
        logger.setLevel(logging.NOTSET)


async def within_one_process(acquire: Acquire, workers: int = 50, turns: int = 10) -> Turns:
    marks: list[Mark] = []
    begun = time.monotonic()
    await take_turns(acquire, workers, turns, marks)
    return judged(time.monotonic() - begun, marks)


async def across_processes(url: str, processes: int = 2, workers: int = 25, turns: int = 10) -> Turns:
    """The same with the workers in several processes."""
    spawned = [Worker.spawn("benchmarks.locks.contended:run_process", (url, workers, turns)) for _ in range(processes)]
    try:
        barrier = Barrier(*spawned, name="start")
        await barrier.release(timeout=60)
        marks: list[Mark] = []
        for worker in spawned:
            done = await worker.wait_for("done", timeout=120)
            marks += [(*mark[:4], worker.pid) for mark in done["marks"]]
    finally:
        for worker in spawned:
            worker.kill()
    return judged(max(mark[3] for mark in marks) - min(mark[0] for mark in marks), marks, across=True)


async def run_process(url: str, workers: int, turns: int) -> None:
    marks: list[Any] = []
    async with peers.interlock_locks(url, workers) as acquire:
        await wait_at_barrier_async("start")
        await take_turns(acquire, workers, turns, marks)
    report("done", marks=marks)


def judged(seconds: float, marks: list[Mark], *, across: bool = False) -> Turns:
    """Compute hand-offs and inversions.

    A hand-off is the time from the end of one holder to the start of the next, if the next one was already waiting.
    ``across`` counts only hand-offs between processes.
    """
    marks.sort(key=lambda mark: mark[2])
    pairs = list(pairwise(marks))
    overlaps = sum(later[2] < earlier[3] for earlier, later in pairs)
    assert overlaps == 0, f"{overlaps} overlaps"
    handoffs = [
        later[2] - earlier[3]
        for earlier, later in pairs
        if later[0] < earlier[3] and not (across and earlier[4] == later[4])
    ]
    # Served although another request was queued before it asked; concurrent requests may be served in any order.
    inversions = sum(later[1] < earlier[0] for earlier, later in pairs)
    return Turns(seconds, handoffs, inversions)
