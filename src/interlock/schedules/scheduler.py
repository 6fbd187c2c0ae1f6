"""The scheduler: fires what is due. Every process with a worker has one, and none of them leads.

It sleeps until the next time, or until a schedule changes. A firing is one transaction of the store, which only one
process succeeds in. A schedule that cannot be evaluated is switched off and reported; the others go on.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import random
from typing import TYPE_CHECKING, Any

from interlock.errors import InvalidArgumentError, StoreUnavailableError
from interlock.jobs.worker.chore import Chore
from interlock.jobs.worker.outcomes import one_line
from interlock.ports.journal import Action, Attribution
from interlock.ports.schedules import (
    Declaration,
    Edited,
    Firing,
    Misfire,
    Overlap,
    ScheduleOrigin,
    ScheduleState,
    StateChange,
)
from interlock.schedules.definition import fingerprint_of, job_for, problem_of
from interlock.schedules.timing import Timing
from interlock.schedules.views import schedule_view
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.job import Job
    from interlock.jobs.worker.chore import Health
    from interlock.ports.schedules import ScheduleDefinition, ScheduleStore, StoredSchedule
    from interlock.schedules.views import Schedule
    from interlock.telemetry.schedules import ScheduleMetrics

__all__ = ["ACTOR", "MAX_CATCH_UP", "Scheduler"]

ACTOR = "interlock"
"""The actor that switches schedules off and on, and stores declarations."""
MAX_CATCH_UP = 1000
"""How many jobs one step of a schedule enqueues at most; the next step follows at once."""
_MAX_DUE = 100
_DECLARE_INTERVAL = 30.0
_FAILED_PAUSE = 5.0
_BUSY_PAUSE = 0.2
_SPREAD = 0.02
_WORKERS = 10_000
_MAX_LISTED = 100_000
_log = logging.getLogger("interlock.schedules")


class Scheduler:
    """Fires the schedules that this process can: saved ones whose job it defines, and those that its code declares."""

    def __init__(
        self,
        store: ScheduleStore,
        engine: JobEngine,
        job_of: Callable[[str], Job[..., Any] | None],
        declared: Mapping[str, ScheduleDefinition],
        hooks: Sequence[Callable[[Schedule], Any]],
        metrics: ScheduleMetrics,
        session: Callable[[], str],
    ) -> None:
        self._store = store
        self._engine = engine
        self._job_of = job_of
        self._declared = declared
        self._hooks = hooks
        self._metrics = metrics
        self._session = session
        self._wake = asyncio.Event()
        self._failed: dict[str, float] = {}
        """Schedules whose firing failed, and when to try again."""
        self._declared_at = -math.inf
        self._declared_in = ""
        """The session in which the declarations were left."""

    async def run(self, health: Health) -> None:
        """Fire for as long as the process has a worker."""
        chore = Chore("schedules", self._engine.monotonic, health)
        unsubscribe = self._store.on_change(self._wake.set)
        try:
            while await chore.attempt(self._start) is None:
                await chore.pause(1.0)
            while True:
                self._wake.clear()
                wait = await chore.attempt(self.step)
                await self._sleep(1.0 if wait is None else wait)
        finally:
            unsubscribe()

    def declare_soon(self) -> None:
        """Declare again in the next step."""
        self._declared_at = -math.inf
        self._wake.set()

    async def _start(self) -> bool:
        await self.declare()
        await self.check()
        return True

    async def _sleep(self, seconds: float) -> None:
        # Processes that wake at the same time mostly find the work done by the one that wakes first.
        seconds = min(seconds, self._store.poll_interval) + random.random() * _SPREAD  # noqa: S311 - not for cryptography
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    # -- firing --------------------------------------------------------------------------------------------------------

    async def step(self) -> float:
        """Fire everything that is due; return the seconds until the next time."""
        if self._declared and self._engine.monotonic() - self._declared_at >= _DECLARE_INTERVAL:
            await self.declare()
        while True:
            now = self._engine.monotonic()
            self._failed = {name: at for name, at in self._failed.items() if at > now}
            due = await self._store.due(
                list(self._engine.definitions), list(self._declared), but=list(self._failed), limit=_MAX_DUE
            )
            if not due.schedules:
                wait = self._store.poll_interval if due.next_at is None else max(0.0, due.next_at - due.now)
                retry_in = min(self._failed.values(), default=math.inf) - self._engine.monotonic()
                return max(0.0, min(wait, retry_in))
            for schedule in due.schedules:
                if not await self._attempt(schedule, due.now):
                    # Another process has fired it, or another transaction has locked it, for however long.
                    self._failed[schedule.name] = self._engine.monotonic() + _BUSY_PAUSE

    async def _attempt(self, schedule: StoredSchedule, now: float) -> bool:
        """Fire one schedule. False if it was left as it is; no failure stops the others."""
        try:
            try:
                return await self._fire(schedule, now)
            except InvalidArgumentError as error:
                if problem_of(schedule, None) or schedule.definition.job not in await self._jobs_elsewhere():
                    await self._switch_off(schedule, error.message)
                    return False
                # Another version of the program takes the arguments, and fires it.
                self._failed[schedule.name] = self._engine.monotonic() + _FAILED_PAUSE
                return True
        except StoreUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - one schedule must not stop the others
            self._metrics.failures += 1
            emit(_log, logging.ERROR, "schedule_firing_failed", schedule=schedule.name, error=one_line(error))
            self._failed[schedule.name] = self._engine.monotonic() + _FAILED_PAUSE
            return True

    async def _fire(self, schedule: StoredSchedule, now: float) -> bool:
        assert schedule.next_at is not None, "it is due"
        job = self._job_of(schedule.definition.job)
        if job is None:
            raise InvalidArgumentError(f"The job {schedule.definition.job!r} does not exist.")
        if problem := problem_of(schedule, job):
            raise InvalidArgumentError(problem)
        times, missed, next_at = _plan(schedule, now)
        jobs = []
        if times:
            ids = await self._engine.take_ids(len(times))
            jitter = schedule.definition.jitter
            due_at = now + random.random() * jitter if jitter and len(times) == 1 else None  # noqa: S311
            jobs = [job_for(job, schedule, job_id, at, due_at) for job_id, at in zip(ids, times, strict=True)]
        firing = Firing(
            schedule.name,
            schedule.version,
            schedule.next_at,
            next_at,
            jobs,
            times,
            missed,
            schedule.definition.overlap == Overlap.SKIP,
        )
        fired = await self._store.fire(firing)
        if fired.won:
            self._count(schedule, firing, enqueued=fired.enqueued, late=now - times[-1] if times else None)
        return fired.won

    def _count(self, schedule: StoredSchedule, firing: Firing, *, enqueued: bool, late: float | None) -> None:
        metrics, jobs = self._metrics, len(firing.jobs)
        metrics.count(schedule.name, "missed", firing.missed)
        if enqueued:
            metrics.count(schedule.name, "enqueued", jobs)
            self._engine.metrics.of(schedule.definition.job).enqueued += jobs
            if late is not None:
                metrics.late(late)
        elif jobs:
            metrics.count(schedule.name, "overlap", jobs)
            last = schedule.last_job
            emit(_log, logging.INFO, "schedule_overlap_skipped", schedule=schedule.name, unfinished_job=last)
        if firing.missed:
            emit(_log, logging.WARNING, "schedule_times_missed", schedule=schedule.name, count=firing.missed)

    # -- declarations and bad rows -------------------------------------------------------------------------------------

    async def declare(self) -> None:
        """Store what the code of this process declares."""
        self._declared_at = self._engine.monotonic()
        if not self._declared:
            return
        declarations: list[Declaration] = []
        current = self._declared_in == self._session()
        for name, definition in list(self._declared.items()):
            now, before = await self._store.get(name)
            timing = Timing.stored(definition.cron, definition.every, definition.timezone)
            same_grid = before is not None and before.definition.every == definition.every
            anchor = before.anchor_at if before is not None and same_grid else now
            declarations.append(
                Declaration(name, definition, fingerprint_of(definition), anchor, timing.after(now, anchor))
            )
            current = current and before is not None and before.declaration == declarations[-1].fingerprint
            if before is not None and before.origin != ScheduleOrigin.CODE and self._declared_in != self._session():
                emit(_log, logging.WARNING, "schedule_name_taken", schedule=name, by=before.updated_by)
        if not current:
            attribution = Attribution(ACTOR, "declared in code")
            await self._store.declare(self._session(), declarations, attribution)
            self._declared_in = self._session()

    async def check(self) -> list[Schedule]:
        """Switch off every schedule that cannot work, and on those that can again; return those that are off."""
        _, rows = await self._store.list(limit=_MAX_LISTED)
        elsewhere: frozenset[str] | None = None
        off: list[Schedule] = []
        for row in rows:
            if row.state == ScheduleState.PAUSED or (
                row.origin == ScheduleOrigin.CODE and row.name not in self._declared
            ):
                continue
            job = self._job_of(row.definition.job)
            problem = problem_of(row, job)
            if job is None and not problem:
                problem = f"The job {row.definition.job!r} does not exist."
            if problem and row.state == ScheduleState.ACTIVE:
                if elsewhere is None:
                    elsewhere = await self._jobs_elsewhere()
                if not problem_of(row, None) and row.definition.job in elsewhere:
                    continue  # another program, or another version of this one, has the job
                await self._switch_off(row, problem)
            elif row.state == ScheduleState.OFF and problem:
                await self._report(row)
            elif row.state == ScheduleState.OFF:
                await self._switch_on(row)
                continue
            if problem:
                off.append(schedule_view(row))
        return off

    async def _jobs_elsewhere(self) -> frozenset[str]:
        workers = await self._engine.insight.workers(limit=_WORKERS)
        own = self._session()
        return frozenset(name for one in workers if one.worker.session != own for name in one.names)

    async def _switch_off(self, row: StoredSchedule, problem: str) -> None:
        change = StateChange(
            row.name, ScheduleState.OFF, Action.SCHEDULE_SWITCH_OFF, Attribution(ACTOR, problem[:500]), row.version
        )
        answer = await self._store.set_state(change)
        if isinstance(answer, Edited) and answer.changed:
            self._metrics.count(row.name, "switched_off", 1)
            emit(_log, logging.ERROR, "schedule_switched_off", schedule=row.name, job=row.definition.job, error=problem)
            await self._report(answer.schedule)

    async def _switch_on(self, row: StoredSchedule) -> None:
        change = StateChange(
            row.name,
            ScheduleState.ACTIVE,
            Action.SCHEDULE_SWITCH_ON,
            Attribution(ACTOR, "It can work again."),
            row.version,
        )
        answer = await self._store.set_state(change)
        if isinstance(answer, Edited) and answer.changed:
            emit(_log, logging.INFO, "schedule_switched_on", schedule=row.name)

    async def _report(self, row: StoredSchedule) -> None:
        """Notify the application that a schedule is off, at least once."""
        if row.reported or not self._hooks:
            return
        for hook in self._hooks:
            try:
                answer = hook(schedule_view(row))
                if inspect.isawaitable(answer):
                    await answer
            except Exception as error:  # noqa: BLE001 - the hook is called again at the next start
                emit(_log, logging.ERROR, "schedule_hook_failed", schedule=row.name, error=one_line(error))
                return
        await self._store.set_reported(row.name, row.version)


def _plan(schedule: StoredSchedule, now: float) -> tuple[tuple[float, ...], int, float | None]:
    """The times to enqueue a job for, how many others are missed, and the next time."""
    definition, anchor = schedule.definition, schedule.anchor_at
    assert schedule.next_at is not None, "it is due"
    timing = Timing.stored(definition.cron, definition.every, definition.timezone)
    first, last = schedule.next_at, schedule.last_at
    if last is not None and first <= last <= now:
        # It fired by its old times between the read and the write of an edit, whose first time this is.
        following = timing.after(last, anchor)
        if following is None or following > now:
            return (), 0, following
        first = following
    passed = timing.passed(first, now, anchor, MAX_CATCH_UP)
    if definition.misfire == Misfire.CATCH_UP:
        return passed.times, 0, timing.after(passed.times[-1], anchor)
    next_at = timing.after(passed.latest, anchor)
    if definition.misfire == Misfire.SKIP and now - passed.latest > definition.grace:
        return (), passed.total, next_at
    return (passed.latest,), passed.total - 1, next_at
