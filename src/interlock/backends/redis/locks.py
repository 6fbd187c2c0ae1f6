"""Locks in Redis. Each operation is one script: one atomic step, one round trip."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from interlock.backends.redis.scripts import Scripts
from interlock.errors import CapabilityError
from interlock.ports import locks as port
from interlock.ports.insight import MAX_COUNTED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from interlock.backends.redis.connection import Connection
    from interlock.backends.redis.keyspace import Keyspace
    from interlock.ports.journal import Attribution

__all__ = ["RedisLocks", "scripts"]

scripts = Scripts("locks")
_ASK, _LEAVE = scripts.ask, scripts.leave
_TURN = round(port.TURN_SECONDS * 1e6)
_GRANTED, _WAITING, _BUSY, _DEADLOCKED = 1, 2, 3, 4
_MAX_SECONDS = 5e9  # longer times would not be exact in Lua's numbers
_LEFT = port.Left(True, "", None)


class RedisLocks:
    """Implements the locks port. Scripts take and return times as whole microseconds."""

    def __init__(self, connection: Connection, keyspace: Keyspace) -> None:
        self._connection = connection
        self._arguments = keyspace.arguments

    async def ask(self, request: port.LockRequest) -> port.Answer:
        """Acquire a lock or queue for it."""
        wait = request.wait
        reply = await self._connection.run(
            _ASK,
            *self._arguments(),
            request.key,
            request.owner,
            request.caller,
            request.session,
            _microseconds(request.ttl),
            "" if wait is None else _microseconds(wait),
            "1" if request.nested else "",
            _TURN,
        )
        answer = reply[0]
        if answer == _GRANTED:
            return port.Granted(reply[1], reply[2] / 1e6)
        if answer == _WAITING:
            return port.Waiting(reply[1] / 1e6)
        if answer == _BUSY:
            return port.Busy(_holder(reply[1]))
        if answer == _DEADLOCKED:
            flat = iter(reply[1])
            return port.Deadlocked(tuple(port.Wait(*wait) for wait in zip(flat, flat, flat, strict=True)))
        return port.SessionEnded()

    async def renew(self, leases: Sequence[port.Held]) -> Sequence[port.Renewed]:
        """Extend live leases."""
        words: list[Any] = []
        for key, owner, ttl in leases:
            words += (key, owner, _microseconds(ttl))
        replies = await self._connection.run(scripts.renew, *self._arguments(), *words)
        return [
            port.Renewed(held.owner, reply[0] / 1e6, "") if reply[0] else port.Renewed(held.owner, None, reply[1])
            for held, reply in zip(leases, replies, strict=True)
        ]

    async def leave(self, request: port.LockRequest) -> port.Left:
        """Release a lease or leave the queue."""
        reply = await self._connection.run(_LEAVE, *self._arguments(), request.key, request.owner, request.session)
        if len(reply) == 1:
            return _LEFT
        held, why, next_owner, *handed = reply
        return port.Left(held == 1, why, next_owner, port.Granted(handed[0], handed[1] / 1e6) if handed else None)

    async def force(self, key: str, why: str, attribution: Attribution) -> port.Holder | None:
        """Force-release a lock."""
        return _holder(await self._connection.run(scripts.force, *self._arguments(), key, why))

    async def turns(self, session: str, owners: Sequence[str]) -> port.Turns:
        """Return the waiting owners whose turn may have come."""
        recheck_in, found = await self._connection.run(scripts.turns, *self._arguments(), session, _TURN, *owners)
        return port.Turns(tuple(found), math.inf if recheck_in < 0 else recheck_in / 1e6)

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Return everything that a session holds or waits for."""
        flat = iter(await self._connection.run(scripts.session_requests, *self._arguments(), session))
        return [(key, owner) for owner, key in zip(flat, flat, strict=True)]

    async def list(
        self, key: str | None = None, *, limit: int = 1000, after: str = "", waiters: int | None = None
    ) -> Sequence[port.LockView]:
        """List locks with their holders and queues."""
        one = () if key is None else (key,)
        shown = "" if waiters is None else waiters
        views: list[port.LockView] = []
        last: str | None = after
        while last is not None and len(views) < limit:
            now, last, *found = await self._connection.run(
                scripts.list, *self._arguments(), limit - len(views), shown, last, *one
            )
            views += (_view(reply, now) for reply in found)
        return views

    async def awaited_by(self, session: str, *, limit: int = 100) -> Sequence[port.LockView]:
        """List the locks that a session waits for."""
        keys = sorted(set(await self._connection.run(scripts.awaited_by, *self._arguments(), session)))
        return [view for key in keys[:limit] for view in await self.list(key)]

    async def count(self) -> port.LockCounts:
        """Count held locks and waiters."""
        now, held, waiting = await self._connection.run(scripts.count, *self._arguments(), MAX_COUNTED)
        return port.LockCounts(held, waiting, now / 1e6)

    def fenced(self, key: str, owner: str, fence: int) -> AbstractAsyncContextManager[port.Transaction]:
        """Raise ``CapabilityError``: Redis has no transactions to fence."""
        raise CapabilityError(
            "Redis has no transactions to fence.",
            remedy="Pass lease.fence to the target, or use sqlite:// or postgresql://.",
        )


def _microseconds(seconds: float) -> int:
    return round(min(seconds, _MAX_SECONDS) * 1e6)


def _holder(reply: Any) -> port.Holder | None:
    if reply is None:
        return None
    owner, caller, session, host, pid, program, fence, granted_at, ends_at = reply
    return port.Holder(owner, caller, session, host, int(pid), program, fence, granted_at / 1e6, ends_at / 1e6)


def _view(reply: Any, now: int) -> port.LockView:
    key, holder, free_since, waiters, more = reply
    queue = tuple(
        port.Waiter(
            owner,
            caller,
            session,
            host,
            int(pid),
            program,
            asked_at / 1e6,
            None if gives_up_at is None else gives_up_at / 1e6,
            live == 1,
        )
        for owner, caller, session, host, pid, program, asked_at, gives_up_at, live in waiters
    )
    return port.LockView(key, _holder(holder), queue, None if free_since is None else free_since / 1e6, now / 1e6, more)
