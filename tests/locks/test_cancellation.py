"""A request cancelled at any of its awaits leaves nothing behind, neither in the store nor in the engine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Locks, Settings
from interlock.errors import LeaseLostError
from interlock.testing.clock import until
from interlock.testing.lookup import get_or_none

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator


class CancelledAt:
    """Runs a coroutine and cancels its task just as it suspends for the n-th time."""

    def __init__(self, work: Coroutine[Any, Any, None], suspension: int) -> None:
        self._work = work
        self._suspension = suspension
        self.reached = False

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self._work.__await__()
        suspended = 0
        value, error = None, None
        while True:
            try:
                waits_for = steps.throw(error) if error is not None else steps.send(value)
            except StopIteration:
                return
            suspended += 1
            if suspended == self._suspension:
                self.reached = True
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            value, error = None, None
            try:
                value = yield waits_for
            except BaseException as thrown:
                error = thrown


async def run_cancelled(work: Coroutine[Any, Any, None], suspension: int) -> bool:
    """Whether the work got as far as the suspension at which it was to be cancelled."""
    cancelled = CancelledAt(work, suspension)

    async def body() -> None:
        await cancelled

    task = asyncio.create_task(body())
    await asyncio.wait([task], timeout=20)
    assert task.done(), "the cancelled work never ended"
    if not task.cancelled():
        error = task.exception()
        assert error is None or isinstance(error, LeaseLostError), error
    return cancelled.reached


@pytest.mark.parametrize("way", ["block", "bare", "many", "failing body"])
async def test_cancelled_at_any_await_of_an_uncontended_lock(store_url: str, way: str) -> None:
    async with Locks.from_url(store_url, settings=Settings(recheck_interval=60.0)) as locks:

        async def work() -> None:
            if way == "block":
                async with locks.acquire("key"):
                    await asyncio.sleep(0)
            elif way == "bare":
                lease = await locks.acquire("key")
                try:
                    await asyncio.sleep(0)
                finally:
                    await lease.release()
            elif way == "many":
                async with locks.acquire_many(["a", "key", "z"]):
                    await asyncio.sleep(0)
            else:
                try:
                    async with locks.acquire("key"):
                        await asyncio.sleep(0)
                        raise KeyError
                except KeyError:
                    pass

        await cancel_everywhere(locks, work)


async def test_cancelled_at_any_await_of_a_contended_lock(store_url: str) -> None:
    async with Locks.from_url(store_url, settings=Settings(recheck_interval=60.0)) as locks:
        holds = asyncio.Event()

        async def hold() -> None:
            async with locks.acquire("key"):
                holds.set()
                await until_waited_for(locks, 1)

        async def work() -> None:
            holds.clear()
            holder = asyncio.create_task(hold())
            try:
                await asyncio.shield(holds.wait())
                async with locks.acquire("key", wait=30):
                    await asyncio.sleep(0)
            finally:
                holder.cancel()
                await asyncio.wait([holder])

        await cancel_everywhere(locks, work)


async def test_a_time_out_and_a_cancellation_leave_the_queue_as_it_was(store_url: str) -> None:
    async with Locks.from_url(store_url) as locks, locks.acquire("key"):

        async def work() -> None:
            with pytest.raises(TimeoutError):
                async with locks.acquire("key", wait=0.01):
                    pass

        for suspension in range(1, 30):
            if not await run_cancelled(work(), suspension):
                break
            await until_waited_for(locks, 0)
        assert suspension > 1


async def cancel_everywhere(locks: Locks, work: Any) -> None:
    owners = locks._running._owners
    suspension = 1
    while await run_cancelled(work(), suspension):
        suspension += 1
        assert suspension < 200
        # Given back well before any ttl, session or re-check could have done it.
        async with asyncio.timeout(5):
            for key in ("a", "key", "z"):
                async with locks.acquire(key, wait=4):
                    pass
        await until(lambda: not owners, within=5, what=f"nothing is left of suspension {suspension - 1}")
        assert await locks.list() == []
        assert locks.metrics.active == 0
    assert suspension > 1


async def until_waited_for(locks: Locks, waiters: int) -> None:
    async with asyncio.timeout(10):
        while True:
            view = await get_or_none(locks, "key")
            if view is not None and len(view.waiters) == waiters:
                return
            await asyncio.sleep(0)
