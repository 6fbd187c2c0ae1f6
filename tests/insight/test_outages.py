"""Looking while the store is away: an error in bounded time, and answers again when it is back; also cut off midway."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from interlock import App, Settings
from interlock.backends import from_url
from interlock.errors import StoreError, StoreUnavailableError
from interlock.insight import Insight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.remote import Remote

WAIT = 1.0
SETTINGS = Settings(session_ttl=30, store_wait=2 * WAIT, stuck_work="report")


async def test_looking_ends_in_bounded_time_and_recovers(remote: Remote) -> None:
    store = from_url(remote.url, settings=SETTINGS)
    await store.open()
    try:
        insight = Insight(store)
        await insight.overview()
        remote.proxy.blackhole()
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(StoreUnavailableError):
                await insight.overview()
            assert time.monotonic() - began < 2 * WAIT + 10
        remote.proxy.heal()
        async with asyncio.timeout(20):
            while True:
                try:
                    await insight.overview()
                    break
                except StoreUnavailableError:
                    continue
        remote.proxy.reset()
        async with asyncio.timeout(20):
            while True:
                try:
                    assert await insight.locks() is not None
                    break
                except StoreUnavailableError:
                    continue
    finally:
        remote.proxy.heal()
        await store.close()


async def test_looking_at_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    store = from_url(f"sqlite:///{tmp_path}/nowhere/x.db", settings=SETTINGS)

    with pytest.raises(StoreError, match="nowhere"):
        await Insight(store).overview()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_cancelled_looks_leave_nothing_behind(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    if kind == "postgres":
        url = str(request.getfixturevalue("complete_postgres_url"))
    app = App(url)

    @app.job(lane="{n}")
    async def work(n: int) -> None: ...

    async with app:
        await app.jobs.enqueue_many([work.call(n=n % 5) for n in range(200)])
        for n in range(30):
            looking = asyncio.create_task(app.insight.overview())
            for _ in range(n):
                await asyncio.sleep(0)
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        overviews = await asyncio.gather(*(app.insight.overview() for _ in range(4)))

        assert {sum(overview.totals.values()) for overview in overviews} == {200}
