"""The embedded store: one file, several processes on one machine, no server.

It uses WAL, synchronous FULL and immediate transactions. One thread of the process writes, and commits the work of
several callers together. Another thread watches for commits of other processes while a caller waits.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from interlock.backends.sqlite.claims import SqliteClaims
from interlock.backends.sqlite.connection import pin
from interlock.backends.sqlite.cursors import SqliteCursors
from interlock.backends.sqlite.events import SqliteEvents
from interlock.backends.sqlite.file import DatabaseFile
from interlock.backends.sqlite.job_insight import SqliteJobInsight
from interlock.backends.sqlite.job_notifier import JobNotifier
from interlock.backends.sqlite.job_ready_watcher import ReadyWatcher
from interlock.backends.sqlite.jobs import SqliteJobs
from interlock.backends.sqlite.journal import SqliteJournal
from interlock.backends.sqlite.limits import SqliteLimits
from interlock.backends.sqlite.locks import SqliteLocks
from interlock.backends.sqlite.messages import SqliteMessages
from interlock.backends.sqlite.pipelines import SqlitePipelines
from interlock.backends.sqlite.queries import LockQueries
from interlock.backends.sqlite.reader import Reader
from interlock.backends.sqlite.record_insight import SqliteRecordInsight
from interlock.backends.sqlite.records import SqliteRecords
from interlock.backends.sqlite.schedules import SqliteSchedules
from interlock.backends.sqlite.schema import SqliteMigrations
from interlock.backends.sqlite.sessions import SqliteSessions
from interlock.backends.sqlite.writer import Writer
from interlock.clock import Clock, SystemClock
from interlock.errors import InvalidArgumentError
from interlock.ports.store import Capability

if TYPE_CHECKING:
    import sqlite3
    from contextlib import AbstractAsyncContextManager

    from interlock.settings import Settings

__all__ = ["SqliteStore", "from_url"]

_locks_sql = LockQueries()


def from_url(url: str, *, settings: Settings, clock: Clock | None = None) -> SqliteStore:
    """Return a store in the file that a URL names: three slashes for a relative path, four for an absolute one."""
    parts = urlsplit(url)
    path = unquote(parts.path.removeprefix("/"))
    if parts.netloc or not path or parts.query:
        raise InvalidArgumentError(
            "The SQLite URL does not name a file.", remedy="Use sqlite:///relative.db or sqlite:////absolute/path.db."
        )
    return SqliteStore(Path(path), settings, clock)


class SqliteStore:
    """Stores everything in one file."""

    name = "sqlite"
    capabilities = frozenset(
        {
            Capability.LOCKS,
            Capability.CLAIMS,
            Capability.CURSORS,
            Capability.LIMITS,
            Capability.JOBS,
            Capability.EVENTS,
            Capability.JOURNAL,
            Capability.RECORDS,
            Capability.PROCESSES,
            Capability.DURABLE,
            Capability.TRANSACTIONS,
        }
    )

    def __init__(self, path: Path, settings: Settings, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self._file = file = DatabaseFile(path)
        self._settings = settings
        self._clock = clock
        self._writer = Writer(file, settings.store_wait / 2)
        self._reader = Reader(file, settings.store_wait / 2)
        self.migrations = SqliteMigrations(file, settings.store_wait, clock)
        self.sessions = SqliteSessions(self._writer.run, settings.namespace, clock)
        self.messages = SqliteMessages(file, settings.namespace)
        self.locks = SqliteLocks(self._writer, self._reader, file, settings, clock)
        self.messages.sources.append(self.locks.due_owners)
        self.claims = SqliteClaims(self._writer, self._reader, settings, clock)
        self.cursors = SqliteCursors(self._writer, self._reader, settings, clock)
        self.limits = SqliteLimits(self._writer, self._reader, settings, clock)
        self.messages.sources.append(self.limits.due_owners)
        self.journal = SqliteJournal(self._writer.run, self._reader.run, settings.namespace, clock)
        self.records = SqliteRecords(self._writer.run, self._reader.run, settings.namespace, clock, self.locks)
        self.record_insight = SqliteRecordInsight(self._writer.run, self._reader.run, settings.namespace, clock)
        self.pipelines = SqlitePipelines(self._writer.run, self._reader.run, settings.namespace, clock, self.records)
        self.jobs = self._jobs()
        self.insight = SqliteJobInsight(self.jobs)
        self.events = SqliteEvents(self.jobs)
        self.schedules = SqliteSchedules(self.jobs)

    def _jobs(self) -> SqliteJobs:
        messages = self.messages
        news = JobNotifier(messages.turn, messages.lost)
        jobs = SqliteJobs(
            self._writer.run, self._reader.run, news, self._settings.namespace, self._clock, self._next_fence
        )
        jobs.path = self._file.path
        jobs.ready_watcher = ReadyWatcher(jobs.rows, news, messages.watch_closely, messages.check_now)
        messages.watchers.append(jobs.ready_watcher.look)
        messages.sources.append(jobs.ready_watcher.due_owners)
        return jobs

    def snapshot(self) -> AbstractAsyncContextManager[None]:
        """Make all reads inside see one snapshot of the file."""
        return self._reader.snapshot()

    def _next_fence(self, db: sqlite3.Connection) -> int:
        return int(db.execute(_locks_sql.next_fence, {"namespace": self._settings.namespace}).fetchone()[0])

    def lifeline(self) -> SqliteSessions:
        """Return sessions that use a connection of their own."""
        lifeline = Writer(self._file, self._settings.session_ttl / 6, name="interlock-lifeline")
        return SqliteSessions(lifeline.run, self._settings.namespace, self._clock, on_close=lifeline.close)

    async def open(self) -> None:
        """Create or update the tables and start the threads. A file has no administrator who would do it."""
        await self.migrations.up()
        await asyncio.to_thread(pin, self._file, time.monotonic() + self._settings.store_wait)
        self._writer.start()
        self._reader.open()

    async def close(self) -> None:
        """Stop the threads and close the file."""
        await self.events.close()
        await self.messages.close()
        await self.locks.close()
        await self._writer.close()
        self._reader.close()
        await asyncio.to_thread(self._file.unpin)
