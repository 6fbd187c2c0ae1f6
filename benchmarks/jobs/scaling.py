"""CPU time per job over the number of worker processes: a full queue drained, and a stream of small enqueues.

Every process adds its session, and shares the jobs with the others: fetches get smaller, and a notification wakes all
workers though its jobs go to one. This measures what that costs, in the workers and in the server.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from benchmarks.harness import console
from benchmarks.jobs import own
from benchmarks.jobs.cpu import cpu_seconds, with_children
from benchmarks.jobs.drains import OfModule, drained, fresh_database, vacuum_and_checkpoint
from benchmarks.jobs.worker_side import START
from interlock.testing.processes import Barrier
from interlock.testing.servers import PostgresServer

if TYPE_CHECKING:
    from benchmarks.harness import Report
    from interlock.testing.processes import Worker

__all__ = ["judge_scaling", "run_scaling"]

WORKERS = (1, 2, 4, 8, 16)
JOBS = 200_000
STREAMED = 20_000
CHUNK = 10
"""Jobs per enqueue of the stream."""
PER_SECOND = 5_000
SETTINGS = {
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
    "max_connections": "300",
}
MAX_RATIO = 1.5
_WAIT = 120
_SETTLE = 2.0

INTERLOCK = OfModule(own)


async def run_scaling(report: Report, *, quick: bool) -> None:
    rounds, jobs, streamed = (1, JOBS // 10, STREAMED // 4) if quick else (3, JOBS, STREAMED)
    with PostgresServer(settings=SETTINGS) as server:
        for round_ in range(rounds):
            console.print(f"scaling: round {round_ + 1} of {rounds} …", style="dim")
            drains = {}
            for workers in WORKERS:
                result = await drained(INTERLOCK, server, jobs, processes=workers)
                drains[workers] = result.client_cpu + result.server_cpu
                _add(report, f"drain ×{workers}", result.client_cpu, result.server_cpu, jobs)
            report.add("ratio: drain ×8 to ×1", drains[8] / drains[1], "×", more_is_better=False)
            streams = {}
            for workers in WORKERS:
                client, of_server = await _stream(server, workers, streamed)
                streams[workers] = client + of_server
                _add(report, f"stream ×{workers}", client, of_server, streamed)
            report.add("ratio: stream ×8 to ×1", streams[8] / streams[1], "×", more_is_better=False)


def judge_scaling(report: Report) -> None:
    name = "ratio: drain ×8 to ×1"
    report.judge(name, f"≤{MAX_RATIO:g}", report.figures[name].median <= MAX_RATIO)


def _add(report: Report, name: str, client: float, server: float, jobs: int) -> None:
    for side, seconds in (("workers", client), ("server", server), ("both", client + server)):
        report.add(f"CPU {name}, {side}", seconds / jobs * 1e6, "ms/1,000 jobs", more_is_better=False)


async def _stream(server: PostgresServer, processes: int, jobs: int) -> tuple[float, float]:
    """Enqueue jobs in small chunks at a steady rate for workers that wait for them. Returns the CPU seconds.

    The server's seconds contain the enqueues, which do not depend on the number of workers.
    """
    url = fresh_database(server)
    await INTERLOCK.prepare(url)
    await vacuum_and_checkpoint(url)
    workers = [INTERLOCK.spawn(url) for _ in range(processes)]
    app, defined = own.defined(url)
    try:
        barrier = Barrier(*workers, name=START)
        await barrier.ready(_WAIT)
        async with app:
            for worker in workers:
                worker.send("barrier", barrier=START, step="go", at=time.monotonic())
            acked = _Acked(jobs)
            counting = [asyncio.create_task(acked.count(worker)) for worker in workers]
            await asyncio.sleep(_SETTLE)
            before = _used(workers, server)
            began = time.monotonic()
            for first in range(0, jobs, CHUNK):
                await app.jobs.enqueue_many([defined.noop.call(number=first + n) for n in range(CHUNK)])
                await asyncio.sleep(max(0.0, began + (first + CHUNK) / PER_SECOND - time.monotonic()))
            async with asyncio.timeout(_WAIT):
                await acked.all.wait()
            after = _used(workers, server)
        for worker in workers:
            worker.send("stop")
        for task in counting:
            task.cancel()
        for worker in workers:
            await worker.wait(timeout=_WAIT)
    finally:
        for worker in workers:
            worker.kill()
    server.drop_database(url.rpartition("/")[2])
    return after[0] - before[0], after[1] - before[1]


class _Acked:
    """Counts durable acknowledgements of all workers."""

    def __init__(self, jobs: int) -> None:
        self._left = jobs
        self.all = asyncio.Event()

    async def count(self, worker: Worker) -> None:
        while True:
            acked = await worker.wait_for("acked", _WAIT)
            self._left -= acked["jobs"]
            if self._left <= 0:
                self.all.set()


def _used(workers: list[Worker], server: PostgresServer) -> tuple[float, float]:
    return cpu_seconds([worker.pid for worker in workers]), cpu_seconds(with_children(server.pid))
