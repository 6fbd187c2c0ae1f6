"""Run the benchmarks of records and judge them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.harness import console, percentile
from benchmarks.records.own import interlock_corrections, interlock_edits, interlock_statuses
from benchmarks.records.peer_sqlalchemy import sqlalchemy_statuses
from benchmarks.records.rates import BODY, changes_per_second, corrections, edit_times
from benchmarks.records.raw import CONNECTIONS, correcting, raw_statuses

if TYPE_CHECKING:
    from benchmarks.harness import Report

__all__ = ["judge_records", "run_records"]

TASKS = 50
STATUSES = {"interlock": interlock_statuses, "raw asyncpg": raw_statuses, "SQLAlchemy": sqlalchemy_statuses}
CORRECTIONS = {"interlock": interlock_corrections, "raw asyncpg": correcting}


async def run_records(report: Report, url: str, *, rounds: int, seconds: float) -> None:
    # Interlock sets up its schema, and the peers copy its tables.
    async with interlock_statuses(url, {"first": BODY}):
        pass
    report.notes.append(f"{CONNECTIONS} connections for each peer")
    for round_ in range(rounds):
        console.print(f"records: round {round_ + 1} of {rounds} …", style="dim")
        for tasks in (1, TASKS):
            bodies = {f"record-{number}": BODY for number in range(tasks)}
            for name, opened in STATUSES.items():
                async with opened(url, bodies) as set_status:
                    rate = await changes_per_second(set_status, list(bodies), seconds)
                report.add(f"status change {name} ×{tasks}", rate, "changes/s")
        for name, opened_for in CORRECTIONS.items():
            async with opened_for(url, TASKS, "record", BODY) as correct:
                took = await corrections(correct, TASKS)
            report.add(f"{TASKS} corrections {name}: total", took.total, "s", more_is_better=False)
            report.add(f"{TASKS} corrections {name}: mean", took.mean, "ms", more_is_better=False)
            report.add(f"{TASKS} corrections {name}: p95", took.p95, "ms", more_is_better=False)
        async with interlock_edits(url, {"record": BODY}) as set_status:
            times = await edit_times(set_status, "record", int(200 * seconds))
        report.add("edit: p50", percentile(times, 0.5), "ms", more_is_better=False)
        report.add("edit: p95", percentile(times, 0.95), "ms", more_is_better=False)


def judge_records(report: Report) -> None:
    one = report.compare("status change interlock ×1", "status change raw asyncpg ×1")
    report.judge("status change interlock ×1", "≥0.8× raw", one >= 0.8)
    figures = report.figures
    mapped = figures[f"status change interlock ×{TASKS}"].median / figures[f"status change SQLAlchemy ×{TASKS}"].median
    many = report.compare(f"status change interlock ×{TASKS}", f"status change raw asyncpg ×{TASKS}")
    report.judge(
        f"status change interlock ×{TASKS}",
        f"≥1.5× raw, ≥5× SQLAlchemy ({mapped:.1f}×)",
        many >= 1.5 and mapped >= 5,
    )
    for tasks in (1, TASKS):
        report.compare(f"status change SQLAlchemy ×{tasks}", f"status change raw asyncpg ×{tasks}")
    for what in ("mean", "p95", "total"):
        ratio = report.compare(f"{TASKS} corrections interlock: {what}", f"{TASKS} corrections raw asyncpg: {what}")
        if what == "total":
            report.judge(f"{TASKS} corrections interlock: total", "≤2× raw", ratio >= 0.5)
    report.judge("edit: p95", "≤3 ms", figures["edit: p95"].median <= 3)
