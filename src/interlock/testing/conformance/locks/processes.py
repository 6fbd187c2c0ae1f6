"""Locks between real processes, some of which are killed. Skipped by stores that support only one process."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

from interlock.errors import DeadlockError, LeaseLostError
from interlock.locks import Locks
from interlock.ports.store import Capability
from interlock.settings import Settings
from interlock.testing.conformance.base import StoreSuite, needs
from interlock.testing.lookup import get_or_none
from interlock.testing.processes import Worker, receive_async, report

__all__ = ["ProcessConformance"]

_HERE = __name__


async def hold_until_told(url: str, key: str, settings: dict[str, Any]) -> None:
    """In a worker: acquire a key, report that, and hold it until a message arrives."""
    async with Locks.from_url(url, settings=Settings(**settings)) as locks:
        try:
            async with locks.acquire(key, wait=30) as lease:
                report("held", fence=lease.fence)
                await receive_async("let go")
        except LeaseLostError as error:
            report("lost", why=str(error))
        else:
            report("released")
        await receive_async("end")


async def take_two(url: str, first: str, second: str) -> None:
    """In a worker: acquire one key, then, on a message, another, and report the outcome."""
    async with Locks.from_url(url, recheck_interval=600.0) as locks:
        try:
            async with locks.acquire(first):
                report("held")
                await receive_async("go")
                async with locks.acquire(second, wait=120):
                    report("done", victim=False)
        except DeadlockError as error:
            report("done", victim=True, cycle=list(error.cycle))
        await receive_async("end")


class ProcessConformance(StoreSuite):
    """The promises across processes."""

    @needs(Capability.PROCESSES)
    async def test_a_crashed_holders_key_is_granted_to_the_next_in_twenty_seconds_with_default_settings(
        self, store_url: str
    ) -> None:
        async with Worker.spawn(f"{_HERE}:hold_until_told", (store_url, "key", {})) as worker:
            held = await worker.wait_for("held", timeout=20)
            async with Locks.from_url(store_url) as locks:
                waiting = asyncio.create_task(self._take(locks, "key"))
                await self._somebody_waits(locks, "key")
                worker.kill()
                killed = time.monotonic()
                fence = await asyncio.wait_for(waiting, 30)

                assert time.monotonic() - killed <= 20
                assert fence > held["fence"]

    @needs(Capability.PROCESSES)
    async def test_a_holder_paused_past_its_session_is_stopped_and_its_successor_has_a_larger_fence(
        self, store_url: str
    ) -> None:
        settings = {"session_ttl": 1.5, "stuck_work": "report"}
        async with Worker.spawn(f"{_HERE}:hold_until_told", (store_url, "key", settings)) as worker:
            held = await worker.wait_for("held", timeout=20)
            worker.pause()
            async with Locks.from_url(store_url, settings=Settings(session_ttl=1.5)) as locks:
                lease = await asyncio.wait_for(self._lease(locks, "key"), 10)
                assert lease.fence > held["fence"]
                worker.resume()
                lost = await worker.wait_for("lost", timeout=10)
                assert "session" in lost["why"]
                lease.ensure()
                await lease.release()

    @needs(Capability.PROCESSES)
    async def test_a_killed_waiter_delays_the_others_by_a_bounded_time_and_gets_nothing(self, store_url: str) -> None:
        settings = {"session_ttl": 1.5}
        async with Locks.from_url(store_url, settings=Settings(session_ttl=1.5, recheck_interval=0.5)) as locks:
            lease = await locks.acquire("key")
            async with Worker.spawn(f"{_HERE}:hold_until_told", (store_url, "key", settings)) as worker:
                await self._somebody_waits(locks, "key")
                behind = asyncio.create_task(self._take(locks, "key"))
                await self._somebody_waits(locks, "key", 2)
                worker.kill()
                await lease.release()
                await asyncio.wait_for(behind, 30)

    @needs(Capability.PROCESSES)
    @pytest.mark.parametrize("size", [2, 5])
    async def test_a_deadlock_across_processes_is_resolved_when_it_closes(self, store_url: str, size: int) -> None:
        async with AsyncExitStack() as stack:
            workers = [
                await stack.enter_async_context(
                    Worker.spawn(f"{_HERE}:take_two", (store_url, f"k{i}", f"k{(i + 1) % size}"))
                )
                for i in range(size)
            ]
            for worker in workers:
                await worker.wait_for("held", timeout=30)
            for worker in workers:
                worker.send("go")
            # Waiters do not poll for minutes: without the victim's error, nothing would happen.
            ends = await asyncio.gather(*(worker.wait_for("done", timeout=30) for worker in workers))
            for worker in workers:
                worker.send("end")

            (victim,) = [end for end in ends if end["victim"]]
            assert len(victim["cycle"]) == size

    @needs(Capability.PROCESSES)
    async def test_a_forced_release_reaches_the_holder_in_its_process(self, store_url: str) -> None:
        async with Worker.spawn(f"{_HERE}:hold_until_told", (store_url, "key", {})) as worker:
            await worker.wait_for("held", timeout=20)
            async with Locks.from_url(store_url) as locks:
                await locks.force_release("key", reason="stuck", by="eva")
                lost = await worker.wait_for("lost", timeout=30)

            assert "eva released it by force: stuck" in lost["why"]

    async def _take(self, locks: Locks, key: str) -> int:
        async with locks.acquire(key, wait=60) as lease:
            return lease.fence

    async def _lease(self, locks: Locks, key: str) -> Any:
        return await locks.acquire(key, wait=60)

    async def _somebody_waits(self, locks: Locks, key: str, count: int = 1) -> None:
        give_up = time.monotonic() + 20
        while True:
            view = await get_or_none(locks, key)
            if view is not None and len(view.waiters) >= count:
                return
            assert time.monotonic() < give_up, "nobody came to wait"
            await asyncio.sleep(0.01)
