"""Count jobs by state, and accepted and ended jobs by time, up to a bound."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from interlock.backends.pacing import seconds
from interlock.backends.postgres.job_browse import ENDED, sql
from interlock.backends.queue_views import queue_views
from interlock.ports.insight import MAX_COUNTED, Change, Changes, JobCounts
from interlock.ports.job_views import QueuePause
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.postgres.job_browse import Fetch

__all__ = ["activity", "counts", "queue_pauses"]

_FIRST_SCAN = 500
_SCAN = 10_000
_MAX_WALKED = 100_000
_STATES = {str(state): state for state in JobState if not state.final}


async def counts(fetch: Fetch, namespace: str, given: float | None, limits: tuple[int, int]) -> JobCounts:
    """Count jobs. ``limits``: how many limits are in use, and how many are full."""
    ((now, others),) = await fetch(sql.now, namespace, given)
    found: dict[JobState, Counter[str]] = {state: Counter() for state in JobState}
    oldest: dict[JobState, dict[str, float]] = {JobState.READY: {}, JobState.SCHEDULED: {}}
    names: dict[str, set[str]] = {}
    workers: Counter[str] = Counter()
    runners: Counter[str] = Counter()
    other: Counter[str] = Counter()
    for what, pool, count, value, ready in await fetch(sql.counts, namespace, MAX_COUNTED, given):
        queue = pool[len(namespace) + 1 :]
        state = _STATES.get(what)
        if state is not None:
            found[state][queue] = min(MAX_COUNTED, found[state][queue] + count)
        elif what == "workers":
            workers[queue], runners[queue] = count, value
        else:
            other[what] = count
        if state is JobState.READY:
            names.setdefault(queue, set()).update(ready or ())
        if state in oldest and value is not None:
            oldest[state][queue] = min(seconds(value), oldest[state].get(queue, math.inf))
    states = {state: min(MAX_COUNTED, sum(counter.values())) for state, counter in found.items()}
    if others:
        ended = dict(await fetch(sql.count_ended, namespace, MAX_COUNTED))
    else:
        ended = dict(await fetch(sql.count_ended_here, MAX_COUNTED))
    states.update({state: ended.get(number, 0) for state, number in ENDED.items()})
    queues = {queue for counter in found.values() for queue in counter}
    return JobCounts(
        states=states,
        queues=queue_views(queues, found, oldest, workers, runners, await queue_pauses(fetch, namespace)),
        names={queue: frozenset(ready) for queue, ready in names.items()},
        lanes_running=other["lanes_running"],
        lanes_fetched=other["lanes_fetched"],
        lanes_held=other["lanes_held"],
        lanes_parked=other["lanes_parked"],
        limits_used=limits[0],
        limits_full=limits[1],
        limits_waiting=states[JobState.WAITING],
        orphans=other["orphans"],
        seen_at=seconds(now),
    )


async def queue_pauses(fetch: Fetch, namespace: str) -> dict[str, QueuePause]:
    """Return the paused queues."""
    found = await fetch(sql.queue_pauses, namespace)
    return {queue: QueuePause(by, reason, seconds(since)) for queue, by, reason, since in found}


async def activity(fetch: Fetch, namespace: str, given: float | None, wanted: tuple[int, int, int]) -> Changes:
    """Count recently accepted and ended jobs by time span: its width, how many, and the first one."""
    width, spans, since = wanted
    ((now, _),) = await fetch(sql.now, namespace, given)
    first = max(now // width - spans + 1, since)
    accepted: Counter[int] = Counter()
    done: Counter[int] = Counter()
    failed: Counter[int] = Counter()
    rows: Sequence[Any] = await fetch(sql.activity_ended, namespace, width, first * width)
    for ended, began, well, badly, count in rows:
        done[ended] += well
        failed[ended] += badly
        accepted[began] += count
    before, walked, scan = 2**63 - 1, 0, _FIRST_SCAN
    while walked < _MAX_WALKED:
        rows = await fetch(sql.activity_accepted, namespace, width, before, scan)
        for span, _, _, of_these in rows:
            accepted[span] += of_these
        count = sum(row[1] for row in rows)
        # IDs are drawn ahead, so that their order is only roughly that of time.
        if count < scan or max(row[0] for row in rows) < first:
            break
        walked += count
        before, scan = min(row[2] for row in rows), _SCAN
    known = sorted(span for span in accepted | done | failed if span >= first)
    return Changes([Change(span, accepted[span], done[span], failed[span]) for span in known], seconds(now))
