"""Enqueues jobs. It only adds rows, apart from a counter for positions, so it can be part of any transaction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlock.backends.composition import any_keys, unknown_need
from interlock.backends.pacing import micros
from interlock.backends.sqlite.job_keys import take_keys
from interlock.backends.sqlite.job_limit_json import encode_limits, fetch_class_for
from interlock.backends.sqlite.job_rows import JobRows, sql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.ports.jobs import NewJob

__all__ = ["enqueue"]


def enqueue(rows: JobRows, jobs: Sequence[NewJob], *, again: bool, strict: bool = True) -> Mapping[int, int]:
    """Enqueue jobs; with ``again`` only those that are not known yet. Returns those left out, and the key holders.

    With ``strict``, raise an error if a key belongs to a job with other arguments, or if a job waits for one that does
    not exist. Otherwise the first job with a key counts, and what does not exist counts as not done.
    """
    now = rows.now
    held: Mapping[int, int] = {}
    if again or rows.one(sql.any_resubmitted):
        ids = json.dumps([job.id for job in jobs])
        known = {id for (id,) in rows.all(sql.known_ids if again else sql.resubmitted, ids=ids)}  # noqa: A001
        if again:
            rows.each(sql.add_resubmitted, [(job.id, now) for job in jobs])
        if any_keys(jobs):
            held = take_keys(rows, [job for job in jobs if job.id not in known], strict=strict)
        jobs = [job for job in jobs if job.id not in known and job.id not in held]
    elif any_keys(jobs):
        held = take_keys(rows, jobs, strict=strict)
        jobs = [job for job in jobs if job.id not in held]
    places = _places(rows, jobs)
    kinds: dict[tuple[str, str], int] = {}
    texts: dict[tuple[Any, ...], tuple[int, str | None]] = {(): (0, None)}
    accepted: list[tuple[Any, ...]] = []
    ready: list[int] = []
    later: list[int] = []
    lanes: dict[str, None] = {}
    blocked: list[NewJob] = []
    expiring: list[tuple[str, int, int]] = []
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
        expires_at = None
        if job.expires is not None or job.expires_at is not None:
            expires_at = now + micros(job.expires) if job.expires is not None else micros(job.expires_at or 0.0)
            expiring.append((rows.namespace, expires_at, job.id))
        if job.after:
            blocked.append(job)
        elif due > now:
            later.append(job.id)
        elif lane is None:
            ready.append(job.id)
        else:
            position = next(places)
            lanes[lane] = None
        how = (job.on_failure.value, job.coalesce, micros(job.keep_result))
        what = (expires_at, job.options, job.arguments, job.hooks or None, job.cause or None)
        accepted.append((job.id, kind, lane, position, job.priority, now, due, *how, *limits, *what))
    rows.each(sql.add_job, accepted)
    rows.make_ready(ready)
    rows.schedule(later)
    rows.advance_lanes(lanes)
    rows.changed_kinds.update(kinds.values())
    if blocked:
        _wait_for_others(rows, blocked, strict=strict)
    if expiring:
        rows.each(sql.add_expiry, expiring)
    return held


def _due(job: NewJob, now: int) -> int:
    due = now + micros(job.delay) if job.at is None else micros(job.at)
    return max(due, now)


def _places(rows: JobRows, jobs: Sequence[NewJob]) -> Any:
    """Return positions for the jobs that get one at once, in the order of the call."""
    count = sum(1 for job in jobs if job.lane and not job.after and _due(job, rows.now) <= rows.now)
    return iter(rows.numbers("position", count) if count else ())


def _wait_for_others(rows: JobRows, jobs: Sequence[NewJob], *, strict: bool) -> None:
    """Let new jobs, which are stored already, wait for others. Those must exist already, so that no cycle can arise."""
    later = {job.id for job in jobs}
    wanted = {needs for job in jobs for needs in job.after}
    existing = {id for (id,) in rows.all(sql.existing_jobs, ids=json.dumps(list(wanted)))}  # noqa: A001
    for job in jobs:
        for needs in job.after:
            if (strict and needs not in existing) or needs in later:
                raise unknown_need(job.id, needs)
        later.discard(job.id)
        rows.each(sql.add_after, [(needs, job.id, job.if_failed.value) for needs in job.after])
    rows.run(sql.add_after_signals, ids=json.dumps(list(wanted)))
