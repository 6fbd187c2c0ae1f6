"""The read side of records, on the same in-memory database as the jobs and the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.sqlite.record_insight import SqliteRecordInsight

if TYPE_CHECKING:
    from interlock.backends.memory.jobs import MemoryDatabase
    from interlock.clock import Clock

__all__ = ["memory_record_insight"]


def memory_record_insight(database: MemoryDatabase, namespace: str, clock: Clock) -> SqliteRecordInsight:
    """Return the record insight port."""
    return SqliteRecordInsight(database.run, database.run, namespace, clock)
