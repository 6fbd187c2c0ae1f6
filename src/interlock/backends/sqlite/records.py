"""Records in SQLite. A write checks all of its changes before it makes any, in one immediate transaction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from interlock.backends.pacing import micros, seconds
from interlock.backends.sqlite.journal import add_entry
from interlock.backends.sqlite.queries import RecordQueries
from interlock.ports.records import (
    Busy,
    Conflict,
    LeaseLost,
    Skipped,
    StaleFence,
    StoredRecord,
    WriteAnswer,
    Written,
    lock_key,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from interlock.backends.sqlite.jobs import Run
    from interlock.clock import Clock
    from interlock.ports.locks import Answer, Holder, Left, LockRequest
    from interlock.ports.records import RecordChange

    class RecordLocks(Protocol):
        """The locks of records, in the transaction of a read or a write."""

        def holder(self, db: sqlite3.Connection, key: str) -> Holder | None:
            """Return the live holder of a lock, as of now."""
            ...

        def why_ended(self, db: sqlite3.Connection, key: str, owner: str) -> str:
            """Return why the lease of an owner on a key ended."""
            ...

        async def ask_and_read(
            self, request: LockRequest, read: Callable[[sqlite3.Connection], T]
        ) -> tuple[Answer, T | None]:
            """Ask for a lock, and read if it is granted."""
            ...

        async def write_and_leave(
            self, write: Callable[[sqlite3.Connection], tuple[T, bool]], requests: Sequence[LockRequest]
        ) -> tuple[T, Sequence[Left] | None]:
            """Write, and release leases if the write is made."""
            ...


__all__ = ["SqliteRecords"]

_sql = RecordQueries()
T = TypeVar("T")


class _State(NamedTuple):
    """What a change is checked against."""

    uid: str
    version: int
    fence: int | None
    updated_at: int


class SqliteRecords:
    """Implements the records port. Reads never wait for writers: a commit is visible to every later read."""

    def __init__(self, write: Run, read: Run, namespace: str, clock: Clock, locks: RecordLocks) -> None:
        self._write = write
        self._read = read
        self._namespace = namespace
        self._now = clock.now
        self._locks = locks

    async def get(self, kind: str, ids: Sequence[str], *, current: bool = False) -> Sequence[StoredRecord]:
        """Read records. The file has one writer at a time, so no write is in progress when a grant has returned."""
        return await self._fetch(_sql.get, {"kind": kind, "ids": json.dumps(list(ids))})

    async def list(
        self, kind: str, *, status: str = "", where: str = "", prefix: str = "", limit: int = 100, after: str = ""
    ) -> Sequence[StoredRecord]:
        """List records of a kind by ID."""
        values = {"kind": kind, "status": status, "where": where or "{}", "prefix": prefix, "after": after}
        return await self._fetch(_sql.list_status if status else _sql.list_any, values | {"limit": limit})

    async def kinds(self) -> Sequence[str]:
        """Return the kinds that have records."""
        values = {"namespace": self._namespace}
        return await self._read(lambda db: [kind for (kind,) in db.execute(_sql.kinds, values)])

    async def write(self, changes: Sequence[RecordChange]) -> Sequence[WriteAnswer]:
        """Make all changes or none."""
        return await self._write(lambda db: self.write_within(db, changes))

    async def ask(self, request: LockRequest, kind: str, id: str) -> tuple[Answer, StoredRecord | None]:  # noqa: A002
        """Ask for a record's lock, and read the record if it is granted."""
        values = {"namespace": self._namespace, "kind": kind, "ids": json.dumps([id])}
        return await self._locks.ask_and_read(
            request, lambda db: next((_record(row) for row in db.execute(_sql.get, values)), None)
        )

    async def write_and_release(
        self, changes: Sequence[RecordChange], leases: Sequence[LockRequest]
    ) -> tuple[Sequence[WriteAnswer], Sequence[Left] | None]:
        """Make all changes or none, and release the leases if they are made."""

        def write(db: sqlite3.Connection) -> tuple[Sequence[WriteAnswer], bool]:
            answers = self.write_within(db, changes, leases)
            return answers, bool(leases) and all(isinstance(answer, Written) for answer in answers)

        return await self._locks.write_and_leave(write, leases)

    async def _fetch(self, statement: str, values: dict[str, Any]) -> Sequence[StoredRecord]:
        values = {"namespace": self._namespace, **values}
        return await self._read(lambda db: [_record(row) for row in db.execute(statement, values)])

    def write_within(
        self, db: sqlite3.Connection, changes: Sequence[RecordChange], leases: Sequence[LockRequest] = ()
    ) -> Sequence[WriteAnswer]:
        """Make all changes or none, in the current transaction. None is made unless all leases are held."""
        lost = self._lost_lease(db, changes, leases)
        states = [self._state(db, change) for change in changes]
        refusals = [self._refusal(db, change, state) for change, state in zip(changes, states, strict=True)]
        if lost is not None:  # leases come before fences and versions
            refusals = [refusal if isinstance(refusal, LeaseLost | Busy) else lost for refusal in refusals]
        if any(refusal is not None for refusal in refusals):
            return [Skipped() if refusal is None else refusal for refusal in refusals]
        return [self._make(db, change, state) for change, state in zip(changes, states, strict=True)]

    def _state(self, db: sqlite3.Connection, change: RecordChange) -> _State | None:
        row = db.execute(_sql.read_state, self._key(change)).fetchone()
        return None if row is None else _State(*row)

    def _lost_lease(
        self, db: sqlite3.Connection, changes: Sequence[RecordChange], leases: Sequence[LockRequest]
    ) -> LeaseLost | None:
        """Find the first lease, by key, that is not held. The leases of the changes are checked with them."""
        owners = {change.owner for change in changes}
        for lease in sorted((lease for lease in leases if lease.owner not in owners), key=lambda lease: lease.key):
            holder = self._locks.holder(db, lease.key)
            if holder is None or holder.owner != lease.owner:
                return LeaseLost(self._locks.why_ended(db, lease.key, lease.owner), lease.key)
        return None

    def _refusal(
        self, db: sqlite3.Connection, change: RecordChange, state: _State | None
    ) -> LeaseLost | Busy | StaleFence | Conflict | None:
        key = lock_key(change.kind, change.id)
        holder = self._locks.holder(db, key)
        if change.owner is None:
            if holder is not None:
                return Busy(holder)
        elif holder is None or holder.owner != change.owner:
            return LeaseLost(self._locks.why_ended(db, key, change.owner))
        if state is None:
            return None if change.expected is None else Conflict(None)
        if change.fence is not None and state.fence is not None and change.fence < state.fence:
            return StaleFence(state.fence)
        matches = change.expected == state.version and change.uid == state.uid
        return None if matches else Conflict(state.version)

    def _make(self, db: sqlite3.Connection, change: RecordChange, state: _State | None) -> Written:
        now = self._now()
        at = micros(now)
        values = {**self._key(change), "status": change.status, "body": change.body, "fence": change.fence}
        version = 0
        if state is None:
            db.execute(_sql.insert_record, values | {"uid": change.uid, "at": at})
        else:
            at = max(at, state.updated_at)
            version = state.version
            if change.body is None:
                db.execute(_sql.delete_record, self._key(change))
            else:
                version += 1
                db.execute(_sql.update_record, values | {"at": at})
        add_entry(db, self._namespace, now, change.entry)
        return Written(version, seconds(at))

    def _key(self, change: RecordChange) -> dict[str, Any]:
        return {"namespace": self._namespace, "kind": change.kind, "id": change.id}


def _record(row: Sequence[Any]) -> StoredRecord:
    *rest, created_at, updated_at = row
    return StoredRecord._make((*rest, seconds(created_at), seconds(updated_at)))
