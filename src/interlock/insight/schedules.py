"""Schedules as rows and pages, each with why it fires or does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.clock import as_text
from interlock.errors import InvalidArgumentError, NotFoundError
from interlock.explanation import Explanation, Subject, brief, command, span
from interlock.insight.views import Listing, Problem
from interlock.ports.schedules import ScheduleOrigin, ScheduleState
from interlock.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.insight.stores import Stores
    from interlock.insight.views import Seen
    from interlock.ports.insight import WorkerStatus
    from interlock.ports.job_views import JobView
    from interlock.ports.schedules import StoredFiring, StoredSchedule
    from interlock.schedules.timing import Timing
    from interlock.schedules.views import Occurrence

__all__ = [
    "FiringRow",
    "NextTime",
    "SchedulePage",
    "ScheduleRow",
    "explain_a_schedule",
    "schedule_listing",
    "schedule_page",
    "schedule_problems",
]

_LATE = 30.0
_FIRINGS = 20
_NEXT = 5
_MAX_WORKERS = 1000
_MAX_PROBLEMS = 200
_MAX_TOLD = 5


class ScheduleRow(NamedTuple):
    """One schedule."""

    name: str
    job: str
    cron: str
    """Empty for an interval."""
    every: float
    """Seconds; 0 for a cron expression."""
    timezone: str
    words: str
    """The timing in plain words."""
    state: str
    """active, paused, off or orphaned."""
    origin: str
    version: int
    next_at: float | None
    last_at: float | None
    last_job: int | None
    fired: int
    skipped: int
    missed: int
    reason: str
    why: str


class NextTime(NamedTuple):
    """A time at which a schedule fires."""

    at: float
    words: str


class FiringRow(NamedTuple):
    """One time of a schedule, and its outcome."""

    at: float
    fired_at: float
    kind: str
    outcome: str
    job: int | None
    state: str
    """The state of its job; empty if there is none, or it is no longer kept."""
    times: int


class SchedulePage(NamedTuple):
    """One schedule in detail."""

    schedule: ScheduleRow
    arguments: str
    misfire: str
    grace: float
    overlap: str
    jitter: float
    created_at: float
    updated_at: float
    updated_by: str
    state_at: float
    state_by: str
    state_reason: str
    next: tuple[NextTime, ...]
    firings: tuple[FiringRow, ...]
    explanation: Explanation[Reason]
    seen: tuple[Seen, ...]


async def schedule_listing(stores: Stores, limit: int, after: str) -> Listing[ScheduleRow]:
    """Schedules by name."""
    now, rows = await stores.store.schedules.list(limit=limit + 1, after=after)
    shown = rows[:limit]
    known = await _known_jobs(stores)
    unfinished = await _unfinished(stores, shown)
    found = tuple(_row(one, now, known, one.last_job in unfinished) for one in shown)
    return Listing(found, shown[-1].name if len(rows) > limit else None, now)


async def schedule_page(stores: Stores, name: str) -> SchedulePage:
    """One schedule in detail. Raises ``NotFoundError`` if it does not exist."""
    now, stored = await _stored(stores, name)
    row = await _row_of(stores, now, stored)
    definition = stored.definition
    return SchedulePage(
        row,
        definition.arguments,
        definition.misfire,
        definition.grace,
        definition.overlap,
        definition.jitter,
        stored.created_at,
        stored.updated_at,
        stored.updated_by,
        stored.state_at,
        stored.state_by,
        stored.state_reason,
        _next_times(stored, row, now),
        await _firings(stores, name),
        _explained(stored, row, now),
        stores.seen(now, "jobs"),
    )


async def explain_a_schedule(stores: Stores, name: str) -> Explanation[Reason]:
    """Explain why a schedule fires or does not."""
    now, stored = await _stored(stores, name)
    return _explained(stored, await _row_of(stores, now, stored), now)


async def schedule_problems(stores: Stores, workers: Sequence[WorkerStatus]) -> list[Problem]:
    """Return the schedules that need a person: those that are off, orphaned or late."""
    now, rows = await stores.store.schedules.list(limit=_MAX_PROBLEMS)
    known = {name for worker in workers for name in worker.names}
    found: list[Problem] = []
    for stored in rows:
        row = _row(stored, now, known, unfinished=False)
        late = stored.next_at is not None and now - stored.next_at > _LATE
        unfired = row.reason == Reason.LATE or (row.reason == Reason.NO_WORKER and late)
        # Between two runs of a program, no process declares anything and no worker runs.
        orphaned = row.reason == Reason.ORPHANED and bool(workers)
        if unfired or orphaned or row.reason == Reason.SWITCHED_OFF:
            remedy = _remedy(stored, Reason(row.reason))
            found.append(Problem(f"schedule {row.name!r} {row.why}", "schedule", row.name, remedy))
    return found[:_MAX_TOLD]


# -- parts -------------------------------------------------------------------------------------------------------------


async def _stored(stores: Stores, name: str) -> tuple[float, StoredSchedule]:
    now, stored = await stores.store.schedules.get(name)
    if stored is None:
        raise NotFoundError(
            f"The schedule {name!r} does not exist.", remedy=f"List them: {command('schedules', 'list')}."
        )
    return now, stored


async def _row_of(stores: Stores, now: float, stored: StoredSchedule) -> ScheduleRow:
    unfinished = await _unfinished(stores, [stored])
    return _row(stored, now, await _known_jobs(stores), stored.last_job in unfinished)


async def _known_jobs(stores: Stores) -> set[str]:
    workers = await stores.store.insight.workers(limit=_MAX_WORKERS)
    return {name for worker in workers for name in worker.names}


async def _unfinished(stores: Stores, rows: Sequence[StoredSchedule]) -> dict[int, JobView]:
    """The last jobs of schedules that have not ended."""
    ids = [row.last_job for row in rows if row.last_job is not None]
    situations = await stores.store.insight.situations(ids) if ids else ()
    return {one.job.id: one.job for one in situations if not one.job.state.final}


async def _firings(stores: Stores, name: str) -> tuple[FiringRow, ...]:
    found: Sequence[StoredFiring] = await stores.store.schedules.firings(name, limit=_FIRINGS)
    ids = [one.job for one in found if one.job is not None]
    situations = await stores.store.insight.situations(ids) if ids else ()
    states = {one.job.id: str(one.job.state) for one in situations}
    return tuple(
        FiringRow(one.at, one.fired_at, one.kind, one.outcome, one.job, states.get(one.job or 0, ""), one.times)
        for one in found
    )


def _timing(stored: StoredSchedule) -> Timing | None:
    from interlock.schedules.timing import Timing  # most programs that import Insight have no schedules

    definition = stored.definition
    try:
        return Timing.stored(definition.cron, definition.every, definition.timezone)
    except InvalidArgumentError:
        return None


def _upcoming(timing: Timing, stored: StoredSchedule, now: float) -> tuple[Occurrence, ...]:
    from interlock.schedules.views import preview_of

    return preview_of(timing, now, stored.anchor_at, _NEXT).times


def _next_times(stored: StoredSchedule, row: ScheduleRow, now: float) -> tuple[NextTime, ...]:
    timing = _timing(stored)
    if timing is None or row.state != ScheduleState.ACTIVE:
        return ()
    times = _upcoming(timing, stored, now)
    return tuple(NextTime(one.at.timestamp(), one.words) for one in times)


def _row(stored: StoredSchedule, now: float, known: set[str], unfinished: bool) -> ScheduleRow:
    definition, timing = stored.definition, _timing(stored)
    orphaned = stored.origin == ScheduleOrigin.CODE and not stored.declared_by
    active = stored.state == ScheduleState.ACTIVE
    reason, why = _reason(stored, now, known, unfinished=unfinished, orphaned=orphaned)
    return ScheduleRow(
        stored.name,
        definition.job,
        definition.cron,
        definition.every,
        definition.timezone,
        "" if timing is None else timing.words,
        "orphaned" if orphaned and active else stored.state,
        stored.origin,
        stored.version,
        stored.next_at if active and not orphaned else None,
        stored.last_at,
        stored.last_job,
        stored.fired,
        stored.skipped,
        stored.missed,
        str(reason),
        brief(why),
    )


def _reason(
    stored: StoredSchedule, now: float, known: set[str], *, unfinished: bool, orphaned: bool
) -> tuple[Reason, str]:
    """Why a schedule fires or does not: a code, and the rest of a sentence that begins with the schedule."""
    since = span(max(0.0, now - stored.state_at))
    if stored.state == ScheduleState.PAUSED:
        said = f": {stored.state_reason}" if stored.state_reason else ""
        return Reason.SCHEDULE_PAUSED, f"was paused by {stored.state_by} {since} ago{said}"
    if stored.state == ScheduleState.OFF:
        return Reason.SWITCHED_OFF, f"was switched off {since} ago: {stored.state_reason}"
    if orphaned:
        return Reason.ORPHANED, "was declared in code, and no live process declares it any more"
    if stored.next_at is None:
        return Reason.NEVER_AGAIN, "has no further time"
    late = now - stored.next_at
    if stored.definition.job not in known:
        due = f", and it has been due for {span(late)}" if late > 0 else ""
        return Reason.NO_WORKER, f"does not fire: no live worker has the job {stored.definition.job!r}{due}"
    if late > _LATE:
        return Reason.LATE, f"is late: it has been due for {span(late)}"
    if unfinished:
        then = "the next time is skipped" if stored.definition.overlap == "skip" else "the next one waits behind it"
        return Reason.OVERLAPPING, f"waits for job {stored.last_job}, which is unfinished; until it ends, {then}"
    return Reason.UPCOMING, f"fires next in {span(max(0.0, -late))}"


def _explained(stored: StoredSchedule, row: ScheduleRow, now: float) -> Explanation[Reason]:
    definition = stored.definition
    timing = _timing(stored)
    words = f"{definition.cron!r}, which is invalid" if timing is None else timing.words
    lines = [
        f"The schedule {stored.name!r} runs the job {definition.job!r} {words}.",
        f"It {_reason_text(stored, row, now)}.",
    ]
    if timing is not None and row.state == ScheduleState.ACTIVE:
        times = _upcoming(timing, stored, now)
        if times:
            lines.append(f"Next: {', '.join(one.words for one in times)}.")
    if stored.last_at is not None:
        lines.append(f"It fired last for {as_text(stored.last_at)}, with job {stored.last_job}.")
    if stored.skipped or stored.missed:
        lines.append(
            f"{stored.skipped} firings were skipped because of overlaps, and {stored.missed} times were missed."
        )
    remedy = _remedy(stored, Reason(row.reason))
    data: dict[str, Any] = {
        "name": stored.name,
        "job": definition.job,
        "state": row.state,
        "origin": stored.origin,
        "version": stored.version,
        "cron": definition.cron or None,
        "every": definition.every or None,
        "timezone": definition.timezone,
        "arguments": _decoded(definition.arguments),
        "next_at": None if row.next_at is None else as_text(row.next_at),
        "last_at": None if stored.last_at is None else as_text(stored.last_at),
        "last_job": stored.last_job,
        "fired": stored.fired,
        "skipped": stored.skipped,
        "missed": stored.missed,
    }
    return Explanation.of(Subject("schedule", stored.name), Reason(row.reason), row.why, lines, remedy, data)


def _reason_text(stored: StoredSchedule, row: ScheduleRow, now: float) -> str:
    if row.reason == Reason.UPCOMING and stored.next_at is not None:
        return f"fires next at {as_text(stored.next_at)}, in {span(stored.next_at - now)}"
    return row.why.rstrip(".")


def _remedy(stored: StoredSchedule, reason: Reason) -> str:
    name = stored.name
    match reason:
        case Reason.SCHEDULE_PAUSED:
            return f"Ask that person, or resume it: {command('schedules', 'resume', name)}"
        case Reason.SWITCHED_OFF if stored.origin == ScheduleOrigin.CODE:
            return "Fix the code and deploy it; the schedule is then switched on again"
        case Reason.SWITCHED_OFF:
            return (
                f"Save it again with valid values, or fix its job; see {command('schedules', 'show', name)}. "
                "A worker that can run it switches it on again when it starts"
            )
        case Reason.ORPHANED:
            return f"Deploy the code that declares it, or delete it: {command('schedules', 'delete', name)}"
        case Reason.NO_WORKER:
            return "Start a worker whose app defines the job: interlock run module:app"
        case Reason.LATE:
            return "See the log of the workers for schedule_firing_failed, and whether their event loops are blocked"
        case Reason.OVERLAPPING:
            return f"See that job: {command('explain', 'job', str(stored.last_job))}"
        case _:
            return ""


def _decoded(text: str) -> Mapping[str, Any] | str:
    try:
        found: Mapping[str, Any] = json.loads(text)
    except ValueError:
        return text
    return found
