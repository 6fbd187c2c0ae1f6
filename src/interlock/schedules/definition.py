"""The definition of a schedule: validated before anything is stored, and turned into jobs when it fires."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from interlock.arguments import checked_seconds
from interlock.errors import InvalidArgumentError, NotFoundError
from interlock.jobs.causes import caused_by_schedule
from interlock.jobs.job import Job
from interlock.jobs.options import checked_name
from interlock.ports.jobs import NewJob, OnFailure
from interlock.ports.limits import Use
from interlock.ports.schedules import Misfire, Overlap, ScheduleDefinition
from interlock.schedules.timing import Timing
from interlock.values import describe_type

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import StrEnum

    from interlock.arguments import Seconds
    from interlock.jobs.jobs import Jobs
    from interlock.ports.schedules import StoredSchedule

__all__ = [
    "DEFAULT_GRACE",
    "MAX_JITTER",
    "checked_definition",
    "checked_policies",
    "checked_schedule_name",
    "fingerprint_of",
    "job_for",
    "job_from_template",
    "job_named",
    "problem_of",
]

DEFAULT_GRACE = 60.0
"""How late a firing may be in seconds, and still be on time."""
MAX_JITTER = 3600.0
"""The largest random delay in seconds."""


def checked_schedule_name(name: object) -> str:
    """Validate the name of a schedule."""
    return checked_name("schedule", name)


def checked_definition(
    job: Job[..., Any],
    *,
    schedule: str,
    timing: Timing,
    arguments: Mapping[str, Any] | None,
    misfire: str,
    grace: Seconds,
    overlap: str | None,
    jitter: Seconds,
) -> ScheduleDefinition:
    """Validate a schedule, and its job's arguments; nothing is stored."""
    seconds = checked_seconds("grace", grace), checked_seconds("jitter", jitter)
    if overlap is None:
        overlap = Overlap.QUEUE if misfire == Misfire.CATCH_UP else Overlap.SKIP
    checked_policies(timing, misfire, overlap, *seconds)
    if not isinstance(arguments or {}, dict):
        raise InvalidArgumentError(
            f"Invalid arguments: {describe_type(arguments)}.", remedy="Pass a dict of the job's arguments by name."
        )
    call = job.call(**(arguments or {}))
    new = _with_lane(call.new(0), schedule)
    template = {
        "queue": new.queue,
        "lane": new.lane,
        "priority": new.priority,
        "uses": [list(use) for use in new.uses],
        "on_failure": str(new.on_failure),
        "coalesce": new.coalesce,
        "keep_result": new.keep_result,
        "options": new.options,
        "hooks": new.hooks,
        "expires": new.expires,
    }
    return ScheduleDefinition(
        job.name,
        call.arguments,
        timing.cron,
        timing.every,
        timing.timezone,
        str(misfire),
        seconds[0],
        str(overlap),
        seconds[1],
        json.dumps(template, ensure_ascii=False, separators=(",", ":"), sort_keys=True),
    )


def checked_policies(timing: Timing, misfire: str, overlap: str, grace: float, jitter: float) -> None:
    """Validate what happens when a firing is late, or overlaps with the job before it."""
    _one_of("misfire", misfire, Misfire)
    _one_of("overlap", overlap, Overlap)
    if misfire == Misfire.CATCH_UP and overlap == Overlap.SKIP:
        raise InvalidArgumentError(
            "misfire='catch_up' with overlap='skip' would skip what it has to catch up on.",
            remedy="Use overlap='queue' with it.",
        )
    if grace < 0:
        raise InvalidArgumentError(f"Invalid grace {grace!r}.", remedy="Use 0 or more seconds.")
    most = min(MAX_JITTER, timing.every or MAX_JITTER)
    if not 0 <= jitter <= most:
        raise InvalidArgumentError(
            f"Invalid jitter {jitter!r}.", remedy=f"Use 0 to {most:g} seconds, at most the interval."
        )


def _one_of(what: str, value: Any, valid: type[StrEnum]) -> None:
    try:
        valid(value)
    except ValueError:
        choices = ", ".join(repr(str(one)) for one in valid)
        raise InvalidArgumentError(f"Invalid {what} {value!r}.", remedy=f"Valid values: {choices}.") from None


def job_named(jobs: Jobs, job: object) -> Job[..., Any]:
    """The job that a schedule enqueues, which has to be defined in this program."""
    if isinstance(job, Job):
        if job.jobs is not jobs:
            raise InvalidArgumentError(f"The job {job.name!r} belongs to another app.", remedy="Save it there.")
        return job
    if not isinstance(job, str):
        raise InvalidArgumentError(f"Invalid job: {describe_type(job)}.", remedy="Pass a job of this app, or its name.")
    try:
        return jobs[job]
    except NotFoundError as error:
        raise InvalidArgumentError(error.message, remedy=error.remedy) from None


def fingerprint_of(definition: ScheduleDefinition) -> str:
    """A short hash that differs for different declarations."""
    return sha256(json.dumps(definition, ensure_ascii=True).encode()).hexdigest()[:16]


def job_for(job: Job[..., Any], schedule: StoredSchedule, job_id: int, at: float, due_at: float | None) -> NewJob:
    """A job of a firing, with the options of its definition as they are now. ``at`` is the time of the firing.

    Raises ``InvalidArgumentError`` if the handler does not take the arguments any more.
    """
    arguments = job.definition.read(schedule.definition.arguments)
    new = job.call(**arguments).new(job_id)
    return _of_schedule(_with_lane(new, schedule.name), schedule.name, at, due_at)


def job_from_template(schedule: StoredSchedule, job_id: int, at: float) -> NewJob:
    """A job of a firing, for a process in which its job is not defined."""
    definition = schedule.definition
    try:
        template: dict[str, Any] = json.loads(definition.template)
        new = NewJob(
            id=job_id,
            name=definition.job,
            queue=template["queue"],
            lane=template["lane"],
            priority=template["priority"],
            delay=0.0,
            at=None,
            uses=tuple(Use(*use) for use in template["uses"]),
            on_failure=OnFailure(template["on_failure"]),
            coalesce=template["coalesce"],
            keep_result=template["keep_result"],
            arguments=definition.arguments,
            options=template["options"],
            hooks=template["hooks"],
            expires=template["expires"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArgumentError(
            f"The stored job of the schedule {schedule.name!r} cannot be read: {error!r}.",
            remedy="Save the schedule again.",
        ) from None
    return _of_schedule(new, schedule.name, at, None)


def problem_of(schedule: StoredSchedule, job: Job[..., Any] | None) -> str:
    """Why a stored schedule cannot work, in one sentence; empty if it can. ``job`` is None if it is unknown here."""
    definition = schedule.definition
    try:
        timing = Timing.stored(definition.cron, definition.every, definition.timezone)
        checked_policies(timing, definition.misfire, definition.overlap, definition.grace, definition.jitter)
        if job is not None:
            job_for(job, schedule, 1, 0.0, None)
    except InvalidArgumentError as error:
        return error.message
    return ""


def _with_lane(new: NewJob, schedule: str) -> NewJob:
    """Let jobs of one schedule run one at a time, unless their own lane orders them."""
    return new if new.lane else new._replace(lane=f"schedule:{schedule}")


def _of_schedule(new: NewJob, schedule: str, at: float, due_at: float | None) -> NewJob:
    # A firing happens once by itself. A key that an earlier job still holds would only make it disappear.
    return new._replace(cause=caused_by_schedule(schedule, at), delay=0.0, at=due_at, key="")
