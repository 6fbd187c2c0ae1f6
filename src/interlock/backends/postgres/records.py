"""Records as rows. Writes that come at the same time share a statement and its commit, and so do reads.

A shared statement never waits for a row that another transaction has locked: it leaves that write out, which is then
sent again on a connection of its own. So a transaction that keeps one record locked delays the writes of that record
only, and two shared statements cannot deadlock. docs/decisions/0058-a-lease-holder-reads-after-writers.md has the
order in which rows are locked.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

from interlock.backends.pacing import seconds
from interlock.backends.postgres.batching import KeyedBatchers, Operation, new_batcher
from interlock.backends.postgres.clock import clock_of
from interlock.backends.postgres.connection import OrderedConnection, OrderedConnections
from interlock.backends.postgres.errors import LOCKED_REMEDY
from interlock.backends.postgres.locks import REQUEST_COLUMNS, read_answer
from interlock.backends.postgres.queries import RecordQueries
from interlock.errors import StoreUnavailableError
from interlock.ports.locks import TURN_SECONDS, Granted, Holder, Left
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
    subject_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.backends.postgres.pool import Pool
    from interlock.backends.postgres.reader import Reader
    from interlock.clock import Clock
    from interlock.ports.locks import Answer, LockRequest
    from interlock.ports.records import RecordChange
    from interlock.settings import Settings

__all__ = ["PostgresRecords", "change_columns", "write_answer"]

_sql = RecordQueries()
_MAX_ATTEMPTS = 10  # of a create, whose record others delete and create again
_EXPIRED = "it had expired"
_BLOCKED = "blocked"
# Positions in a change's row. A column that says nothing new is null, because encoding its elements takes time.
_OPTIONAL = (7, 8, 18, 19, 20)  # owner, fence and causes
_SUBJECT = slice(12, 14)
_VERSIONS = slice(16, 18)


class _Write(NamedTuple):
    """The changes of one write, in the order of their lock keys."""

    key: str
    """The first lock key. It decides which connection is used."""
    keys: list[str]
    changes: Sequence[RecordChange]
    leases: Sequence[LockRequest] = ()
    """The leases to release with it, in the order of their keys."""


class _Answered(NamedTuple):
    """The answers to a write, in the order of its keys, and what became of its leases."""

    answers: Sequence[WriteAnswer]
    left: Sequence[Left] | None
    """None if the leases were kept, or if there are none."""


class _Open(NamedTuple):
    """A request for a record's lock, and the record to read if it is granted."""

    key: str
    request: LockRequest
    kind: str
    id: str


class PostgresRecords:
    """Implements the records port."""

    def __init__(
        self, connections: OrderedConnections, pool: Pool, reader: Reader, settings: Settings, clock: Clock | None
    ) -> None:
        wait = settings.store_wait / 2
        # The connections of the locks: what the holder of a lease does takes effect in the order in which it began.
        self._leased_writes = KeyedBatchers(connections, self._send, wait)
        self._opens = KeyedBatchers(connections, self._send_asks, wait)
        self._connection = OrderedConnection(pool, wait)
        # Two for all other writes. While the server works on a batch of one, this process prepares that of the other.
        # With more of them, fewer writes share a statement and a commit.
        others = OrderedConnections([OrderedConnection(pool, wait) for _ in range(2)], reads=self._connection)
        self._other_writes = KeyedBatchers(others, self._send, wait)
        # Operations that wait for another transaction do not wait for each other as well.
        self._connection_apart = partial(OrderedConnection, pool, wait, hold=True, bounded=True)
        self._gets = new_batcher(self._get, wait)
        self._current_gets = new_batcher(self._get_current, wait)
        self._reader = reader
        self._namespace = settings.namespace
        self._clock = clock_of(clock)

    async def get(self, kind: str, ids: Sequence[str], *, current: bool = False) -> Sequence[StoredRecord]:
        """Read records, together with other callers that read at the same time."""
        wanted = sorted(set(ids))
        if not wanted:
            return []
        if not current and self._reader.in_snapshot:
            kinds = [kind] * len(wanted)
            return [_record(row) for row in await self._reader.fetch(_sql.get, self._namespace, kinds, wanted)]
        found: dict[tuple[str, str], StoredRecord]
        found = await (self._current_gets if current else self._gets).submit([(kind, id) for id in wanted])  # noqa: A001
        if current and (missing := [id for id in wanted if (kind, id) not in found]):  # noqa: A001
            # A write is in progress, or there is no such record.
            kinds = [kind] * len(missing)
            keys = [lock_key(kind, id) for id in missing]  # noqa: A001
            rows = await self._apart(keys, _sql.get_current, self._namespace, kinds, missing, True)
            found = found | _by_id(rows)
        return [record for id in wanted if (record := found.get((kind, id))) is not None]  # noqa: A001

    async def list(
        self, kind: str, *, status: str = "", where: str = "", prefix: str = "", limit: int = 100, after: str = ""
    ) -> Sequence[StoredRecord]:
        """List records of a kind by ID."""
        args: list[Any] = [self._namespace, kind, after, prefix, where or None, limit]
        if status:
            rows = await self._reader.fetch(_sql.list_status, *args, status)
        else:
            rows = await self._reader.fetch(_sql.list_any, *args)
        return [_record(row) for row in rows]

    async def kinds(self) -> Sequence[str]:
        """Return the kinds that have records."""
        return [kind for (kind,) in await self._reader.fetch(_sql.kinds, self._namespace)]

    async def write(self, changes: Sequence[RecordChange]) -> Sequence[WriteAnswer]:
        """Make all changes or none."""
        answers, _ = await self.write_and_release(changes, ())
        return answers

    async def write_and_release(
        self, changes: Sequence[RecordChange], leases: Sequence[LockRequest]
    ) -> tuple[Sequence[WriteAnswer], Sequence[Left] | None]:
        """Make all changes or none, and release the leases if they are made."""
        if len(changes) == 1 and len(leases) < 2:
            key = lock_key(changes[0].kind, changes[0].id)
            return await self._write(_Write(key, [key], changes, leases))
        if not changes:
            return [], None
        places = {lock_key(change.kind, change.id): place for place, change in enumerate(changes)}
        keys = sorted(places)
        ordered = sorted(leases, key=_lock_key)
        answers, left = await self._write(_Write(keys[0], keys, [changes[places[key]] for key in keys], ordered))
        by_key = dict(zip(keys, answers, strict=True))
        if left is not None:
            left_by_owner = {lease.owner: one for lease, one in zip(ordered, left, strict=True)}
            left = [left_by_owner[lease.owner] for lease in leases]
        return [by_key[lock_key(change.kind, change.id)] for change in changes], left

    async def ask(self, request: LockRequest, kind: str, id: str) -> tuple[Answer, StoredRecord | None]:  # noqa: A002
        """Ask for a record's lock, and read the record if it is granted."""
        # As for locks: a request that may close a cycle of waits is sent alone.
        row = await self._opens.submit("", _Open(request.key, request, kind, id), alone=request.nested)
        return read_answer(row), None if row[5] is None else _record(row[5:])

    async def close(self) -> None:
        """Wait for submitted operations."""
        await self._opens.close()
        await self._leased_writes.close()
        await self._other_writes.close()
        await self._gets.close()
        await self._current_gets.close()
        await self._connection.close()

    # -- writes ------------------------------------------------------------------------------------------------------

    async def _write(self, write: _Write) -> _Answered:
        leased = any(change.owner is not None for change in write.changes)
        writes = self._leased_writes if leased else self._other_writes
        answered: _Answered | None = await writes.submit("", write)
        return answered if answered is not None else await self._write_apart(write)

    async def _send(self, connection: OrderedConnection, batch: Sequence[Operation]) -> Sequence[_Answered | None]:
        """Send writes in one statement: all of them, unless two concern the same record."""
        writes: list[_Write] = [operation.request for operation in batch]
        answered: list[_Answered | None] = [None] * len(writes)
        waiting = list(range(len(writes)))
        while waiting:
            taken: dict[str, int] = {}
            first: list[int] = []
            others: list[int] = []
            for place in waiting:
                keys = writes[place].keys
                if any(key in taken for key in keys):
                    others.append(place)
                else:
                    first.append(place)
                    taken.update((key, place) for key in keys)
            sent = await self._send_distinct(connection, [writes[place] for place in first])
            for place, answer in zip(first, sent, strict=True):
                answered[place] = answer
            waiting = []
            for place in others:
                conflict = _conflict_behind(writes, answered, taken, place)
                if conflict is None:
                    waiting.append(place)
                else:
                    answered[place] = _Answered([conflict], None)
        return answered

    async def _send_distinct(
        self, connection: OrderedConnection, writes: Sequence[_Write]
    ) -> Sequence[_Answered | None]:
        """Send writes that concern different records."""
        if not _replaces_one(writes):
            return _answers(writes, await connection.fetch_here(*self._statement(writes, wait=False)))
        write = writes[0]
        args = (self._namespace, *_row(0, write.changes[0])[1:], self._clock())
        if write.leases:
            ((*row, released, why, next_owner, fence, expires_at),) = await connection.fetch_here(
                _sql.write_one_and_release, *args, write.key, write.leases[0].session
            )
            left = None if released is None else [_left(released, why, next_owner, fence, expires_at)]
        else:
            (row,) = await connection.fetch_here(_sql.write_one, *args)
            left = None
        return [None if row[0] == _BLOCKED else _Answered([write_answer(row)], left)]

    async def _write_apart(self, write: _Write) -> _Answered:
        """Wait for the transactions that have locked the records, and write."""
        for _ in range(_MAX_ATTEMPTS):
            (answered,) = _answers([write], await self._apart(write.keys, *self._statement([write], wait=True)))
            if answered is not None:
                return answered
        raise StoreUnavailableError(f"Other transactions keep deleting and creating {write.key!r}.")

    async def _send_asks(self, connection: OrderedConnection, batch: Sequence[Operation]) -> Sequence[Any]:
        """Ask for several locks, and read the records of those that are granted."""
        opens: list[_Open] = [operation.request for operation in batch]
        requests = ([getattr(one.request, name) for one in opens] for name in REQUEST_COLUMNS)
        kinds, ids = [one.kind for one in opens], [one.id for one in opens]
        return await connection.fetch_here(
            _sql.open, self._namespace, *requests, kinds, ids, TURN_SECONDS, self._clock()
        )

    async def _apart(self, keys: Sequence[str], sql: str, *args: Any) -> Sequence[Any]:
        """Run a statement that waits for the transactions that have locked records, up to a bound."""
        try:
            return await self._connection_apart().fetch(sql, *args)
        except StoreUnavailableError as error:
            if not isinstance(error.__cause__, asyncpg.QueryCanceledError):
                raise
            which = keys[0] if len(keys) == 1 else f"{keys[0]} or one of {len(keys) - 1} others"
            raise StoreUnavailableError(
                f"Another transaction has kept {which} locked for too long.", remedy=LOCKED_REMEDY
            ) from error.__cause__

    def _statement(self, writes: Sequence[_Write], *, wait: bool) -> tuple[Any, ...]:
        """Return the statement for writes of different records, and its arguments."""
        rows = [_row(number, change) for number, change in _in_order(writes)]
        columns: list[Any] = list(zip(*rows, strict=True))
        for position in _OPTIONAL:
            if columns[position].count(None) == len(rows):
                columns[position] = None
        if all(_describes_change(change) for write in writes for change in write.changes):
            columns[_SUBJECT] = columns[_VERSIONS] = None, None
        leases = _leases_in_order(writes)
        if leases:
            released = [number for number, _ in leases]
            locks = ([getattr(lease, name) for _, lease in leases] for name in ("key", "owner", "session"))
            args = (self._namespace, *columns, wait, self._clock(), released, *locks, *_needed_leases(writes))
            return _sql.write_and_release, *args
        if len(rows) == len(writes):
            columns[0] = None
        return _sql.write, self._namespace, *columns, wait, self._clock()

    # -- reads -------------------------------------------------------------------------------------------------------

    async def _get(self, batch: Sequence[Sequence[tuple[str, str]]]) -> Sequence[dict[tuple[str, str], StoredRecord]]:
        kinds, ids = _columns(batch)
        found = _by_id(await self._connection.fetch_here(_sql.get, self._namespace, kinds, ids))
        return [found] * len(batch)

    async def _get_current(
        self, batch: Sequence[Sequence[tuple[str, str]]]
    ) -> Sequence[dict[tuple[str, str], StoredRecord]]:
        kinds, ids = _columns(batch)
        found = _by_id(await self._connection.fetch_here(_sql.get_current, self._namespace, kinds, ids, False))
        return [found] * len(batch)


def change_columns(change: RecordChange) -> Iterable[Any]:
    """Return a single change as the arrays that functions take."""
    return [[value] for value in _row(0, change)]


def _row(number: int, change: RecordChange) -> tuple[Any, ...]:
    """Return one change as the function takes it."""
    kind, id, uid, expected, status, body, owner, fence, entry = change  # noqa: A001
    (actor, reason, *causes), action, subject_kind, subject_key, before, after, from_version, to_version = entry
    return (
        *(number, kind, id, uid, expected, status, body, owner, fence),
        *(actor, reason, action, subject_kind, subject_key, before, after, from_version, to_version),
        *causes,
    )


def _describes_change(change: RecordChange) -> bool:
    """Whether subject and versions of the entry are those of the change."""
    entry, expected = change.entry, change.expected
    return (
        entry.from_version == expected
        and entry.to_version == (None if change.body is None else 0 if expected is None else expected + 1)
        and entry.subject_kind == "record"
        and entry.subject_key == subject_key(change.kind, change.id)
    )


def _replaces_one(writes: Sequence[_Write]) -> bool:
    """Whether there is a single change, which neither creates nor deletes its record, with no lease but its own."""
    if len(writes) > 1 or len(writes[0].changes) > 1:
        return False
    change = writes[0].changes[0]
    if any(lease.owner != change.owner for lease in writes[0].leases):
        return False
    return change.expected is not None and change.body is not None


def _in_order(writes: Sequence[_Write]) -> Iterable[tuple[int, RecordChange]]:
    """Yield all changes with the number of their write, in the order of their lock keys."""
    if len(writes) == 1:
        return ((0, change) for change in writes[0].changes)
    changes = [
        (key, number, change)
        for number, write in enumerate(writes)
        for key, change in zip(write.keys, write.changes, strict=True)
    ]
    changes.sort(key=_first)
    return ((number, change) for _, number, change in changes)


def _first(row: tuple[Any, ...]) -> Any:
    return row[0]


def _leases_in_order(writes: Sequence[_Write]) -> list[tuple[int, LockRequest]]:
    """Return all leases to release with the number of their write, in the order of their keys."""
    leases = [(number, lease) for number, write in enumerate(writes) for lease in write.leases]
    leases.sort(key=lambda numbered: numbered[1].key)
    return leases


def _needed_leases(writes: Sequence[_Write]) -> tuple[list[int] | None, list[str] | None, list[str] | None]:
    """Return the leases that no change of their own write checks: their write's number, key and owner."""
    needed = [
        (number, lease.key, lease.owner)
        for number, write in enumerate(writes)
        for lease in write.leases
        if all(lease.owner != change.owner for change in write.changes)
    ]
    if not needed:
        return None, None, None
    return [number for number, _, _ in needed], [key for _, key, _ in needed], [owner for _, _, owner in needed]


def _lock_key(lease: LockRequest) -> str:
    return lease.key


def _answers(writes: Sequence[_Write], rows: Sequence[Any]) -> Sequence[_Answered | None]:
    """Return the answers of each write; None for one that met a locked record."""
    answers: list[list[WriteAnswer]] = [[] for _ in writes]
    left: list[list[Left]] = [[] for _ in writes]
    blocked: set[int] = set()
    changes = list(_in_order(writes))
    for (number, _), row in zip(changes, rows, strict=False):
        if row[0] == _BLOCKED:
            blocked.add(number)
        else:
            answers[number].append(write_answer(row))
    for (number, _), (answer, fence, _, details) in zip(_leases_in_order(writes), rows[len(changes) :], strict=True):
        if details is not None:
            left[number].append(_left(answer == "left", fence=fence, **json.loads(details)))
    return [
        None if number in blocked else _Answered(answers[number], left[number] or None) for number in range(len(writes))
    ]


def _left(held: bool, why: str, next_owner: str | None, fence: int | None, expires_at: float | None) -> Left:
    handed = None if fence is None or expires_at is None else Granted(fence, expires_at)
    return Left(held, why, next_owner, handed)


def write_answer(row: Any) -> WriteAnswer:
    """Return the answer to a change from its row."""
    answer, version, at, details = row
    if answer == "written":
        return Written(version, seconds(at))
    if answer == "conflict":
        return Conflict(version)
    if answer == "skipped":
        return Skipped()
    if answer == "busy":
        return Busy(Holder(**json.loads(details)))
    if answer == "stale":
        return StaleFence(json.loads(details))
    lost = None if details is None else json.loads(details)
    why, key = lost if isinstance(lost, list) else (lost, "")
    return LeaseLost(_EXPIRED if why is None else why, key)


def _conflict_behind(
    writes: Sequence[_Write], answered: Sequence[_Answered | None], taken: dict[str, int], place: int
) -> Conflict | None:
    """Return the conflict of a write that is checked right after another one of the same record.

    Without this, each of many writes of one record would need a round trip to learn that it came too late. Both have
    one change and no lease. The other one was written or conflicted, so no lease was live, and the version is known.
    """
    write = writes[place]
    before = taken.get(write.key)
    if len(write.keys) > 1 or before is None or len(writes[before].keys) > 1:
        return None
    (change,), (ahead,), found = write.changes, writes[before].changes, answered[before]
    if found is None or change.owner is not None or ahead.owner is not None or change.fence is not None:
        return None
    answer = found.answers[0]
    if isinstance(answer, Written):
        version = None if ahead.body is None else answer.version
    elif isinstance(answer, Conflict):
        version = answer.version
    else:
        return None
    return None if change.expected == version else Conflict(version)


def _columns(batch: Sequence[Sequence[tuple[str, str]]]) -> tuple[list[str], list[str]]:
    wanted = sorted({key for keys in batch for key in keys})
    return [kind for kind, _ in wanted], [id for _, id in wanted]  # noqa: A001


def _by_id(rows: Iterable[Any]) -> dict[tuple[str, str], StoredRecord]:
    return {(row[0], row[1]): _record(row) for row in rows}


def _record(row: Any) -> StoredRecord:
    *rest, created_at, updated_at = row
    return StoredRecord._make((*rest, seconds(created_at), seconds(updated_at)))
