"""Limits through lost answers and outages: nothing starts twice, and no slot is held by nobody."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

import pytest

from interlock import Cooldown, Limits, Settings, Slots
from interlock.errors import StoreUnavailableError
from interlock.testing.clock import until
from interlock.testing.lookup import get_or_none

if TYPE_CHECKING:
    from tests.remote import Remote

pytestmark = [pytest.mark.full, pytest.mark.covering]

SETTINGS = Settings(session_ttl=30, store_wait=10.0, recheck_interval=0.5, stuck_work="report")
BRIEF = dataclasses.replace(SETTINGS, store_wait=3.0)
"""For tests in which the store does not come back before the caller gives up."""


async def test_a_start_whose_answer_was_lost_counts_once(remote: Remote) -> None:
    async with Limits.from_url(remote.url, settings=SETTINGS) as limits:
        async with limits.acquire(Slots("warm-up", 1)):
            pass
        remote.proxy.drop_replies()
        async with limits.acquire(Slots("two", 2), Cooldown("gap", 90)) as turn:
            assert remote.proxy.fired["drop_replies"] == 1
            view = await get_or_none(limits, "slots:two")
            assert view is not None
            assert len(view.started) == 1
            async with limits.acquire(Slots("two", 2), wait=5):
                pass
            after = await limits.reserve(Cooldown("gap", 90))
            assert after.starts_at is not None
            assert turn.starts_at is not None
            assert (after.starts_at - turn.starts_at).total_seconds() == 90


async def test_a_slot_that_nobody_heard_of_is_given_back(remote: Remote) -> None:
    async with (
        Limits.from_url(remote.url, settings=BRIEF) as limits,
        Limits.from_url(remote.direct, settings=SETTINGS) as others,
    ):
        async with limits.acquire(Slots("one", 1)):
            pass
        remote.proxy.half_open()
        with pytest.raises(StoreUnavailableError):
            await limits.acquire(Slots("one", 1), wait=5)
        remote.proxy.heal()
        async with others.acquire(Slots("one", 1), wait=10):
            pass


async def test_a_finish_whose_answer_was_lost_frees_the_slot(remote: Remote) -> None:
    async with (
        Limits.from_url(remote.url, settings=SETTINGS) as limits,
        Limits.from_url(remote.direct, settings=SETTINGS) as others,
    ):
        turn = await limits.acquire(Slots("one", 1))
        waiting = asyncio.create_task(_through(others))
        await until(lambda: _waiting(others), within=5)
        remote.proxy.drop_replies()
        await turn.finish()
        await asyncio.wait_for(waiting, 10)


async def test_those_who_wait_outlast_an_outage(remote: Remote) -> None:
    async with (
        Limits.from_url(remote.url, settings=SETTINGS) as limits,
        Limits.from_url(remote.direct, settings=SETTINGS) as others,
    ):
        turn = await others.acquire(Slots("one", 1))
        waiting = asyncio.create_task(_through(limits))
        await until(lambda: limits._running._queue._waits, what="it knows that it waits")
        remote.proxy.refuse()
        remote.proxy.reset()
        await turn.finish()

        def gave_up_twice() -> bool:
            limits._running.turn(None)  # have it ask in the middle of the outage
            return limits._running._access.failures >= 12

        await until(gave_up_twice)
        remote.proxy.heal()
        await asyncio.wait_for(waiting, 10)


async def _through(limits: Limits) -> None:
    async with limits.acquire(Slots("one", 1), wait=30):
        pass


async def _waiting(limits: Limits) -> bool:
    view = await get_or_none(limits, "slots:one")
    return view is not None and len(view.waiting) == 1
