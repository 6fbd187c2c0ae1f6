"""The schedules of one process in one store: its declarations, and the scheduler of its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.jobs.jobs import engine_of
from interlock.schedules.control import ScheduleControl
from interlock.schedules.scheduler import Scheduler
from interlock.telemetry.schedules import ScheduleMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.job import Job
    from interlock.jobs.jobs import Jobs
    from interlock.ports.schedules import ScheduleDefinition
    from interlock.schedules.views import Schedule
    from interlock.sessions import Session
    from interlock.store_client import StoreClient

__all__ = ["ScheduleEngine"]


class ScheduleEngine:
    """One of the components that share the process's session. Lives from opening to closing."""

    owner_tag = "t"

    def __init__(
        self,
        store_client: StoreClient,
        jobs: Jobs,
        declared: Mapping[str, ScheduleDefinition],
        hooks: Sequence[Callable[[Schedule], Any]],
        *,
        own_jobs: bool,
    ) -> None:
        self.store_client = store_client
        self.store = store_client.store.schedules
        self.metrics = ScheduleMetrics(store_client.store.name, store_client.settings.metrics_prefix)
        self._jobs = jobs
        self._own_jobs = own_jobs
        self._declared = declared
        self._hooks = hooks
        self.scheduler: Scheduler
        self.control: ScheduleControl

    async def open(self) -> None:
        """Store what the code declares, and let the workers of this process fire."""
        await self.store_client.open(self)
        try:
            if self._own_jobs:
                await self._jobs.open()
            engine = engine_of(self._jobs)
            self.connect(engine, lambda: self.store_client.session.id)
            await self.store_client.repeat(self.scheduler.declare)
            engine.chores.append(self.scheduler.run)
            engine.before_drain.append(self.scheduler.step)
        except BaseException:
            await self.close()
            raise

    def connect(self, engine: JobEngine, session: Callable[[], str]) -> None:
        """Build on the engine of the jobs; ``session`` returns the ID of the process's session."""
        self.scheduler = Scheduler(self.store, engine, self.job_of, self._declared, self._hooks, self.metrics, session)
        self.control = ScheduleControl(self.store, engine.take_ids, self.store_client.repeat, self.job_of)

    async def close(self) -> None:
        """Leave the store, unless another concept still needs it."""
        try:
            if self._own_jobs:
                await self._jobs.close()
        finally:
            await self.store_client.close(self)

    def job_of(self, name: str) -> Job[..., Any] | None:
        """A job of this program by its name or an alias."""
        return self._jobs[name] if name in self._jobs else None  # noqa: SIM401 - it has no get by name

    def session_began(self, session: Session) -> None:
        """Declare again soon: declarations count for as long as their session lives."""
        if hasattr(self, "scheduler"):
            self.scheduler.declare_soon()

    def session_lost(self, session: Session) -> None:
        """Do nothing: a firing needs no session."""

    def turn(self, owner: str | None) -> None:
        """Do nothing: schedules have no waiters."""

    def taken(self, owner: str, why: str) -> None:
        """Do nothing: schedules have no owners."""
