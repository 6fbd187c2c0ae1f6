"""Reservations that are used in odd ways: nothing is started twice, nothing is left behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Cooldown, Limits, Slots
from interlock.backends.memory import MemoryStore
from interlock.errors import LeaseLostError, LimitTimeoutError
from interlock.testing.clock import until
from interlock.testing.lookup import get_or_none

if TYPE_CHECKING:
    from interlock.ports.limits import LimitAnswer, Plan


async def test_finishing_while_it_starts_leaves_nothing_started(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    async with Limits(store) as limits:
        reservation = await limits.reserve(Slots("one", 1))
        ask, arrived, go_on = store.limits.ask, asyncio.Event(), asyncio.Event()

        async def slowly(plan: Plan) -> LimitAnswer:
            arrived.set()
            await go_on.wait()
            return await ask(plan)

        monkeypatch.setattr(store.limits, "ask", slowly)
        starting = asyncio.create_task(reservation.start())
        await arrived.wait()
        await reservation.finish()
        go_on.set()
        with pytest.raises(LeaseLostError, match="already released"):
            await starting
        monkeypatch.undo()
        async with limits.acquire(Slots("one", 1), wait=5):
            pass


async def test_waiting_for_no_time_at_all() -> None:
    async with Limits.from_url("memory://") as limits, limits.acquire(Slots("one", 1)):
        with pytest.raises(LimitTimeoutError, match="1 of 1 are running"):
            await limits.acquire(Slots("one", 1), wait=0)
        view = await get_or_none(limits, "slots:one")
        assert view is not None
        assert view.waiting == ()


async def test_a_cooldown_that_outlasts_the_wait_is_said_and_given_back() -> None:
    async with Limits.from_url("memory://") as limits:
        async with limits.acquire(Cooldown("gap", 90)) as first:
            pass
        with pytest.raises(LimitTimeoutError, match="its turn comes at"):
            await limits.acquire(Cooldown("gap", 90), wait=0.05)
        again = await limits.reserve(Cooldown("gap", 90))
        assert first.starts_at is not None
        assert again.starts_at is not None
        assert (again.starts_at - first.starts_at).total_seconds() == 90


async def test_nothing_is_left_of_requests_that_are_over() -> None:
    store = MemoryStore()
    async with Limits(store) as limits:
        await asyncio.gather(*(_use(limits, number) for number in range(100)))
        engine: Any = limits._running
        await until(lambda: not engine._owners)
        assert store.limits._keys == {}
        assert store.limits._by_session == {}


async def _use(limits: Limits, number: int) -> None:
    async with limits.acquire(Slots("some", 3), Slots("each", 1, key="{number}"), number=number % 5):
        await asyncio.sleep(0)
