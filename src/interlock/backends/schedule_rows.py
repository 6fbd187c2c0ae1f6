"""Rows of schedules and firings, for stores whose rows have the columns of the port in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.backends.pacing import micros, seconds
from interlock.ports.schedules import (
    FIRINGS_KEPT,
    FiringKind,
    FiringOutcome,
    ScheduleDefinition,
    StoredFiring,
    StoredSchedule,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.schedules import Firing

__all__ = [
    "FiringRow",
    "definition_values",
    "enqueued_rows",
    "firing_rows",
    "journal_data",
    "stored_firing",
    "stored_schedule",
]

FiringRow = tuple[int, str, str, int | None, int]
"""The time of a firing in microseconds, its kind, outcome and job, and how many times it stands for."""


def stored_schedule(row: Sequence[Any]) -> StoredSchedule:
    """Build a schedule from its row; times are microseconds."""
    name, version, origin, state, job, arguments, cron, every, timezone, misfire, grace, overlap, jitter, template = (
        row[:14]
    )
    anchor_at, next_at, created_at, updated_at, updated_by, state_at, state_by, state_reason = row[14:22]
    last_at, last_job, fired, skipped, missed, declaration, reported, declared_by = row[22:]
    definition = ScheduleDefinition(
        job, arguments, cron, seconds(every), timezone, misfire, seconds(grace), overlap, seconds(jitter), template
    )
    return StoredSchedule(
        name,
        version,
        origin,
        state,
        definition,
        seconds(anchor_at),
        None if next_at is None else seconds(next_at),
        seconds(created_at),
        seconds(updated_at),
        updated_by,
        seconds(state_at),
        state_by,
        state_reason,
        None if last_at is None else seconds(last_at),
        last_job,
        fired,
        skipped,
        missed,
        declaration,
        bool(reported),
        declared_by,
    )


def stored_firing(row: Sequence[Any]) -> StoredFiring:
    """Build a firing from its row."""
    number, at, fired_at, kind, outcome, job, count = row
    return StoredFiring(number, seconds(at), seconds(fired_at), kind, outcome, job, count)


def definition_values(definition: ScheduleDefinition) -> dict[str, Any]:
    """Return the columns of a definition; durations are microseconds."""
    values = definition._asdict()
    for duration in ("every", "grace", "jitter"):
        values[duration] = micros(values[duration])
    return values


def firing_rows(firing: Firing, *, overlap: bool) -> list[FiringRow]:
    """Return the rows of one step: what was missed, then what was enqueued or skipped."""
    kind = FiringKind.SCHEDULED.value
    rows: list[FiringRow] = []
    if firing.missed:
        rows.append((micros(firing.expected_at), kind, FiringOutcome.MISSED.value, None, firing.missed))
    if overlap and firing.jobs:
        rows.append((micros(firing.times[-1]), kind, FiringOutcome.OVERLAP.value, None, len(firing.jobs)))
    elif firing.jobs:
        rows += enqueued_rows(firing.jobs, firing.times, kind)
    return rows[-FIRINGS_KEPT:]


def enqueued_rows(jobs: Sequence[Any], times: Sequence[float], kind: str) -> list[FiringRow]:
    """Return the rows of enqueued jobs: the last ones, if there are too many to keep."""
    found = list(zip(jobs, times, strict=True))[-FIRINGS_KEPT:]
    return [(micros(at), str(kind), FiringOutcome.ENQUEUED.value, job.id, 1) for job, at in found]


def journal_data(schedule: StoredSchedule) -> dict[str, Any]:
    """Return a schedule as the journal shows it."""
    definition = schedule.definition
    timing: dict[str, Any] = (
        {"cron": definition.cron, "timezone": definition.timezone} if definition.cron else {"every": definition.every}
    )
    return {
        "job": definition.job,
        **timing,
        "arguments": definition.arguments,
        "misfire": definition.misfire,
        "grace": definition.grace,
        "overlap": definition.overlap,
        "jitter": definition.jitter,
        "state": schedule.state,
    }
