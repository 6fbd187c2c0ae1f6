"""Run all benchmarks and print one table: ``python -m benchmarks [--quick]``."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from benchmarks.harness import Report, console
from benchmarks.locks import peers
from benchmarks.locks.contended import across_processes, uncontended, within_one_process
from benchmarks.locks.idle import statements_per_second
from interlock.testing.servers import PostgresServer

RESULTS = Path(__file__).parent / "results" / "locks.json"


async def run(report: Report, directory: Path, postgres: PostgresServer, *, rounds: int, seconds: float) -> None:
    sqlite = peers.sqlite_url(directory)
    ways = {
        "memory": (peers.interlock_locks, "memory://"),
        "asyncio.Lock": (peers.asyncio_locks, ""),
        "sqlite": (peers.interlock_locks, sqlite),
        "filelock": (peers.file_locks, str(directory)),
        "postgres": (peers.interlock_locks, postgres.url()),
        "advisory": (peers.advisory_locks, postgres.url()),
    }
    for round_ in range(rounds):
        console.print(f"round {round_ + 1} of {rounds} …", style="dim")
        for name, (peer, where) in ways.items():
            async with peer(where, 1) as acquire:
                report.add(f"uncontended {name}", await uncontended(acquire, seconds), "pairs/s")
        for name, (peer, where) in ways.items():
            async with peer(where, 50) as acquire:
                turns = await within_one_process(acquire)
            add_turns(report, f"50×10 {name}", turns)
        for name, where in (("sqlite", sqlite), ("postgres", postgres.url())):
            add_turns(report, f"2 processes 25×10 {name}", await across_processes(where))
    for name, where in (("sqlite", sqlite), ("postgres", postgres.url())):
        console.print(f"1,000 idle waiters on {name} …", style="dim")
        report.add(
            f"idle 1,000 waiters {name}", await statements_per_second(where), "statements/s", more_is_better=False
        )


def add_turns(report: Report, name: str, turns: object) -> None:
    report.add(f"{name}: total", turns.seconds, "s", more_is_better=False)  # type: ignore[attr-defined]
    report.add(f"{name}: hand-off p50", turns.p50, "ms", more_is_better=False)  # type: ignore[attr-defined]
    report.add(f"{name}: hand-off p99", turns.p99, "ms", more_is_better=False)  # type: ignore[attr-defined]
    report.add(f"{name}: inversions", turns.inversions, "", more_is_better=False)  # type: ignore[attr-defined]


def judge(report: Report) -> None:
    figures = report.figures
    memory = report.compare("uncontended memory", "uncontended asyncio.Lock")
    report.judge("uncontended memory", "≥0.1× asyncio.Lock", memory >= 0.1)
    report.compare("uncontended sqlite", "uncontended filelock")
    report.compare("uncontended postgres", "uncontended advisory")
    for store, peer in (("memory", "asyncio.Lock"), ("sqlite", "filelock"), ("postgres", "advisory")):
        for what in ("total", "hand-off p50", "hand-off p99"):
            report.compare(f"50×10 {store}: {what}", f"50×10 {peer}: {what}")
    total = report.compare("50×10 postgres: total", "50×10 advisory: total")
    report.judge("50×10 postgres: total", "≤4× advisory's", total >= 1 / 4)
    for name, most in (
        ("50×10 postgres: hand-off p50", 2),
        ("2 processes 25×10 sqlite: hand-off p50", 8),
    ):
        report.judge(name, f"≤{most} ms", figures[name].median <= most)
    for store in ("sqlite", "postgres"):
        name = f"idle 1,000 waiters {store}"
        report.judge(name, "<5 a second", figures[name].median < 5)
    for name, figure in figures.items():
        ours = not any(peer in name for peer in ("asyncio", "filelock", "advisory"))
        if name.endswith("inversions") and ours:
            report.judge(name, "0", max(figure.rounds) == 0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    options = parser.parse_args()
    report = Report()
    rounds, seconds = (2, 0.3) if options.quick else (5, 1.0)
    with tempfile.TemporaryDirectory() as directory, PostgresServer() as postgres:
        asyncio.run(run(report, Path(directory), postgres, rounds=rounds, seconds=seconds))
    judge(report)
    report.print()
    report.save(RESULTS)


if __name__ == "__main__":
    main()
