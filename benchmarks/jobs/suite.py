"""Job benchmarks: what runs in each round, and the targets."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import asyncpg

from benchmarks.harness import console, percentile
from benchmarks.jobs import enqueues, own, peer_graphile, peer_huey, peer_pgqueuer, peer_procrastinate, peer_saq, raw
from benchmarks.jobs.drains import OfModule, drain, drained, fresh_database, vacuum_and_checkpoint
from benchmarks.jobs.latency import idle_latencies
from interlock.testing.processes import WorkerFailedError
from interlock.testing.servers import PostgresServer

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.harness import Report
    from benchmarks.jobs.drains import Queue
    from benchmarks.jobs.peer_graphile import Graphile

__all__ = ["judge_jobs", "run_jobs"]

JOBS = 20_000
SLOW_JOBS = 1_000
"""For peers that need a millisecond or more per job."""
LANE_JOBS = 2_000
"""For one lane: each of its jobs starts when the outcome of the previous one is on disk."""
BEHIND = 1_000_000
DEEP_JOBS = 500_000
"""In five times fewer lanes."""
SINGLE_ENQUEUES = 5_000
SAMPLES = 350
"""Of idle latency; the first tenth is the warm-up."""
SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "4GB", "checkpoint_timeout": "30min"}
"""The same server for all, with fsync and synchronous_commit on, and no checkpoint during a measurement."""

INTERLOCK = OfModule(own)
KINDS = {"10 log lines": "logged", "limit": "limit", "1,000 lanes": "lanes", "one lane": "one lane"}
PGQUEUER = {1: OfModule(peer_pgqueuer, working=(5,)), 2: OfModule(peer_pgqueuer)}
"""A pool of connections is faster with one process, a single connection per process with two."""

TARGETS = {
    "×1 Interlock to PGQueuer": 2.5,
    "×1 Interlock to graphile-worker": 1.3,
    "×1 Interlock to raw": 0.6,
    "×2 Interlock to PGQueuer": 2.0,
    "limit to plain": 0.85,
    "1,000 lanes to plain": 0.6,
    "1,000,000 behind to plain": 0.9,
    "old transaction to plain": 0.8,
    "second half to first, slots of its own each": 0.8,
    "second half to first, 50 slots for all": 0.8,
    "bulk enqueue Interlock to PGQueuer": 2.0,
    "50 enqueuers Interlock to PGQueuer": 3.0,
    "SQLite Interlock to Huey": 1.3,
}
"""Target ratios, as medians over the rounds; each ratio is computed within its round."""


class Rounds:
    """One run: figures, and ratios of figures in the same round."""

    def __init__(self, report: Report, server: PostgresServer, directory: Path, *, quick: bool) -> None:
        self._report = report
        self._server = server
        self._directory = directory
        self._quick = quick
        self._last: dict[str, float] = {}

    def add(self, name: str, value: float, unit: str = "jobs/s") -> None:
        self._last[name] = value
        self._report.add(name, value, unit, more_is_better=unit == "jobs/s")

    def ratio(self, name: str, of: str, to: str) -> None:
        """Add a ratio, unless the peer was skipped."""
        if to in self._last:
            self._report.add(f"ratio: {name}", self._last[of] / self._last[to], "×")

    async def drain(
        self, name: str, queue: Queue, *, jobs: int = JOBS, processes: int = 1, cpu: bool = False, old: bool = False
    ) -> None:
        result = await drained(queue, self._server, jobs, processes=processes, old_transaction=old)
        self.add(f"drain ×{processes} {name}", result.rate)
        if cpu:
            self.add(f"CPU ×{processes} {name}", result.cpu_per_1000, "ms/1,000 jobs")

    async def against_peers(self, graphile: Graphile | None, *, slow: bool) -> None:
        for processes in (1, 2):
            await self.drain("Interlock", INTERLOCK, processes=processes, cpu=True)
            await self.drain("raw", OfModule(raw), processes=processes, cpu=True)
            await self.drain("PGQueuer", PGQUEUER[processes], processes=processes, cpu=True)
            await self.graphile("graphile-worker", graphile, processes=processes, cpu=True)
            for peer in ("PGQueuer", "graphile-worker", "raw"):
                name = f"×{processes} Interlock to {peer}"
                self.ratio(name, f"drain ×{processes} Interlock", f"drain ×{processes} {peer}")
        roomy = graphile and graphile.with_local_queue(2000)
        await self.graphile("graphile-worker, local queue of 2,000", roomy)
        if slow:
            await self.drain("Procrastinate", OfModule(peer_procrastinate), jobs=SLOW_JOBS)
            await self.drain("SAQ", OfModule(peer_saq), jobs=SLOW_JOBS)

    async def graphile(self, name: str, queue: Graphile | None, *, processes: int = 1, cpu: bool = False) -> None:
        self._last.pop(f"drain ×{processes} {name}", None)
        if queue is not None:
            try:
                await self.drain(name, queue, processes=processes, cpu=cpu)
            except WorkerFailedError as error:
                console.print(f"jobs: {name} is skipped in this round: {error}", style="dim")

    async def shapes(self) -> None:
        """Measure features and conditions relative to the plain figure, which is measured again next to each."""
        for shape, kind in KINDS.items():
            jobs = LANE_JOBS if kind == "one lane" else JOBS
            await self.beside_plain(shape, OfModule(own, filling=(kind,)), jobs=jobs)
        await self.beside_plain("old transaction", INTERLOCK, old=True)
        await self.drain("PGQueuer, old transaction", PGQUEUER[1], old=True)

    async def beside_plain(self, shape: str, queue: Queue, *, jobs: int = JOBS, old: bool = False) -> None:
        await self.drain("Interlock", INTERLOCK)
        await self.drain(f"Interlock, {shape}", queue, jobs=jobs, old=old)
        self.ratio(f"{shape} to plain", f"drain ×1 Interlock, {shape}", "drain ×1 Interlock")

    async def depth(self) -> None:
        """Drain many lanes under slots, starting with tables that were only vacuumed while they were empty."""
        jobs = DEEP_JOBS // 10 if self._quick else DEEP_JOBS
        for what, kind in (("slots of its own each", "own slots"), ("50 slots for all", "few slots")):
            name = f"{jobs:,} in {jobs // 5:,} lanes, {what}"
            queue = OfModule(own, filling=(kind, jobs // 5))
            result = await drained(queue, self._server, jobs)
            self.add(f"drain ×1 Interlock, {name}", result.rate)
            self._report.add(f"ratio: second half to first, {what}", result.second_half, "×")

    async def million(self, rounds: int) -> None:
        """Drain the first jobs of more than a million, alternating with the plain figure."""
        url = fresh_database(self._server)
        await own.prepare(url)
        behind = BEHIND // 10 if self._quick else BEHIND
        filled = behind + 2 * rounds * JOBS
        await own.fill(url, filled)
        await vacuum_and_checkpoint(url)
        for _ in range(rounds):
            result = await drain([INTERLOCK.spawn(url)], JOBS, self._server.pid)
            self.add(f"drain ×1 Interlock, {behind:,} behind", result.rate)
            await self.drain("Interlock", INTERLOCK)
            self.ratio(f"{behind:,} behind to plain", f"drain ×1 Interlock, {behind:,} behind", "drain ×1 Interlock")
        left = await own.left(url)
        assert behind <= left <= filled - rounds * JOBS, f"{left} of {filled} jobs are left"

    async def enqueuing(self) -> None:
        for what, measure, jobs in (
            ("bulk enqueue", enqueues.bulk, JOBS),
            ("50 enqueuers", enqueues.concurrent, SINGLE_ENQUEUES),
        ):
            for name, way, queue in (("Interlock", "interlock", INTERLOCK), ("PGQueuer", "pgqueuer", PGQUEUER[1])):
                url = fresh_database(self._server)
                await queue.prepare(url)
                self.add(f"{what} {name}", await measure(way, url, jobs))
            self.ratio(f"{what} Interlock to PGQueuer", f"{what} Interlock", f"{what} PGQueuer")

    async def latencies(self, samples: int) -> None:
        for name, way, queue, target in (
            ("Interlock", "interlock", INTERLOCK, "benchmarks.jobs.own:work_noting"),
            ("PGQueuer", "pgqueuer", PGQUEUER[1], "benchmarks.jobs.peer_pgqueuer:work_noting"),
        ):
            url = fresh_database(self._server)
            await queue.prepare(url)
            found = await idle_latencies(way, url, target, samples)
            self.add(f"idle latency p50 {name}", percentile(found, 0.5), "ms")
            self.add(f"idle latency p99 {name}", percentile(found, 0.99), "ms")

    async def sqlite(self) -> None:
        """Drain on SQLite: Interlock with every commit on disk, Huey without waiting for it."""
        for name, queue in (("Interlock", INTERLOCK), ("Huey, no fsync", OfModule(peer_huey))):
            with tempfile.TemporaryDirectory(dir=self._directory) as directory:
                path = f"{directory}/jobs.db"
                url = f"sqlite:///{path}" if queue is INTERLOCK else path
                await queue.prepare(url)
                await queue.fill(url, JOBS)
                result = await drain([queue.spawn(url)], JOBS)
                assert await queue.left(url) == 0
                self.add(f"drain ×1 SQLite {name}", result.rate)
        self.ratio("SQLite Interlock to Huey", "drain ×1 SQLite Interlock", "drain ×1 SQLite Huey, no fsync")


async def run_jobs(report: Report, directory: Path, *, quick: bool) -> None:
    rounds = 1 if quick else 4
    graphile = peer_graphile.installed(directory / "node")
    if graphile is None:
        console.print("jobs: graphile-worker is skipped: node or npm is missing or failed", style="dim")
    else:
        report.notes.append(graphile.version)
    with PostgresServer(settings=SETTINGS) as server:
        report.notes.append(await settings_of(server))
        run = Rounds(report, server, directory, quick=quick)
        for round_ in range(rounds):
            console.print(f"jobs: round {round_ + 1} of {rounds} …", style="dim")
            await run.against_peers(graphile, slow=round_ < 2 and not quick)
            await run.shapes()
            await run.enqueuing()
            await run.sqlite()
            if round_ < 3:
                await run.latencies(SAMPLES)
        console.print("jobs: lanes with slots …", style="dim")
        await run.depth()
        console.print("jobs: a million behind …", style="dim")
        await run.million(rounds)


async def settings_of(server: PostgresServer) -> str:
    connection = await asyncpg.connect(server.url())
    try:
        names = ("server_version", "fsync", "synchronous_commit", *SETTINGS)
        shown = [f"{name}={await connection.fetchval('select current_setting($1)', name)}" for name in names]
    finally:
        await connection.close()
    return "PostgreSQL with " + " ".join(shown)


def judge_jobs(report: Report) -> None:
    for name, least in TARGETS.items():
        figure = report.figures.get(f"ratio: {name}")
        if figure is not None:
            report.judge(figure.name, f"≥{least:g}", figure.median >= least)
    for part in ("p50", "p99"):
        better = report.compare(f"idle latency {part} Interlock", f"idle latency {part} PGQueuer")
        report.judge(f"idle latency {part} Interlock", "no worse than PGQueuer's", better >= 1)
