"""The situations of many jobs, from one snapshot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlock.backends.composition import MAX_NEEDS, read_needs
from interlock.backends.sqlite.job_limit_json import decode_limits
from interlock.backends.sqlite.job_limits import room_at
from interlock.backends.sqlite.job_rows import JobRows
from interlock.backends.sqlite.job_rows import sql as jobs_sql
from interlock.backends.sqlite.job_views import (
    UNHELD,
    Hold,
    finished,
    queue_pauses,
    seconds_or_none,
    suspicion,
    unfinished,
)
from interlock.backends.sqlite.queries.insight import InsightQueries
from interlock.ports.job_views import JobSituation
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.ports.job_views import JobView

__all__ = ["situations", "sql"]

sql = InsightQueries()
_MAX_AHEAD = 1000
_MAX_AHEAD_OF_MANY = 100
_FEW = 5
_MAX_HOLDERS = 20


def situations(rows: JobRows, ids: Sequence[int]) -> list[JobSituation]:
    """Return the situations of jobs in the given order, without unknown ones."""
    wanted = json.dumps(list(ids))
    views = {view.id: view for view in _views(rows, wanted)}
    keys_of = {found[0]: found[1:] for found in rows.all(sql.job_keys, ids=wanted)}
    heads = {keys[9] for keys in keys_of.values() if keys[9] is not None}
    states = {id: JobState(state) for id, state in rows.all(sql.states, ids=json.dumps(list(heads)))}  # noqa: A001
    live = {
        session: (set(json.loads(queues)), set(json.loads(names)))
        for session, queues, names, *_ in rows.all(jobs_sql.live_workers)
    }
    pauses = queue_pauses(rows)
    suspicions = {half: suspicion(rows, half) for half in {keys[12] for keys in keys_of.values()}}
    found: list[JobSituation] = []
    max_count = _MAX_AHEAD if len(ids) <= _FEW else _MAX_AHEAD_OF_MANY
    for id in ids:  # noqa: A001
        if (view := views.get(id)) is not None:
            of_queue = [names for queues, names in live.values() if view.queue in queues]
            known = sum(view.name in names for names in of_queue)
            if view.state.at_worker and view.worker is not None and view.worker.session in live:
                known = max(1, known)
            situation = JobSituation(view, 0, None, None, *UNHELD, "", (), None, known, len(of_queue))
            if (keys := keys_of.get(id)) is not None and not view.state.final:
                situation = situation._replace(pause=pauses.get(view.queue))
                situation = _with_blocks(
                    rows, situation._replace(suspicion=suspicions[keys[12]]), keys, states, max_count
                )
            found.append(situation)
    return _with_needs(rows, found)


def _with_needs(rows: JobRows, found: list[JobSituation]) -> list[JobSituation]:
    """Add what blocked jobs wait for."""
    blocked = [one.job.id for one in found if one.job.state in (JobState.BLOCKED, JobState.PARKED)]
    if not blocked:
        return found
    needs = read_needs(
        (job, id, name, state, seconds_or_none(since), count)
        for job, id, name, state, since, count, n in rows.all(sql.needs, ids=json.dumps(blocked))  # noqa: A001
        if n <= MAX_NEEDS
    )
    return [one._replace(**needs.get(one.job.id, {})) for one in found]


def _views(rows: JobRows, wanted: str) -> Iterable[JobView]:
    for row in rows.all(sql.unfinished_views, ids=wanted):
        yield unfinished(rows, row)
    for row in rows.all(sql.history_views, ids=wanted):
        yield finished(rows, row)


def _with_blocks(
    rows: JobRows, situation: JobSituation, keys: Sequence[Any], states: dict[int, JobState], limit: int
) -> JobSituation:
    """Add what is ahead of an unfinished job and what blocks it."""
    lane, position, sort, uses, *hold, head, key, ticket, _ = keys
    job = situation.job
    situation = situation._replace(**Hold.of(hold)._asdict())
    if head is not None and head != job.id:
        situation = situation._replace(lane_head=head, lane_head_state=states.get(head))
    if job.state is JobState.READY and situation.workers:
        (ahead,) = rows.one(jobs_sql.ready_jobs_ahead, queue=job.queue, sort=sort, id=job.id, limit=limit)
        return situation._replace(ahead=ahead, more_ahead=ahead >= limit)
    if job.state is JobState.BEHIND and position is not None:
        (ahead,) = rows.one(jobs_sql.lane_jobs_ahead, lane=lane, position=position, limit=limit)
        return situation._replace(ahead=ahead, more_ahead=ahead >= limit)
    if job.state is JobState.WAITING and key is not None:
        (ahead,) = rows.one(sql.limit_waiters_ahead, key=key, ticket=ticket, limit=limit)
        holders = tuple(holder for (holder,) in rows.all(jobs_sql.limit_holders, key=key, limit=_MAX_HOLDERS))
        opens = seconds_or_none(room_at(rows, key, decode_limits(uses)))
        return situation._replace(ahead=ahead, more_ahead=ahead >= limit, waits_for=key, holders=holders, room_at=opens)
    return situation
