"""A test driver for the events port: a store on a virtual clock, with short helpers."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from interlock.ports.events import EventFilter, EventView, NewEvent
from interlock.ports.store import Capability
from interlock.testing.clock import VirtualClock
from interlock.testing.conformance.jobs.driver import JobDriver, JobSuite, new_job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.ports.store import Store

__all__ = ["KEEP", "EventDriver", "EventSuite"]

KEEP = 3600.0


class EventDriver(JobDriver):
    """Events ``issues.opened`` of the source ``src`` by ``ann``, each with one job by default."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        super().__init__(store, clock)
        self.events = store.events

    async def event(
        self, delivery: str = "d", *, jobs: int = 1, job: dict[str, Any] | None = None, **changes: Any
    ) -> Any:
        """A new event with the given number of jobs."""
        number, *numbers = await self.jobs.ids(1 + jobs)
        values: dict[str, Any] = {
            "source": "src",
            "type": "issues.opened",
            "actor": "ann",
            "payload": f'{{"delivery":"{delivery}"}}',
            "keep": KEEP,
            "replay_of": None,
            "attribution": None,
        }
        caused = tuple(new_job(one, arguments=f'{{"event":{number}}}', **(job or {})) for one in numbers)
        return NewEvent(number, delivery=delivery, jobs=caused, **(values | changes))

    async def accepted(self, delivery: str = "d", **changes: Any) -> NewEvent:
        """Accept an event, a millisecond after the previous one, so that times define the order."""
        self.clock.advance(0.001)
        event: NewEvent = await self.event(delivery, **changes)
        assert list(await self.events.accept([event])) == [event.id]
        return event

    async def kept(self, event: NewEvent | int) -> EventView | None:
        """The event, if it is kept."""
        return await self.events.get(event if isinstance(event, int) else event.id)

    async def listed(self, *, limit: int = 100, before: int | None = None, **wanted: str) -> list[int]:
        """The ids of a look."""
        return [view.id for view in await self.events.list(EventFilter(**wanted), limit=limit, before=before)]

    async def work_all(self) -> list[int]:
        """Run all ready jobs, and return their IDs."""
        ran: list[int] = []
        while jobs := await self.fetch(run=10):
            await self.done(*jobs)
            ran += [job.id for job in jobs]
        return ran


class EventSuite(JobSuite):
    """Tests that use such a driver, or several that share a store."""

    needed_capabilities: ClassVar[tuple[Capability, ...]] = (Capability.JOBS, Capability.EVENTS)

    @asynccontextmanager
    async def event_driver(
        self, url: str, clock: VirtualClock | None = None, **settings: Any
    ) -> AsyncIterator[EventDriver]:
        """A fresh driver on the store."""
        async with self.driver(url, clock, **({"namespace": self.namespace} | settings)) as driver:
            yield EventDriver(driver.store, driver.clock)

    @asynccontextmanager
    async def event_drivers(self, url: str, count: int) -> AsyncIterator[list[EventDriver]]:
        """Drivers with separate connections to one store, like processes; only one if the store allows only one."""
        clock = VirtualClock()
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(self.event_driver(url, clock))
            if Capability.PROCESSES not in first.store.capabilities:
                yield [first] * count
                return
            others = [await stack.enter_async_context(self.event_driver(url, clock)) for _ in range(count - 1)]
            yield [first, *others]
