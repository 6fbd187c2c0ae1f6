"""Interlock's side: jobs as an application would define them, filled and drained through the public API."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.jobs.worker_side import Acks, run_worker
from interlock import App, Slots, current_job
from interlock.ports.jobs import Outcome
from interlock.testing.processes import report

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Sequence

__all__ = ["Jobs", "defined", "fill", "left", "prepare", "work", "work_noting"]

CONCURRENCY = 50
LANES = 1000
SLOTS = 10_000
FEW_SLOTS = 50
CHUNK = 5_000
LOG_LINES = 10


class Jobs(NamedTuple):
    """The jobs of the benchmark."""

    noop: Any
    limited: Any
    laned: Any
    own_slots: Any
    few_slots: Any
    logged: Any


def defined(url: str, *, noting: bool = False) -> tuple[App, Jobs]:
    """An app with its jobs; ``noting`` reports when each plain one starts."""
    app = App(url)

    async def nothing(number: int) -> None:
        return

    async def note(number: int) -> None:
        report("started", number=number, at=time.monotonic())

    noop = app.job(name="noop")(note if noting else nothing)

    @app.job(limits=[Slots("bench", SLOTS)])
    async def limited(number: int) -> None:
        return

    @app.job(lane="lane-{lane}")
    async def laned(lane: int, number: int) -> None:
        return

    @app.job(lane="lane-{lane}", limits=[Slots("lane", 2, key="{lane}")])
    async def own_slots(lane: int, number: int) -> None:
        return

    @app.job(lane="lane-{lane}", limits=[Slots("few", FEW_SLOTS)])
    async def few_slots(lane: int, number: int) -> None:
        return

    @app.job()
    async def logged(number: int) -> None:
        log = current_job().log
        for line in range(LOG_LINES):
            log("copied file %d of job %d to its place", line, number)

    return app, Jobs(noop, limited, laned, own_slots, few_slots, logged)


async def prepare(url: str) -> None:
    async with defined(url)[0]:
        pass


def calls(jobs: Jobs, kind: str, numbers: Sequence[int], lanes: int) -> list[Any]:
    """Jobs to enqueue: ``plain``, ``logged`` (ten lines each), under a ``limit`` that never binds, in ``lanes``, or in
    ``one lane``.

    ``own slots`` and ``few slots`` are in lanes, under slots per lane or 50 slots for all lanes.
    """
    if kind == "plain":
        return [jobs.noop.call(number=number) for number in numbers]
    if kind == "logged":
        return [jobs.logged.call(number=number) for number in numbers]
    if kind == "limit":
        return [jobs.limited.call(number=number) for number in numbers]
    if kind in ("own slots", "few slots"):
        job = jobs.own_slots if kind == "own slots" else jobs.few_slots
        return [job.call(lane=number % lanes, number=number) for number in numbers]
    if kind == "one lane":
        lanes = 1
    return [jobs.laned.call(lane=number % lanes, number=number) for number in numbers]


async def fill(url: str, count: int, kind: str = "plain", lanes: int = LANES) -> None:
    app, jobs = defined(url)
    async with app:
        for first in range(0, count, CHUNK):
            await app.jobs.enqueue_many(calls(jobs, kind, range(first, min(first + CHUNK, count)), lanes))


async def left(url: str) -> int:
    async with defined(url)[0] as app:
        return sum(
            queue.ready + queue.behind + queue.scheduled + queue.waiting + queue.running + queue.parked
            for queue in await app.queues.list()
        )


def observe(store: Any, acks: Acks) -> None:
    """Report the store's fetches and acknowledgements."""
    fetch, acknowledge = store.fetch, store.acknowledge

    async def noted_fetch(request: Any) -> Any:
        acks.record_fetch()
        return await fetch(request)

    async def noted_acknowledge(session: str, acknowledgements: Sequence[Any]) -> Any:
        acknowledged = await acknowledge(session, acknowledgements)
        # Jobs that are returned unstarted at the end do not count.
        ended = sum(
            accepted and acknowledgement.outcome is Outcome.DONE
            for accepted, acknowledgement in zip(acknowledged.accepted, acknowledgements, strict=True)
        )
        if ended:
            acks.record_acknowledgements(ended)
        return acknowledged

    store.fetch, store.acknowledge = noted_fetch, noted_acknowledge


def work(url: str, noting: bool = False) -> None:
    async def prepared(acks: Acks, stop: asyncio.Event) -> Callable[[], Awaitable[None]]:
        app, _ = defined(url, noting=noting)
        await app.__aenter__()
        observe(app.jobs._running.jobs, acks)
        worker = app.worker(concurrency=CONCURRENCY)

        async def drain() -> None:
            async with worker:
                await stop.wait()
            await app.__aexit__(None, None, None)

        return drain

    run_worker(prepared)


def work_noting(url: str) -> None:
    work(url, noting=True)
