"""An app's stores on a virtual clock, and Insight into them."""

from __future__ import annotations

import uuid
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from interlock.backends import from_url
from interlock.insight import Insight
from interlock.settings import Settings
from interlock.testing.clock import VirtualClock
from interlock.testing.conformance.jobs.driver import JobDriver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    Floors = Callable[..., AbstractAsyncContextManager["Floor"]]


class Floor(JobDriver):
    """A driver with Insight. Sessions ``a``, ``b`` and ``c`` are process 7 of ``host-a`` and so on."""

    insight: Insight

    async def why(self, job_id: int) -> tuple[str, str]:
        """The reason and the short of it, which a list and the page of the job agree about."""
        page = await self.insight.job(job_id)
        rows = {row.job.id: row for row in await self.insight.jobs(limit=500)}
        assert (rows[job_id].reason, rows[job_id].why) == (page.reason, page.why)
        assert page.explanation.subject == ("job", str(job_id))
        assert (await self.insight.explain("job", job_id)).lines == page.explanation.lines
        return page.reason, page.why


@pytest.fixture(scope="module")
def database(interlock_postgres_server: Any) -> Iterator[str]:
    """One for all tests of a module, each of which has a namespace of its own."""
    name = f"interlock_{uuid.uuid4().hex}"
    interlock_postgres_server.create_database(name)
    yield interlock_postgres_server.url(name)
    interlock_postgres_server.drop_database(name)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def floor(request: pytest.FixtureRequest, tmp_path: Path) -> Floors:
    """Opens one on every store that has jobs, in turn."""

    @asynccontextmanager
    async def opened(**elsewhere: str) -> AsyncIterator[Floor]:
        url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/insight.db"
        if request.param == "postgres":
            url = str(request.getfixturevalue("database"))
        clock, settings = VirtualClock(), Settings(namespace=uuid.uuid4().hex)
        async with AsyncExitStack() as stack:
            stores = {}
            for part, place in {"": url, **elsewhere}.items():
                stores[part] = from_url(place, settings=settings, clock=clock)
                await stores[part].open()
                stack.push_async_callback(stores[part].close)
            made = Floor(stores.pop(""), clock)
            await made.begin("a", "b", "c")
            made.insight = Insight(made.store, **stores, clock=clock)
            yield made

    return opened
