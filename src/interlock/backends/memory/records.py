"""Records, in the same in-memory database as the jobs and the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.sqlite.records import SqliteRecords

if TYPE_CHECKING:
    from interlock.backends.memory.jobs import MemoryDatabase
    from interlock.backends.memory.locks import MemoryLocks
    from interlock.clock import Clock

__all__ = ["memory_records"]


def memory_records(database: MemoryDatabase, namespace: str, clock: Clock, locks: MemoryLocks) -> SqliteRecords:
    """Return the records port. No other task runs between the check of a lease and the write."""
    return SqliteRecords(
        database.run,
        database.run,
        namespace,
        clock,
        lambda _, key: locks.holder(key),
        lambda _, key, owner: locks.why_ended(key, owner),
    )
