"""Jobs and lanes as rows and pages, each with its reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interlock.errors import NotFoundError
from interlock.insight.job_logs import job_log, progress_of
from interlock.insight.job_rows import JobPage, JobRow, LanePage, LaneRow, WorkerPage, WorkerRow
from interlock.insight.locks import lock_row
from interlock.insight.parked_lanes import failure_of, with_its_lane
from interlock.insight.stores import CallerJobs
from interlock.insight.timeline import timeline
from interlock.insight.views import Listing
from interlock.jobs.explain import explain_job, explain_lane
from interlock.operations import unknown_job
from interlock.ports.insight import MAX_WORKERS
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.explanation import Explanation
    from interlock.insight.stores import Stores
    from interlock.ports.events import EventView
    from interlock.ports.insight import LaneShow, WorkerStatus
    from interlock.ports.job_views import JobSituation, JobView, LaneView
    from interlock.ports.locks import LockView
    from interlock.reasons import Reason

__all__ = [
    "explain_a_job",
    "explain_a_lane",
    "job_listing",
    "job_page",
    "job_rows",
    "job_rows_of",
    "lane_listing",
    "lane_page",
    "worker_page",
    "worker_row",
]

_NEIGHBOURS = 3
_LOG_TAIL = 200
"""How many lines of its log the page of a job has."""
_ENDED_OF_LANE = 10
_MAX_SESSIONS = 20
"""How many workers' lock waits are read for one list."""
_AT_A_WORKER = (JobState.FETCHED, JobState.RUNNING, JobState.READY)
_Waits = dict[int, list["LockView"]]


async def job_listing(stores: Stores, wanted: JobFilter, limit: int, before: int | None) -> Listing[JobRow]:
    """Jobs by ID, the largest first."""
    found = await stores.store.insight.jobs(wanted, limit=limit, before=before)
    rows = await job_rows(stores, found.situations)
    return Listing(
        rows,
        None if found.more is None else str(found.more),
        found.situations[0].job.seen_at if found.situations else stores.now(),
    )


async def job_rows_of(stores: Stores, ids: Sequence[int]) -> tuple[JobRow, ...]:
    """Jobs in the order of their ids here."""
    return await job_rows(stores, await stores.situations(ids)) if ids else ()


async def job_rows(stores: Stores, situations: Sequence[JobSituation]) -> tuple[JobRow, ...]:
    """Rows of jobs with their reasons, in a few queries for all of them."""
    heads = await _heads(stores, situations)
    waits, caller_jobs = await _lock_waits(stores, situations)
    workers = await _workers(stores, situations)
    at_worker = [situation.job.id for situation in situations if situation.job.state.at_worker]
    statuses = await stores.store.insight.log_statuses(at_worker)
    rows: list[JobRow] = []
    for situation in situations:
        why = explain_job(
            situation,
            heads.get(situation.lane_head or 0),
            waits=waits.get(situation.job.id, ()),
            name=caller_jobs.name,
            workers=workers,
        )
        progress = progress_of(situation.job, statuses.get(situation.job.id))
        rows.append(JobRow(situation.job._replace(attempts=()), str(why.reason), why.why, progress))
    return tuple(rows)


async def job_page(stores: Stores, number: int) -> JobPage:
    """One job in detail."""
    situation = await _situation(stores, number)
    why, waits, caller_jobs = await _explained(stores, situation)
    around = await stores.store.insight.neighbours(number, limit=_NEIGHBOURS)
    rows = {row.job.id: row for row in await job_rows_of(stores, [*around.ahead, *around.behind])}
    return JobPage(
        job=situation.job,
        reason=str(why.reason),
        why=why.why,
        explanation=why,
        event=await _event(stores, situation.job),
        ahead=tuple(rows[one] for one in around.ahead if one in rows),
        behind=tuple(rows[one] for one in around.behind if one in rows),
        waits=tuple(lock_row(view, caller_jobs) for view in waits),
        timeline=timeline(situation.job),
        log=await job_log(stores, situation.job, after=None, limit=_LOG_TAIL),
        seen=stores.seen(situation.job.seen_at, "jobs", "locks", "events"),
    )


async def explain_a_job(stores: Stores, number: int) -> Explanation[Reason]:
    """Explain it."""
    return (await _explained(stores, await _situation(stores, number)))[0]


async def lane_listing(stores: Stores, show: LaneShow, limit: int, after: str) -> Listing[LaneRow]:
    """Lanes by name."""
    found = await stores.store.insight.lanes(show=show, limit=limit, after=after)
    heads = {
        situation.job.id: situation
        for situation in await stores.situations([lane.head for lane in found.lanes if lane.head is not None])
    }
    waits, caller_jobs = await _lock_waits(stores, heads.values())
    workers = await _workers(stores, heads.values())
    rows: list[LaneRow] = []
    for lane in found.lanes:
        head = heads.get(lane.head or 0)
        mine = waits.get(lane.head or 0, ())
        why = explain_lane(lane.lane, lane, head, waits=mine, name=caller_jobs.name, workers=workers)
        rows.append(LaneRow(lane, str(why.reason), why.why))
    return Listing(tuple(rows), found.more, found.lanes[0].seen_at if found.lanes else stores.now())


async def lane_page(stores: Stores, name: str, limit: int) -> LanePage:
    """One lane in detail."""
    view, why = await _lane(stores, name)
    jobs = await job_rows_of(stores, await stores.store.insight.lane_jobs(name, limit=limit))
    final = tuple(state for state in JobState if state.final)
    ended = await stores.store.insight.jobs(JobFilter(final, lane=name), limit=_ENDED_OF_LANE)
    last = await job_rows(stores, ended.situations)
    at = view.seen_at if view is not None else last[0].job.seen_at if last else stores.now()
    return LanePage(name, view, str(why.reason), why.why, why, jobs, last, stores.seen(at, "jobs", "locks"))


async def explain_a_lane(stores: Stores, name: str) -> Explanation[Reason]:
    """Explain it."""
    return (await _lane(stores, name))[1]


def worker_row(found: WorkerStatus) -> WorkerRow:
    """One live worker."""
    reads = tuple((read.name, read.version, read.fingerprint) for read in found.reads)
    return WorkerRow(*found[:-2], reads, found.queue_runners)


async def worker_page(stores: Stores, session: str, limit: int) -> WorkerPage:
    """One live worker and its jobs."""
    found = await stores.store.insight.workers(session, limit=1)
    if not found:
        raise NotFoundError(
            f"There is no live worker with the session {session!r}.",
            remedy="List them: interlock queues list.",
        )
    jobs = await job_rows_of(stores, await stores.store.insight.fetched(session, limit=limit))
    at = jobs[0].job.seen_at if jobs else stores.now()
    return WorkerPage(worker_row(found[0]), jobs, stores.seen(at, "jobs"))


# -- parts -------------------------------------------------------------------------------------------------------------


async def _situation(stores: Stores, number: int) -> JobSituation:
    """The situation of a job, with its arguments, result and attempts."""
    found = await stores.situations([number])
    whole = await stores.store.insight.get(number) if found else None
    if whole is None:
        raise unknown_job(number)
    return found[0]._replace(job=whole)


async def _explained(
    stores: Stores, situation: JobSituation
) -> tuple[Explanation[Reason], Sequence[LockView], CallerJobs]:
    heads = await _heads(stores, [situation])
    (situation, *known) = await _with_row_locks(stores, [situation, *heads.values()])
    heads = {one.job.id: one for one in known}
    waits, caller_jobs = await _lock_waits(stores, [situation])
    mine = waits.get(situation.job.id, [])
    head = heads.get(situation.lane_head or 0)
    situation = await with_its_lane(stores.store.insight, situation)
    failure = await failure_of(stores.store.insight, situation.job.lane, situation)
    workers = await _workers(stores, [situation, *heads.values()])
    why = explain_job(situation, head, failure=failure, waits=mine, name=caller_jobs.name, workers=workers)
    return why, mine, caller_jobs


async def _heads(stores: Stores, situations: Iterable[JobSituation]) -> dict[int, JobSituation]:
    """The situations of the heads of the lanes of jobs that are behind others."""
    known = {situation.job.id: situation for situation in situations}
    wanted = {
        situation.lane_head
        for situation in known.values()
        if situation.job.state is JobState.BEHIND and situation.lane_head is not None
    }
    missing = sorted(wanted - known.keys())
    for situation in await stores.situations(missing):
        known[situation.job.id] = situation
    return known


async def _with_row_locks(stores: Stores, situations: Sequence[JobSituation]) -> list[JobSituation]:
    """Add the transactions that keep rows of unfinished jobs locked."""
    ids = {situation.job.id for situation in situations if not situation.job.state.final}
    if not ids:
        return list(situations)
    locks = await stores.store.insight.row_locks(sorted(ids))
    return [situation._replace(row_lock=locks.get(situation.job.id)) for situation in situations]


async def _lock_waits(stores: Stores, situations: Iterable[JobSituation]) -> tuple[_Waits, CallerJobs]:
    """The locks that running handlers wait for, if locks and jobs are in one store."""
    fetched = [situation.job for situation in situations if situation.job.state.at_worker]
    sessions = sorted({job.worker.session for job in fetched if job.worker is not None})
    if stores.locks is not stores.store or not sessions:
        return {}, CallerJobs()
    views: dict[str, LockView] = {}
    for session in sessions[:_MAX_SESSIONS]:
        views.update({view.key: view for view in await stores.locks.locks.awaited_by(session)})
    if not views:
        return {}, CallerJobs()
    holders = [view.holder for view in views.values() if view.holder is not None]
    waiters = [waiter for view in views.values() for waiter in view.waiters]
    caller_jobs = await stores.find_jobs([*holders, *waiters])
    waits: _Waits = {}
    for view in views.values():
        for waiter in view.waiters:
            job = caller_jobs.job(waiter)
            if job is not None and waiter.live:
                waits.setdefault(job.id, []).append(view)
    return waits, caller_jobs


async def _workers(stores: Stores, situations: Iterable[JobSituation]) -> Sequence[WorkerStatus]:
    """The live workers, if one of these jobs is at a worker or could run: an event loop may be blocked."""
    if all(situation.job.state not in _AT_A_WORKER for situation in situations):
        return ()
    return await stores.store.insight.workers(limit=MAX_WORKERS)


async def _lane(stores: Stores, name: str) -> tuple[LaneView | None, Explanation[Reason]]:
    view = await stores.store.insight.lane(name)
    ids = [] if view is None or view.head is None else [view.head]
    heads = await _with_row_locks(stores, await stores.situations(ids))
    waits, caller_jobs = await _lock_waits(stores, heads)
    mine = waits.get(heads[0].job.id, []) if heads else []
    failure = await failure_of(stores.store.insight, name, view)
    workers = await _workers(stores, heads)
    head = heads[0] if heads else None
    why = explain_lane(name, view, head, failure=failure, waits=mine, name=caller_jobs.name, workers=workers)
    return view, why


async def _event(stores: Stores, job: JobView) -> EventView | None:
    """The event that caused a job, if any."""
    if "events" not in stores.parts or '"event"' not in job.arguments:
        return None
    try:
        number = json.loads(job.arguments).get("event")
    except (ValueError, AttributeError):
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 2**63:
        return None
    event = await stores.store.events.get(number)
    return None if event is None or job.id not in event.jobs else event._replace(payload=None)
