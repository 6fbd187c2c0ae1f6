"""Enqueues jobs. It only adds rows, apart from a counter for positions, so it can be part of any transaction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlock.backends.pacing import micros
from interlock.backends.sqlite.job_limit_json import encode_limits, fetch_class_for
from interlock.backends.sqlite.job_rows import JobRows, sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.jobs import NewJob

__all__ = ["enqueue"]


def enqueue(rows: JobRows, jobs: Sequence[NewJob], *, again: bool) -> None:
    """Enqueue jobs; with ``again`` only those that are not known yet."""
    now = rows.now
    if again or rows.one(sql.any_resubmitted):
        ids = json.dumps([job.id for job in jobs])
        known = {id for (id,) in rows.all(sql.known_ids if again else sql.resubmitted, ids=ids)}  # noqa: A001
        if again:
            rows.each(sql.add_resubmitted, [(job.id, now) for job in jobs])
        jobs = [job for job in jobs if job.id not in known]
    places = _places(rows, jobs)
    kinds: dict[tuple[str, str], int] = {}
    texts: dict[tuple[Any, ...], tuple[int, str | None]] = {(): (0, None)}
    accepted: list[tuple[Any, ...]] = []
    ready: list[int] = []
    later: list[int] = []
    lanes: dict[str, None] = {}
    for job in jobs:
        kind = kinds.get((job.queue, job.name))
        if kind is None:
            kind = kinds[job.queue, job.name] = rows.kind(job.queue, job.name)
        limits = texts.get(job.uses)
        if limits is None:
            limits = texts[job.uses] = (fetch_class_for(job.uses), encode_limits(job.uses))
        due = _due(job, now)
        lane = rows.lane(job.lane)
        position = None
        if due > now:
            later.append(job.id)
        elif lane is None:
            ready.append(job.id)
        else:
            position = next(places)
            lanes[lane] = None
        how = (job.on_failure.value, job.coalesce, micros(job.keep_result))
        what = (job.options, job.arguments, job.hooks or None, job.cause or None)
        accepted.append((job.id, kind, lane, position, job.priority, now, due, *how, *limits, *what))
    rows.each(sql.add_job, accepted)
    rows.make_ready(ready)
    rows.schedule(later)
    rows.advance_lanes(lanes)
    rows.changed_kinds.update(kinds.values())


def _due(job: NewJob, now: int) -> int:
    due = now + micros(job.delay) if job.at is None else micros(job.at)
    return max(due, now)


def _places(rows: JobRows, jobs: Sequence[NewJob]) -> Any:
    """Return positions for the jobs that get one at once, in the order of the call."""
    count = sum(1 for job in jobs if job.lane and _due(job, rows.now) <= rows.now)
    return iter(rows.numbers("position", count) if count else ())
