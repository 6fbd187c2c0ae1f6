"""Views of lanes and queues, from one snapshot."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from interlock.backends.pacing import seconds
from interlock.backends.sqlite.job_rows import JobRows, sql
from interlock.backends.sqlite.job_views import MAX_COUNTED, find, held, seconds_or_none
from interlock.ports.job_views import LaneView, QueueView
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["lane_view", "lanes", "queues", "workers_by_queue"]


def lanes(rows: JobRows, lane: str | None, limit: int) -> list[LaneView]:
    """List lanes that have jobs or are held."""
    if lane is not None:
        found = [rows.lane(lane)]
    else:
        # Only names that start with "namespace/" sort between "namespace/" and "namespace0".
        bounds = {"first": f"{rows.namespace}/", "beyond": f"{rows.namespace}0"}
        found = [name for (name,) in rows.all(sql.lanes, limit=limit, **bounds)]
    return [view for name in found if name is not None and (view := lane_view(rows, name, MAX_COUNTED)) is not None]


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
        worker=job.worker if job is not None and state is JobState.RUNNING else None,
        **hold._asdict(),
        seen_at=seconds(rows.now),
    )


def queues(rows: JobRows) -> list[QueueView]:
    """List queues with their counts. Jobs behind others in lanes are what is left after all other states."""
    kinds = {kind: queue for kind, queue, _ in rows.all(sql.namespace_kinds)}
    behind = Counter(dict(rows.all(sql.count_in_lanes)))
    counts: dict[str, Counter[int]] = {}
    oldest: dict[str, dict[str, int]] = {"ready": {}, "scheduled": {}}
    for what, statement in (
        ("ready", sql.count_ready),
        ("scheduled", sql.count_scheduled),
        ("waiting", sql.count_waiting),
        ("running", sql.count_running),
        ("parked", sql.count_parked),
    ):
        counts[what] = Counter()
        for kind, count, placed, *due in rows.all(statement):
            counts[what][kind] = count
            behind[kind] -= placed
            if due and kind in kinds:
                oldest[what][kinds[kind]] = min(due[0], oldest[what].get(kinds[kind], due[0]))
    counts["held"] = Counter(dict(rows.all(sql.count_held)))
    for kind, count in counts["held"].items():
        behind[kind] -= count
    counts["behind"] = behind
    at_work, runners = workers_by_queue(rows)
    names = sorted({*kinds.values(), *at_work})
    in_queue = {what: _by_queue(kinds, counter) for what, counter in counts.items()}
    return [
        QueueView(
            queue=queue,
            ready=in_queue["ready"][queue],
            behind=in_queue["behind"][queue],
            scheduled=in_queue["scheduled"][queue],
            waiting=in_queue["waiting"][queue],
            running=in_queue["running"][queue],
            held=in_queue["held"][queue],
            parked=in_queue["parked"][queue],
            oldest_ready_at=seconds_or_none(oldest["ready"].get(queue)),
            next_due_at=seconds_or_none(oldest["scheduled"].get(queue)),
            workers=at_work[queue],
            runners=runners[queue],
        )
        for queue in names
    ]


def _by_queue(kinds: dict[int, str], counter: Counter[int]) -> Counter[str]:
    total: Counter[str] = Counter()
    for kind, count in counter.items():
        if kind in kinds:
            total[kinds[kind]] += count
    return total


def workers_by_queue(rows: JobRows) -> tuple[Counter[str], Counter[str]]:
    """Count the live workers and runners of each queue."""
    workers: Counter[str] = Counter()
    runners: Counter[str] = Counter()
    for queues_text, _, count in rows.all(sql.live_workers):
        theirs: Iterable[str] = json.loads(queues_text)
        for queue in theirs:
            workers[queue] += 1
            runners[queue] += count
    return workers, runners
