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
from interlock.backends.postgres.queries import RecordQueries
from interlock.errors import StoreUnavailableError
from interlock.ports.locks import Holder
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
    from interlock.ports.records import RecordChange
    from interlock.settings import Settings

__all__ = ["PostgresRecords", "change_columns", "write_answer"]

_sql = RecordQueries()
_MAX_ATTEMPTS = 10  # of a create, whose record others delete and create again
_EXPIRED = "it had expired"
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


class PostgresRecords:
    """Implements the records port."""

    def __init__(
        self, connections: OrderedConnections, pool: Pool, reader: Reader, settings: Settings, clock: Clock | None
    ) -> None:
        wait = settings.store_wait / 2
        # The connections of the locks: what the holder of a lease does takes effect in the order in which it began.
        self._leased_writes = KeyedBatchers(connections, self._send, wait)
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
        if len(changes) == 1:
            key = lock_key(changes[0].kind, changes[0].id)
            return await self._write(_Write(key, [key], changes))
        if not changes:
            return []
        places = {lock_key(change.kind, change.id): place for place, change in enumerate(changes)}
        keys = sorted(places)
        answers = await self._write(_Write(keys[0], keys, [changes[places[key]] for key in keys]))
        by_key = dict(zip(keys, answers, strict=True))
        return [by_key[lock_key(change.kind, change.id)] for change in changes]

    async def close(self) -> None:
        """Wait for submitted operations."""
        await self._leased_writes.close()
        await self._other_writes.close()
        await self._gets.close()
        await self._current_gets.close()
        await self._connection.close()

    # -- writes ------------------------------------------------------------------------------------------------------

    async def _write(self, write: _Write) -> Sequence[WriteAnswer]:
        leased = any(change.owner is not None for change in write.changes)
        writes = self._leased_writes if leased else self._other_writes
        answers: Sequence[WriteAnswer] | None = await writes.submit("", write)
        return answers if answers is not None else await self._write_apart(write)

    async def _send(
        self, connection: OrderedConnection, batch: Sequence[Operation]
    ) -> Sequence[Sequence[WriteAnswer] | None]:
        """Send writes in one statement: all of them, unless two concern the same record."""
        writes: list[_Write] = [operation.request for operation in batch]
        answers: list[Sequence[WriteAnswer] | None] = [None] * len(writes)
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
            sent = [writes[place] for place in first]
            if _replaces_one(sent):
                row = _row(0, sent[0].changes[0])[1:]
                rows = await connection.fetch_here(_sql.write_one, self._namespace, *row, self._clock())
            else:
                rows = await connection.fetch_here(_sql.write, *self._arguments(sent, False))
            for place, answer in zip(first, _answers(sent, rows), strict=True):
                answers[place] = answer
            waiting = []
            for place in others:
                conflict = _conflict_behind(writes, answers, taken, place)
                if conflict is None:
                    waiting.append(place)
                else:
                    answers[place] = [conflict]
        return answers

    async def _write_apart(self, write: _Write) -> Sequence[WriteAnswer]:
        """Wait for the transactions that have locked the records, and write."""
        for _ in range(_MAX_ATTEMPTS):
            rows = await self._apart(write.keys, _sql.write, *self._arguments([write], True))
            (answers,) = _answers([write], rows)
            if answers is not None:
                return answers
        raise StoreUnavailableError(f"Other transactions keep deleting and creating {write.key!r}.")

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

    def _arguments(self, writes: Sequence[_Write], wait: bool) -> Iterable[Any]:
        rows = [_row(number, change) for number, change in _in_order(writes)]
        columns: list[Any] = list(zip(*rows, strict=True))
        for position in _OPTIONAL:
            if columns[position].count(None) == len(rows):
                columns[position] = None
        if len(rows) == len(writes):
            columns[0] = None
        if all(_describes_change(change) for write in writes for change in write.changes):
            columns[_SUBJECT] = columns[_VERSIONS] = None, None
        return (self._namespace, *columns, wait, self._clock())

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
    """Whether there is a single change, which neither creates nor deletes its record."""
    if len(writes) > 1 or len(writes[0].changes) > 1:
        return False
    change = writes[0].changes[0]
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


def _answers(writes: Sequence[_Write], rows: Iterable[Any]) -> Sequence[Sequence[WriteAnswer] | None]:
    """Return the answers of each write, in the order of its keys; None for one that met a locked record."""
    answers: list[list[WriteAnswer]] = [[] for _ in writes]
    blocked: set[int] = set()
    for (number, _), row in zip(_in_order(writes), rows, strict=True):
        if row[0] == "blocked":
            blocked.add(number)
        else:
            answers[number].append(write_answer(row))
    return [None if number in blocked else answer for number, answer in enumerate(answers)]


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
    return LeaseLost(_EXPIRED if details is None else json.loads(details))


def _conflict_behind(
    writes: Sequence[_Write], answers: Sequence[Sequence[WriteAnswer] | None], taken: dict[str, int], place: int
) -> Conflict | None:
    """Return the conflict of a write that is checked right after another one of the same record.

    Without this, each of many writes of one record would need a round trip to learn that it came too late. Both have
    one change and no lease. The other one was written or conflicted, so no lease was live, and the version is known.
    """
    write = writes[place]
    before = taken.get(write.key)
    if len(write.keys) > 1 or before is None or len(writes[before].keys) > 1:
        return None
    (change,), (ahead,), answer = write.changes, writes[before].changes, answers[before]
    if answer is None or change.owner is not None or ahead.owner is not None or change.fence is not None:
        return None
    if isinstance(answer[0], Written):
        version = None if ahead.body is None else answer[0].version
    elif isinstance(answer[0], Conflict):
        version = answer[0].version
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
