"""Fill a store with a large amount of data: half of the jobs have ended, the others wait in every possible way."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.harness import console
from interlock.ports.claims import ClaimOutcome, ClaimRequest, ClaimState
from interlock.ports.events import NewEvent
from interlock.ports.jobs import Acknowledgement, FetchRequest, FetchResult, NewJob, OnFailure, Outcome
from interlock.ports.journal import Attribution
from interlock.ports.limits import Use
from interlock.ports.locks import LockRequest
from interlock.ports.sessions import SessionCard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from interlock.ports.jobs import FetchedJob
    from interlock.ports.store import Store

__all__ = ["Filled", "Scale", "fill"]

SESSION = "benchmark"
NAMES = ("triage", "report", "sync", "mirror")
FULL = Use("slots:containers", 5, 0.0)
SLOW = Use("cooldown:account", 1, 3600.0)
_BATCH = 5_000
_FETCH = 1_000


class Scale(NamedTuple):
    """How many items of each kind."""

    jobs: int = 1_000_000
    lanes: int = 100_000
    locks: int = 10_000
    others: int = 10_000
    """Events, claims, limit keys, jobs that wait for one limit, delayed jobs."""


class Filled(NamedTuple):
    """Items of the store to query."""

    ended: int
    failed: int
    behind: int
    waiting: int
    running: int
    lane: str
    long_lane: str
    event: int


async def fill(store: Store, scale: Scale) -> Filled:
    """Fill the store through its ports. The session lasts for hours, so nothing is rescued."""
    await store.sessions.begin(SessionCard(SESSION, "host", 4711, "benchmark"), 36_000.0)
    await store.jobs.register_worker(SESSION, ["default", "full", "held"], NAMES, 50)
    console.print(f"  {scale.jobs // 2:,} jobs that ended …", style="dim")
    ended = await _end(store, scale.jobs // 2)
    console.print(f"  {scale.jobs // 2:,} jobs that wait …", style="dim")
    jobs = store.jobs
    laned = scale.jobs // 2 - 4 * scale.others
    await _enqueue(store, laned // 2, lane=lambda n: f"repo-{n % scale.lanes:06}#{n % 7}")
    await _enqueue(store, scale.others, lane=lambda _: "one long lane")
    await _enqueue(store, scale.others, delay=36_000.0)
    await _enqueue(store, scale.others, queue="full", uses=(FULL,))
    await _fetch(store, ("full",), scale.others)
    await _enqueue(store, scale.others, queue="keys", uses_of=lambda n: (Use(f"slots:key-{n:06}", 1, 0.0),))
    running = await _fetch(store, ("default",), 100)
    await _park(store, await _fetch(store, ("default",), 100))
    for n in range(100):
        await jobs.hold(f"repo-{n * 11:06}#{n * 11 % 7}", Attribution("ann", "deploy"))
    await _enqueue(store, laned // 2 - laned // 4)
    await _enqueue(store, laned // 4, queue="nobody")
    await _locks(store, scale.locks)
    await _claims(store, scale.others)
    event = await _events(store, scale.others)
    (behind, *_) = [
        o for o in await store.insight.situations(await store.insight.lane_jobs("one long lane", limit=500)) if o.ahead
    ]
    waiting = (await store.insight.limit_users(FULL.key, limit=50)).waiters[-1].id
    names = (await store.insight.lanes(limit=50)).lanes
    return Filled(ended[0], ended[1], behind.job.id, waiting, running[0].id, names[-1].lane, "one long lane", event)


async def _enqueue(
    store: Store,
    count: int,
    *,
    queue: str = "default",
    lane: Callable[[int], str] = lambda _: "",
    delay: float = 0.0,
    uses: tuple[Use, ...] = (),
    uses_of: Callable[[int], tuple[Use, ...]] | None = None,
) -> None:
    for start in range(0, count, _BATCH):
        numbers = range(start, min(count, start + _BATCH))
        ids = await store.jobs.ids(len(numbers))
        await store.jobs.enqueue(
            [
                NewJob(
                    number,
                    NAMES[n % len(NAMES)],
                    queue,
                    lane(n),
                    50,
                    delay,
                    None,
                    uses if uses_of is None else uses_of(n),
                    OnFailure.BLOCK,
                    False,
                    3600.0,
                    '{"repository": "acme/api", "number": 7, "title": "a title of the usual length"}',
                    "{}",
                )
                for number, n in zip(ids, numbers, strict=True)
            ]
        )


async def _fetch(store: Store, queues: Sequence[str], count: int) -> list[FetchedJob]:
    found: list[FetchedJob] = []
    for _ in range(10_000):
        batch = await store.jobs.fetch(FetchRequest(SESSION, tuple(queues), NAMES, min(_FETCH, count), count, 1))
        assert isinstance(batch, FetchResult)
        found += batch.jobs
        if len(found) >= count or (not batch.jobs and batch.recheck_in > 0):
            break
    return found


async def _end(store: Store, count: int) -> tuple[int, int]:
    """Enqueue and end jobs, some of which fail; returns one ID of each kind."""
    done = failed = 0
    for start in range(0, count, 10 * _BATCH):
        await _enqueue(store, min(10 * _BATCH, count - start))
        while jobs := await _fetch(store, ("default",), _FETCH):
            await store.jobs.acknowledge(SESSION, [_acknowledgement(job) for job in jobs])
            done = jobs[0].id
            failed = next((job.id for job in jobs if job.id % 50 == 1), failed)
    return done, failed


def _acknowledgement(job: FetchedJob) -> Acknowledgement:
    if job.id % 50 == 1:
        return Acknowledgement(
            job.id, job.fence, Outcome.FAILED, 0.1, error="ValueError: no", trace="Traceback …\n" * 20
        )
    if job.id % 50 == 2:
        return Acknowledgement(job.id, job.fence, Outcome.DISCARDED, 0.1, error="nothing to do")
    return Acknowledgement(job.id, job.fence, Outcome.DONE, 0.1, result='"ok"')


async def _park(store: Store, jobs: Iterable[FetchedJob]) -> None:
    acknowledgements = [
        Acknowledgement(job.id, job.fence, Outcome.PARKED, error="its arguments changed") for job in jobs
    ]
    await store.jobs.acknowledge(SESSION, acknowledgements)


async def _locks(store: Store, count: int) -> None:
    """Hold keys, a tenth of them with waiters."""
    for start in range(0, count, 500):
        await asyncio.gather(
            *(
                store.locks.ask(
                    LockRequest(f"repo:{n:06}", f"{SESSION}.l{n}", f"host:1:ab/Task#{n}", SESSION, 36_000.0, 0.0, False)
                )
                for n in range(start, min(count, start + 500))
            )
        )
    for n in range(0, count, 10):
        request = LockRequest(
            f"repo:{n:06}", f"{SESSION}.l{count + n}", f"host:1:ab/Wait#{n}", SESSION, 36_000.0, None, False
        )
        await store.locks.ask(request)


async def _claims(store: Store, count: int) -> None:
    for start in range(0, count, 500):
        numbers = range(start, min(count, start + 500))
        wants = [ClaimRequest(f"github:{n:06}", f"{SESSION}.c{n}", SESSION, 36_000.0, 36_000.0) for n in numbers]
        await asyncio.gather(*(store.claims.claim(want) for want in wants))
        await asyncio.gather(
            *(
                store.claims.finish(ClaimOutcome(want.key, want.owner, ClaimState.DONE, '"ok"', "", 0.0, 36_000.0))
                for want in wants
            )
        )


async def _events(store: Store, count: int) -> int:
    payload = json.dumps({"action": "opened", "text": "x" * 2000})
    last = 0
    for start in range(0, count, 500):
        numbers = range(start, min(count, start + 500))
        ids = iter(await store.jobs.ids(2 * len(numbers)))
        events = []
        for n in numbers:
            last, job = next(ids), next(ids)
            new = NewJob(
                job, "triage", "default", f"repo#{n}", 50, 0.0, None, (), OnFailure.BLOCK, False, 3600.0, "{}", "{}"
            )
            events.append(
                NewEvent(last, "github", f"d-{n}", "issues.opened", "ann", payload, 259_200.0, None, None, (new,))
            )
        await store.events.accept(events)
    return last
