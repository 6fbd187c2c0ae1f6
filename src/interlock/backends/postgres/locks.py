"""Leases as rows. Each operation calls one function in the database: one round trip."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from interlock.backends.postgres.batching import KeyedBatchers, Operation
from interlock.backends.postgres.clock import clock_of
from interlock.backends.postgres.connection import OrderedConnection
from interlock.backends.postgres.fenced import FencedConnections
from interlock.backends.postgres.journal import write_attribution
from interlock.backends.postgres.queries import LockQueries
from interlock.ports.insight import MAX_COUNTED
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
    LockRequest,
    LockView,
    Renewed,
    SessionEnded,
    Transaction,
    Turns,
    Wait,
    Waiter,
    Waiting,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from interlock.backends.postgres.connection import OrderedConnections
    from interlock.backends.postgres.pool import Pool
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution
    from interlock.settings import Settings

__all__ = ["ASK", "LEAVE", "REQUEST_COLUMNS", "PostgresLocks", "read_answer"]

_sql = LockQueries()
ASK, LEAVE = "a", "l"
REQUEST_COLUMNS = (
    "key",
    "owner",
    "caller",
    "session",
    "ttl",
    "wait",
    "nested",
)  # in the order of the functions' parameters


class PostgresLocks:
    """Implements the locks port."""

    def __init__(self, connections: OrderedConnections, pool: Pool, settings: Settings, clock: Clock | None) -> None:
        self.connections = connections
        # For operations that may have to wait for another transaction.
        self._apart = OrderedConnection(pool, settings.store_wait / 2, hold=True)
        self._batchers = KeyedBatchers(connections, self._send, settings.store_wait / 2)
        self._fenced = FencedConnections(pool, settings.store_wait / 2, settings.session_ttl)
        self._namespace = settings.namespace
        self._clock = clock_of(clock)

    async def ask(self, request: LockRequest) -> Answer:
        """Acquire a key or queue for it."""
        # A request that may close a cycle of waits locks the wait graph, and is sent alone.
        return read_answer(await self._batchers.submit(ASK, request, alone=request.nested))

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Renew live leases."""
        # In the order of their keys, as in batches, so that the two never deadlock.
        keys, owners, ttls = ([held[i] for held in sorted(leases)] for i in range(3))
        rows = await self.connections.first.fetch(_sql.renew, self._namespace, keys, owners, ttls, self._clock())
        return [Renewed(owner, expires_at, why or "") for owner, expires_at, why in rows]

    async def leave(self, request: LockRequest) -> Left:
        """Release a lease or leave the queue."""
        answer, fence, expires_at, *_, why, next_owner = await self._batchers.submit(LEAVE, request)
        return Left(answer == "left", why, next_owner, None if fence is None else Granted(fence, expires_at))

    async def force(self, key: str, why: str, attribution: Attribution) -> Holder | None:
        """Take a key from its holder."""
        args = (self._namespace, key, why, write_attribution(attribution), self._clock())
        ((holder,),) = await self._apart.fetch(_sql.force, *args)
        return None if holder is None else Holder(**json.loads(holder))

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Return the waiters whose turn may have come."""
        rows = await self.connections.first.fetch(
            _sql.turns, self._namespace, session, TURN_SECONDS, self._clock(), list(owners)
        )
        found = tuple(owner for owner, due_in in rows if due_in <= 0)
        return Turns(found, min((max(0.0, due_in) for _, due_in in rows), default=math.inf))

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """List the leases and waits of a session."""
        rows = await self.connections.first.fetch(_sql.session_requests, self._namespace, session)
        return [(key, owner) for key, owner in rows]

    async def list(
        self, key: str | None = None, *, limit: int = 1000, after: str = "", waiters: int | None = None
    ) -> Sequence[LockView]:
        """List keys with their holders and queues."""
        if key is not None:
            rows = await self.connections.reads.fetch(_sql.get, self._namespace, [key], waiters, self._clock())
        else:
            rows = await self.connections.reads.fetch(_sql.list, self._namespace, after, limit, waiters, self._clock())
        return [_view(row) for row in rows]

    async def awaited_by(self, session: str, *, limit: int = 100) -> Sequence[LockView]:
        """List the keys that callers wait for."""
        rows = await self.connections.reads.fetch(_sql.awaited_by, self._namespace, session, limit, self._clock())
        if not rows:
            return []
        keys = [key for (key,) in rows]
        found = await self.connections.reads.fetch(_sql.get, self._namespace, keys, None, self._clock())
        return [_view(row) for row in found]

    async def count(self) -> LockCounts:
        """Count held keys and waiters."""
        ((held, waiting, seen_at),) = await self.connections.reads.fetch(
            _sql.count, self._namespace, MAX_COUNTED, self._clock()
        )
        return LockCounts(held, waiting, seen_at)

    def fenced(self, key: str, owner: str, fence: int) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction in which the lease is live; the key is not granted again before it ends."""
        args = (self._namespace, key, owner, fence, self._clock())
        return self._fenced.transaction(key, fence, _sql.guard, *args)

    async def close(self) -> None:
        """Wait for submitted operations."""
        await self._batchers.close()
        await self._apart.close()

    async def _send(self, connection: OrderedConnection, batch: Sequence[Operation]) -> Sequence[Any]:
        """Call the function for one operation, or send several in one transaction."""
        requests = [operation.request for operation in batch]
        if len(batch) > 1:
            columns = ([getattr(request, name) for request in requests] for name in REQUEST_COLUMNS)
            kinds = [operation.kind for operation in batch]
            return await connection.fetch_here(
                _sql.batch, self._namespace, kinds, *columns, TURN_SECONDS, self._clock()
            )
        (request,) = requests
        if batch[0].kind == LEAVE:
            return await connection.fetch_here(
                _sql.leave, self._namespace, request.key, request.owner, request.session, self._clock()
            )
        values = (getattr(request, name) for name in REQUEST_COLUMNS)
        return await connection.fetch_here(_sql.ask, self._namespace, *values, TURN_SECONDS, self._clock())


def read_answer(row: Any) -> Answer:
    """Return the answer to a request, from the first columns of its row."""
    answer, fence, expires_at, recheck_in, details, *_ = row
    if answer == "granted":
        return Granted(fence, expires_at)
    if answer == "ended":
        return SessionEnded()
    if answer == "deadlocked":
        return Deadlocked(tuple(Wait(*wait) for wait in json.loads(details)))
    if answer == "busy":
        return Busy(None if details is None else Holder(**json.loads(details)))
    return Waiting(max(0.0, recheck_in))


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
