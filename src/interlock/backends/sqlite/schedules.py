"""Schedules in SQLite, next to the jobs that they enqueue. Each operation is one immediate transaction."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.backends.pacing import micros, seconds
from interlock.backends.schedule_rows import (
    definition_values,
    enqueued_rows,
    firing_rows,
    journal_data,
    stored_firing,
    stored_schedule,
)
from interlock.backends.sqlite.job_enqueue import enqueue
from interlock.backends.sqlite.queries import ScheduleQueries
from interlock.ports.journal import Action
from interlock.ports.schedules import (
    FIRINGS_KEPT,
    DueSchedules,
    Edited,
    Fired,
    ScheduleConflict,
    ScheduleOrigin,
    ScheduleState,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.backends.schedule_rows import FiringRow
    from interlock.backends.sqlite.job_rows import JobRows
    from interlock.backends.sqlite.jobs import SqliteJobs
    from interlock.ports.journal import Attribution
    from interlock.ports.schedules import (
        Declaration,
        Enqueuing,
        Firing,
        ScheduleEdit,
        StateChange,
        StoredFiring,
        StoredSchedule,
    )

__all__ = ["SqliteSchedules"]

T = TypeVar("T")
_REPLACED_KEPT = 20
_sql = ScheduleQueries()


class SqliteSchedules:
    """Implements the schedules port in the transactions of the jobs."""

    def __init__(self, jobs: SqliteJobs, poll_interval: float = 1.0) -> None:
        self._jobs = jobs
        self._listeners: dict[object, tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = {}
        self.poll_interval = poll_interval
        """Changes of other processes are found by looking; that costs a fraction of a millisecond."""

    async def save(self, edit: ScheduleEdit) -> Edited | ScheduleConflict:
        """Create or replace a schedule."""
        return await self._change(lambda rows: _save(rows, edit))

    async def set_state(self, change: StateChange) -> Edited | ScheduleConflict:
        """Change the state of a schedule."""
        return await self._change(lambda rows: _set_state(rows, change))

    async def delete(
        self, name: str, attribution: Attribution, *, expected: int | None = None
    ) -> StoredSchedule | ScheduleConflict:
        """Remove a schedule and its firings."""
        return await self._change(lambda rows: _delete(rows, name, attribution, expected))

    async def declare(self, session: str, declarations: Sequence[Declaration], attribution: Attribution) -> None:
        """Record what the code of a process declares."""
        await self._change(lambda rows: _declare(rows, session, declarations, attribution))

    async def due(
        self, jobs: Sequence[str], declared: Sequence[str], *, but: Sequence[str] = (), limit: int = 100
    ) -> DueSchedules:
        """Return what is due."""
        wanted = {
            "jobs": json.dumps(list(jobs)),
            "declared": json.dumps(list(declared)),
            "but": json.dumps(list(but)),
            "limit": limit + 1,
        }

        def read(rows: JobRows) -> DueSchedules:
            found = rows.all(_sql.due, **wanted)
            names = [name for name, at in found[:limit] if at <= rows.now]
            later = found[len(names)][1] if len(names) < len(found) else None
            schedules = [schedule for name in names if (schedule := _get(rows, name)) is not None]
            return DueSchedules(seconds(rows.now), schedules, None if later is None else seconds(later))

        return await self._jobs.read(read)

    async def fire(self, firing: Firing) -> Fired:
        """Do one step of a schedule."""
        return await self._jobs.write(lambda rows: _fire(rows, firing))

    async def enqueue(self, enqueuing: Enqueuing) -> StoredSchedule | None:
        """Enqueue jobs through a schedule."""
        return await self._jobs.write(lambda rows: _enqueue(rows, enqueuing))

    async def set_reported(self, name: str, version: int) -> None:
        """Record that an application was notified."""
        await self._jobs.write(lambda rows: rows.run(_sql.set_reported, name=name, version=version))

    async def get(self, name: str) -> tuple[float, StoredSchedule | None]:
        """Return the time and a schedule."""
        return await self._jobs.read(lambda rows: (seconds(rows.now), _get(rows, name)))

    async def list(self, *, limit: int = 1000, after: str = "") -> tuple[float, Sequence[StoredSchedule]]:
        """Return the time and schedules by name."""

        def read(rows: JobRows) -> tuple[float, Sequence[StoredSchedule]]:
            return seconds(rows.now), [
                stored_schedule(row) for row in rows.all(_sql.list_all, limit=limit, after=after)
            ]

        return await self._jobs.read(read)

    async def firings(self, name: str, *, limit: int = FIRINGS_KEPT) -> Sequence[StoredFiring]:
        """List the last firings."""
        return await self._jobs.read(
            lambda rows: [stored_firing(row) for row in rows.all(_sql.firings, name=name, limit=limit)]
        )

    def on_change(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call back when this process has changed a schedule."""
        key = object()
        self._listeners[key] = (asyncio.get_running_loop(), call)
        return lambda: void(self._listeners.pop(key, None))

    async def _change(self, work: Callable[[JobRows], T]) -> T:
        result = await self._jobs.write(work)
        for loop, call in list(self._listeners.values()):
            with suppress(RuntimeError):  # that event loop is closed
                loop.call_soon_threadsafe(call)
        return result


def void(_: object) -> None:
    """Drop a value."""


def _get(rows: JobRows, name: str) -> StoredSchedule | None:
    row = rows.one(_sql.get, name=name)
    return None if row is None else stored_schedule(row)


def _current(rows: JobRows, name: str) -> StoredSchedule:
    found = _get(rows, name)
    assert found is not None, "it was written in this transaction"
    return found


def _save(rows: JobRows, edit: ScheduleEdit) -> Edited | ScheduleConflict:
    before = _get(rows, edit.name)
    if before is not None and rows.one(_sql.edit_state, name=edit.name)[2] == edit.id:
        return Edited(before, changed=True)
    version = 0 if before is None else before.version
    if version != edit.expected or (before is not None and before.origin == ScheduleOrigin.CODE):
        return ScheduleConflict(before)
    rows.run(
        _sql.save,
        **definition_values(edit.definition),
        name=edit.name,
        version=rows.fence(),
        origin=ScheduleOrigin.STORED.value,
        state=(ScheduleState.ACTIVE if edit.active else ScheduleState.PAUSED).value,
        anchor_at=micros(edit.anchor_at),
        next_at=None if edit.next_at is None else micros(edit.next_at),
        by=edit.attribution.actor,
        reason=edit.attribution.reason,
        declaration="",
        replaced="[]",
        edit=edit.id,
    )
    after = _current(rows, edit.name)
    _journal(rows, Action.SCHEDULE_SAVE, edit.attribution, before, after)
    return Edited(after, changed=True)


def _set_state(rows: JobRows, change: StateChange) -> Edited | ScheduleConflict:
    before = _get(rows, change.name)
    if before is None or change.expected not in (None, before.version):
        return ScheduleConflict(before)
    if before.state == change.state:
        return Edited(before, changed=False)
    rows.run(
        _sql.set_state,
        name=change.name,
        version=rows.fence(),
        state=change.state.value,
        by=change.attribution.actor,
        reason=change.attribution.reason,
        next_at=None if change.next_at is None else micros(change.next_at),
    )
    after = _current(rows, change.name)
    _journal(rows, Action(change.action), change.attribution, before, after)
    return Edited(after, changed=True)


def _delete(
    rows: JobRows, name: str, attribution: Attribution, expected: int | None
) -> StoredSchedule | ScheduleConflict:
    before = _get(rows, name)
    if before is None or expected not in (None, before.version):
        return ScheduleConflict(before)
    rows.run(_sql.delete_schedule, name=name)
    rows.run(_sql.delete_firings, name=name)
    rows.journal(Action.SCHEDULE_DELETE, name, attribution, journal_data(before), None, from_version=before.version)
    return before


def _declare(rows: JobRows, session: str, declarations: Sequence[Declaration], attribution: Attribution) -> None:
    rows.run(_sql.delete_dead_declarations)
    for declaration in declarations:
        name, fingerprint = declaration.name, declaration.fingerprint
        rows.run(_sql.declare, name=name, session=session, fingerprint=fingerprint)
        before = _get(rows, name)
        replaced: list[str] = []
        if before is not None:
            if before.origin != ScheduleOrigin.CODE or before.declaration == fingerprint:
                continue
            replaced = json.loads(rows.one(_sql.edit_state, name=name)[4])
            if fingerprint in replaced and rows.one(_sql.still_declared, name=name, fingerprint=before.declaration):
                continue
            replaced = [*(one for one in replaced if one != fingerprint), before.declaration][-_REPLACED_KEPT:]
        rows.run(
            _sql.save,
            **definition_values(declaration.definition),
            name=name,
            version=rows.fence(),
            origin=ScheduleOrigin.CODE.value,
            state=(ScheduleState.ACTIVE.value if before is None or before.state == ScheduleState.OFF else before.state),
            anchor_at=micros(declaration.anchor_at),
            next_at=None if declaration.next_at is None else micros(declaration.next_at),
            by=attribution.actor,
            reason=attribution.reason,
            declaration=fingerprint,
            replaced=json.dumps(replaced),
            edit="",
        )
        _journal(rows, Action.SCHEDULE_DECLARE, attribution, before, _current(rows, name))


def _fire(rows: JobRows, firing: Firing) -> Fired:
    row = rows.one(_sql.next_at, name=firing.name, version=firing.version)
    if row is None or row[0] != micros(firing.expected_at):
        return Fired(won=False, enqueued=False)
    _, last_job, number = row
    overlap = bool(firing.jobs) and firing.skip_overlap and last_job is not None
    overlap = overlap and rows.one(_sql.unfinished, id=last_job) is not None
    enqueued = bool(firing.jobs) and not overlap
    if enqueued:
        enqueue(rows, firing.jobs, again=False, strict=False)
    number = _add_firings(rows, firing.name, number, firing_rows(firing, overlap=overlap))
    rows.run(
        _sql.set_fired,
        name=firing.name,
        next_at=None if firing.next_at is None else micros(firing.next_at),
        last_at=micros(firing.times[-1]) if enqueued else None,
        last_job=firing.jobs[-1].id if enqueued else None,
        fired=len(firing.jobs) if enqueued else 0,
        skipped=len(firing.jobs) if overlap else 0,
        missed=firing.missed,
        firings=number,
    )
    return Fired(won=True, enqueued=enqueued)


def _enqueue(rows: JobRows, enqueuing: Enqueuing) -> StoredSchedule | None:
    name, jobs = enqueuing.name, enqueuing.jobs
    before = _get(rows, name)
    if before is None or rows.one(_sql.firing_of_job, name=name, job=jobs[-1].id) is not None:
        return before
    enqueue(rows, jobs, again=False, strict=False)
    (number,) = rows.one(_sql.last_firing, name=name)
    number = _add_firings(rows, name, number, enqueued_rows(jobs, enqueuing.times, enqueuing.kind))
    rows.run(_sql.set_enqueued, name=name, last_job=jobs[-1].id, fired=len(jobs), firings=number)
    action = Action.SCHEDULE_TRIGGER if len(jobs) == 1 and enqueuing.kind == "triggered" else Action.SCHEDULE_BACKFILL
    after = {"jobs": len(jobs), "first_job": jobs[0].id, "last_job": jobs[-1].id}
    rows.journal(action, name, enqueuing.attribution, None, after, from_version=before.version)
    return _current(rows, name)


def _add_firings(rows: JobRows, name: str, last: int, added: Sequence[FiringRow]) -> int:
    """Add firings after the last one, and remove the oldest; return the number of the new last one."""
    values: list[dict[str, Any]] = []
    for at, kind, outcome, job, count in added:
        last += 1
        values.append(
            {"name": name, "number": last, "at": at, "kind": kind, "outcome": outcome, "job": job, "count": count}
        )
    rows.each_named(_sql.add_firing, values)
    rows.run(_sql.trim_firings, name=name, number=last - FIRINGS_KEPT)
    return last


def _journal(
    rows: JobRows, action: Action, attribution: Attribution, before: StoredSchedule | None, after: StoredSchedule
) -> None:
    rows.journal(
        action,
        after.name,
        attribution,
        None if before is None else journal_data(before),
        journal_data(after),
        from_version=None if before is None else before.version,
    )
