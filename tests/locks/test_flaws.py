"""Flaws of lock designs seen in the field, each as a check that the flawed design fails and Interlock passes.

The flawed designs are kept here in their plainest form, so that every check is seen to bite.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Locks, Settings
from interlock.backends.memory import MemoryStore
from interlock.errors import LeaseLostError, LockTimeoutError, StoreUnavailableError
from interlock.ports.locks import Granted, LockRequest
from interlock.ports.sessions import SessionCard
from interlock.testing.clock import VirtualClock, until
from interlock.testing.lookup import get_or_none

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


# -- F-A2: an entry is evicted while somebody waits for it: two holders ------------------------------------------------


class EvictingLocks:
    """One asyncio.Lock per key in an LRU; an unlocked entry may be dropped, also one just handed to a waiter."""

    def __init__(self, max_size: int) -> None:
        self._locks: OrderedDict[str, asyncio.Lock] = OrderedDict()
        self._max_size = max_size

    @asynccontextmanager
    async def acquire(self, key: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            yield
        while len(self._locks) > self._max_size:
            idle = next((key for key, lock in self._locks.items() if not lock.locked()), None)
            if idle is None:
                break
            del self._locks[idle]


async def most_holders_at_once(acquire: Callable[[str], Any]) -> int:
    """Release a key that somebody waits for, with the table over its size, as a newcomer arrives."""
    inside = limit = 0

    async def hold(key: str, until_set: asyncio.Event) -> None:
        nonlocal inside, limit
        async with acquire(key):
            inside += key == "key"
            limit = max(limit, inside)
            await until_set.wait()
            inside -= key == "key"

    release_first, release_rest = asyncio.Event(), asyncio.Event()
    tasks = [asyncio.create_task(hold("key", release_first))]
    tasks += [asyncio.create_task(hold(f"other-{n}", release_rest)) for n in range(3)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(hold("key", release_rest)))  # waits
    for _ in range(5):
        await asyncio.sleep(0)
    release_first.set()
    await asyncio.wait({tasks[0]})
    tasks.append(asyncio.create_task(hold("key", release_rest)))  # the newcomer
    for _ in range(10):
        await asyncio.sleep(0)
    release_rest.set()
    await asyncio.gather(*tasks)
    return limit


async def test_f_a2_a_key_with_waiters_is_never_forgotten() -> None:
    assert await most_holders_at_once(EvictingLocks(max_size=1).acquire) == 2, "the check does not bite"

    async with Locks.from_url("memory://") as locks:
        assert await most_holders_at_once(locks.acquire) == 1


async def test_f_a2_idle_keys_are_not_kept() -> None:
    store = MemoryStore()
    async with Locks(store) as locks:
        for number in range(5000):
            async with locks.acquire(f"key-{number}"):
                pass
        assert store.locks._locks == {}


# -- F-A3: acquire spins for ever --------------------------------------------------------------------------------------


class SpinningLock:
    """SET NX in a loop: no limit to waiting, and none to an outage."""

    def __init__(self) -> None:
        self.taken: dict[str, str] = {}
        self.away = False

    async def acquire(self, key: str) -> None:
        while self.away or self.taken.setdefault(key, "me") != "me":
            await asyncio.sleep(0.001)


async def test_f_a3_waiting_has_an_end() -> None:
    flawed = SpinningLock()
    flawed.taken["key"] = "somebody else"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(flawed.acquire("key"), 0.5)

    async with Locks.from_url("memory://") as locks, locks.acquire("key"):

        async def wait() -> None:
            async with locks.acquire("key", wait=0.1):
                pass

        with pytest.raises(LockTimeoutError):
            await asyncio.wait_for(asyncio.create_task(wait()), 30)


async def test_f_a3_a_store_that_is_away_is_reported_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    flawed = SpinningLock()
    flawed.away = True
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(flawed.acquire("key"), 0.5)

    store = MemoryStore()
    async with Locks(store, Settings(store_wait=0.2)) as locks:
        with monkeypatch.context() as patch:
            patch.setattr(store.locks, "ask", away)
            with pytest.raises(StoreUnavailableError):
                await asyncio.wait_for(locks.try_acquire("key"), 30)
        async with locks.acquire("key"):
            pass


async def away(*_: Any, **__: Any) -> Any:
    raise StoreUnavailableError("away, for the test")


# -- F-A4: renewal ends on one error; a lost lock is never told; no fence ----------------------------------------------


class TtlServer:
    """Keys with an owner and an expiry, on a clock of their own: what SET NX EX and its scripts can do."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.keys: dict[str, tuple[str, float]] = {}
        self.failures = 0

    def owner(self, key: str) -> str | None:
        owner, expires_at = self.keys.get(key, (None, 0.0))
        return owner if expires_at > self.clock.now() else None

    def set_nx(self, key: str, owner: str, ttl: float) -> bool:
        if self.owner(key) is None:
            self.keys[key] = (owner, self.clock.now() + ttl)
            return True
        return False

    def extend(self, key: str, owner: str, ttl: float) -> bool:
        if self.failures:
            self.failures -= 1
            raise ConnectionError
        if self.owner(key) != owner:
            return False
        self.keys[key] = (owner, self.clock.now() + ttl)
        return True


class RenewingOnceLock:
    """Renews every half ttl, stops at the first error, and tells nobody."""

    def __init__(self, server: TtlServer) -> None:
        self.server = server
        self.renewing = True
        self.told = False

    def tick(self, key: str, ttl: float) -> None:
        self.server.clock.advance(ttl / 2)
        if self.renewing:
            try:
                self.server.extend(key, "me", ttl)
            except ConnectionError:
                self.renewing = False


async def test_f_a4_one_failed_renewal_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    server = TtlServer()
    flawed = RenewingOnceLock(server)
    server.set_nx("key", "me", 10)
    server.failures = 1
    for _ in range(4):
        flawed.tick("key", 10)
    assert server.owner("key") is None
    assert not flawed.told, "the check does not bite"

    store = MemoryStore()
    renew = store.locks.renew
    failures = 2

    async def fail_twice(leases: Any) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise StoreUnavailableError("away, for the test")
        return await renew(leases)

    monkeypatch.setattr(store.locks, "renew", fail_twice)
    async with Locks(store) as locks, locks.acquire("key", ttl=1) as lease:
        first = lease.expires_at
        await until(lambda: (lease.expires_at - first).total_seconds() > 1.2, within=5)
        assert failures == 0
        lease.ensure()


async def test_f_a4_a_holder_is_stopped_before_its_lease_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(store.locks, "renew", away)
    async with Locks(store) as locks:
        with pytest.raises(LeaseLostError, match="could not be renewed"):  # noqa: PT012
            async with locks.acquire("key", ttl=1) as lease:
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    # Stopped, and still nobody else can have the key.
                    view = await get_or_none(locks, "key")
                    assert view is not None
                    assert view.holder is not None
                    assert view.holder.owner == lease.owner
                    raise
        assert lease.lost


async def test_f_a4_a_late_write_is_known_by_its_fence() -> None:
    clock = VirtualClock()
    store = MemoryStore(clock)
    await store.sessions.begin(SessionCard("old", "", 0, ""), 15)
    first = await store.locks.ask(LockRequest("key", "old.1", "p", "old", 300, 60, False))
    clock.advance(16)
    await store.sessions.begin(SessionCard("new", "", 0, ""), 15)
    second = await store.locks.ask(LockRequest("key", "new.1", "q", "new", 300, 60, False))

    assert isinstance(first, Granted)
    assert isinstance(second, Granted)
    assert second.fence > first.fence


# -- F-A5: a crashed holder blocks its key for the full ttl ------------------------------------------------------------


async def test_f_a5_a_dead_holders_key_is_free_within_its_session_not_its_ttl() -> None:
    server = TtlServer()
    server.set_nx("key", "crashed", 300)
    waited = 0
    while not server.set_nx("key", "me", 300):
        server.clock.advance(1)
        waited += 1
    assert waited == 300, "the check does not bite"

    clock = VirtualClock()
    store = MemoryStore(clock)
    await store.sessions.begin(SessionCard("crashed", "", 0, ""), 15)
    await store.locks.ask(LockRequest("key", "crashed.1", "p", "crashed", 300, 60, False))
    await store.sessions.begin(SessionCard("me", "", 0, ""), 1000)
    waited = 0
    while not isinstance(await store.locks.ask(LockRequest("key", "me.1", "q", "me", 300, None, False)), Granted):
        clock.advance(1)
        waited += 1
    assert waited == 15
