"""Schedules as rows. Each operation is one statement; a firing enqueues its jobs in the same one."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import TYPE_CHECKING, Any

from interlock.backends.pacing import micros, seconds
from interlock.backends.postgres.clock import clock_of
from interlock.backends.postgres.connection import OrderedConnection
from interlock.backends.postgres.job_enqueue import columns
from interlock.backends.postgres.journal import write_attribution
from interlock.backends.postgres.queries import ScheduleQueries
from interlock.backends.schedule_rows import (
    definition_values,
    enqueued_rows,
    firing_rows,
    stored_firing,
    stored_schedule,
)
from interlock.ports.journal import Action
from interlock.ports.schedules import (
    FIRINGS_KEPT,
    DueSchedules,
    Edited,
    Fired,
    FiringKind,
    ScheduleConflict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from interlock.backends.postgres.messages import PostgresMessages
    from interlock.backends.postgres.pool import Pool
    from interlock.backends.postgres.reader import Reader
    from interlock.clock import Clock
    from interlock.ports.jobs import NewJob
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
    from interlock.settings import Settings

__all__ = ["PostgresSchedules"]

_sql = ScheduleQueries()
_JOBS = "row(/* jobs */)"
_ACTIONS = {FiringKind.TRIGGERED: Action.SCHEDULE_TRIGGER, FiringKind.BACKFILLED: Action.SCHEDULE_BACKFILL}


class PostgresSchedules:
    """Implements the schedules port. ``enqueued`` is called with the queues that have new jobs."""

    poll_interval = 15.0
    """Notifications report changes sooner."""

    def __init__(
        self,
        pool: Pool,
        reader: Reader,
        messages: PostgresMessages,
        settings: Settings,
        clock: Clock | None,
        enqueued: Callable[[Iterable[str]], None],
    ) -> None:
        self._edits, self._firings = (OrderedConnection(pool, settings.store_wait / 2) for _ in range(2))
        self._reader = reader
        self._messages = messages
        self._namespace = settings.namespace
        self._clock = clock_of(clock)
        self._enqueued = enqueued
        self._listeners: dict[object, tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = {}

    async def save(self, edit: ScheduleEdit) -> Edited | ScheduleConflict:
        """Create or replace a schedule."""
        args = (
            edit.name,
            edit.expected,
            json.dumps(definition_values(edit.definition), ensure_ascii=False),
            edit.active,
            micros(edit.anchor_at),
            _micros(edit.next_at),
            write_attribution(edit.attribution),
            edit.id,
            self._clock(),
        )
        return _edited(await self._edits.fetch(_sql.save, self._namespace, *args))

    async def set_state(self, change: StateChange) -> Edited | ScheduleConflict:
        """Change the state of a schedule."""
        args = (
            change.name,
            str(change.state),
            change.action,
            write_attribution(change.attribution),
            change.expected,
            _micros(change.next_at),
            self._clock(),
        )
        return _edited(await self._edits.fetch(_sql.set_state, self._namespace, *args))

    async def delete(
        self, name: str, attribution: Attribution, *, expected: int | None = None
    ) -> StoredSchedule | ScheduleConflict:
        """Remove a schedule and its firings."""
        args = (name, write_attribution(attribution), expected, self._clock())
        ((answer, found),) = await self._edits.fetch(_sql.delete, self._namespace, *args)
        schedule = _schedule(found)
        if answer == "deleted" and schedule is not None:
            return schedule
        return ScheduleConflict(schedule)

    async def declare(self, session: str, declarations: Sequence[Declaration], attribution: Attribution) -> None:
        """Record what the code of a process declares."""
        declared = [
            [one.name, definition_values(one.definition), one.fingerprint, _micros(one.next_at), micros(one.anchor_at)]
            for one in sorted(declarations)
        ]
        args = (session, json.dumps(declared, ensure_ascii=False), write_attribution(attribution), self._clock())
        await self._edits.fetch(_sql.declare, self._namespace, *args)

    async def due(
        self, jobs: Sequence[str], declared: Sequence[str], *, but: Sequence[str] = (), limit: int = 100
    ) -> DueSchedules:
        """Return what is due."""
        args = (list(jobs), list(declared), list(but), limit + 1, self._clock())
        rows = await self._firings.fetch(_sql.due, self._namespace, *args)
        due = [stored_schedule(json.loads(view)) for _, _, view in rows[:limit] if view is not None]
        later = rows[len(due)][1] if len(due) < len(rows) else None
        return DueSchedules(seconds(rows[0][0]), due, None if later is None else seconds(later))

    async def fire(self, firing: Firing) -> Fired:
        """Do one step of a schedule."""
        args = (
            firing.name,
            firing.version,
            micros(firing.expected_at),
            _micros(firing.next_at),
            micros(firing.times[-1]) if firing.times else None,
            firing.missed,
            firing.skip_overlap,
            json.dumps(firing_rows(firing, overlap=False)),
            json.dumps(firing_rows(firing, overlap=True)),
            FIRINGS_KEPT,
            self._clock(),
        )
        ((won, enqueued),) = await self._with_jobs(_sql.fire, firing.jobs, args)
        return Fired(won, enqueued)

    async def enqueue(self, enqueuing: Enqueuing) -> StoredSchedule | None:
        """Enqueue jobs through a schedule."""
        args = (
            enqueuing.name,
            str(_ACTIONS[enqueuing.kind]),
            json.dumps(enqueued_rows(enqueuing.jobs, enqueuing.times, enqueuing.kind)),
            FIRINGS_KEPT,
            write_attribution(enqueuing.attribution),
            self._clock(),
        )
        ((found,),) = await self._with_jobs(_sql.enqueue, enqueuing.jobs, args)
        return _schedule(found)

    async def set_reported(self, name: str, version: int) -> None:
        """Record that an application was notified."""
        await self._edits.fetch(_sql.set_reported, self._namespace, name, version)

    async def get(self, name: str) -> tuple[float, StoredSchedule | None]:
        """Return the time and a schedule."""
        ((now, found),) = await self._reader.fetch(_sql.get, self._namespace, name, self._clock())
        return seconds(now), _schedule(found)

    async def list(self, *, limit: int = 1000, after: str = "") -> tuple[float, Sequence[StoredSchedule]]:
        """Return the time and schedules by name."""
        rows = await self._reader.fetch(_sql.list_all, self._namespace, limit, self._clock(), after)
        found = [stored_schedule(json.loads(view)) for _, view in rows if view is not None]
        return seconds(rows[0][0]), found

    async def firings(self, name: str, *, limit: int = FIRINGS_KEPT) -> Sequence[StoredFiring]:
        """List the last firings."""
        rows = await self._reader.fetch(_sql.firings, self._namespace, name, limit)
        return [stored_firing(row) for row in rows]

    def on_change(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call back when any process has changed a schedule."""
        key = object()
        if not self._listeners:
            self._messages.follow(self._channel, self._changed)
        self._listeners[key] = (asyncio.get_running_loop(), call)

        def end() -> None:
            if self._listeners.pop(key, None) is not None and not self._listeners:
                self._messages.unfollow(self._channel)

        return end

    async def close(self) -> None:
        """Wait for submitted operations."""
        await self._edits.close()
        await self._firings.close()

    @property
    def _channel(self) -> str:
        # The name that schedule_notify uses.
        return "interlock_schedules_" + hashlib.md5(self._namespace.encode(), usedforsecurity=False).hexdigest()

    def _changed(self, _: str | None) -> None:
        for loop, call in list(self._listeners.values()):
            loop.call_soon_threadsafe(call)

    async def _with_jobs(self, statement: str, jobs: Sequence[NewJob], args: tuple[Any, ...]) -> Any:
        """Run a statement whose last parameters are the fields of some jobs, if there are any."""
        if not jobs:
            return await self._firings.fetch(
                statement.replace(f"{_JOBS}::interlock.new_jobs", "null::interlock.new_jobs"), self._namespace, *args
            )
        queues, fields = columns(jobs)
        first = len(args) + 2
        places = ", ".join(f"${number}" for number in range(first, first + len(fields)))
        sql = statement.replace(_JOBS, f"row({places})")
        rows = await self._firings.fetch(sql, self._namespace, *args, *fields)
        self._enqueued(queues)
        return rows


def _micros(at: float | None) -> int | None:
    return None if at is None else micros(at)


def _schedule(found: str | None) -> StoredSchedule | None:
    return None if found is None else stored_schedule(json.loads(found))


def _edited(rows: Sequence[Any]) -> Edited | ScheduleConflict:
    ((answer, found),) = rows
    schedule = _schedule(found)
    if answer == "conflict" or schedule is None:
        return ScheduleConflict(schedule)
    return Edited(schedule, changed=answer == "edited")
