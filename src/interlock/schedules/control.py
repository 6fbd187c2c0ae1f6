"""Operations on stored schedules. They also work in processes that define no jobs, such as the CLI."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING, Any

from interlock.errors import ConcurrencyConflictError, InvalidArgumentError, MisuseError, NotFoundError
from interlock.operations import attributed
from interlock.ports.journal import Action
from interlock.ports.schedules import (
    Edited,
    Enqueuing,
    FiringKind,
    ScheduleConflict,
    ScheduleOrigin,
    ScheduleState,
    StateChange,
)
from interlock.schedules.definition import checked_schedule_name, job_for, job_from_template
from interlock.schedules.timing import Timing
from interlock.schedules.views import preview_of
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock.jobs.job import Job
    from interlock.ports.jobs import NewJob
    from interlock.ports.schedules import ScheduleStore, StoredSchedule
    from interlock.schedules.views import Preview

__all__ = ["MAX_BACKFILL", "ScheduleControl", "conflict_of", "unknown_schedule"]

MAX_BACKFILL = 1000
"""How many jobs one backfill enqueues at most."""
_MAX_PREVIEW = 100
_log = logging.getLogger("interlock.schedules")


class ScheduleControl:
    """Operations on the schedules of one store.

    ``job_of`` returns the job of a name, or None if it is not defined here. ``take_ids`` allocates IDs of jobs.
    ``repeat`` calls something again while the store is unavailable; everything here can be repeated safely.
    """

    def __init__(
        self,
        store: ScheduleStore,
        take_ids: Callable[[int], Awaitable[Sequence[int]]],
        repeat: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
        job_of: Callable[[str], Job[..., Any] | None] = lambda _: None,
    ) -> None:
        self._store = store
        self._take_ids = take_ids
        self._repeat = repeat
        self._job_of = job_of

    async def get(self, name: str) -> tuple[float, StoredSchedule]:
        """The store's time, and a schedule; raises ``NotFoundError``."""
        checked = checked_schedule_name(name)
        now, found = await self._repeat(lambda: self._store.get(checked))
        if found is None:
            raise unknown_schedule(checked)
        return now, found

    async def pause(self, name: str, *, by: str, reason: str, version: int | None = None) -> StoredSchedule:
        """Let a schedule fire no more until it is resumed."""
        attribution = attributed("Pausing a schedule", by, reason)
        change = StateChange(
            checked_schedule_name(name), ScheduleState.PAUSED, Action.SCHEDULE_PAUSE, attribution, version
        )
        answer = await self._set_state(change)
        if answer.changed:
            emit(_log, logging.INFO, "schedule_paused", schedule=change.name, by=by, reason=reason)
        return answer.schedule

    async def resume(self, name: str, *, by: str, reason: str = "", version: int | None = None) -> StoredSchedule:
        """Let a schedule fire again, from its next time on: what passed meanwhile is not made up for."""
        attribution = attributed("Resuming a schedule", by, reason, optional=True)
        now, found = await self.get(name)
        while True:
            # The next time follows from the timing, so this applies only to the version that was read.
            change = StateChange(
                found.name,
                ScheduleState.ACTIVE,
                Action.SCHEDULE_RESUME,
                attribution,
                found.version if version is None else version,
                _timing(found).after(now, found.anchor_at),
            )
            try:
                answer = await self._set_state(change)
                break
            except ConcurrencyConflictError:
                before = found
                now, found = await self.get(name)
                if version is not None or found.version == before.version:
                    raise
        if answer.changed:
            emit(_log, logging.INFO, "schedule_resumed", schedule=change.name, by=by, reason=reason)
        return answer.schedule

    async def delete(self, name: str, *, by: str, reason: str, version: int | None = None) -> StoredSchedule:
        """Remove a schedule and the list of its firings. Its jobs stay."""
        attribution = attributed("Deleting a schedule", by, reason)
        _, found = await self.get(name)
        if found.origin == ScheduleOrigin.CODE and found.declared_by:
            raise MisuseError(
                f"The schedule {found.name!r} is declared in the code of {found.declared_by} live process(es).",
                remedy="Remove it from the code, or pause it.",
            )
        answer = await self._repeat(lambda: self._store.delete(found.name, attribution, expected=version))
        if isinstance(answer, ScheduleConflict):
            if answer.schedule is None:
                return found  # an earlier attempt removed it, or another process just now
            raise conflict_of(found.name, answer)
        emit(_log, logging.INFO, "schedule_deleted", schedule=found.name, by=by, reason=reason)
        deleted: StoredSchedule = answer
        return deleted

    async def trigger(self, name: str, *, by: str, reason: str = "") -> int:
        """Enqueue the job of a schedule now, in any state; return the job's ID. The next times stay."""
        attribution = attributed("Triggering a schedule", by, reason, optional=True)
        now, found = await self.get(name)
        (job,) = await self._jobs(found, [now])
        await self._enqueue(Enqueuing(found.name, FiringKind.TRIGGERED, [job], [now], attribution))
        emit(_log, logging.INFO, "schedule_triggered", schedule=found.name, job=job.id, by=by, reason=reason)
        return job.id

    async def backfill(
        self, name: str, start: datetime, end: datetime, *, by: str, reason: str, limit: int = MAX_BACKFILL
    ) -> list[int]:
        """Enqueue a job for each time from ``start`` (included) to ``end`` (not included), all or none."""
        attribution = attributed("Backfilling a schedule", by, reason)
        if type(limit) is not int or not 1 <= limit <= MAX_BACKFILL:
            raise InvalidArgumentError(f"Invalid limit {limit!r}.", remedy=f"Use 1 to {MAX_BACKFILL:,}.")
        first, last = _moment("start", start), _moment("end", end)
        _, found = await self.get(name)
        times: list[float] = []
        for at in _timing(found).times(first - 1e-6, found.anchor_at):
            if at >= last:
                break
            times.append(at)
            if len(times) > limit:
                raise InvalidArgumentError(
                    f"The schedule {found.name!r} has more than {limit:,} times in that range.",
                    remedy="Backfill a shorter range, one after the other.",
                )
        if not times:
            return []
        jobs = await self._jobs(found, times)
        await self._enqueue(Enqueuing(found.name, FiringKind.BACKFILLED, jobs, times, attribution))
        emit(_log, logging.INFO, "schedule_backfilled", schedule=found.name, jobs=len(jobs), by=by, reason=reason)
        return [job.id for job in jobs]

    async def preview(self, name: str, count: int = 5) -> Preview:
        """The next times of a schedule in plain words."""
        now, found = await self.get(name)
        return preview_of(_timing(found), now, found.anchor_at, checked_count(count))

    async def _jobs(self, found: StoredSchedule, times: Sequence[float]) -> list[NewJob]:
        ids = await self._take_ids(len(times))
        job = self._job_of(found.definition.job)
        if job is None:
            return [job_from_template(found, job_id, at) for job_id, at in zip(ids, times, strict=True)]
        return [job_for(job, found, job_id, at, None) for job_id, at in zip(ids, times, strict=True)]

    async def _enqueue(self, enqueuing: Enqueuing) -> None:
        if await self._repeat(lambda: self._store.enqueue(enqueuing)) is None:
            raise unknown_schedule(enqueuing.name)

    async def _set_state(self, change: StateChange) -> Edited:
        answer: Edited | ScheduleConflict = await self._repeat(lambda: self._store.set_state(change))
        if isinstance(answer, ScheduleConflict):
            # After a lost answer the schedule already has the state, in a newer version.
            found = answer.schedule
            if found is None or found.state != change.state or found.state_by != change.attribution.actor:
                raise conflict_of(change.name, answer)
            return Edited(found, changed=True)
        return answer


def checked_count(count: object) -> int:
    """Validate how many times to preview."""
    if type(count) is not int or not 1 <= count <= _MAX_PREVIEW:
        raise InvalidArgumentError(f"Invalid count {count!r}.", remedy=f"Use 1 to {_MAX_PREVIEW}.")
    return count


def unknown_schedule(name: str) -> NotFoundError:
    """Return the error for a schedule that does not exist."""
    return NotFoundError(f"The schedule {name!r} does not exist.", remedy="List them with: interlock schedules list.")


def conflict_of(name: str, conflict: ScheduleConflict) -> ConcurrencyConflictError | NotFoundError | MisuseError:
    """Return the error for a change that was refused."""
    found = conflict.schedule
    if found is None:
        return unknown_schedule(name)
    return ConcurrencyConflictError(
        f"The schedule {name!r} has version {found.version}, by {found.updated_by}; nothing was changed.",
        remedy=f"Read it again, decide again, and pass version={found.version} to replace it.",
    )


def _timing(found: StoredSchedule) -> Timing:
    return Timing.stored(found.definition.cron, found.definition.every, found.definition.timezone)


def _moment(what: str, at: object) -> float:
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise InvalidArgumentError(f"Invalid {what} {at!r}.", remedy="Use an aware datetime.")
    return at.timestamp()
