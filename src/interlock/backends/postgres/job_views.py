"""Convert rows to the views of the insight port."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlock.backends.pacing import seconds
from interlock.ports.job_views import (
    Attempt,
    JobSituation,
    JobView,
    LaneView,
    RunningSuspects,
    Suspicion,
    WorkerView,
)
from interlock.ports.jobs import JobState, Outcome
from interlock.ports.limits import Use

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["job_view", "lane_view", "situation"]


def job_view(row: Sequence[Any], *, brief: bool = False) -> JobView:
    """Convert a job. ``brief``: without the details that only a single job shows."""
    (
        now, id_, name, queue, lane, priority, state, attempt, crashes, enqueued_at, due_at, fetched_at, started_at,
        finished_at, session, host, pid, program, fence, error, superseded_by, use_key, use_max_count, use_per, uses,
        arguments, options, result, kept_until, attempts, cause,
    ) = row  # fmt: skip
    worker = None if session is None else WorkerView(session, host, pid, program)
    told = [_attempt(*made) for made in json.loads(attempts)] if attempts else []
    if state == JobState.DONE and worker is not None and not brief:
        # A successful attempt is recorded only as the end of the job.
        times = (seconds(started_at), seconds(finished_at))
        told.append(Attempt(attempt, str(Outcome.DONE), *times, worker, fence, "", ""))
    limits = [(use_key, use_max_count, use_per)] if use_key is not None else json.loads(uses or "[]")
    return JobView(
        id_,
        name,
        queue,
        lane,
        priority,
        JobState(state),
        attempt,
        crashes,
        seconds(enqueued_at),
        seconds(due_at),
        _time(fetched_at),
        _time(finished_at),
        worker,
        fence,
        error,
        superseded_by,
        tuple(Use(key, max_count, seconds(per)) for key, max_count, per in limits),
        arguments,
        options,
        result,
        _time(kept_until),
        tuple(told),
        seconds(now),
        cause,
    )


def lane_view(row: Sequence[Any]) -> LaneView:
    """Convert a lane."""
    now, lane, state, head, name, depth, since, session, host, pid, program, *hold = row
    worker = None if session is None else WorkerView(session, host, pid, program)
    return LaneView(lane, JobState(state), head, name, depth, seconds(since), worker, *_hold(hold), seconds(now))


def situation(row: Sequence[Any]) -> JobSituation:
    """Convert what decides when a job runs."""
    *job, ahead, head, head_state = row[:-11]
    hold = row[-11:-6]
    waits_for, holders, room_at, workers, of_queue, suspicion = row[-6:]
    return JobSituation(
        job_view(job, brief=True),
        ahead,
        head,
        None if head_state is None else JobState(head_state),
        *_hold(hold),
        waits_for,
        tuple(holders),
        _time(room_at),
        workers,
        of_queue,
        suspicion=None if suspicion is None else _suspicion(json.loads(suspicion)),
    )


def _suspicion(told: Sequence[Any]) -> Suspicion:
    (half, half_count), (other, other_count), running = told
    return Suspicion(
        tuple(half),
        half_count,
        tuple(other),
        other_count,
        tuple(
            RunningSuspects(WorkerView(*who), of_half, of_group, tuple(jobs), count)
            for *who, of_half, of_group, jobs, count in running
        ),
    )


def _attempt(
    number: int,
    outcome: str,
    started_at: int,
    ended_at: int,
    session: str,
    host: str,
    pid: int,
    program: str,
    fence: int,
    error: str,
    trace: str,
) -> Attempt:
    worker = WorkerView(session, host, pid, program)
    return Attempt(number, outcome, seconds(started_at), seconds(ended_at), worker, fence, error, trace)


def _hold(row: Sequence[Any]) -> tuple[str, str, float | None, float | None, str]:
    """Convert the hold of a lane, and the failure that parked it."""
    held_by, held_reason, held_since, parked_since, parked_reason = row
    return held_by, held_reason, _time(held_since), _time(parked_since), parked_reason


def _time(at: int | None) -> float | None:
    return None if at is None else seconds(at)
