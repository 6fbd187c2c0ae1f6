"""How everything stands, and what of it a person should look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.clock import as_text
from interlock.explanation import Explanation, Subject, command, counted, span
from interlock.insight.events import event_rows, jobs_of
from interlock.insight.job_rows import QueuePage, QueueRow
from interlock.insight.jobs import job_rows, worker_row
from interlock.insight.journal import journal_problems
from interlock.insight.limits import reservation_row
from interlock.insight.schedules import schedule_problems
from interlock.insight.views import LaneCounts, LimitCounts, LockCounts, Overview, Problem
from interlock.jobs.reasons import where
from interlock.ports.events import EventFilter
from interlock.ports.insight import LaneShow
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState
from interlock.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from interlock.insight.job_rows import JobRow
    from interlock.insight.stores import Stores
    from interlock.insight.views import LimitRow
    from interlock.ports.events import EventView
    from interlock.ports.insight import JobCounts, WorkerStatus
    from interlock.ports.job_views import QueueView
    from interlock.ports.limits import LimitView

__all__ = ["LATE", "overview", "problems", "queue_page", "queue_rows"]

LATE = 60.0
"""Work that has been ready for longer is late."""
_FEW = 8
_RUNNING = (JobState.RUNNING,)
_WAITING = (JobState.WAITING, JobState.HELD, JobState.PARKED)
_FAILED = (JobState.FAILED, JobState.QUARANTINED)
_OPEN = tuple(state for state in JobState if not state.final)
_MAX_WORKERS = 100
_MAX_LIMITS = 200


async def overview(stores: Stores) -> Overview:
    """All of it, from one snapshot of each store."""
    locks, locks_at = LockCounts(0, 0), stores.now()
    if "locks" in stores.parts:
        found = await stores.locks.locks.count()
        locks, locks_at = LockCounts(found.held, found.waiting), found.seen_at
    reserved = [reservation_row(view) for view in await _reservations(stores)]
    if not stores.has_jobs:
        seen = stores.seen(reserved[0].seen_at if reserved else locks_at, "limits", "locks", "claims", others=locks_at)
        nothing = LaneCounts(0, 0, 0, 0)
        return Overview(stores.parts, (), {}, (), (), nothing, locks, _limit_counts(reserved), (), (), (), (), seen)
    insight = stores.store.insight
    counts = await insight.counts()
    workers = await insight.workers(limit=_MAX_WORKERS)
    last: Sequence[EventView] = ()
    if "events" in stores.parts:
        last = await stores.store.events.list(EventFilter(), limit=_FEW)
    limits = _limit_counts(reserved)
    rows = await _some(stores, last)
    return Overview(
        parts=stores.parts,
        problems=tuple(await problems(stores, counts, workers)),
        totals=counts.states,
        queues=tuple(queue_rows(counts)),
        workers=tuple(map(worker_row, workers)),
        lanes=LaneCounts(counts.lanes_running, counts.lanes_fetched, counts.lanes_held, counts.lanes_parked),
        locks=locks,
        limits=LimitCounts(
            limits.used + counts.limits_used, limits.full + counts.limits_full, limits.waiting + counts.limits_waiting
        ),
        running=_of_state(rows, _RUNNING),
        waiting=_of_state(rows, _WAITING),
        failures=_of_state(rows, _FAILED),
        events=event_rows(last, {row.job.id: row.job for row in rows}),
        seen=stores.seen(counts.seen_at, "jobs", "events", "limits", "locks", "claims", others=locks_at),
    )


async def problems(stores: Stores, counts: JobCounts, workers: Sequence[WorkerStatus]) -> list[Problem]:
    """Return the problems that need a person, the worst first."""
    found = [
        *_nobody_works(counts),
        *_nobody_knows(counts, workers),
        *_blocked(counts, workers),
        *_paused(counts),
    ]
    if counts.orphans and not any(queue.workers for queue in counts.queues):
        found.append(
            Problem(
                f"{_jobs(counts.orphans)} were given to workers that are gone, and no worker can rescue them",
                "jobs",
                str(JobState.RUNNING),
                "start a worker: interlock run module:app",
            )
        )
    if quarantined := counts.states.get(JobState.QUARANTINED, 0):
        found.append(
            Problem(
                f"{_jobs(quarantined)} {_are(quarantined)} quarantined: workers died while they ran them",
                "jobs",
                str(JobState.QUARANTINED),
                "find out why they died (memory, signals), then retry them",
            )
        )
    if counts.lanes_parked:
        found.append(await _parked_lanes(stores, counts.lanes_parked))
    if parked := counts.states.get(JobState.PARKED, 0):
        found.append(
            Problem(
                f"{_jobs(parked)} {_are(parked)} set aside until a person acts",
                "jobs",
                str(JobState.PARKED),
                "fix the cause, then retry them",
            )
        )
    found += await schedule_problems(stores, workers)
    found += _late(counts)
    if "journal" in stores.parts:
        found += journal_problems(await stores.store.journal.status(), counts.seen_at)
    return found


def queue_rows(counts: JobCounts) -> Iterator[QueueRow]:
    """Queues with what is wrong with each."""
    found = (*_late(counts), *_nobody_works(counts), *_paused(counts, waiting_only=False))
    wrong = {problem.ref: problem.text for problem in found}
    for queue in counts.queues:
        yield QueueRow(queue, wrong.get(queue.queue, ""))


def explain_queue(counts: JobCounts, name: str) -> Explanation[Reason]:
    """Explain whether the jobs of a queue are being run, and what to do if they are not."""
    subject = Subject("queue", name)
    queue = next((queue for queue in counts.queues if queue.queue == name), None)
    if queue is None:
        lines = [f"queue {name!r} has no jobs and no workers, and is not paused"]
        return Explanation.of(subject, Reason.IDLE, "empty", lines, "", {"queue": name})
    found = [
        (Reason.QUEUE_PAUSED, next((one for one in _paused(counts, waiting_only=False) if one.ref == name), None)),
        (Reason.NO_WORKER, next((one for one in _nobody_works(counts) if one.ref == name), None)),
        (Reason.LATE, next((one for one in _late(counts) if one.ref == name), None)),
    ]
    problem = next(((reason, one) for reason, one in found if one is not None), None)
    jobs = (
        f"{_jobs(queue.ready)} ready, {counted(queue.fetched)} fetched, {counted(queue.running)} running, "
        f"{counted(queue.waiting)} waiting for a limit"
    )
    lines = [f"queue {name!r} has {jobs}, and {queue.workers} {'worker' if queue.workers == 1 else 'workers'}"]
    times = {"oldest_ready_at", "next_due_at", "paused_since"}
    data = {
        key: value if key not in times or value is None else as_text(value) for key, value in queue._asdict().items()
    }
    if problem is not None:
        reason, one = problem
        return Explanation.of(subject, reason, one.text, [*lines, one.text], one.remedy, data)
    if queue.running:
        return Explanation.of(subject, Reason.RUNNING, "jobs are running", lines, "", data)
    if queue.fetched:
        return Explanation.of(subject, Reason.FETCHED, "workers have fetched jobs", lines, "", data)
    if queue.ready:
        return Explanation.of(subject, Reason.READY, "workers will fetch its jobs", lines, "", data)
    return Explanation.of(subject, Reason.IDLE, "no job could run now", lines, "", data)


def _paused(counts: JobCounts, *, waiting_only: bool = True) -> Iterator[Problem]:
    """Paused queues; with ``waiting_only`` those that have had jobs to run for longer than a minute."""
    for queue in counts.queues:
        if queue.paused_since is None or (waiting_only and not _waits(counts, queue)):
            continue
        undone = _undone(counts, queue)
        yield Problem(
            f"queue {queue.queue!r} has been paused for {span(counts.seen_at - queue.paused_since)} by "
            f"{queue.paused_by}: {queue.paused_reason}{f'; {undone}' if undone else ''}",
            "queue",
            queue.queue,
            f"ask {queue.paused_by}, or resume it: {command('queues', 'resume', queue.queue)}",
        )


def _waits(counts: JobCounts, queue: QueueView) -> bool:
    """Return whether jobs have waited for the end of a pause for longer than a minute."""
    since = min((at for at in (queue.oldest_ready_at, queue.next_due_at) if at is not None), default=counts.seen_at)
    return counts.seen_at - max(since, queue.paused_since or 0.0) > LATE


def _nobody_works(counts: JobCounts) -> Iterator[Problem]:
    for queue in counts.queues:
        undone = "" if queue.workers else _undone(counts, queue)
        if undone:
            yield Problem(
                f"no worker serves queue {queue.queue!r}: {undone}",
                "queue",
                queue.queue,
                f"start a worker: interlock run module:app --queues {queue.queue}",
            )


def _nobody_knows(counts: JobCounts, workers: Sequence[WorkerStatus]) -> Iterator[Problem]:
    for queue in counts.queues:
        known = {name for worker in workers if queue.queue in worker.queues for name in worker.names}
        unknown = sorted(counts.names.get(queue.queue, frozenset()) - known)
        if queue.workers and unknown and len(workers) < _MAX_WORKERS:
            names = ", ".join(map(repr, unknown[:3]))
            yield Problem(
                f"jobs are ready that no worker of queue {queue.queue!r} knows: {names}",
                "queue",
                queue.queue,
                "finish the deployment, or start a worker whose app defines it",
            )


def _blocked(counts: JobCounts, workers: Sequence[WorkerStatus]) -> Iterator[Problem]:
    for found in workers:
        if found.blocked_since is not None:
            yield Problem(
                f"the event loop of {where(found.worker)} has been blocked for "
                f"{span(counts.seen_at - found.blocked_since)} by {found.blocked_by}",
                "worker",
                found.worker.session,
                "make the handler a plain def, or move the blocking call to asyncio.to_thread",
            )


def _late(counts: JobCounts) -> Iterator[Problem]:
    for queue in counts.queues:
        if queue.paused_since is not None:
            continue  # which explains it
        if queue.workers and queue.oldest_ready_at is not None and counts.seen_at - queue.oldest_ready_at > LATE:
            yield Problem(
                f"queue {queue.queue!r} is late: work has been ready{_since(counts, queue)}",
                "queue",
                queue.queue,
                f"start more workers: interlock run module:app --queues {queue.queue}",
            )


async def queue_page(stores: Stores, name: str, limit: int) -> QueuePage:
    """One queue, its workers, and some of its jobs."""
    insight = stores.store.insight
    counts = await insight.counts()
    workers = [worker for worker in await insight.workers(limit=_MAX_WORKERS) if name in worker.queues]
    found = await insight.jobs(JobFilter(_OPEN, queue=name), limit=limit)
    told = explain_queue(counts, name)
    return QueuePage(
        name,
        next((queue for queue in counts.queues if queue.queue == name), None),
        str(told.reason),
        told.why,
        told,
        tuple(map(worker_row, workers)),
        await job_rows(stores, found.situations),
        stores.seen(counts.seen_at, "jobs"),
    )


async def _parked_lanes(stores: Stores, count: int) -> Problem:
    remedy = "fix the cause, then release them: interlock lanes release LANE"
    if count == 1:
        found = await stores.store.insight.lanes(show=LaneShow.PARKED, limit=1)
        if found.lanes:
            lane = found.lanes[0]
            text = f"lane {lane.lane!r} is parked after a failure: {lane.parked_reason}"
            return Problem(text, "lane", lane.lane, remedy)
    return Problem(f"{counted(count)} lanes are parked after a failure", "lanes", str(LaneShow.PARKED), remedy)


def _undone(counts: JobCounts, queue: QueueView) -> str:
    """Describe the jobs of a queue that could run now, or as soon as a limit has room."""
    if queue.ready:
        return f"{_jobs(queue.ready)} {'has' if queue.ready == 1 else 'have'} been ready{_since(counts, queue)}"
    if queue.next_due_at is not None and queue.next_due_at <= counts.seen_at:
        return f"work has been due for {span(counts.seen_at - queue.next_due_at)}"
    return f"{_jobs(queue.waiting)} {'waits' if queue.waiting == 1 else 'wait'} for a limit" if queue.waiting else ""


def _since(counts: JobCounts, queue: QueueView) -> str:
    return "" if queue.oldest_ready_at is None else f" for {span(counts.seen_at - queue.oldest_ready_at)}"


def _jobs(count: int) -> str:
    return f"{counted(count)} {'job' if count == 1 else 'jobs'}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


async def _some(stores: Stores, events: Sequence[EventView]) -> tuple[JobRow, ...]:
    """Some jobs of each kind that is shown, and those of the last events, looked at all together."""
    insight = stores.store.insight
    ids = jobs_of(events)
    for states in (_RUNNING, _WAITING, _FAILED):
        ids += (await insight.numbers(JobFilter(states), limit=_FEW)).ids
    return await job_rows(stores, await stores.situations(sorted(set(ids), reverse=True)))


def _of_state(rows: Sequence[JobRow], states: Sequence[JobState]) -> tuple[JobRow, ...]:
    return tuple(row for row in rows if row.job.state in states)[:_FEW]


async def _reservations(stores: Stores) -> Sequence[LimitView]:
    return await stores.store.limits.list(limit=_MAX_LIMITS) if "limits" in stores.parts else ()


def _limit_counts(rows: Sequence[LimitRow]) -> LimitCounts:
    return LimitCounts(len(rows), sum(row.full for row in rows), sum(row.waiting for row in rows))
