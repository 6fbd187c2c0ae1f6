"""Limits through lost answers and outages: nothing starts twice, and no slot is held by nobody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Cooldown, Limits, Settings, Slots, StoreUnavailableError
from interlock.testing.clock import until
from interlock.testing.proxy import ThreadedFaultProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = Settings(session_seconds=30, store_wait=1.0, recheck_seconds=0.5, stuck_work="report")


@pytest.fixture(params=["postgres", "redis"])
def remote(request: pytest.FixtureRequest) -> Iterator[tuple[str, str, ThreadedFaultProxy]]:
    direct = str(request.getfixturevalue(f"interlock_{request.param}_url"))
    server: Any = request.getfixturevalue(f"interlock_{request.param}_server")
    with ThreadedFaultProxy("127.0.0.1", server.port) as proxy:
        yield proxy.url(direct), direct, proxy


async def test_a_start_whose_answer_was_lost_counts_once(remote: tuple[str, str, ThreadedFaultProxy]) -> None:
    url, _, proxy = remote
    async with Limits.from_url(url, settings=SETTINGS) as limits:
        async with limits.acquire(Slots("warm-up", 1)):
            pass
        proxy.drop_replies()
        async with limits.acquire(Slots("two", 2), Cooldown("gap", 90)) as turn:
            assert proxy.fired["drop_replies"] == 1
            view = await limits.show("slots:two")
            assert view is not None
            assert len(view.started) == 1
            async with limits.acquire(Slots("two", 2), wait=5):
                pass
            after = await limits.reserve(Cooldown("gap", 90))
            assert after.starts_at is not None
            assert turn.starts_at is not None
            assert (after.starts_at - turn.starts_at).total_seconds() == 90


async def test_a_slot_that_nobody_heard_of_is_given_back(remote: tuple[str, str, ThreadedFaultProxy]) -> None:
    url, direct, proxy = remote
    async with (
        Limits.from_url(url, settings=SETTINGS) as limits,
        Limits.from_url(direct, settings=SETTINGS) as others,
    ):
        async with limits.acquire(Slots("one", 1)):
            pass
        proxy.half_open()
        with pytest.raises(StoreUnavailableError):
            await limits.acquire(Slots("one", 1), wait=5)
        proxy.heal()
        async with others.acquire(Slots("one", 1), wait=10):
            pass


async def test_a_finish_whose_answer_was_lost_frees_the_slot(remote: tuple[str, str, ThreadedFaultProxy]) -> None:
    url, direct, proxy = remote
    async with (
        Limits.from_url(url, settings=SETTINGS) as limits,
        Limits.from_url(direct, settings=SETTINGS) as others,
    ):
        turn = await limits.acquire(Slots("one", 1))
        waiting = asyncio.create_task(_through(others))
        await until(lambda: _waiting(others), within=5)
        proxy.drop_replies()
        await turn.finish()
        await asyncio.wait_for(waiting, 10)


async def test_those_who_wait_outlast_an_outage(remote: tuple[str, str, ThreadedFaultProxy]) -> None:
    url, direct, proxy = remote
    async with (
        Limits.from_url(url, settings=SETTINGS) as limits,
        Limits.from_url(direct, settings=SETTINGS) as others,
    ):
        turn = await others.acquire(Slots("one", 1))
        waiting = asyncio.create_task(_through(limits))
        await until(lambda: _waiting(others), within=5)
        proxy.refuse()
        proxy.reset()
        await turn.finish()
        proxy.heal()
        await asyncio.wait_for(waiting, 10)


async def _through(limits: Limits) -> None:
    async with limits.acquire(Slots("one", 1), wait=30):
        pass


async def _waiting(limits: Limits) -> bool:
    view = await limits.show("slots:one")
    return view is not None and len(view.waiting) == 1
