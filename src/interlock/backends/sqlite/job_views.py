"""Views of jobs, from one snapshot: one in full, many in short, and why one waits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.pacing import seconds
from interlock.backends.sqlite.job_attempts import read_attempts
from interlock.backends.sqlite.job_limit_json import decode_limits, decode_uses
from interlock.backends.sqlite.job_limits import room_at
from interlock.backends.sqlite.job_rows import JobRows, sql
from interlock.ports.job_views import Attempt, JobFilter, JobSituation, JobView, RunningSuspects, Suspicion, WorkerView
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "MAX_COUNTED",
    "MAX_HOLDERS",
    "find",
    "finished",
    "held",
    "look",
    "seconds_or_none",
    "situation",
    "suspicion",
    "unfinished",
]

MAX_COUNTED = 10_000
MAX_HOLDERS = 20
_MAX_NAMED = 5
_MAX_WORKERS = 20
_LISTS = {
    JobState.READY: sql.list_ready,
    JobState.BEHIND: sql.list_behind,
    JobState.SCHEDULED: sql.list_scheduled,
    JobState.WAITING: sql.list_waiting,
    JobState.HELD: sql.list_held,
    JobState.PARKED: sql.list_parked,
    JobState.RUNNING: sql.list_running,
}


def find(rows: JobRows, id: int) -> JobView | None:  # noqa: A002
    """Return one job, unfinished or from the history."""
    return next(iter(_views(rows, [id])), None)


def look(rows: JobRows, wanted: JobFilter, limit: int) -> list[JobView]:
    """List jobs in short, newest first."""
    kinds = [
        kind
        for kind, queue, name in rows.all(sql.namespace_kinds)
        if wanted.queue in ("", queue) and wanted.name in ("", name)
    ]
    ids = sorted(_ids(rows, wanted, json.dumps(kinds), limit), reverse=True)[:limit]
    views = sorted(_views(rows, ids), key=lambda view: (view.enqueued_at, view.id), reverse=True)
    return [view._replace(arguments="", result=None, attempts=()) for view in views]


def situation(rows: JobRows, id: int) -> JobSituation | None:  # noqa: A002
    """Return what decides when a job runs."""
    job = find(rows, id)
    if job is None:
        return None
    workers, workers_of_queue = _workers(rows, job)
    situation = JobSituation(job, 0, None, None, *UNHELD, "", (), None, workers, workers_of_queue)
    found = rows.one(sql.job_keys, id=id)
    if found is None:
        return situation
    lane, position, sort, uses, half = found
    situation = situation._replace(**held(rows, lane)._asdict(), suspicion=suspicion(rows, half))
    if lane is not None:
        situation = _behind(rows, situation, lane)
    if job.state is JobState.READY:
        (ahead,) = rows.one(sql.ready_jobs_ahead, queue=job.queue, sort=sort, id=id, limit=MAX_COUNTED)
        return situation._replace(ahead=ahead)
    if job.state is JobState.BEHIND and position is not None:
        (ahead,) = rows.one(sql.lane_jobs_ahead, lane=lane, position=position, limit=MAX_COUNTED)
        return situation._replace(ahead=ahead)
    return _in_limit_queue(rows, situation, uses) if job.state is JobState.WAITING else situation


def _behind(rows: JobRows, situation: JobSituation, lane: str) -> JobSituation:
    (head,) = rows.one(sql.first_of_lane, lane=lane) or (None,)
    view = None if head is None or head == situation.job.id else find(rows, head)
    return situation if view is None else situation._replace(lane_head=view.id, lane_head_state=view.state)


def _in_limit_queue(rows: JobRows, situation: JobSituation, uses: str) -> JobSituation:
    key, ticket = rows.one(sql.limit_wait, id=situation.job.id)
    (ahead,) = rows.one(sql.limit_waiters_ahead, key=key, ticket=ticket, limit=MAX_COUNTED)
    holders = tuple(holder for (holder,) in rows.all(sql.limit_holders, key=key, limit=MAX_HOLDERS))
    opens = seconds_or_none(room_at(rows, key, decode_limits(uses)))
    return situation._replace(ahead=ahead, waits_for=key, holders=holders, room_at=opens)


class Hold(NamedTuple):
    """The blocks on a lane: a person's hold, and the failure that parked it."""

    held_by: str
    held_reason: str
    held_since: float | None
    parked_since: float | None
    parked_reason: str

    @classmethod
    def of(cls, row: Sequence[Any]) -> Hold:
        """Return the hold in a row."""
        by, reason, since, parked_reason, parked_since = row
        return cls(by or "", reason or "", seconds_or_none(since), seconds_or_none(parked_since), parked_reason or "")


UNHELD = Hold("", "", None, None, "")


def held(rows: JobRows, lane: str | None) -> Hold:
    """Return the blocks on a lane."""
    found = None if lane is None else rows.one(sql.lane_hold, lane=lane)
    return UNHELD if found is None else Hold.of(found)


def suspicion(rows: JobRows, half: int | None) -> Suspicion | None:
    """Return the group of suspects that has this half, and the suspects that run."""
    if half is None:
        return None
    mine, other = (rows.all(sql.suspects, half=one, limit=_MAX_NAMED) for one in (half, half ^ 1))
    running = [
        RunningSuspects(
            WorkerView(*who), of == half, of // 2 == half // 2, tuple(sorted(json.loads(ids))[:_MAX_NAMED]), count
        )
        for *who, of, ids, count in rows.all(sql.running_suspects, half=half, limit=_MAX_WORKERS)
    ]
    return Suspicion(*_named(mine), *_named(other), tuple(running))


def _named(found: Sequence[Any]) -> tuple[tuple[int, ...], int]:
    """Return some jobs, and the total number."""
    return tuple(id for id, _ in found), found[0][1] if found else 0  # noqa: A001


def seconds_or_none(at: int | None) -> float | None:
    """Convert a time that may be unknown."""
    return None if at is None else seconds(at)


def _ids(rows: JobRows, wanted: JobFilter, kinds: str, limit: int) -> set[int]:
    """Return the IDs of the newest jobs that match a filter, and perhaps some more."""
    states = wanted.states or tuple(JobState)
    values: dict[str, Any] = {"kinds": kinds, "limit": limit, "states": json.dumps(wanted.states)}
    lists: list[tuple[str, dict[str, Any]]]
    if wanted.lane:
        lane = {"lane": rows.lane(wanted.lane)}
        lists = [(sql.list_lane, lane), (sql.list_ended_lane, lane)]
    elif not wanted.states:
        lists = [(sql.list_any, {}), (sql.list_ended, {})]
    else:
        lists = [(_LISTS[state], {}) for state in states if not state.final]
        lists += [(sql.list_not_done, {"state": state}) for state in states if state.final and state != JobState.DONE]
        lists += [(sql.list_done, {})] if JobState.DONE in states else []
    return {id for statement, more in lists for (id,) in rows.all(statement, **values, **more)}  # noqa: A001


def _views(rows: JobRows, ids: Sequence[int]) -> Iterable[JobView]:
    wanted = json.dumps(ids)
    for row in rows.all(sql.unfinished_views, ids=wanted):
        yield unfinished(rows, row)
    for row in rows.all(sql.history_views, ids=wanted):
        yield finished(rows, row)


def unfinished(rows: JobRows, row: Sequence[Any]) -> JobView:
    """Return the view of an unfinished job."""
    id, name, queue, lane, priority, state, attempt, crashes, enqueued_at, due_at, fetched_at, *rest = row  # noqa: A001
    *who, fence, error, uses, arguments, options, attempts_text = rest
    attempts = read_attempts(attempts_text)
    return JobView(
        id=id,
        name=name,
        queue=queue,
        lane=rows.lane_name(lane),
        priority=priority,
        state=JobState(state),
        attempt=attempt,
        crashes=crashes,
        enqueued_at=seconds(enqueued_at),
        due_at=seconds(due_at),
        fetched_at=seconds_or_none(fetched_at),
        finished_at=None,
        worker=_worker(who, attempts),
        fence=fence,
        error=error,
        superseded_by=None,
        uses=decode_uses(uses),
        arguments=arguments,
        options=options,
        result=None,
        result_kept_until=None,
        attempts=attempts,
        seen_at=seconds(rows.now),
    )


def finished(rows: JobRows, row: Sequence[Any]) -> JobView:
    """Return the view of an ended job."""
    id, name, queue, lane, priority, state, attempt, crashes, enqueued_at, due_at, fetched_at, *rest = row  # noqa: A001
    finished_at, ran, *who, fence, error, superseded_by, uses, arguments, options, attempts, result, kept_until = rest
    done = state == JobState.DONE
    more: list[Attempt] = []
    if done:
        worker = WorkerView(*who) if who[0] is not None else WorkerView("", "", 0, "")
        times = (seconds(finished_at - ran), seconds(finished_at))
        more = [Attempt(attempt, state, *times, worker, fence, "", "")]
    all_attempts = read_attempts(attempts, *more)
    return JobView(
        id=id,
        name=name,
        queue=queue,
        lane=rows.lane_name(lane),
        priority=priority,
        state=JobState(state),
        attempt=attempt,
        crashes=crashes,
        enqueued_at=seconds(enqueued_at),
        due_at=seconds(due_at),
        fetched_at=seconds_or_none(fetched_at),
        finished_at=seconds(finished_at),
        worker=_worker(who, all_attempts),
        fence=fence,
        error=error or "",
        superseded_by=superseded_by,
        uses=decode_uses(uses),
        arguments=arguments,
        options=options,
        result=result,
        result_kept_until=seconds_or_none(kept_until),
        attempts=all_attempts,
        seen_at=seconds(rows.now),
    )


def _worker(who: Sequence[Any], attempts: Sequence[Attempt]) -> WorkerView | None:
    if who[0] is not None:
        return WorkerView(*who)
    return attempts[-1].worker if attempts else None


def _workers(rows: JobRows, job: JobView) -> tuple[int, int]:
    """Count the live workers that could run a job, and those that serve its queue."""
    of_queue = [names for queues, names, _ in rows.all(sql.live_workers) if job.queue in json.loads(queues)]
    return sum(1 for names in of_queue if job.name in json.loads(names)), len(of_queue)
