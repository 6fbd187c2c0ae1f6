"""Run all benchmarks and print a table for each: ``python -m benchmarks [--quick] [--only PART]``."""

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bridge.suite import judge_bridge, run_bridge
from benchmarks.claims.rates import RAW, interlock_claims, interlock_claims_done, per_second
from benchmarks.harness import Report, console
from benchmarks.insight.suite import judge_insight, run_insight
from benchmarks.jobs.scaling import judge_scaling, run_scaling
from benchmarks.jobs.suite import judge_jobs, run_jobs
from benchmarks.journal.suite import judge_journal, run_journal
from benchmarks.limits.rates import starts_per_second
from benchmarks.locks import peers, redis_peers
from benchmarks.locks.contended import across_processes, uncontended, within_one_process
from benchmarks.locks.idle import statements_per_second
from benchmarks.records.suite import judge_records, run_records
from benchmarks.webhooks import judge_webhooks, run_webhooks
from interlock.testing.servers import PostgresServer, RedisServer

if TYPE_CHECKING:
    from benchmarks.locks.contended import Turns

RESULTS = Path(__file__).parent / "results"
PARTS = ("locks", "claims", "limits", "jobs", "scaling", "webhooks", "insight", "records", "journal", "bridge")
STORES = ("memory", "sqlite", "postgres", "redis")
PEERS = ("asyncio", "filelock", "advisory", "redis-py", "python-redis-lock", "pottery")


async def run_locks(report: Report, where: dict[str, str], directory: Path, *, rounds: int, seconds: float) -> None:
    postgres, redis = where["postgres"], where["redis"]
    ways = {
        "memory": (peers.interlock_locks, "memory://"),
        "asyncio.Lock": (peers.asyncio_locks, ""),
        "sqlite": (peers.interlock_locks, where["sqlite"]),
        "filelock": (peers.file_locks, str(directory)),
        "postgres": (peers.interlock_locks, postgres),
        "advisory": (peers.advisory_locks, postgres),
        "redis": (peers.interlock_locks, redis),
        "redis-py": (redis_peers.redis_py_locks, redis),
        "redis-py 10 ms": (redis_peers.redis_py_locks_eager, redis),
        "python-redis-lock": (redis_peers.python_redis_locks, redis),
        "pottery": (redis_peers.pottery_locks, redis),
    }
    for round_ in range(rounds):
        console.print(f"locks: round {round_ + 1} of {rounds} …", style="dim")
        for name, (peer, url) in ways.items():
            async with peer(url, 1) as acquire:
                report.add(f"uncontended {name}", await uncontended(acquire, seconds), "pairs/s")
        for name, (peer, url) in ways.items():
            async with peer(url, 50) as acquire:
                add_turns(report, f"50×10 {name}", await within_one_process(acquire))
        for name in STORES[1:]:
            add_turns(report, f"2 processes 25×10 {name}", await across_processes(where[name]))
    for name in STORES[1:]:
        console.print(f"1,000 idle waiters on {name} …", style="dim")
        report.add(
            f"idle 1,000 waiters {name}", await statements_per_second(where[name]), "statements/s", more_is_better=False
        )


def add_turns(report: Report, name: str, turns: Turns) -> None:
    report.add(f"{name}: total", turns.seconds, "s", more_is_better=False)
    report.add(f"{name}: hand-off p50", turns.p50, "ms", more_is_better=False)
    report.add(f"{name}: hand-off p99", turns.p99, "ms", more_is_better=False)
    report.add(f"{name}: inversions", turns.inversions, "", more_is_better=False)


def judge_locks(report: Report) -> None:
    figures = report.figures
    memory = report.compare("uncontended memory", "uncontended asyncio.Lock")
    report.judge("uncontended memory", "≥0.1× asyncio.Lock", memory >= 0.1)
    report.compare("uncontended sqlite", "uncontended filelock")
    report.compare("uncontended postgres", "uncontended advisory")
    redis = report.compare("uncontended redis", "uncontended redis-py")
    report.judge("uncontended redis", "≥0.8× redis-py's", redis >= 0.8)
    pairs = (
        ("memory", "asyncio.Lock"),
        ("sqlite", "filelock"),
        ("postgres", "advisory"),
        ("redis", "python-redis-lock"),
    )
    for store, peer in pairs:
        for what in ("total", "hand-off p50", "hand-off p99"):
            report.compare(f"50×10 {store}: {what}", f"50×10 {peer}: {what}")
    total = report.compare("50×10 postgres: total", "50×10 advisory: total")
    report.judge("50×10 postgres: total", "≤4× advisory's", total >= 1 / 4)
    totals = {name: figures[f"50×10 {name}: total"].median for name in ("redis", "redis-py", "python-redis-lock")}
    report.judge(
        "50×10 redis: total",
        f"≤1/15 of redis-py's ({totals['redis-py'] / totals['redis']:.0f}× faster), ≤1.2× python-redis-lock's",
        totals["redis"] <= totals["redis-py"] / 15 and totals["redis"] <= totals["python-redis-lock"] * 1.2,
    )
    for name, max_count in (
        ("50×10 postgres: hand-off p50", 2),
        ("50×10 redis: hand-off p99", 5),
        ("2 processes 25×10 redis: hand-off p99", 5),
        ("2 processes 25×10 sqlite: hand-off p50", 8),
    ):
        report.judge(name, f"≤{max_count} ms", figures[name].median <= max_count)
    for store in STORES[1:]:
        name = f"idle 1,000 waiters {store}"
        report.judge(name, "<5 a second", figures[name].median < 5)
    for name, figure in figures.items():
        if name.endswith("inversions") and not any(peer in name for peer in PEERS):
            report.judge(name, "0", max(figure.rounds) == 0)


async def run_claims(report: Report, where: dict[str, str], *, rounds: int, seconds: float) -> None:
    for round_ in range(rounds):
        console.print(f"claims: round {round_ + 1} of {rounds} …", style="dim")
        for store in STORES:
            ways = {"claim": interlock_claims, "claim and done": interlock_claims_done, "raw": RAW[store]}
            for way, made in ways.items():
                for tasks in (1, 50):
                    async with made(where[store]) as mark:
                        report.add(f"{way} {store} ×{tasks}", await per_second(mark, tasks, seconds), "keys/s")


def judge_claims(report: Report) -> None:
    for store in STORES:
        for way in ("claim", "claim and done"):
            for tasks in (1, 50):
                report.compare(f"{way} {store} ×{tasks}", f"raw {store} ×{tasks}")


async def run_limits(report: Report, where: dict[str, str], *, rounds: int, seconds: float) -> None:
    for round_ in range(rounds):
        console.print(f"limits: round {round_ + 1} of {rounds} …", style="dim")
        for store in STORES:
            for what, slots, tasks in (
                ("not binding ×1", 100, 1),
                ("not binding ×50", 100, 50),
                ("5 slots ×50", 5, 50),
            ):
                rate = await starts_per_second(where[store], slots, tasks, seconds)
                report.add(f"limit {store} {what}", rate, "starts/s")


async def run(options: argparse.Namespace, directory: Path, postgres: PostgresServer, redis: RedisServer) -> None:
    rounds, seconds = (2, 0.3) if options.quick else (5, 1.0)
    where = {
        "memory": "memory://",
        "sqlite": peers.sqlite_url(directory),
        "postgres": postgres.url(),
        "redis": redis.url(),
    }
    for part in PARTS:
        if options.only not in (None, part):
            continue
        report = Report(part.capitalize())
        if part == "locks":
            await run_locks(report, where, directory, rounds=rounds, seconds=seconds)
            judge_locks(report)
        elif part == "claims":
            await run_claims(report, where, rounds=rounds, seconds=seconds)
            judge_claims(report)
        elif part == "limits":
            await run_limits(report, where, rounds=rounds, seconds=seconds)
        elif part == "jobs":
            await run_jobs(report, directory, quick=options.quick)
            judge_jobs(report)
        elif part == "scaling":
            await run_scaling(report, quick=options.quick)
            judge_scaling(report)
        elif part == "records":
            await run_records(report, where["postgres"], rounds=rounds, seconds=seconds)
            judge_records(report)
        elif part == "bridge":
            await run_bridge(report, where, rounds=rounds, quick=options.quick)
            judge_bridge(report)
        elif part == "journal":
            await run_journal(report, where["postgres"], rounds=rounds, seconds=seconds)
            judge_journal(report)
        elif part == "insight":
            await run_insight(report, directory, quick=options.quick)
            judge_insight(report)
        else:
            await run_webhooks(report, directory, quick=options.quick)
            judge_webhooks(report)
        report.print()
        report.save(RESULTS / f"{part}.json")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", choices=PARTS, help="run only this part")
    options = parser.parse_args()
    logging.getLogger("interlock").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as directory, PostgresServer() as postgres, RedisServer() as redis:
        asyncio.run(run(options, Path(directory), postgres, redis))


if __name__ == "__main__":
    main()
