"""Drain a queue with worker processes: from their first fetch to the last durable acknowledgement."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import asyncpg

from benchmarks.jobs.cpu import cpu_seconds, with_children
from benchmarks.jobs.worker_side import START
from interlock.testing.processes import Barrier, Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import ModuleType

    from interlock.testing.servers import PostgresServer

__all__ = ["Drain", "OfModule", "Queue", "drain", "drained", "fresh_database", "held_open", "vacuum_and_checkpoint"]

_numbers = itertools.count(1)
_READY_SECONDS = 60
_LEAD_SECONDS = 0.02
_DRAIN_SECONDS = 120


class Queue(Protocol):
    """How one kind of queue is set up, filled and drained."""

    async def prepare(self, url: str) -> None:
        """Create its tables."""
        ...

    async def fill(self, url: str, jobs: int) -> None: ...

    async def left(self, url: str) -> int:
        """The number of jobs that have not ended."""
        ...

    def spawn(self, url: str) -> Worker:
        """A worker process that waits at the barrier and reports as worker_side defines."""
        ...


class OfModule:
    """A queue whose functions are those of a module, with ``filling`` and ``working`` as additional arguments."""

    def __init__(self, module: ModuleType, *, filling: tuple[Any, ...] = (), working: tuple[Any, ...] = ()) -> None:
        self._module = module
        self._filling = filling
        self._working = working

    async def prepare(self, url: str) -> None:
        await self._module.prepare(url)

    async def fill(self, url: str, jobs: int) -> None:
        await self._module.fill(url, jobs, *self._filling)

    async def left(self, url: str) -> int:
        left: int = await self._module.left(url)
        return left

    def spawn(self, url: str) -> Worker:
        return Worker.spawn(f"{self._module.__name__}:work", [url, *self._working])


@dataclass
class Drain:
    """The result of a drain."""

    jobs: int
    seconds: float
    client_cpu: float
    server_cpu: float
    second_half: float
    """The speed of the second half of the jobs relative to the first."""

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds

    @property
    def cpu_per_1000(self) -> float:
        """Milliseconds of CPU time per 1,000 jobs, in the workers and in the server."""
        return (self.client_cpu + self.server_cpu) / self.jobs * 1e6


async def drained(
    queue: Queue, server: PostgresServer, jobs: int, *, processes: int = 1, old_transaction: bool = False
) -> Drain:
    """Fill a fresh database and drain it completely."""
    url = fresh_database(server)
    await queue.prepare(url)
    async with held_open(url if old_transaction else None):
        await queue.fill(url, jobs)
        await vacuum_and_checkpoint(url)
        result = await drain([queue.spawn(url) for _ in range(processes)], jobs, server.pid)
    left = await queue.left(url)
    assert left == 0, f"{left} of {jobs} jobs are left"
    server.drop_database(url.rpartition("/")[2])
    return result


def fresh_database(server: PostgresServer) -> str:
    name = f"jobs_{next(_numbers)}"
    server.create_database(name)
    return server.url(name)


@asynccontextmanager
async def held_open(url: str | None) -> AsyncIterator[None]:
    """Hold a transaction with an old snapshot open, so that no dead row can be removed meanwhile."""
    if url is None:
        yield
        return
    connection = await asyncpg.connect(url)
    await connection.execute("begin isolation level repeatable read")
    await connection.fetchval("select count(*) from pg_class")
    try:
        yield
        await connection.execute("commit")
    finally:
        await connection.close()


async def vacuum_and_checkpoint(url: str) -> None:
    """Update the planner's statistics, and write everything to disk before the measurement."""
    connection = await asyncpg.connect(url)
    await connection.execute("vacuum analyze")
    await connection.execute("checkpoint")
    await connection.close()


async def drain(workers: list[Worker], jobs: int, server_pid: int | None = None) -> Drain:
    """Start the workers at the same moment, wait until they have acknowledged this many jobs, and stop them."""
    acked: list[tuple[float, int]] = []
    total = 0
    done = asyncio.Event()

    async def listen(worker: Worker) -> None:
        nonlocal total
        while True:
            message = await worker.wait_for("acked", _DRAIN_SECONDS)
            acked.append((message["at"], message["jobs"]))
            total += message["jobs"]
            if total >= jobs:
                done.set()

    def used(servers: set[int]) -> tuple[float, float]:
        return cpu_seconds([worker.pid for worker in workers]), cpu_seconds(list(servers))

    try:
        barrier = Barrier(*workers, name=START)
        await barrier.ready(_READY_SECONDS)
        servers = set(with_children(server_pid)) if server_pid else set()
        before = used(servers)
        moment = time.monotonic() + _LEAD_SECONDS
        for worker in workers:
            worker.send("barrier", barrier=START, step="go", at=moment)
        listeners = [asyncio.create_task(listen(worker)) for worker in workers]
        waiting = asyncio.create_task(done.wait())
        await asyncio.wait([waiting, *listeners], return_when=asyncio.FIRST_COMPLETED)
        after = used(servers | set(with_children(server_pid) if server_pid else ()))
        for task in (waiting, *listeners):
            if task.done():
                task.result()
            task.cancel()
        began = min([(await worker.wait_for("began"))["at"] for worker in workers])
        for worker in workers:
            worker.send("stop")
        for worker in workers:
            await worker.wait(timeout=_READY_SECONDS)
    finally:
        for worker in workers:
            worker.kill()
    acked.sort()
    half, ended = reached(acked, jobs // 2), reached(acked, jobs)
    second_half = (half - began) / max(ended - half, 1e-9)
    return Drain(jobs, ended - began, after[0] - before[0], after[1] - before[1], second_half)


def reached(acked: list[tuple[float, int]], jobs: int) -> float:
    """When this many jobs had been acknowledged in total."""
    total = 0
    for at, count in acked:
        total += count
        if total >= jobs:
            return at
    raise AssertionError(f"only {total} of {jobs} jobs were acknowledged")
