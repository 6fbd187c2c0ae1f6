"""Bugs to plant in the memory store and the engine of locks, each of a kind that has been seen in real libraries."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from interlock.backends.memory.locks import MemoryLocks
from interlock.backends.memory.sessions import MemorySessions
from interlock.errors import LockTimeoutError, StoreUnavailableError
from interlock.leases.renewer import LeaseRenewer
from interlock.leases.store_access import StoreAccess
from interlock.leases.wait_queue import WaitQueue
from interlock.locks.engine import Engine
from interlock.locks.lease import Lease
from interlock.ports.locks import Granted, Wait
from interlock.testing.simulator.faulty_store import _FaultyLocks
from tests.simulation.planting import around, bugs

if TYPE_CHECKING:
    import pytest

    from interlock.ports.locks import Answer, LockRequest

__all__ = ["BUGS"]

BUGS, _breaks = bugs()


# -- the store -----------------------------------------------------------------------------------------------------


@_breaks("fair", "newcomers barge past the queue")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, MemoryLocks, "_ahead", lambda _original, _self, _lock, _owner: 0)


@_breaks("fair", "the newest waiter is served first")
def _(patch: pytest.MonkeyPatch) -> None:
    def enqueue(original: Any, self: Any, lock: Any, request: LockRequest, now: float) -> None:
        original(self, lock, request, now)
        lock.queue = {request.owner: lock.queue.pop(request.owner), **lock.queue}

    around(patch, MemoryLocks, "_enqueue", enqueue)


@_breaks("exclusive", "leave does not check the owner")
def _(patch: pytest.MonkeyPatch) -> None:
    async def leave(original: Any, self: Any, request: LockRequest) -> Any:
        lock = self._locks.get(request.key)
        if lock is not None and lock.request is not None:
            request = replace(request, owner=lock.request.owner)
        return await original(self, request)

    around(patch, MemoryLocks, "leave", leave)


@_breaks("exclusive", "fences do not grow")
def _(patch: pytest.MonkeyPatch) -> None:
    async def ask(original: Any, self: Any, request: LockRequest) -> Answer:
        answer: Answer = await original(self, request)
        if self._fences.last > 3:
            self._fences.last = 1
        return answer

    around(patch, MemoryLocks, "ask", ask)


@_breaks("exclusive", "asking again draws a new fence")
def _(patch: pytest.MonkeyPatch) -> None:
    async def ask(original: Any, self: Any, request: LockRequest) -> Answer:
        lock = self._locks.get(request.key)
        again = lock is not None and lock.request is not None and lock.request.owner == request.owner
        answer: Answer = await original(self, request)
        if again and lock is not None and isinstance(answer, Granted):
            lock.fence = answer.fence = self._fences.next()
        return answer

    around(patch, MemoryLocks, "ask", ask)


@_breaks("exclusive", "renewing revives a lease that has ended")
def _(patch: pytest.MonkeyPatch) -> None:
    async def renew(original: Any, self: Any, leases: Any) -> Any:
        for key, owner, ttl in leases:
            lock = self._locks.get(key)
            if lock is not None and lock.request is not None and lock.request.owner == owner:
                lock.expires_at = self._now() + ttl
        return await original(self, leases)

    around(patch, MemoryLocks, "renew", renew)


@_breaks("sessions", "renewing revives a session that has ended")
def _(patch: pytest.MonkeyPatch) -> None:
    async def renew(original: Any, self: Any, id: str, seconds: float) -> bool:  # noqa: A002
        if id in self.alive_until:
            self.alive_until[id] = self._now() + seconds
        return bool(await original(self, id, seconds))

    around(patch, MemorySessions, "renew", renew)


@_breaks("fair", "dead holders keep their keys")
def _(patch: pytest.MonkeyPatch) -> None:
    def live_holder(original: Any, self: Any, lock: Any, now: float) -> LockRequest | None:
        if lock.request is not None and lock.expires_at > now:
            return lock.request  # type: ignore[no-any-return]
        return original(self, lock, now)  # type: ignore[no-any-return]

    around(patch, MemoryLocks, "_live_holder", live_holder)


@_breaks("exclusive", "live holders are taken over early")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, MemoryLocks, "_live_holder", lambda original, self, lock, now: original(self, lock, now + 0.5))


@_breaks("sessions", "the requests of an ended session are answered")
def _(patch: pytest.MonkeyPatch) -> None:
    async def ask(original: Any, self: Any, request: LockRequest) -> Answer:
        alive_until = self._alive_until
        if request.session in alive_until and alive_until[request.session] <= self._now():
            alive_until[request.session] = self._now() + request.ttl
        answer: Answer = await original(self, request)
        return answer

    around(patch, MemoryLocks, "ask", ask)


@_breaks("wakes", "giving a key up does not wake the next")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, MemoryLocks, "_tell_first", lambda _original, _self, _lock: None)


@_breaks("fair", "dead waiters block the queue")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, MemoryLocks, "_drop_dead_waiters", lambda _original, _self, _lock, _now: None)


@_breaks("deadlock-free", "cycles of waits are not looked for")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, MemoryLocks, "_cycle", lambda _original, _self, _want, _now: ())


@_breaks("deadlock-free", "only cycles of two are found")
def _(patch: pytest.MonkeyPatch) -> None:
    def cycle(original: Any, self: Any, request: LockRequest, now: float) -> tuple[Wait, ...]:
        found: tuple[Wait, ...] = original(self, request, now)
        return found if len(found) <= 2 else ()

    around(patch, MemoryLocks, "_cycle", cycle)


@_breaks("deadlock-free", "a wait is called a deadlock because its holder waits too")
def _(patch: pytest.MonkeyPatch) -> None:
    def cycle(original: Any, self: Any, request: LockRequest, now: float) -> tuple[Wait, ...]:
        found: tuple[Wait, ...] = original(self, request, now)
        holder = self._locks[request.key].request
        if not found and holder is not None and holder.caller in self._waits:
            return (Wait(request.caller, request.key, holder.caller),)
        return found

    around(patch, MemoryLocks, "_cycle", cycle)


# -- the engine ----------------------------------------------------------------------------------------------------


@_breaks("exclusive", "a lease's time is counted from the answer, not from the request")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, LeaseRenewer, "admit", lambda original, self, lease, _sent: original(self, lease, self._monotonic()))


@_breaks("exclusive", "a lost lease does not stop its body")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, Lease, "_cancel", lambda _original, _self: None)


@_breaks("exclusive", "a lost session does not stop its bodies")
def _(patch: pytest.MonkeyPatch) -> None:
    def lose(original: Any, self: Any, lease: Any, reason: str, why: str) -> None:
        if reason != "session":  # neither by the heartbeat's word nor by the renewer's own check
            original(self, lease, reason, why)

    around(patch, Engine, "_lose", lose)


@_breaks("leaves nothing", "a cancelled request is not given up")
def _(patch: pytest.MonkeyPatch) -> None:
    def failed(original: Any, self: Any, request: LockRequest, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError):
            return
        original(self, request, error)

    around(patch, Engine, "_failed", failed)


@_breaks("leaves nothing", "a request that timed out stays in the queue")
def _(patch: pytest.MonkeyPatch) -> None:
    async def timed_out(_original: Any, _self: Any, _want: LockRequest) -> LockTimeoutError:
        return LockTimeoutError()

    async def ask(original: Any, self: Any, request: LockRequest) -> Answer:
        answer: Answer = await original(self, replace(request, wait=request.wait and 1000.0))
        return answer

    around(patch, Engine, "_timed_out", timed_out)
    around(patch, MemoryLocks, "ask", ask)


@_breaks("leaves nothing", "a request that failed is repeated under a new owner")
def _(patch: pytest.MonkeyPatch) -> None:
    async def ask(original: Any, self: Any, request: LockRequest) -> Answer:
        failures = self.__dict__.setdefault("failures", {})
        try:
            answer: Answer = await original(
                self, replace(request, owner=request.owner + failures.get(request.owner, ""))
            )
        except StoreUnavailableError:
            failures[request.owner] = failures.get(request.owner, "") + "+"
            raise
        return answer

    around(patch, _FaultyLocks, "ask", ask)
    around(patch, StoreAccess, "suspect_leftovers", lambda _original, _self: None)


@_breaks("leaves nothing", "what a failed request left is never cleaned up")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, StoreAccess, "suspect_leftovers", lambda _original, _self: None)


@_breaks("wakes", "waiters rely on messages alone")
def _(patch: pytest.MonkeyPatch) -> None:
    async def poll(_original: Any, _self: Any) -> None:
        await asyncio.Event().wait()

    around(patch, WaitQueue, "_poll", poll)
