"""Shared by all answers: the stores, their capabilities, and the jobs of callers that hold or wait."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from interlock.errors import CapabilityError
from interlock.insight.views import Seen, Who
from interlock.limits.situations import with_reservations
from interlock.ports.limits import LimitUser
from interlock.ports.locks import Holder, Waiter
from interlock.ports.store import Capability

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

    from interlock.clock import Clock
    from interlock.ports.job_views import JobSituation, JobView
    from interlock.ports.limits import LimitOverride
    from interlock.ports.store import Store

__all__ = ["CallerJobs", "Stores", "Caller"]

_JOB = re.compile(r"job:([0-9]{1,19}):[0-9a-f]+")
_PARTS = ("jobs", "events", "limits", "locks", "claims", "journal", "records")


Caller = Holder | Waiter | LimitUser
"""A caller that holds or waits, as the stores return it."""


class CallerJobs:
    """The jobs that callers belong to."""

    def __init__(self, jobs: Iterable[JobView] = ()) -> None:
        self._jobs = {job.id: job for job in jobs if job.state.at_worker}

    def job(self, one: Caller) -> JobView | None:
        """The job of a caller. An ID alone proves nothing: locks may be shared with jobs of other stores."""
        match = _JOB.fullmatch(one.caller)
        job = None if match is None else self._jobs.get(int(match[1]))
        if job is None or job.worker is None or (job.worker.host, job.worker.pid) != (one.host, one.pid):
            return None
        return job

    def name(self, one: Caller) -> str:
        """Its name for people."""
        job = self.job(one)
        return one.caller if job is None else f"job {job.id} ({job.name})"

    def who(self, one: Caller) -> Who:
        """The caller with its job."""
        job = self.job(one)
        return Who(
            one.caller,
            one.caller if job is None else f"job {job.id} ({job.name})",
            None if job is None else job.id,
            one.session,
            one.host,
            one.pid,
            one.program,
        )


class Stores:
    """The stores of an app, for reading."""

    def __init__(self, store: Store, locks: Store, claims: Store, clock: Clock) -> None:
        self.now = clock.now
        """For what leaves no trace in a store."""
        self.store = store
        self.locks = locks
        self.claims = claims
        offered = {str(capability) for capability in store.capabilities}
        elsewhere = {"locks": locks, "claims": claims}
        self.parts = frozenset(
            part
            for part in _PARTS
            if (part in offered if part not in elsewhere else part in elsewhere[part].capabilities)
        )

    def need(self, part: str) -> None:
        """Check that a concept is supported."""
        if part not in self.parts:
            raise CapabilityError(
                f"{self.store.name} offers no {part}.",
                remedy="Give the App a durable store, and Redis only what it is good for: "
                "App('postgresql://…', locks='redis://…').",
            )

    @property
    def has_jobs(self) -> bool:
        """Whether the store has jobs."""
        return Capability.JOBS in self.store.capabilities

    async def situations(self, ids: Sequence[int]) -> list[JobSituation]:
        """Return where jobs stand, with the reservations that hold what they wait for."""
        return await with_reservations(self.store, await self.store.insight.situations(ids))

    async def overrides(self) -> dict[str, LimitOverride]:
        """Return the figures of limits that people have set, by name."""
        return {override.name: override for override in await self.store.limits.overrides()}

    @asynccontextmanager
    async def at(self, *parts: str) -> AsyncGenerator[None]:
        """One snapshot of each store that has one of these concepts."""
        async with AsyncExitStack() as stack:
            for store in self._stores(*parts):
                await stack.enter_async_context(store.snapshot())
            yield

    def seen(self, at: float, *parts: str, others: float | None = None) -> tuple[Seen, ...]:
        """The stores that were read; ``others`` is the time in stores other than the app's own."""
        found: dict[int, tuple[Store, list[str]]] = {}
        for part in parts:
            if part in self.parts:
                store = self._place(part)
                found.setdefault(id(store), (store, []))[1].append(part)
        return tuple(
            Seen(store.name, tuple(names), at if store is self.store or others is None else others)
            for store, names in found.values()
        )

    async def find_jobs(self, callers: Iterable[Caller]) -> CallerJobs:
        """Look up the jobs of these callers."""
        numbers = {int(match[1]) for one in callers if (match := _JOB.fullmatch(one.caller))}
        if not numbers or not self.has_jobs:
            return CallerJobs()
        return CallerJobs(situation.job for situation in await self.store.insight.situations(sorted(numbers)))

    def _stores(self, *parts: str) -> list[Store]:
        return list({id(store): store for part in ("", *parts) for store in [self._place(part)]}.values())

    def _place(self, part: str) -> Store:
        return self.locks if part == "locks" else self.claims if part == "claims" else self.store
