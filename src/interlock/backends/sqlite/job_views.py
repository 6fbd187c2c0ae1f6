"""Views of jobs and lanes, from one snapshot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.pacing import seconds
from interlock.backends.sqlite.job_attempts import read_attempts
from interlock.backends.sqlite.job_limit_json import decode_uses
from interlock.backends.sqlite.job_rows import JobRows, sql
from interlock.ports.job_views import Attempt, JobView, LaneView, QueuePause, RunningSuspects, Suspicion, WorkerView
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "UNHELD",
    "Hold",
    "find",
    "finished",
    "held",
    "lane_view",
    "queue_pauses",
    "seconds_or_none",
    "suspicion",
    "unfinished",
]

_MAX_NAMED = 5
_MAX_WORKERS = 20


def find(rows: JobRows, id: int) -> JobView | None:  # noqa: A002
    """Return one job, unfinished or from the history."""
    return next(iter(_views(rows, [id])), None)


def lane_view(rows: JobRows, lane: str, limit: int) -> LaneView | None:
    """Return one lane, its depth counted up to a bound; None if it is empty and not held."""
    hold = held(rows, lane)
    since = hold.parked_since if hold.held_since is None else hold.held_since
    head = rows.one(sql.first_of_lane, lane=lane)
    job = None if head is None else find(rows, head[0])
    if job is None and since is None:
        return None
    (depth,) = rows.one(sql.lane_depth, lane=lane, limit=limit)
    state = JobState.HELD if job is None else job.state
    begun = since if since is not None else job.due_at if job is not None else 0.0
    return LaneView(
        lane=rows.lane_name(lane),
        state=state,
        head=None if job is None else job.id,
        name="" if job is None else job.name,
        depth=depth,
        since=begun,
        worker=job.worker if job is not None and state.at_worker else None,
        **hold._asdict(),
        seen_at=seconds(rows.now),
    )


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


def queue_pauses(rows: JobRows) -> dict[str, QueuePause]:
    """Return the paused queues."""
    found = rows.all(sql.queue_pauses)
    return {queue: QueuePause(by, reason, seconds(since)) for queue, by, reason, since in found}


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


def _views(rows: JobRows, ids: Sequence[int]) -> Iterable[JobView]:
    wanted = json.dumps(ids)
    for row in rows.all(sql.unfinished_views, ids=wanted):
        yield unfinished(rows, row)
    for row in rows.all(sql.history_views, ids=wanted):
        yield finished(rows, row)


def unfinished(rows: JobRows, row: Sequence[Any]) -> JobView:
    """Return the view of an unfinished job."""
    id, name, queue, lane, priority, state, attempt, crashes, enqueued_at, due_at, fetched_at, *rest = row  # noqa: A001
    *who, fence, error, uses, arguments, options, attempts_text, cause = rest
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
        cause=cause,
    )


def finished(rows: JobRows, row: Sequence[Any]) -> JobView:
    """Return the view of an ended job."""
    id, name, queue, lane, priority, state, attempt, crashes, enqueued_at, due_at, fetched_at, *rest = row  # noqa: A001
    finished_at, ran, *who, fence, error, superseded_by, uses, arguments, options, attempts = rest[:-3]
    result, kept_until, cause = rest[-3:]
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
        cause=cause,
    )


def _worker(who: Sequence[Any], attempts: Sequence[Attempt]) -> WorkerView | None:
    if who[0] is not None:
        return WorkerView(*who)
    return attempts[-1].worker if attempts else None
