"""Apps on a store, with figures that keep tests short: what the suites for the public face of jobs work at."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from interlock.app import App
from interlock.backends import from_url
from interlock.ports.jobs import FetchRequest, FetchResult, JobState
from interlock.ports.sessions import SessionCard
from interlock.ports.store import Capability
from interlock.settings import Settings
from interlock.testing.clock import until
from interlock.testing.conformance.base import StoreSuite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.jobs import Handle
    from interlock.ports.store import Store

__all__ = ["AppSuite"]


class AppSuite(StoreSuite):
    """Tests with one or more apps, in real time."""

    needed_capabilities: ClassVar[tuple[Capability, ...]] = (Capability.JOBS,)

    @asynccontextmanager
    async def app(self, url: str, **settings: Any) -> AsyncIterator[App]:
        """An open app. It polls once a minute, so whatever happens sooner was notified."""
        usual: dict[str, Any] = {"session_ttl": 30.0, "recheck_interval": 60.0, "stuck_work": "report"}
        async with App(url, namespace=self.namespace, **(usual | settings)) as app:
            yield app

    @asynccontextmanager
    async def port(self, url: str) -> AsyncIterator[Store]:
        """The store of the app's at that place, for what only the port can do."""
        store = from_url(url, settings=Settings(namespace=self.namespace))
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    async def die(self, store: Store, session: str, handle: Handle[Any]) -> None:
        """A worker fetches the job, which is next, and dies."""
        await store.sessions.begin(SessionCard(session, "elsewhere", 7, "test"), 60.0)
        view = await store.insight.get(handle.id)
        assert view is not None
        batch = await store.jobs.fetch(FetchRequest(session, (view.queue,), (view.name,), 1, 1, 1))
        assert isinstance(batch, FetchResult)
        assert [job.id for job in batch.jobs] == [handle.id]
        await store.sessions.end(session)

    async def becomes(self, handle: Handle[Any], *states: JobState) -> None:
        """Wait until the job stands so."""

        async def seen() -> bool:
            return (await handle.status()).state in states

        await until(seen, what=f"job {handle.id} is {', '.join(states)}")
