"""The journal, in the same in-memory database as the jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interlock.backends.sqlite.journal import SqliteJournal, add_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.backends.memory.jobs import MemoryDatabase
    from interlock.clock import Clock
    from interlock.ports.journal import NewEntry

__all__ = ["memory_journal", "recorder"]


def memory_journal(database: MemoryDatabase, namespace: str, clock: Clock) -> SqliteJournal:
    """Return the journal port on the jobs' database."""
    return SqliteJournal(database.run, database.run, namespace, clock)


def recorder(database: MemoryDatabase, namespace: str, clock: Clock) -> Callable[[NewEntry], None]:
    """Return a function that writes an entry at once, for changes that no other task may interrupt."""

    def record(entry: NewEntry) -> None:
        database.run_now(partial(add_entry, namespace=namespace, now=clock.now(), entry=entry))

    return record
