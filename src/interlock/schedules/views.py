"""Schedules, their firings and their next times, as people read them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from interlock.clock import as_datetime, as_optional_datetime
from interlock.errors import InvalidArgumentError
from interlock.ports.schedules import FiringKind, FiringOutcome, ScheduleOrigin, ScheduleState
from interlock.schedules.timing import Timing, duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.ports.schedules import StoredFiring, StoredSchedule

__all__ = ["Firing", "Occurrence", "Preview", "Schedule", "firing_view", "in_words", "preview_of", "schedule_view"]

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as it is kept."""

    name: str
    job: str
    cron: str | None
    every: float | None
    """Seconds."""
    timezone: str
    arguments: Mapping[str, Any]
    misfire: str
    grace: float
    overlap: str
    jitter: float
    words: str
    """The timing in plain words; empty if it is invalid."""
    origin: ScheduleOrigin
    state: ScheduleState
    state_since: datetime
    state_by: str
    """The person who paused or resumed it last."""
    state_reason: str
    """Why it was paused, or why it was switched off."""
    version: int
    """Pass it to ``save`` to replace exactly this version."""
    created_at: datetime
    updated_at: datetime
    updated_by: str
    next_at: datetime | None
    """When it fires next; None if it does not."""
    last_at: datetime | None
    """The time of the last firing that enqueued a job."""
    last_job: int | None
    fired: int
    """How many jobs it has enqueued."""
    skipped: int
    """How many firings were skipped because the job before was unfinished."""
    missed: int
    """How many times passed for which no job of their own was enqueued."""
    orphaned: bool
    """Whether it was declared in code, and no live process declares it any more: it does not fire."""

    @property
    def active(self) -> bool:
        """Whether it fires."""
        return self.state is ScheduleState.ACTIVE and not self.orphaned


@dataclass(frozen=True, slots=True)
class Firing:
    """One time of a schedule, and its outcome."""

    at: datetime
    """The time that it was for."""
    fired_at: datetime
    kind: FiringKind
    outcome: FiringOutcome
    job: int | None
    count: int
    """How many times an entry of missed times stands for."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A time at which a schedule fires."""

    at: datetime
    """In the schedule's time zone."""
    words: str
    """Such as "Mon 16 Nov 18:05 CET (in 3 minutes)"."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The next times of a schedule. ``str()`` gives one sentence."""

    words: str
    """The timing, such as "every 5 minutes"."""
    times: tuple[Occurrence, ...]

    def __str__(self) -> str:
        if not self.times:
            return f"{self.words}; never again"
        return f"{self.words}; next: {', '.join(time.words for time in self.times)}"


def schedule_view(row: StoredSchedule) -> Schedule:
    """Build the view of a schedule, also of one that was edited by hand and is invalid."""
    definition = row.definition
    try:
        words = Timing.stored(definition.cron, definition.every, definition.timezone).words
    except InvalidArgumentError:
        words = ""
    state, origin = ScheduleState(row.state), ScheduleOrigin(row.origin)
    orphaned = origin is ScheduleOrigin.CODE and not row.declared_by
    fires = state is ScheduleState.ACTIVE and not orphaned
    return Schedule(
        name=row.name,
        job=definition.job,
        cron=definition.cron or None,
        every=definition.every or None,
        timezone=definition.timezone,
        arguments=_arguments(definition.arguments),
        misfire=definition.misfire,
        grace=definition.grace,
        overlap=definition.overlap,
        jitter=definition.jitter,
        words=words,
        origin=origin,
        state=state,
        state_since=as_datetime(row.state_at),
        state_by=row.state_by,
        state_reason=row.state_reason,
        version=row.version,
        created_at=as_datetime(row.created_at),
        updated_at=as_datetime(row.updated_at),
        updated_by=row.updated_by,
        next_at=as_optional_datetime(row.next_at) if fires else None,
        last_at=as_optional_datetime(row.last_at),
        last_job=row.last_job,
        fired=row.fired,
        skipped=row.skipped,
        missed=row.missed,
        orphaned=orphaned,
    )


def firing_view(row: StoredFiring) -> Firing:
    """Build the view of a firing."""
    return Firing(
        as_datetime(row.at),
        as_datetime(row.fired_at),
        FiringKind(row.kind),
        FiringOutcome(row.outcome),
        row.job,
        row.times,
    )


def preview_of(timing: Timing, now: float, anchor: float, count: int) -> Preview:
    """Describe the next times after ``now``."""
    zone = ZoneInfo(timing.timezone)
    times: list[Occurrence] = []
    for at in timing.times(now, anchor):
        local = datetime.fromtimestamp(at, zone)
        times.append(Occurrence(local, f"{in_words(local, now)} ({_distance(at - now)})"))
        if len(times) == count:
            break
    return Preview(timing.words, tuple(times))


def in_words(at: datetime, now: float) -> str:
    """A local time without what goes without saying: "Mon 16 Nov 18:05 CET"."""
    zone = at.tzname() or ""
    if zone[:1] in "+-":  # zones without an abbreviation
        zone = f"UTC{zone}"
    year = "" if at.year == datetime.fromtimestamp(now, UTC).year else f" {at.year}"
    seconds = f":{at.second:02}" if at.second else ""
    return (
        f"{_DAYS[at.weekday()]} {at.day} {_MONTHS[at.month - 1]}{year} {at.hour:02}:{at.minute:02}{seconds} {zone}"
    ).rstrip()


def _distance(seconds: float) -> str:
    """How far away a time is, in the two units that matter at most: "in 3 minutes", "in 2 days"."""
    for size, unit in ((86400, 86400), (3600, 3600), (60, 60)):
        if seconds >= 2 * size:
            return f"in {duration(seconds // unit * unit)}"
    if seconds >= 60:
        return "in a minute"
    return f"in {duration(max(1, round(seconds)))}".replace("in second", "in a second")


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
