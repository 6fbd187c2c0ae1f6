"""Locks in dictionaries. A key has an entry only while it is held or waited for."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING

from interlock.errors import CapabilityError
from interlock.ports import locks as port
from interlock.ports.insight import MAX_COUNTED
from interlock.ports.journal import Action, holder_data, new_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from interlock.backends.memory.fences import Fences
    from interlock.backends.memory.messages import MemoryMessages
    from interlock.backends.memory.sessions import MemorySessions
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution, NewEntry

__all__ = ["MemoryLocks"]


class _Queued:
    """A waiter: its request, and when it asked and gives up."""

    __slots__ = ("asked_at", "gives_up_at", "request")

    def __init__(self, request: port.LockRequest, now: float) -> None:
        self.request = request
        self.asked_at = now
        self.gives_up_at = math.inf if request.wait is None else now + request.wait


class _Lock:
    """One key. ``request`` is its holder's request; None while the key is free for the first waiter.

    Every lease on an idle key creates one, so attributes that a grant does not set are defaults of the class.
    """

    request: port.LockRequest | None = None
    fence = 0
    granted_at = 0.0
    expires_at = 0.0
    free_since = 0.0
    ended_owner = ""
    ended_why = ""
    queue: dict[str, _Queued] | None = None


class MemoryLocks:
    """Implements the locks port for everything in this process."""

    def __init__(
        self,
        clock: Clock,
        sessions: MemorySessions,
        messages: MemoryMessages,
        fences: Fences,
        record: Callable[[NewEntry], None],
    ) -> None:
        self._now = clock.now
        self._messages = messages
        self._alive_until = sessions.alive_until
        self._cards = sessions.cards
        self._locks: dict[str, _Lock] = {}
        self._waits: dict[str, dict[str, str]] = {}  # caller → owner → key, while it queues
        self._fences = fences
        self._record = record

    async def ask(self, request: port.LockRequest) -> port.Answer:
        """Acquire a lock or queue for it."""
        now = self._now()
        if self._alive_until.get(request.session, 0.0) <= now:
            return port.SessionEnded()
        lock = self._locks.get(request.key)
        if lock is None:
            # The common case, without another call.
            self._locks[request.key] = lock = _Lock()
            fences = self._fences
            fences.last = lock.fence = fence = fences.last + 1
            lock.request, lock.granted_at = request, now
            lock.expires_at = expires_at = now + request.ttl
            return port.Granted(fence, expires_at)
        held = self._live_holder(lock, now)
        if held is not None and held.owner == request.owner:
            lock.expires_at = now + request.ttl
            return port.Granted(lock.fence, lock.expires_at)
        self._drop_dead_waiters(lock, now)
        ahead = self._ahead(lock, request.owner)
        if held is None and now >= min(lock.free_since, now) + ahead * port.TURN_SECONDS:
            self._dequeue(lock, request.owner)
            return self._grant(lock, request, now)
        if request.wait == 0:
            return port.Busy(self._holder(lock, now))
        if lock.queue is None or request.owner not in lock.queue:
            cycle = self._cycle(request, now) if request.nested else ()
            if cycle:
                return port.Deadlocked(cycle)
            self._enqueue(lock, request, now)
        if held is None:
            self._tell_first(lock)
        return port.Waiting(self._look_again(lock, ahead, now))

    async def renew(self, leases: Sequence[port.Held]) -> Sequence[port.Renewed]:
        """Extend live leases."""
        now = self._now()
        renewed = []
        for key, owner, ttl in leases:
            lock = self._locks.get(key)
            held = None if lock is None else self._live_holder(lock, now)
            if lock is None or held is None or held.owner != owner:
                renewed.append(port.Renewed(owner, None, self._why_ended(lock, owner)))
            else:
                lock.expires_at = now + ttl
                renewed.append(port.Renewed(owner, lock.expires_at, ""))
        return renewed

    async def leave(self, request: port.LockRequest) -> port.Left:
        """Release a lease or leave the queue."""
        lock = self._locks.get(request.key)
        if lock is None:
            return port.Left(False, self._why_ended(lock, request.owner), None)
        if lock.request is not None and lock.request.owner == request.owner:
            if lock.queue is None:
                # There are no waiters, so the time of the release does not matter.
                del self._locks[request.key]
                if lock.expires_at > (now := self._now()) and self._alive_until.get(lock.request.session, 0.0) > now:
                    return _LEFT
                return port.Left(False, "it had expired", None)
            now = self._now()
            held = self._live_holder(lock, now)
            if held is not None:
                self._free(lock, "released", now)
            return port.Left(
                held is not None,
                "" if held else "it had expired",
                self._pass_on(request.key, lock, request.session),
            )
        self._dequeue(lock, request.owner)
        return port.Left(False, self._why_ended(lock, request.owner), self._pass_on(request.key, lock, request.session))

    async def force(self, key: str, why: str, attribution: Attribution) -> port.Holder | None:
        """Force-release a lock."""
        now = self._now()
        lock = self._locks.get(key)
        if lock is None or self._live_holder(lock, now) is None:
            return None
        holder = self._holder(lock, now)
        if holder is not None:
            before, fence = holder_data(holder), holder.fence
            self._record(new_entry(attribution, Action.LOCK_FORCE_RELEASE, key, before, from_version=fence))
        self._free(lock, why, now)
        if holder is not None:
            self._messages.lost(holder.session, holder.owner, why)
        self._pass_on(key, lock, "")
        return holder

    async def turns(self, session: str, owners: Sequence[str]) -> port.Turns:
        """Return the waiting owners whose turn may have come."""
        now = self._now()
        queued_owners = {owner for waits in self._waits.values() for owner in waits}
        found = [owner for owner in owners if owner not in queued_owners]
        recheck_in = math.inf
        for key in dict.fromkeys(key for waits in self._waits.values() for key in waits.values()):
            lock = self._locks[key]
            free = self._live_holder(lock, now) is None
            ahead = 0
            for owner, queued in (lock.queue or {}).items():
                if not self._live_waiter(queued, now):
                    continue
                if queued.request.session == session:
                    if free and now >= min(lock.free_since, now) + ahead * port.TURN_SECONDS:
                        found.append(owner)
                    recheck_in = min(recheck_in, self._look_again(lock, ahead, now))
                ahead += 1
        return port.Turns(tuple(found), recheck_in)

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Return everything that a session holds or waits for."""
        found = [
            (key, lock.request.owner)
            for key, lock in self._locks.items()
            if lock.request and lock.request.session == session
        ]
        for key, lock in self._locks.items():
            found += [(key, owner) for owner, q in (lock.queue or {}).items() if q.request.session == session]
        return found

    async def list(
        self, key: str | None = None, *, limit: int = 1000, after: str = "", waiters: int | None = None
    ) -> Sequence[port.LockView]:
        """List locks with their holders and queues."""
        now = self._now()
        keys = sorted(name for name in self._locks if name > after) if key is None else [key]
        views = (self._view(key, self._locks[key], now) for key in keys if key in self._locks)
        shown = islice((view for view in views if view.wanted), limit)
        return list(shown) if waiters is None else [_cut(view, waiters) for view in shown]

    async def awaited_by(self, session: str, *, limit: int = 100) -> Sequence[port.LockView]:
        """List the locks that a session waits for."""
        now = self._now()
        queued = ((key, one) for key, lock in self._locks.items() for one in (lock.queue or {}).values())
        keys = {key for key, one in queued if one.request.session == session and self._live_waiter(one, now)}
        return [self._view(key, self._locks[key], now) for key in sorted(keys)[:limit]]

    async def count(self) -> port.LockCounts:
        """Count held locks and waiters."""
        now = self._now()
        held = sum(self._holder(lock, now) is not None for lock in self._locks.values())
        queued = (queued for lock in self._locks.values() for queued in (lock.queue or {}).values())
        waiting = sum(self._live_waiter(one, now) for one in queued)
        return port.LockCounts(min(held, MAX_COUNTED), min(waiting, MAX_COUNTED), now)

    def holder(self, key: str) -> port.Holder | None:
        """Return the live holder of a key. For records."""
        lock = self._locks.get(key)
        return None if lock is None else self._holder(lock, self._now())

    def why_ended(self, key: str, owner: str) -> str:
        """Return why an owner's lease on a key ended. For records."""
        return self._why_ended(self._locks.get(key), owner)

    def fenced(self, key: str, owner: str, fence: int) -> AbstractAsyncContextManager[port.Transaction]:
        """Raise ``CapabilityError``: there are no transactions."""
        raise CapabilityError(
            "memory has no transactions to fence.",
            remedy="Hand lease.fence to the target, or use sqlite:// or postgresql://.",
        )

    def session_ended(self, session: str) -> None:
        """Free what an ended session held and delete its waiters."""
        now = self._now()
        for key, lock in list(self._locks.items()):
            for owner in [o for o, q in (lock.queue or {}).items() if q.request.session == session]:
                self._dequeue(lock, owner)
            if lock.request is not None and lock.request.session == session:
                self._free(lock, "its session ended", max(min(lock.expires_at, now), lock.granted_at))
            self._pass_on(key, lock, session)

    # -- one key ---------------------------------------------------------------------------------------------------

    def _grant(self, lock: _Lock, request: port.LockRequest, now: float) -> port.Granted:
        fence = self._fences.next()
        lock.request, lock.fence, lock.granted_at = request, fence, now
        lock.expires_at = expires_at = now + request.ttl
        return port.Granted(fence, expires_at)

    def _free(self, lock: _Lock, why: str, at: float) -> None:
        if lock.request is not None:
            lock.ended_owner, lock.ended_why = lock.request.owner, why
        lock.request, lock.free_since = None, at

    def _live_holder(self, lock: _Lock, now: float) -> port.LockRequest | None:
        """Return the holder's request while its lease is live; an expired lease is ended."""
        request = lock.request
        if request is None:
            return None
        ends_at = min(lock.expires_at, self._alive_until.get(request.session, 0.0))
        if ends_at > now:
            return request
        self._free(lock, "it had expired", max(ends_at, lock.granted_at))
        return None

    def _pass_on(self, key: str, lock: _Lock, leaver: str) -> str | None:
        """Return the next owner of a free key; notify it unless it belongs to the releasing session. Deletes idle
        keys."""
        now = self._now()
        if self._live_holder(lock, now) is not None:
            return None
        self._drop_dead_waiters(lock, now)
        if lock.queue is None:
            del self._locks[key]
            return None
        first = next(iter(lock.queue.values())).request
        if first.session != leaver:
            self._tell_first(lock)
        return first.owner

    def _tell_first(self, lock: _Lock) -> None:
        if lock.queue:
            first = next(iter(lock.queue.values())).request
            self._messages.turn(first.session, first.owner)

    def _why_ended(self, lock: _Lock | None, owner: str) -> str:
        if lock is not None and lock.ended_owner == owner:
            return lock.ended_why
        return "it had expired"

    # -- the queue -------------------------------------------------------------------------------------------------

    def _enqueue(self, lock: _Lock, request: port.LockRequest, now: float) -> None:
        if lock.queue is None:
            lock.queue = {}
        lock.queue[request.owner] = _Queued(request, now)
        self._waits.setdefault(request.caller, {})[request.owner] = request.key

    def _dequeue(self, lock: _Lock, owner: str) -> None:
        queued = lock.queue.pop(owner, None) if lock.queue else None
        if queued is None:
            return
        if not lock.queue:
            lock.queue = None
        waits = self._waits[queued.request.caller]
        del waits[owner]
        if not waits:
            del self._waits[queued.request.caller]

    def _live_waiter(self, queued: _Queued, now: float) -> bool:
        return queued.gives_up_at > now and self._alive_until.get(queued.request.session, 0.0) > now

    def _drop_dead_waiters(self, lock: _Lock, now: float) -> None:
        if lock.queue:
            for owner in [o for o, queued in lock.queue.items() if not self._live_waiter(queued, now)]:
                self._dequeue(lock, owner)

    def _ahead(self, lock: _Lock, owner: str) -> int:
        """Count the waiters before ``owner``, or before a new one."""
        ahead = 0
        for other in lock.queue or ():
            if other == owner:
                break
            ahead += 1
        return ahead

    def _look_again(self, lock: _Lock, ahead: int, now: float) -> float:
        if lock.request is None:
            return max(0.0, min(lock.free_since, now) + ahead * port.TURN_SECONDS - now)
        return max(0.0, min(lock.expires_at, self._alive_until.get(lock.request.session, 0.0)) - now)

    # -- the graph of waits ----------------------------------------------------------------------------------------

    def _cycle(self, request: port.LockRequest, now: float) -> tuple[port.Wait, ...]:
        """Return the cycle of waits that ``request`` would close, starting with its own; empty if there is none."""
        seen = {request.caller}
        paths: list[tuple[str, str, tuple[port.Wait, ...]]] = [(request.caller, request.key, ())]
        while paths:
            caller, key, path = paths.pop()
            lock = self._locks[key]
            holder = self._live_holder(lock, now)
            if holder is None:
                continue
            path = (*path, port.Wait(caller, key, holder.caller))
            if holder.caller == request.caller:
                return path
            if holder.caller not in seen:
                seen.add(holder.caller)
                paths += [
                    (holder.caller, next_key, path)
                    for owner, next_key in self._waits.get(holder.caller, {}).items()
                    if self._live_waiter((self._locks[next_key].queue or {})[owner], now)
                ]
        return ()

    # -- what people see -------------------------------------------------------------------------------------------

    def _holder(self, lock: _Lock, now: float) -> port.Holder | None:
        request = self._live_holder(lock, now)
        if request is None:
            return None
        card = self._cards[request.session]
        expires_at = min(lock.expires_at, self._alive_until[request.session])
        who = (request.owner, request.caller, request.session, card.host, card.pid, card.program)
        return port.Holder(*who, lock.fence, lock.granted_at, expires_at)

    def _view(self, key: str, lock: _Lock, now: float) -> port.LockView:
        holder = self._holder(lock, now)
        waiters = []
        for owner, queued in (lock.queue or {}).items():
            request = queued.request
            card = self._cards.get(request.session)
            gives_up_at = None if math.isinf(queued.gives_up_at) else queued.gives_up_at
            who = (card.host, card.pid, card.program) if card else ("", 0, "")
            live = self._live_waiter(queued, now)
            waiters.append(
                port.Waiter(owner, request.caller, request.session, *who, queued.asked_at, gives_up_at, live)
            )
        return port.LockView(key, holder, tuple(waiters), lock.free_since if lock.request is None else None, now)


_LEFT = port.Left(True, "", None)


def _cut(view: port.LockView, waiters: int) -> port.LockView:
    more = min(MAX_COUNTED, max(0, len(view.waiters) - waiters))
    return view._replace(waiters=view.waiters[:waiters], more_waiters=more)
