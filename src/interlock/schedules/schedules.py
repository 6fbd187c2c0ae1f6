"""The public API of schedules: ``app.schedules``, or ``Schedules.from_url(url)`` without an App."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from interlock.arguments import checked_limit
from interlock.errors import CapabilityError, InvalidArgumentError, MisuseError
from interlock.jobs.jobs import JobDecorator, Jobs
from interlock.jobs.options import JobOptions, checked_aliases
from interlock.operations import attributed
from interlock.ports.schedules import Edited, ScheduleConflict, ScheduleEdit, ScheduleOrigin, ScheduleState
from interlock.ports.store import Capability
from interlock.schedules.control import MAX_BACKFILL, checked_count, conflict_of
from interlock.schedules.definition import (
    DEFAULT_GRACE,
    checked_definition,
    checked_schedule_name,
    job_named,
)
from interlock.schedules.engine import ScheduleEngine
from interlock.schedules.timing import Timing
from interlock.schedules.views import firing_view, preview_of, schedule_view
from interlock.service import Service
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from interlock.arguments import Seconds
    from interlock.clock import Clock
    from interlock.explanation import Explanation
    from interlock.jobs.handle import Handle
    from interlock.jobs.job import Job
    from interlock.jobs.options import JobDefinitionOptions
    from interlock.ports.schedules import ScheduleDefinition, StoredSchedule
    from interlock.ports.store import Store
    from interlock.reasons import Reason
    from interlock.schedules.options import MisfireName, OverlapName
    from interlock.schedules.views import Firing, Preview, Schedule
    from interlock.settings import Settings
    from interlock.store_client import StoreClient
    from interlock.telemetry.schedules import ScheduleMetrics

__all__ = ["Schedules"]

_log = logging.getLogger("interlock.schedules")
H = TypeVar("H", bound="Callable[[Schedule], Any]")


class Schedules(Service[ScheduleEngine]):
    """Cron expressions and intervals that enqueue jobs; each firing once, however many processes there are.

    Schedules are declared in code (``@app.cron``, ``@app.every``) or saved at run time. Processes with a worker fire.
    """

    needs = Capability.JOBS
    _these = "These schedules"

    def __init__(
        self,
        store: Store | StoreClient,
        settings: Settings | None = None,
        *,
        clock: Clock | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        super().__init__(store, settings, clock=clock)
        found = self._store_client.store
        if self.needs not in found.capabilities:
            raise CapabilityError(
                f"The {found.name} store does not support schedules.",
                remedy="Use memory://, sqlite:// or postgresql:// for the app's store.",
            )
        self.jobs = Jobs(self._store_client) if jobs is None else jobs
        """The jobs that they enqueue."""
        self._own_jobs = jobs is None
        self._declared: dict[str, ScheduleDefinition] = {}
        self._hooks: list[Callable[[Schedule], Any]] = []

    def _new_engine(self, store_client: StoreClient) -> ScheduleEngine:
        return ScheduleEngine(store_client, self.jobs, self._declared, self._hooks, own_jobs=self._own_jobs)

    def forget_engine(self) -> None:
        """Become closed in a process that was just forked, with the jobs if no other service has them."""
        super().forget_engine()
        if self._own_jobs:
            self.jobs.forget_engine()

    @property
    def metrics(self) -> ScheduleMetrics:
        """The metrics of these schedules; register them with a Prometheus registry."""
        return self._opened.metrics

    # -- in code -------------------------------------------------------------------------------------------------------

    def cron(
        self,
        expression: str,
        /,
        *,
        timezone: str = "UTC",
        misfire: MisfireName = "once",
        grace: Seconds = DEFAULT_GRACE,
        overlap: OverlapName | None = None,
        jitter: Seconds = 0.0,
        **how: Unpack[JobDefinitionOptions],
    ) -> JobDecorator:
        """A decorator that defines a job and enqueues it at the times of a cron expression.

        The expression has five fields and is evaluated in ``timezone``. ``misfire`` decides about times that passed
        while no process could fire, and are later than ``grace``: ``skip`` them, enqueue ``once`` for all of them, or
        ``catch_up`` on each. ``overlap`` decides what happens when the previous job is unfinished: ``skip``, or
        ``queue`` behind it. ``jitter`` delays each job at random by up to that much. The other options are those of
        :meth:`Jobs.job`. The handler takes no arguments, or ones with defaults.
        """
        timing = Timing.of(expression, None, timezone)
        return self._decorator(timing, how, misfire=misfire, grace=grace, overlap=overlap, jitter=jitter)

    def every(
        self,
        interval: Seconds,
        /,
        *,
        misfire: MisfireName = "once",
        grace: Seconds = DEFAULT_GRACE,
        overlap: OverlapName | None = None,
        jitter: Seconds = 0.0,
        **how: Unpack[JobDefinitionOptions],
    ) -> JobDecorator:
        """A decorator that defines a job and enqueues it at a fixed interval; see :meth:`cron`.

        The times lie on a grid that begins when the schedule is first stored. They do not drift, whenever the jobs run.
        """
        timing = Timing.of(None, interval)
        return self._decorator(timing, how, misfire=misfire, grace=grace, overlap=overlap, jitter=jitter)

    def _decorator(self, timing: Timing, how: Mapping[str, Any], **policies: Any) -> JobDecorator:
        given = dict(how)
        name, aliases = given.pop("name", None), given.pop("aliases", ())

        def declare(job: Job[..., Any]) -> None:
            try:
                definition = checked_definition(job, schedule=job.name, timing=timing, arguments=None, **policies)
            except InvalidArgumentError as error:
                raise MisuseError(
                    f"The job {job.name!r} cannot run on a schedule: {error.message}",
                    remedy="Give its parameters defaults, or save a schedule with arguments: app.schedules.save(…).",
                ) from error
            self._declared[job.name] = definition

        return JobDecorator(self.jobs, name, JobOptions.of(given), checked_aliases(aliases), added=declare)

    def on_switched_off(self, hook: H) -> H:
        """A decorator for a function that is called when a schedule is switched off because it cannot work.

        It gets the :class:`Schedule`, with the problem in ``state_reason``, in the process that found it; at the next
        start again if it fails. It may be a coroutine function.
        """
        self._hooks.append(hook)
        return hook

    # -- at run time ---------------------------------------------------------------------------------------------------

    async def save(
        self,
        name: str,
        *,
        job: Job[..., Any] | str,
        cron: str | None = None,
        every: Seconds | None = None,
        timezone: str = "UTC",
        arguments: Mapping[str, Any] | None = None,
        misfire: str = "once",
        grace: Seconds = DEFAULT_GRACE,
        overlap: str | None = None,
        jitter: Seconds = 0.0,
        active: bool | None = None,
        version: int | None = None,
        by: str,
        reason: str = "",
    ) -> Schedule:
        """Create a schedule, or replace the one that has this version; with an invalid one nothing is stored.

        Exactly one of ``cron`` and ``every`` (10 seconds to 30 days) is needed; see :meth:`cron` for the rest. Without
        a ``version`` the schedule must be new, or exactly the same. Raises :class:`ConcurrencyConflictError` if it has
        another version: another process was faster, and nothing is lost. ``active`` says whether it fires; by default
        a paused schedule stays paused, and any other fires.
        """
        attribution = attributed("Saving a schedule", by, reason, optional=True)
        checked, timing = checked_schedule_name(name), Timing.of(cron, every, timezone)
        definition = checked_definition(
            job_named(self.jobs, job),
            schedule=checked,
            timing=timing,
            arguments=arguments,
            misfire=misfire,
            grace=grace,
            overlap=overlap,
            jitter=jitter,
        )
        if not isinstance(active, bool | None):
            raise InvalidArgumentError(f"Invalid active {active!r}.", remedy="Use True, False or None.")
        if version is not None and (type(version) is not int or not 0 < version < 2**63):
            raise InvalidArgumentError(f"Invalid version {version!r}.", remedy="Pass that of the Schedule you read.")
        engine = self._running
        now, before = await engine.store_client.repeat(lambda: engine.store.get(checked))
        if active is None:
            active = before is None or before.state != ScheduleState.PAUSED
        if before is not None and version is None and _same(before, definition, active=active):
            return schedule_view(before)
        if before is not None and before.origin == ScheduleOrigin.CODE:
            raise MisuseError(
                f"The schedule {checked!r} is declared in code.",
                remedy="Change the code; or delete it, once no process declares it any more.",
            )
        same_grid = before is not None and before.definition.every == definition.every
        anchor = before.anchor_at if before is not None and same_grid else now
        edit = ScheduleEdit(
            checked,
            version or 0,
            definition,
            active,
            anchor,
            timing.after(now, anchor),
            attribution,
            secrets.token_hex(8),
        )
        answer = await engine.store_client.repeat(lambda: engine.store.save(edit))
        if isinstance(answer, ScheduleConflict):
            raise conflict_of(checked, answer)
        assert isinstance(answer, Edited)
        emit(_log, logging.INFO, "schedule_saved", schedule=checked, job=definition.job, by=by, reason=reason)
        return schedule_view(answer.schedule)

    async def get(self, name: str) -> Schedule:
        """One schedule; raises ``NotFoundError`` if it does not exist."""
        return schedule_view((await self._running.control.get(name))[1])

    async def list(self, *states: ScheduleState, limit: int = 1000) -> Sequence[Schedule]:
        """Schedules by name, all or those in one of these states."""
        engine, wanted = self._running, set(map(ScheduleState, states))
        most = checked_limit(limit)
        _, rows = await engine.store_client.repeat(lambda: engine.store.list(limit=most))
        return [schedule_view(row) for row in rows if not wanted or row.state in wanted]

    async def firings(self, name: str, *, limit: int = 20) -> Sequence[Firing]:
        """The last firings of a schedule, newest first, with their jobs; 100 are kept."""
        engine, most = self._running, checked_limit(limit)
        checked = (await engine.control.get(name))[1].name
        return [firing_view(row) for row in await engine.store.firings(checked, limit=most)]

    async def pause(self, name: str, *, by: str, reason: str, version: int | None = None) -> Schedule:
        """Let a schedule fire no more until it is resumed, also one that is declared in code."""
        return schedule_view(await self._running.control.pause(name, by=by, reason=reason, version=version))

    async def resume(self, name: str, *, by: str, reason: str = "", version: int | None = None) -> Schedule:
        """Let a schedule fire again, from its next time on: what passed meanwhile is not made up for."""
        return schedule_view(await self._running.control.resume(name, by=by, reason=reason, version=version))

    async def delete(self, name: str, *, by: str, reason: str, version: int | None = None) -> Schedule:
        """Remove a schedule and the list of its firings; its jobs stay. Returns what it was."""
        return schedule_view(await self._running.control.delete(name, by=by, reason=reason, version=version))

    async def trigger(self, name: str, *, by: str, reason: str = "") -> Handle[Any]:
        """Enqueue the job of a schedule now, in any state. Its next times stay as they are."""
        return self.jobs.handle(await self._running.control.trigger(name, by=by, reason=reason))

    async def backfill(
        self, name: str, start: datetime, end: datetime, *, by: str, reason: str, limit: int = MAX_BACKFILL
    ) -> builtins.list[Handle[Any]]:
        """Enqueue a job for each time from ``start`` (included) to ``end`` (not included), all or none.

        Raises an error if these are more than ``limit``. In the handler, ``current_job().scheduled_for`` is the time.
        """
        ids = await self._running.control.backfill(name, start, end, by=by, reason=reason, limit=limit)
        return [self.jobs.handle(job_id) for job_id in ids]

    async def preview(
        self,
        name: str | None = None,
        *,
        cron: str | None = None,
        every: Seconds | None = None,
        timezone: str = "UTC",
        count: int = 5,
    ) -> Preview:
        """The next times of a stored schedule, or of a timing that is not stored, in plain words."""
        engine = self._running
        if name is not None:
            if cron is not None or every is not None:
                raise InvalidArgumentError("Both a name and a timing were given.", remedy="Pass one of them.")
            return await engine.control.preview(name, count)
        timing, checked = Timing.of(cron, every, timezone), checked_count(count)
        now, _ = await engine.store_client.repeat(lambda: engine.store.get("-"))
        return preview_of(timing, now, now, checked)

    async def check(self) -> Sequence[Schedule]:
        """Switch off every schedule that cannot work, and on those that can again; return those that are off.

        Workers do this when they start.
        """
        engine = self._running
        return await engine.store_client.repeat(engine.scheduler.check)

    async def fire_due(self) -> float:
        """Fire everything that is due now, as workers do all the time; return the seconds until the next time.

        For tests, and for programs that call it at times of their own.
        """
        engine = self._running
        return await engine.store_client.repeat(engine.scheduler.step)

    async def explain(self, name: str) -> Explanation[Reason]:
        """Why a schedule fires or does not, what became of its last firing, and what to do about it."""
        return await self._explain("schedule", checked_schedule_name(name))


def _same(row: StoredSchedule, definition: ScheduleDefinition, *, active: bool) -> bool:
    """Whether a stored schedule is exactly what is to be saved."""
    state = ScheduleState.ACTIVE if active else ScheduleState.PAUSED
    return row.origin == ScheduleOrigin.STORED and row.definition == definition and row.state == state
