"""Records, in the same in-memory database as the jobs and the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from interlock.backends.sqlite.records import SqliteRecords
from interlock.ports.locks import Granted

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from interlock.backends.memory.jobs import MemoryDatabase
    from interlock.backends.memory.locks import MemoryLocks
    from interlock.clock import Clock
    from interlock.ports.locks import Answer, Holder, Left, LockRequest

__all__ = ["memory_records"]

T = TypeVar("T")


def memory_records(database: MemoryDatabase, namespace: str, clock: Clock, locks: MemoryLocks) -> SqliteRecords:
    """Return the records port. No other task runs between the check of a lease and the write."""
    return SqliteRecords(database.run, database.run, namespace, clock, _Locks(database, locks))


class _Locks:
    """The locks as records use them. Neither locks nor database let another task run in between."""

    def __init__(self, database: MemoryDatabase, locks: MemoryLocks) -> None:
        self._run = database.run
        self._locks = locks

    def holder(self, db: sqlite3.Connection, key: str) -> Holder | None:
        return self._locks.holder(key)

    def why_ended(self, db: sqlite3.Connection, key: str, owner: str) -> str:
        return self._locks.why_ended(key, owner)

    async def ask_and_read(
        self, request: LockRequest, read: Callable[[sqlite3.Connection], T]
    ) -> tuple[Answer, T | None]:
        answer = await self._locks.ask(request)
        return answer, await self._run(read) if isinstance(answer, Granted) else None

    async def write_and_leave(
        self, write: Callable[[sqlite3.Connection], tuple[T, bool]], requests: Sequence[LockRequest]
    ) -> tuple[T, Sequence[Left] | None]:
        answers, made = await self._run(write)
        return answers, [await self._locks.leave(request) for request in requests] if made else None
