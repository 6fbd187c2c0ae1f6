"""Idempotency keys: which job holds a key, and for how long."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interlock.backends.composition import key_conflict
from interlock.backends.pacing import micros
from interlock.backends.sqlite.job_rows import JobRows, sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.jobs import NewJob

__all__ = ["prune_keys", "take_keys"]

_CHECK_KEYS = 60_000_000
"""How soon pruning looks again at the key of an unfinished job, at the earliest, in microseconds."""


def take_keys(rows: JobRows, jobs: Sequence[NewJob], *, strict: bool) -> dict[int, int]:
    """Give each job its key, unless another holds it. Returns the jobs for which that is so, and the holders."""
    held: dict[int, int] = {}
    new = {job.id: job for job in jobs}
    for job in jobs:
        if not job.key:
            continue
        found = rows.one(sql.key_holder, name=job.name, key=job.key)
        if found is not None and found[0] != job.id and (found[0] in new or _holds(rows, *found)):
            holder = found[0]
            held[job.id] = holder
            if not strict:
                continue
            arguments = new[holder].arguments if holder in new else rows.one(sql.job_arguments, id=holder)[0]
            if arguments != job.arguments and json.loads(arguments) != json.loads(job.arguments):
                raise key_conflict(job.name, job.key, holder)
        elif found is None or found[0] != job.id:
            rows.run(sql.set_key, name=job.name, key=job.key, id=job.id, keep=micros(job.keep_key))
    return held


def _holds(rows: JobRows, holder: int, keep: int) -> bool:
    found = rows.one(sql.finished_at, id=holder)
    return found is not None and (found[0] is None or found[0] + keep > rows.now)


def prune_keys(rows: JobRows, limit: int) -> int:
    """Forget keys whose time is over; returns how many."""
    removed = 0
    for name, key, keep, unfinished, finished_at in rows.all(sql.due_keys, limit=limit):
        check_at = rows.now + max(keep, _CHECK_KEYS) if unfinished else (finished_at or 0) + keep
        if unfinished or (finished_at is not None and check_at > rows.now):
            rows.run(sql.check_key_later, name=name, key=key, check_at=check_at)
        else:
            rows.run(sql.delete_key, name=name, key=key)
            removed += 1
    return removed
