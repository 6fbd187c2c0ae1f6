"""A grant whose notification a process cannot receive: while it starts to listen, and while it does not listen."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from interlock import Locks

if TYPE_CHECKING:
    from collections.abc import Callable


def _store(locks: Locks) -> Any:
    return locks._store_client.store


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_grant_before_a_new_process_listens_is_not_missed_by_a_request_that_is_under_way(
    complete_postgres_url: str,
) -> None:
    async with Locks.from_url(complete_postgres_url) as holder:
        waiter = Locks.from_url(complete_postgres_url)
        store = _store(waiter)
        listens, queued, caught_up = asyncio.Event(), asyncio.Event(), asyncio.Event()
        listen, ask, hear = store.messages._listener._listen_once, store.locks.ask, store.messages._listener._hear

        async def listen_late() -> bool:
            await listens.wait()
            return bool(await listen())

        async def answer_late(request: Any) -> Any:
            answer = await ask(request)
            queued.set()
            await caught_up.wait()
            return answer

        def heard(message: str | None) -> None:
            hear(message)
            if message is None:
                caught_up.set()

        store.messages._listener._listen_once, store.locks.ask = listen_late, answer_late
        store.messages._listener._hear = heard
        store.messages._look = lambda **_: asyncio.sleep(0)  # the poll of a process that does not listen yet
        lease = await holder.acquire("key")
        async with waiter:
            waiting = asyncio.create_task(_acquire(waiter))
            await queued.wait()
            await lease.release()
            listens.set()
            await caught_up.wait()
            released_at = time.monotonic()
            await waiting
            assert time.monotonic() - released_at < 1


async def test_a_process_that_gives_up_its_listening_connection_polls_at_once(complete_postgres_url: str) -> None:
    async with Locks.from_url(complete_postgres_url) as holder, Locks.from_url(complete_postgres_url) as waiter:
        messages = _store(waiter).messages
        await _until(lambda: messages._listener.works is True and not messages._stir.is_set())
        lease = await holder.acquire("key")
        waiting = asyncio.create_task(_acquire(waiter))
        await _until(lambda: messages._waiting)
        messages.yield_connection()
        await _until(lambda: messages._listener.works is None)
        released_at = time.monotonic()
        await lease.release()
        await waiting
        assert time.monotonic() - released_at < 1


async def _acquire(locks: Locks) -> None:
    async with locks.acquire("key"):
        pass
