"""Locks in SQLite. Each operation is one immediate transaction in the writer's thread."""

from __future__ import annotations

import json
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.backends.sqlite.fenced import FencedWriter
from interlock.backends.sqlite.journal import add_entry
from interlock.backends.sqlite.queries import LockQueries
from interlock.backends.sqlite.queue_order import RequestTimes, next_ticket
from interlock.errors import StoreUnavailableError
from interlock.ports import locks as port
from interlock.ports.insight import MAX_COUNTED
from interlock.ports.journal import Action, holder_data, new_entry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Sequence

    from interlock.backends.sqlite.file import DatabaseFile
    from interlock.backends.sqlite.reader import Reader
    from interlock.backends.sqlite.writer import Writer
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution
    from interlock.settings import Settings

__all__ = ["SqliteLocks"]

_sql = LockQueries()
T = TypeVar("T")


class _Row:
    """A lock's row, and whether its lease is live at ``now``."""

    __slots__ = ("awaited", "caller", "expires_at", "free_since", "holder", "live", "owner")

    def __init__(self, row: tuple[Any, ...], now: float) -> None:
        self.owner, self.caller, session, fence, granted_at, expires_at, free_since, *about_session = row
        session_expiry, host, pid, program, self.awaited = about_session
        self.expires_at = 0.0 if self.owner is None else min(expires_at, session_expiry)
        self.live = self.owner is not None and self.expires_at > now
        self.free_since = min(now, free_since if self.owner is None else max(self.expires_at, granted_at))
        self.holder: port.Holder | None = None
        if self.live:
            who = (self.owner, self.caller, session, host, pid, program)
            self.holder = port.Holder(*who, fence, granted_at, self.expires_at)


class SqliteLocks:
    """Implements the locks port."""

    def __init__(self, writer: Writer, reader: Reader, file: DatabaseFile, settings: Settings, clock: Clock) -> None:
        self._run = writer.run
        self._read = reader.run
        self._namespace = settings.namespace
        self._now = clock.now
        self._asked = RequestTimes(clock)
        self._longest = settings.store_wait  # how long a request may be repeated
        self._fenced = FencedWriter(file, settings.store_wait / 2, writer.yield_to_others)

    async def ask(self, request: port.LockRequest) -> port.Answer:
        """Acquire a lock or queue for it, in the order of the requests."""
        answer, _ = await self.ask_and_read(request, lambda _: None)
        return answer

    async def renew(self, leases: Sequence[port.Held]) -> Sequence[port.Renewed]:
        """Extend live leases."""
        return await self._run(lambda db: [self._renew(db, held) for held in leases])

    async def leave(self, request: port.LockRequest) -> port.Left:
        """Release a lease or leave the queue."""
        self._asked.forget(request.owner)
        return await self._run(lambda db: self._leave(db, request))

    async def force(self, key: str, why: str, attribution: Attribution) -> port.Holder | None:
        """Force-release a lock."""
        return await self._run(lambda db: self._force(db, key, why, attribution))

    async def turns(self, session: str, owners: Sequence[str]) -> port.Turns:
        """Return the waiting owners whose turn may have come."""
        return await self._run(lambda db: self._turns(db, session, owners))

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Return everything that a session holds or waits for."""
        values = {"namespace": self._namespace, "session": session}
        return await self._run(lambda db: db.execute(_sql.session_requests, values).fetchall())

    async def list(
        self, key: str | None = None, *, limit: int = 1000, after: str = "", waiters: int | None = None
    ) -> Sequence[port.LockView]:
        """List locks with their holders and queues. Reads never wait for writers."""
        return await self._read(lambda db: self._look(db, key, limit, after, waiters))

    async def awaited_by(self, session: str, *, limit: int = 100) -> Sequence[port.LockView]:
        """List the locks that a session waits for."""
        return await self._read(lambda db: self._awaited_by(db, session, limit))

    async def count(self) -> port.LockCounts:
        """Count held locks and waiters."""
        return await self._read(self._count)

    @asynccontextmanager
    async def fenced(self, key: str, owner: str, fence: int) -> AsyncIterator[port.Transaction]:
        """Return a transaction that commits only while the lease is live. No other connection writes meanwhile."""

        def live(db: sqlite3.Connection) -> bool:
            values = self._values(key=key, owner=owner, fence=fence)
            return db.execute(_sql.is_live, values).fetchone() is not None

        async with self._fenced.transaction(key, fence, live) as transaction:
            yield transaction

    async def close(self) -> None:
        """Stop the thread for fenced transactions."""
        await self._fenced.close()

    # -- for records, in the transaction of their write ------------------------------------------------------------

    def holder(self, db: sqlite3.Connection, key: str) -> port.Holder | None:
        """Return the live holder of a key."""
        now = self._now()
        row = self._find(db, self._values(key=key), now)
        return None if row is None else row.holder

    def why_ended(self, db: sqlite3.Connection, key: str, owner: str) -> str:
        """Return why an owner's lease on a key ended."""
        return self._why_ended(db, self._values(key=key, owner=owner))

    async def ask_and_read(
        self, request: port.LockRequest, read: Callable[[sqlite3.Connection], T]
    ) -> tuple[port.Answer, T | None]:
        """Acquire a lock or queue for it, and read something in the same transaction if it is granted."""
        asked = self._asked.of(request.owner)

        def do(db: sqlite3.Connection) -> tuple[port.Answer, T | None]:
            answer = self._ask(db, request, asked)
            return answer, read(db) if isinstance(answer, port.Granted) else None

        try:
            return await self._run(do)
        except StoreUnavailableError:
            self._asked.keep(request.owner, asked)
            raise

    async def write_and_leave(
        self, write: Callable[[sqlite3.Connection], tuple[T, bool]], requests: Sequence[port.LockRequest]
    ) -> tuple[T, Sequence[port.Left] | None]:
        """Write something and, if that was made, release leases in the same transaction."""

        def do(db: sqlite3.Connection) -> tuple[T, Sequence[port.Left] | None]:
            answers, made = write(db)
            return answers, [self._leave(db, request) for request in requests] if made else None

        for request in requests:
            self._asked.forget(request.owner)
        return await self._run(do)

    # -- operations, on the writer's thread ------------------------------------------------------------------------

    def _ask(self, db: sqlite3.Connection, request: port.LockRequest, asked: int) -> port.Answer:
        now = self._now()
        values = self._values_of(request, now)
        if not db.execute(_sql.session_alive, values).fetchone():
            return port.SessionEnded()
        row = self._find(db, values, now)
        if row is None:
            return self._grant(db, request, values)
        if row.live and row.owner == request.owner:
            db.execute(_sql.extend, values)
            assert row.holder is not None
            return port.Granted(row.holder.fence, now + request.ttl)
        ahead, queued, ticket = 0, False, asked
        if row.awaited:
            db.execute(_sql.drop_dead_waiters, values)
            queued, ticket = self._place(db, values, asked)
            (ahead,) = db.execute(_sql.count_ahead, values | {"ticket": ticket}).fetchone()
        if not row.live and now >= row.free_since + ahead * port.TURN_SECONDS:
            if queued:
                db.execute(_sql.delete_waiter, values)
            return self._grant(db, request, values)
        if request.wait == 0:
            return port.Busy(row.holder)
        if not queued:
            cycle = self._cycle(db, request, row, now) if request.nested else ()
            if cycle:
                return port.Deadlocked(cycle)
            if not row.awaited:
                _, ticket = self._place(db, values, asked)
            db.execute(_sql.add_waiter, values | {"ticket": ticket})
        due = row.expires_at - now if row.live else row.free_since + ahead * port.TURN_SECONDS - now
        return port.Waiting(max(0.0, due))

    def _place(self, db: sqlite3.Connection, values: dict[str, Any], asked: int) -> tuple[bool, int]:
        """Return whether a request is queued, and its ticket: the one it has or the one it would get."""
        found = db.execute(_sql.ticket, values).fetchone()
        if found is not None:
            return True, found[0]
        (floor,) = db.execute(_sql.last_overdue_ticket, values | {"longest": self._longest}).fetchone()
        return False, next_ticket(db, _sql.largest_ticket, asked, floor)

    def _grant(self, db: sqlite3.Connection, request: port.LockRequest, values: dict[str, Any]) -> port.Granted:
        (fence,) = db.execute(_sql.next_fence, values).fetchone()
        db.execute(_sql.grant, values | {"fence": fence})
        return port.Granted(fence, values["now"] + request.ttl)

    def _renew(self, db: sqlite3.Connection, held: port.Held) -> port.Renewed:
        now = self._now()
        values = self._values(key=held.key, owner=held.owner, ttl=held.ttl, now=now)
        if db.execute(_sql.renew, values).rowcount:
            return port.Renewed(held.owner, now + held.ttl, "")
        return port.Renewed(held.owner, None, self._why_ended(db, values))

    def _leave(self, db: sqlite3.Connection, request: port.LockRequest) -> port.Left:
        now = self._now()
        values = self._values_of(request, now)
        row = self._find(db, values, now)
        if row is None:
            return port.Left(False, "it had expired", None)
        if row.owner != request.owner:
            if row.awaited:
                db.execute(_sql.delete_waiter, values)
            next_owner = None if row.live else self._pass_on(db, values)
            return port.Left(False, self._why_ended(db, values), next_owner)
        if not row.awaited:
            db.execute(_sql.delete_lock, values)
            return port.Left(row.live, "" if row.live else "it had expired", None)
        at = now if row.live else row.free_since
        db.execute(_sql.free, values | {"why": "released", "at": at})
        return port.Left(row.live, "" if row.live else "it had expired", self._pass_on(db, values))

    def _pass_on(self, db: sqlite3.Connection, values: dict[str, Any]) -> str | None:
        """Return the next owner of a free lock. Other processes notice the commit."""
        db.execute(_sql.drop_dead_waiters, values)
        first = db.execute(_sql.first_waiter, values).fetchone()
        return None if first is None else str(first[0])

    def _force(self, db: sqlite3.Connection, key: str, why: str, attribution: Attribution) -> port.Holder | None:
        now = self._now()
        values = self._values(key=key, now=now, why=why, at=now)
        row = self._find(db, values, now)
        if row is None or row.holder is None:
            return None
        db.execute(_sql.free, values)
        db.execute(_sql.add_message, values | {"session": row.holder.session, "owner": row.holder.owner})
        before, fence = holder_data(row.holder), row.holder.fence
        entry = new_entry(attribution, Action.LOCK_FORCE_RELEASE, key, before, from_version=fence)
        add_entry(db, self._namespace, now, entry)
        return row.holder

    def _turns(self, db: sqlite3.Connection, session: str, owners: Sequence[str] = ()) -> port.Turns:
        values = self._values(session=session, turn=port.TURN_SECONDS, owners=json.dumps(owners))
        found = [owner for (owner,) in db.execute(_sql.unqueued_owners, values)] if owners else []
        rows = db.execute(_sql.turns, values).fetchall()
        found += [owner for owner, due_in in rows if due_in <= 0]
        return port.Turns(tuple(found), min((max(0.0, due_in) for _, due_in in rows), default=math.inf))

    def _find(self, db: sqlite3.Connection, values: dict[str, Any], now: float) -> _Row | None:
        row = db.execute(_sql.read_lock, values).fetchone()
        return None if row is None else _Row(row, now)

    def _why_ended(self, db: sqlite3.Connection, values: dict[str, Any]) -> str:
        row = db.execute(_sql.why_ended, values).fetchone()
        return row[0] if row else "it had expired"

    def _cycle(self, db: sqlite3.Connection, request: port.LockRequest, row: _Row, now: float) -> tuple[port.Wait, ...]:
        """Return the cycle of waits that ``request`` would close, starting with its own."""
        if not row.live:
            return ()
        seen = {request.caller}
        paths: list[tuple[str, tuple[port.Wait, ...]]] = [
            (row.caller, (port.Wait(request.caller, request.key, row.caller),))
        ]
        while paths:
            caller, path = paths.pop()
            if caller == request.caller:
                return path
            if caller not in seen:
                seen.add(caller)
                waits = db.execute(_sql.waits_of_caller, self._values(caller=caller, now=now)).fetchall()
                paths += [(holder, (*path, port.Wait(caller, key, holder))) for key, holder in waits]
        return ()

    def _look(
        self, db: sqlite3.Connection, key: str | None, limit: int, after: str, max_count: int | None
    ) -> Sequence[port.LockView]:
        now = self._now()
        values = self._values(key=key, limit=limit, after=after, now=now)
        rows = db.execute(_sql.list_locks if key is None else _sql.list_one, values).fetchall()
        return [self._view(db, row, max_count, now) for row in rows]

    def _awaited_by(self, db: sqlite3.Connection, session: str, limit: int) -> Sequence[port.LockView]:
        now = self._now()
        keys = db.execute(_sql.keys_awaited_by, self._values(session=session, limit=limit, now=now)).fetchall()
        rows = [db.execute(_sql.list_one, self._values(key=key, now=now)).fetchone() for (key,) in keys]
        return [self._view(db, row, None, now) for row in rows if row is not None]

    def _count(self, db: sqlite3.Connection) -> port.LockCounts:
        values = self._values(limit=MAX_COUNTED)
        held, waiting = db.execute(_sql.count_all, values).fetchone()
        return port.LockCounts(held, waiting, values["now"])

    def _view(self, db: sqlite3.Connection, row: Sequence[Any], max_count: int | None, now: float) -> port.LockView:
        name, owner, caller, session, fence, granted_at, expires_at, free_since = row[:8]
        session_expiry, host, pid, program = row[8:]
        ends_at = 0.0 if owner is None else min(expires_at, session_expiry or 0.0)
        holder = None
        if ends_at > now:
            holder = port.Holder(owner, caller, session, host, pid, program, fence, granted_at, ends_at)
        free = None if holder else (free_since if owner is None else max(ends_at, granted_at))
        values = self._values(key=name, now=now, limit=-1 if max_count is None else max_count)
        waiters = tuple(port.Waiter._make((*row[:-1], bool(row[-1]))) for row in db.execute(_sql.list_waiters, values))
        more = 0
        if max_count is not None and len(waiters) >= max_count:
            (all_of_them,) = db.execute(_sql.count_waiters, values | {"limit": MAX_COUNTED + max_count}).fetchone()
            more = all_of_them - len(waiters)
        return port.LockView(name, holder, waiters, free, now, more)

    def _values(self, **values: Any) -> dict[str, Any]:
        return {"namespace": self._namespace, "now": self._now(), **values}

    def _values_of(self, request: port.LockRequest, now: float) -> dict[str, Any]:
        return {
            "namespace": self._namespace,
            "now": now,
            "key": request.key,
            "owner": request.owner,
            "caller": request.caller,
            "session": request.session,
            "ttl": request.ttl,
            "wait": request.wait,
        }

    def due_owners(self, db: sqlite3.Connection, session: str) -> Sequence[str]:
        """Return the owners whose turn may have come. For messages."""
        return self._turns(db, session).owners
