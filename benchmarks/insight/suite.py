"""Insight benchmarks: how long every query and every page takes with a full store."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.harness import console, percentile
from benchmarks.insight.filling import FULL, Scale, fill
from benchmarks.insight.pages import get, paths
from benchmarks.jobs.drains import fresh_database, vacuum_and_checkpoint
from benchmarks.jobs.suite import SETTINGS
from interlock import App
from interlock.backends import from_url
from interlock.insight import Insight
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState
from interlock.settings import Settings
from interlock.testing.servers import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from benchmarks.harness import Report
    from benchmarks.insight.filling import Filled

__all__ = ["judge_insight", "questions", "run_insight"]

REACH = 150.0
"""Target for the 95th percentile of a query, in milliseconds."""
PAGE_REACH = 300.0
"""The same for a whole page."""
TIMES = 30
QUICK = Scale(20_000, 2_000, 500, 500)


def questions(insight: Insight, known: Filled) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every query of the pages, by name."""
    jobs = insight.jobs
    return {
        "overview": insight.overview,
        "activity": insight.activity,
        "pulse": insight.pulse,
        "jobs": jobs,
        "jobs, deep": lambda: jobs(before=known.ended),
        **{f"jobs, {state}": _of_state(insight, state) for state in JobState},
        "jobs, of one name": lambda: jobs(JobFilter(name="mirror")),
        "jobs, of an unknown name": lambda: jobs(JobFilter(name="nothing")),
        "jobs, of one queue": lambda: jobs(JobFilter(queue="full")),
        "jobs, of one lane": lambda: jobs(JobFilter(lane=known.long_lane)),
        "job, ended": lambda: insight.job(known.ended),
        "job, failed": lambda: insight.job(known.failed),
        "job, behind": lambda: insight.job(known.behind),
        "job, waiting": lambda: insight.job(known.waiting),
        "job, running": lambda: insight.job(known.running),
        "lanes": insight.lanes,
        "lanes, deep": lambda: insight.lanes(after=known.lane),
        "lanes, running": lambda: insight.lanes(show="running"),
        "lanes, waiting": lambda: insight.lanes(show="waiting"),
        "lanes, held": lambda: insight.lanes(show="held"),
        "lanes, parked": lambda: insight.lanes(show="parked"),
        "lane": lambda: insight.lane(known.lane),
        "lane, long": lambda: insight.lane(known.long_lane),
        "locks": insight.locks,
        "locks, deep": lambda: insight.locks(after="repo:005000"),
        "lock": lambda: insight.lock("repo:000010"),
        "limits": insight.limits,
        "limit": lambda: insight.limit(FULL.key),
        "claims": insight.claims,
        "claim": lambda: insight.claim("github:000007"),
        "events": insight.events,
        "event": lambda: insight.event(known.event),
        "queues": insight.queues,
        "workers": insight.workers,
        "explain job": lambda: insight.explain("job", known.behind),
        "explain limit": lambda: insight.explain("limit", FULL.key),
    }


def _of_state(insight: Insight, state: JobState) -> Callable[[], Awaitable[Any]]:
    return lambda: insight.jobs(JobFilter((state,)))


async def run_insight(report: Report, directory: Path, *, quick: bool) -> None:
    """Fill each store once, then run every query many times, in alternation."""
    scale = QUICK if quick else Scale()
    with PostgresServer(settings=SETTINGS) as server:
        places = {"SQLite": f"sqlite:///{directory}/insight.db", "PostgreSQL": fresh_database(server)}
        for name, place in places.items():
            await _measure(report, name, place, scale, times=5 if quick else TIMES)


async def _measure(report: Report, name: str, url: str, scale: Scale, *, times: int) -> None:
    console.print(f"insight: filling {name} …", style="dim")
    store = from_url(url, settings=Settings(store_wait=60.0))  # a batch may take long while others use the machine
    await store.open()
    try:
        known = await fill(store, scale)
        if name == "PostgreSQL":
            await vacuum_and_checkpoint(url)  # autovacuum would do this within a minute or two
        console.print(f"insight: querying {name} …", style="dim")
        await _ask(report, name, questions(Insight(store), known), times)
    finally:
        await store.close()
    app = App(url, store_wait=60.0)

    @app.job()
    async def nothing() -> None: ...

    async with app:
        web = app.web()
        await _ask(report, name, {page: partial(get, web, path) for page, path in paths(known).items()}, times)


async def _ask(report: Report, name: str, asked: dict[str, Callable[[], Awaitable[Any]]], times: int) -> None:
    took: dict[str, list[float]] = {what: [] for what in asked}
    for round_ in range(times + 1):
        for what, ask in asked.items():
            began = time.perf_counter()
            await ask()
            if round_:  # the first one warms up
                took[what].append((time.perf_counter() - began) * 1000)
    for what, times_taken in took.items():
        report.add(f"{name}: {what}", percentile(times_taken, 0.95), "ms p95", more_is_better=False)


def judge_insight(report: Report) -> None:
    for name, figure in report.figures.items():
        reach = PAGE_REACH if ": page " in name else REACH
        report.judge(name, f"≤{reach:g} ms", figure.median <= reach)
