"""Runs of pipelines, in the same in-memory database as the jobs and the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.sqlite.pipelines import SqlitePipelines

if TYPE_CHECKING:
    from interlock.backends.memory.jobs import MemoryDatabase
    from interlock.backends.sqlite.records import SqliteRecords
    from interlock.clock import Clock

__all__ = ["memory_pipelines"]


def memory_pipelines(database: MemoryDatabase, namespace: str, clock: Clock, records: SqliteRecords) -> SqlitePipelines:
    """Return the pipelines port."""
    return SqlitePipelines(database.run, database.run, namespace, clock, records)
