"""Jobs that some version cannot read: set aside for workers of other versions, parked if there are none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interlock.backends.sqlite.job_limits import wake
from interlock.backends.sqlite.job_rows import JobRows, sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.backends.sqlite.job_fetch import Kind
    from interlock.ports.jobs import FetchRequest

__all__ = ["park_unreadable", "offer_unreadable", "still_unreadable", "unreadable_by"]

_MAX_JOBS = 100
"""How many unreadable jobs one fetch reads."""
_MAX_VERSIONS = 10


def unreadable_by(before: str | None, version: str) -> str:
    """Add a version to those that cannot read a job; the last ten are kept."""
    versions = [*(json.loads(before) if before else ()), json.loads(version)]
    return json.dumps(sorted(versions[-_MAX_VERSIONS:]), separators=(",", ":"))


def offer_unreadable(rows: JobRows, request: FetchRequest, kinds: Sequence[Kind]) -> list[int]:
    """Make unreadable jobs ready that this worker can read; park those that no live worker can read.

    The caller fetches and then calls :func:`still_unreadable` in the same transaction.
    """
    if not request.reads or rows.one(sql.any_unreadable) is None:
        return []
    prints = {read.name: json.dumps(read.fingerprint) for read in request.reads}
    ids: list[int] = []
    for kind in kinds:
        mine = prints.get(kind.name)
        if mine is None:
            continue
        for (versions,) in rows.all(sql.unreadable_sets, kind=kind.id):
            found = rows.all(sql.unreadable_jobs, kind=kind.id, unreadable_by=versions, limit=_MAX_JOBS)
            if mine in versions:
                unparked = [(id, why) for id, _, parked, why in found if not parked]  # noqa: A001
                park_unreadable(rows, kind.queue, kind.name, versions, unparked)
                continue
            chosen = found[: max(0, min(_MAX_JOBS, request.limit) - len(ids))]
            rows.run(sql.clear_unreadable, ids=json.dumps([id for id, *_ in chosen]))  # noqa: A001
            rows.make_ready([id for id, lane, *_ in chosen if not lane])  # noqa: A001
            rows.advance_lanes(dict.fromkeys(lane for _, lane, *_ in chosen if lane))
            ids += [id for id, *_ in chosen]  # noqa: A001
    return ids


def still_unreadable(rows: JobRows, ids: Sequence[int]) -> None:
    """Set jobs aside again that the fetch has not taken."""
    if ids:
        left = [id for (id,) in rows.all(sql.set_unreadable, ids=json.dumps(ids))]  # noqa: A001
        wake(rows, rows.detach(left))


def park_unreadable(
    rows: JobRows, queue: str, name: str, versions: str, jobs: Iterable[tuple[int, str | None]]
) -> None:
    """Park unreadable jobs, each with its last error, unless a live worker can read them."""
    jobs = list(jobs)
    if not jobs:
        return
    for queues, reads in rows.all(sql.live_versions):
        read = json.loads(reads).get(name)
        if read is not None and queue in json.loads(queues) and json.dumps(read[0]) not in versions:
            return
    who = ", ".join(f"version {version} ({fingerprint})" for fingerprint, version in json.loads(versions))
    reason = f"No live worker can read its arguments; refused by {who}"
    rows.each(sql.park_unreadable, [(f"{reason}: {why or 'no reason was given'}", id) for id, why in jobs])  # noqa: A001
