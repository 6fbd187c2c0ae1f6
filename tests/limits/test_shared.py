"""Jobs and ``app.limits`` under one name: one limit, from endpoint to worker, in real time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Cooldown, Settings, Slots
from interlock.testing.clock import until
from tests.databases import new_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOON = 5.0
"""Long on a slow machine, and far below the 60 seconds after which waiters look without being told."""


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    settings = Settings(recheck_interval=60.0)
    if request.param != "postgres":
        yield App("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/bot.db", settings=settings)
        return
    server: Any = request.getfixturevalue("interlock_postgres_server")
    for name in new_database(server):
        yield App(server.url(name), settings=settings)


async def test_the_end_of_either_side_wakes_the_other_at_once(app: App) -> None:
    one = Slots("containers", 1)
    go_on = asyncio.Event()
    running = asyncio.Event()

    @app.job(limits=[one])
    async def container() -> None:
        running.set()
        await go_on.wait()

    async with app, app.worker():
        async with app.limits.acquire(one):
            handle = await container.enqueue()
            await until(lambda: _waiting_jobs(app), what="the job waits")
            assert not running.is_set()
            left = time.monotonic()
        await asyncio.wait_for(running.wait(), SOON)
        assert time.monotonic() - left < SOON

        acquiring = asyncio.create_task(_acquire(app, one))
        await until(lambda: _waiting_reservations(app), what="the reservation waits")
        assert not acquiring.done()
        go_on.set()
        await asyncio.wait_for(acquiring, SOON)
        await handle.result(wait=SOON)


async def test_d1_a_check_and_a_job_share_the_cooldown_of_an_account(app: App) -> None:
    cooldown = Cooldown("account", 0.6, key="{account}")
    starts: list[float] = []

    @app.job(limits=[cooldown])
    async def report(account: str) -> None:
        starts.append(time.monotonic())

    async with app, app.worker():
        starts.append(time.monotonic())  # before the store's answer, which may come late
        async with app.limits.acquire(cooldown, account="a1"):
            pass
        handle = await report.enqueue(account="a1")
        other = await report.enqueue(account="b2")
        await other.result(wait=SOON)
        assert len(starts) == 2, "another account does not wait"
        await handle.result(wait=SOON)
        async with app.limits.acquire(cooldown, account="a1"):
            starts.append(time.monotonic())

    check, _, job, last = starts
    assert job - check >= 0.6 - 0.005
    assert last - job >= 0.6 - 0.005


async def test_d1_a_cooldown_is_resized_at_run_time_for_jobs_and_checks(app: App) -> None:
    cooldown = Cooldown("account", 90, key="{account}")

    @app.job(limits=[cooldown])
    async def report(account: str) -> None: ...

    async with app, app.worker():
        await (await app.limits.reserve(cooldown, account="a1")).start()
        handle = await report.enqueue(account="a1")
        await until(lambda: _waiting_jobs(app), what="the job waits")
        await app.limits.resize("cooldown:account", 0.001, by="ann", reason="the service was upgraded")

        await handle.result(wait=SOON)
        explained = await app.limits.explain("cooldown:account:a1")
        assert any("ann set 'cooldown:account' to 1 every 0.001 s" in line for line in explained.lines)
        entry = (await app.journal.list(limit=1))[0]
        assert (entry.action, entry.subject_key, entry.reason) == (
            "limit.resize",
            "cooldown:account",
            "the service was upgraded",
        )


async def _acquire(app: App, limit: Slots) -> None:
    async with app.limits.acquire(limit, wait=30):
        pass


async def _waiting_jobs(app: App) -> bool:
    return any(row.waiting for row in (await app.insight.limits()).rows)


async def _waiting_reservations(app: App) -> bool:
    return any(view.waiting for view in await app.limits.list())
