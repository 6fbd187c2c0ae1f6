"""Leases as rows. Each operation is one call of a function in the database, one round trip."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from interlock.backends.postgres.batching import KeyedBatchers, Operation
from interlock.backends.postgres.fenced import FencedConnections
from interlock.backends.postgres.given import given_by
from interlock.backends.postgres.journal import write_attribution
from interlock.backends.postgres.lane import Lane
from interlock.backends.statements import Statements
from interlock.ports.insight import MOST_COUNTED
from interlock.ports.locks import (
    TURN_SECONDS,
    Answer,
    Busy,
    Deadlocked,
    Granted,
    Held,
    Holder,
    Left,
    LockCounts,
    LockView,
    Renewed,
    SessionEnded,
    Transaction,
    Turns,
    Wait,
    Waiter,
    Waiting,
    Want,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from interlock.backends.postgres.lane import Lanes
    from interlock.backends.postgres.pool import Pool
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution
    from interlock.settings import Settings

__all__ = ["ASK", "LEAVE", "PostgresLocks"]

_sql = Statements("interlock.backends.postgres", "locks")
ASK, LEAVE = "a", "l"
_WANT = ("key", "owner", "caller", "session", "ttl", "wait", "nested")  # as the functions take it


class PostgresLocks:
    """Keeps the locks port."""

    def __init__(self, lanes: Lanes, pool: Pool, settings: Settings, clock: Clock | None) -> None:
        self.lanes = lanes
        # For what may have to wait for somebody's transaction.
        self._apart = Lane(pool, settings.store_wait / 2, hold=True)
        self._batchers = KeyedBatchers(lanes, self._send, settings.store_wait / 2)
        self._fenced = FencedConnections(pool, settings.store_wait / 2, settings.session_ttl)
        self._namespace = settings.namespace
        self._given = given_by(clock)

    async def ask(self, want: Want) -> Answer:
        """Take the key or queue for it."""
        # One that may close a cycle of waits takes the graph's lock and goes alone.
        row = await self._batchers.submit(ASK, want, alone=want.nested)
        answer, fence, expires_at, look_again, details, *_ = row
        if answer == "granted":
            return Granted(fence, expires_at)
        if answer == "ended":
            return SessionEnded()
        if answer == "deadlocked":
            return Deadlocked(tuple(Wait(*wait) for wait in json.loads(details)))
        if answer == "busy":
            return Busy(None if details is None else Holder(**json.loads(details)))
        return Waiting(max(0.0, look_again))

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Give live leases their ttl again."""
        # In the order of their keys, as batches are, so that the two never wait for each other.
        keys, owners, ttls = ([held[i] for held in sorted(leases)] for i in range(3))
        rows = await self.lanes.first.fetch(_sql.renew, self._namespace, keys, owners, ttls, self._given())
        return [Renewed(owner, expires_at, why or "") for owner, expires_at, why in rows]

    async def leave(self, want: Want) -> Left:
        """Give up a lease or a place in the queue."""
        answer, fence, expires_at, *_, why, next_owner = await self._batchers.submit(LEAVE, want)
        return Left(answer == "left", why, next_owner, None if fence is None else Granted(fence, expires_at))

    async def force(self, key: str, why: str, attribution: Attribution) -> Holder | None:
        """Take the key from its holder."""
        args = (self._namespace, key, why, write_attribution(attribution), self._given())
        ((holder,),) = await self._apart.fetch(_sql.force, *args)
        return None if holder is None else Holder(**json.loads(holder))

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Whose turn may have come."""
        rows = await self.lanes.first.fetch(
            _sql.turns, self._namespace, session, TURN_SECONDS, self._given(), list(owners)
        )
        found = tuple(owner for owner, due_in in rows if due_in <= 0)
        return Turns(found, min((max(0.0, due_in) for _, due_in in rows), default=math.inf))

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """All leases and places of a session."""
        rows = await self.lanes.first.fetch(_sql.session_requests, self._namespace, session)
        return [(key, owner) for key, owner in rows]

    async def list(
        self, key: str | None = None, *, limit: int = 1000, after: str = "", waiters: int | None = None
    ) -> Sequence[LockView]:
        """Holders and queues."""
        if key is not None:
            rows = await self.lanes.aside.fetch(_sql.look_one, self._namespace, [key], waiters, self._given())
        else:
            rows = await self.lanes.aside.fetch(_sql.look, self._namespace, after, limit, waiters, self._given())
        return [_view(row) for row in rows]

    async def awaited_by(self, session: str, *, limit: int = 100) -> Sequence[LockView]:
        """What a session waits for."""
        rows = await self.lanes.aside.fetch(_sql.awaited_by, self._namespace, session, limit, self._given())
        if not rows:
            return []
        keys = [key for (key,) in rows]
        found = await self.lanes.aside.fetch(_sql.look_one, self._namespace, keys, None, self._given())
        return [_view(row) for row in found]

    async def count(self) -> LockCounts:
        """How many are held, and how many wait."""
        ((held, waiting, seen_at),) = await self.lanes.aside.fetch(
            _sql.count, self._namespace, MOST_COUNTED, self._given()
        )
        return LockCounts(held, waiting, seen_at)

    def fenced(self, key: str, owner: str, fence: int) -> AbstractAsyncContextManager[Transaction]:
        """A transaction in which the lease is live; nobody else is granted the key before it ends."""
        args = (self._namespace, key, owner, fence, self._given())
        return self._fenced.transaction(key, fence, _sql.guard, *args)

    async def close(self) -> None:
        """Finish what was handed in."""
        await self._batchers.close()
        await self._apart.close()

    async def _send(self, lane: Lane, batch: Sequence[Operation]) -> Sequence[Any]:
        """One alone by the short way, several in one transaction."""
        wants = [operation.want for operation in batch]
        if len(batch) > 1:
            columns = ([getattr(want, name) for want in wants] for name in _WANT)
            kinds = [operation.kind for operation in batch]
            return await lane.fetch_here(_sql.batch, self._namespace, kinds, *columns, TURN_SECONDS, self._given())
        (want,) = wants
        if batch[0].kind == LEAVE:
            return await lane.fetch_here(_sql.leave, self._namespace, want.key, want.owner, want.session, self._given())
        values = (getattr(want, name) for name in _WANT)
        return await lane.fetch_here(_sql.ask, self._namespace, *values, TURN_SECONDS, self._given())


def _view(row: Any) -> LockView:
    (
        seen_at,
        key,
        owner,
        caller,
        session,
        host,
        pid,
        program,
        fence,
        granted_at,
        ends_at,
        free_since,
        waiters,
        more,
    ) = row
    holder = None
    if ends_at is not None and ends_at > seen_at:
        holder = Holder(owner, caller, session, host, pid, program, fence, granted_at, ends_at)
    elif ends_at is not None:
        free_since = max(ends_at, granted_at)
    queue = tuple(Waiter(*waiter) for waiter in json.loads(waiters))
    return LockView(key, holder, queue, None if holder else free_since, seen_at, more)
