"""Counts of jobs by state, up to a bound, from one snapshot."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from interlock.backends.pacing import seconds
from interlock.backends.queue_views import queue_views
from interlock.backends.sqlite.job_rows import FetchClass, JobRows
from interlock.backends.sqlite.job_rows import sql as jobs_sql
from interlock.backends.sqlite.job_situation import sql
from interlock.backends.sqlite.job_views import queue_pauses
from interlock.ports.insight import MAX_COUNTED, Change, Changes, JobCounts
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from interlock.ports.job_views import QueueView

__all__ = ["activity", "counts"]

_ENDED = tuple(state for state in JobState if state.final and state is not JobState.DONE)
_MAX_HELD = 1000
_FIRST_SCAN = 500
_SCAN = 10_000
_MAX_WALKED = 100_000


def counts(rows: JobRows, limits: tuple[int, int]) -> JobCounts:
    """Count jobs. ``limits`` is how many limits are in use and how many of them are full."""
    kinds: dict[int, tuple[str, str]] = {
        kind: (queue, name) for kind, queue, name in rows.all(jobs_sql.namespace_kinds)
    }
    bounds = {"first": f"{rows.namespace}/", "beyond": f"{rows.namespace}0", "limit": MAX_COUNTED}
    by_kind: dict[JobState, Counter[int]] = {state: Counter() for state in JobState}
    oldest: dict[JobState, dict[str, int]] = {JobState.READY: {}, JobState.SCHEDULED: {}}
    left: dict[tuple[JobState, str], int] = {}
    for kind, (queue, _) in kinds.items():
        # A queue is counted up to the bound, however many kinds it has. At least one job of each kind is read.
        room = max(1, left.setdefault((JobState.READY, queue), MAX_COUNTED))
        (count,) = rows.one(sql.count_ready, kind=kind, limit=room)
        by_kind[JobState.READY][kind] = count
        left[JobState.READY, queue] -= count
        if count:
            first = [rows.one(sql.oldest_ready, kind=kind, fetch_class=one)[0] for one in range(FetchClass.SUSPECT + 1)]
            for due in first:
                if due is not None:
                    oldest[JobState.READY][queue] = min(due, oldest[JobState.READY].get(queue, due))
        (due,) = rows.one(sql.next_due, kind=kind)
        if due is not None:
            oldest[JobState.SCHEDULED][queue] = min(due, oldest[JobState.SCHEDULED].get(queue, due))
        for state, statement, of in (
            (JobState.SCHEDULED, sql.count_scheduled, queue),
            (JobState.DONE, sql.count_done, ""),
        ):
            room = left.setdefault((state, of), MAX_COUNTED)
            if room > 0:
                (by_kind[state][kind],) = rows.one(statement, kind=kind, limit=room)
                left[state, of] -= by_kind[state][kind]
    by_kind[JobState.WAITING].update(dict(rows.all(sql.count_waiting, limit=MAX_COUNTED)))
    by_kind[JobState.BLOCKED].update(dict(rows.all(sql.count_blocked, limit=MAX_COUNTED)))
    behind = by_kind[JobState.BEHIND]
    before = None
    for kind, lane in rows.lazily(sql.jobs_in_lanes, **bounds):
        if lane == before:  # it is not the first of its lane
            behind[kind] += 1
        before = lane
    orphans = 0
    for kind, count, started, lost, follows in rows.all(sql.count_fetched, limit=MAX_COUNTED):
        if kind in kinds:
            by_kind[JobState.FETCHED][kind] = count - started
            by_kind[JobState.RUNNING][kind] = started
            behind[kind] = max(0, behind[kind] - follows)
            orphans += lost
    for kind, count, follows in rows.all(sql.count_parked, limit=MAX_COUNTED):
        by_kind[JobState.PARKED][kind] = count
        behind[kind] = max(0, behind[kind] - follows)
    by_kind[JobState.HELD].update(dict(rows.all(sql.count_held, **bounds, scan=_MAX_HELD)))
    in_queue = {state: _by_queue(kinds, counter) for state, counter in by_kind.items()}
    states = {state: min(MAX_COUNTED, sum(counter.values())) for state, counter in in_queue.items()}
    (known,) = rows.one("select count(*) from interlock_job_kind")
    chosen = json.dumps(list(kinds))
    for state in _ENDED:
        values = {"state": state, "all": known == len(kinds), "kinds": chosen, "limit": MAX_COUNTED}
        (states[state],) = rows.one(sql.count_ended, **values)
    held, parked = rows.one(sql.count_holds, **bounds)
    running_lanes, fetched_lanes = rows.one(sql.count_fetched_lanes, **bounds)
    names: dict[str, set[str]] = {}
    for kind, count in by_kind[JobState.READY].items():
        if count:
            names.setdefault(kinds[kind][0], set()).add(kinds[kind][1])
    return JobCounts(
        states=states,
        queues=_queues(rows, in_queue, {queue for queue, _ in kinds.values()}, oldest),
        names={queue: frozenset(ready) for queue, ready in names.items()},
        lanes_running=running_lanes,
        lanes_fetched=fetched_lanes,
        lanes_held=held,
        lanes_parked=parked,
        limits_used=limits[0],
        limits_full=limits[1],
        limits_waiting=states[JobState.WAITING],
        orphans=orphans,
        seen_at=seconds(rows.now),
    )


def _by_queue(kinds: Mapping[int, tuple[str, str]], counter: Counter[int]) -> Counter[str]:
    total: Counter[str] = Counter()
    for kind, count in counter.items():
        if kind in kinds:
            queue = kinds[kind][0]
            total[queue] = min(MAX_COUNTED, total[queue] + count)
    return total


def _queues(
    rows: JobRows,
    found: Mapping[JobState, Counter[str]],
    queues: Iterable[str],
    oldest: Mapping[JobState, Mapping[str, int]],
) -> list[QueueView]:
    times = {state: {queue: seconds(at) for queue, at in first.items()} for state, first in oldest.items()}
    return queue_views(queues, found, times, *_workers_by_queue(rows), queue_pauses(rows))


def _workers_by_queue(rows: JobRows) -> tuple[Counter[str], Counter[str]]:
    """Count the live workers and runners of each queue."""
    workers: Counter[str] = Counter()
    runners: Counter[str] = Counter()
    for _, queues_text, _, count, by_queue in rows.all(jobs_sql.live_workers):
        theirs: Iterable[str] = json.loads(queues_text)
        own: Mapping[str, int] = json.loads(by_queue or "{}")
        for queue in theirs:
            workers[queue] += 1
            runners[queue] += own.get(queue, count)
    return workers, runners


def activity(rows: JobRows, width: int, spans: int, since: int) -> Changes:
    """Count the jobs that were enqueued and that ended recently, by time span."""
    kinds = [kind for kind, _, _ in rows.all(jobs_sql.namespace_kinds)]
    first = max(rows.now // width - spans + 1, since)
    accepted: Counter[int] = Counter()
    done: Counter[int] = Counter()
    failed: Counter[int] = Counter()
    for kind in kinds:
        for ended, began, well, badly, count in rows.all(sql.ended_counts, kind=kind, since=first * width, width=width):
            done[ended] += well
            failed[ended] += badly
            accepted[began] += count
    before, walked, chosen, scan = 2**63 - 1, 0, json.dumps(kinds), _FIRST_SCAN
    while walked < _MAX_WALKED:
        found = rows.all(sql.enqueued_counts, before=before, scan=scan, kinds=chosen, width=width)
        for span, _, _, of_these in found:
            accepted[span] += of_these
        count = sum(row[1] for row in found)
        # IDs are reserved in advance, so their order is only about that of time.
        if count < scan or max(row[0] for row in found) < first:
            break
        walked += count
        before = min(row[2] for row in found)
        scan = _SCAN
    known = sorted(span for span in accepted | done | failed if span >= first)
    changes = [Change(span, accepted[span], done[span], failed[span]) for span in known]
    return Changes(changes, seconds(rows.now))
