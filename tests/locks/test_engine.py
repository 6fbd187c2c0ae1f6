"""Corners of the engine that were once wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import Locks, Settings
from interlock.backends.memory import MemoryStore
from interlock.callers import calling_as
from interlock.errors import DeadlockError, InvalidArgumentError, LeaseLostError, MisuseError
from interlock.leases.eager_start import start_eagerly
from interlock.testing.clock import until
from interlock.testing.lookup import get_or_none


async def test_an_acquisition_is_used_once() -> None:
    async with Locks.from_url("memory://") as locks:
        acquisition = locks.acquire("key")
        async with acquisition:
            pass
        with pytest.raises(MisuseError, match="already used"):
            async with acquisition:
                pass
        with pytest.raises(MisuseError, match="already used"):
            await acquisition


async def test_a_job_is_one_party_with_its_child_tasks_also_after_its_task_used_locks() -> None:
    async with Locks.from_url("memory://") as locks:

        async def child() -> None:
            async with locks.acquire("key", wait=5):
                pass

        async with locks.acquire("before"):
            pass
        with calling_as("job 7"):
            async with locks.acquire("key"):
                with pytest.raises(DeadlockError, match="job 7"):
                    await asyncio.create_task(child())


@pytest.mark.parametrize("seconds", [1e9, 1e300, float("inf")])
async def test_a_time_beyond_every_calendar_is_refused(seconds: float) -> None:
    async with Locks.from_url("memory://") as locks:
        with pytest.raises(InvalidArgumentError):
            locks.acquire("key", seconds)
        with pytest.raises(InvalidArgumentError):
            locks.acquire("key", wait=seconds)


async def test_closing_lets_others_in_only_when_the_bodies_it_stopped_have_ended(store_url: str) -> None:
    if store_url == "memory://":
        store_url = "memory://shared"
    order: list[str] = []
    entered = asyncio.Event()
    one = Locks.from_url(store_url)
    await one.open()

    async def slow_to_stop() -> None:
        async with one.acquire("key"):
            entered.set()
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.2)
                order.append("stopped")

    async with Locks.from_url(store_url) as two:
        body = asyncio.create_task(slow_to_stop())
        await entered.wait()

        async def enter() -> None:
            async with two.acquire("key", wait=10):
                order.append("entered")

        waiting = asyncio.create_task(enter())
        while not any(view.waiters for view in await two.list()):
            await asyncio.sleep(0.001)
        await one.close()
        await asyncio.wait_for(waiting, 10)
        with pytest.raises(LeaseLostError, match="closed"):
            await body
    assert order == ["stopped", "entered"]


@pytest.mark.parametrize("request_number", [1, 2], ids=["the first request", "a repeated request"])
async def test_closing_ends_the_session_only_when_the_store_has_answered_its_waiters(
    monkeypatch: pytest.MonkeyPatch, request_number: int
) -> None:
    store = MemoryStore()
    locks = Locks(store)
    await locks.open()
    lease = await locks.acquire("key")
    ask, end = store.locks.ask, store.sessions.end
    asked, processed, order = 0, asyncio.Event(), list[str]()

    async def slow(request: Any) -> Any:
        nonlocal asked
        asked += 1
        answer = await ask(request)
        if asked == request_number:
            await processed.wait()
            order.append("answered")
        return answer

    async def ends(session: str) -> None:
        order.append("ended")
        await end(session)

    monkeypatch.setattr(store.locks, "ask", slow)
    monkeypatch.setattr(store.sessions, "end", ends)
    waiting = asyncio.create_task(_enter(locks))
    await until(lambda: asked == 1)
    if request_number == 2:
        await until(lambda: bool(locks._running._queue._waits))
        locks._running.turn(None)  # as when the store's messages start to arrive
        await until(lambda: asked == 2)
    closing = asyncio.create_task(locks.close())
    await until(lambda: lease.lost)
    for _ in range(20):  # far enough to end the session, if it did not wait
        await asyncio.sleep(0)
    processed.set()
    await closing
    with pytest.raises(MisuseError):
        await waiting
    assert order == ["answered", "ended"]


async def test_a_lease_that_was_lost_is_not_given_back_while_its_body_is_stopping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    async with Locks(store, Settings(store_wait=0.2)) as locks:
        with pytest.raises(LeaseLostError):  # noqa: PT012
            async with locks.acquire("key", ttl=1) as lease:
                monkeypatch.setattr(store.locks, "renew", _broken)
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    await locks._running._access._clean_up_once()
                    view = await get_or_none(locks, "key")
                    assert view is not None, "tidied away under its body"
                    assert view.holder is not None
                    assert view.holder.owner == lease.owner
                    raise


async def test_looking_out_goes_on_after_an_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    async with Locks(store, Settings(recheck_interval=0.05)) as locks:
        turns, failures = store.locks.turns, 3

        async def sometimes(*args: Any) -> Any:
            nonlocal failures
            if failures:
                failures -= 1
                raise RuntimeError("unexpected, for the test")
            return await turns(*args)

        monkeypatch.setattr(store.locks, "turns", sometimes)
        monkeypatch.setattr(locks._running._queue, "wake", lambda _owner: None)  # no message arrives
        lease = await locks.acquire("key")
        waiting = asyncio.create_task(_enter(locks))
        await asyncio.sleep(0)
        await lease.release()
        monkeypatch.setattr(
            locks._running._queue, "wake", type(locks._running._queue).wake.__get__(locks._running._queue)
        )
        await asyncio.wait_for(waiting, 20)
        assert failures == 0


async def test_a_release_cancelled_on_its_way_still_reaches_the_next(complete_postgres_url: str) -> None:
    async with Locks.from_url(complete_postgres_url, recheck_interval=600.0) as locks:
        for _ in range(5):
            lease = await locks.acquire("key")
            waiting = asyncio.create_task(_enter(locks))
            while not any(view.waiters for view in await locks.list()):
                await asyncio.sleep(0.001)
            release = asyncio.create_task(lease.release())
            for _ in range(4):  # far enough for the statement to be on its way
                await asyncio.sleep(0)
            release.cancel()
            await asyncio.wait_for(waiting, 20)  # less than it takes it to look by itself


@pytest.mark.parametrize("name", ["not \ud800 text", "nul \0 inside", "x" * 10_000, "зад'ача; --"])
async def test_a_task_may_have_any_name(store_url: str, name: str) -> None:
    async with Locks.from_url(store_url) as locks:

        async def work() -> None:
            async with locks.acquire("key"):
                view = await get_or_none(locks, "key")
                assert view is not None
                assert view.holder is not None
                assert len(view.holder.caller) < 1000

        await asyncio.create_task(work(), name=name)


async def test_work_begun_at_once_is_finished_as_a_task() -> None:
    steps: list[str] = []

    async def work(fail: bool) -> None:
        steps.append("first")
        await asyncio.sleep(0)
        steps.append("second")
        if fail:
            raise KeyError

    async def at_once() -> None:
        steps.append("all")

    async def fails_at_once() -> None:
        raise KeyError

    failed = start_eagerly(fails_at_once())
    assert failed is not None
    with pytest.raises(KeyError):
        await asyncio.create_task(failed)
    assert start_eagerly(at_once()) is None
    rest = start_eagerly(work(fail=False))
    assert steps == ["all", "first"]
    assert rest is not None
    await asyncio.create_task(rest)
    assert steps == ["all", "first", "second"]
    rest = start_eagerly(work(fail=True))
    assert rest is not None
    with pytest.raises(KeyError):
        await asyncio.create_task(rest)
    rest = start_eagerly(work(fail=True))
    assert rest is not None
    task = asyncio.create_task(rest)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises((asyncio.CancelledError, KeyError)):
        await task
    await until(lambda: task.done())


async def _broken(*_: Any) -> Any:
    raise RuntimeError("broken, for the test")


async def _enter(locks: Locks, key: str = "key") -> None:
    async with locks.acquire(key, wait=20):
        pass
