"""The store for many machines: PostgreSQL 13 or later, directly or behind a pooler in transaction mode.

Each operation is one short statement. Notifications come by LISTEN on a separate connection; where a pooler drops them,
the store logs that and polls instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.postgres.claims import PostgresClaims
from interlock.backends.postgres.connection import OrderedConnection, OrderedConnections
from interlock.backends.postgres.cursors import PostgresCursors
from interlock.backends.postgres.events import PostgresEvents
from interlock.backends.postgres.job_insight import PostgresJobInsight
from interlock.backends.postgres.jobs import PostgresJobs
from interlock.backends.postgres.journal import PostgresJournal
from interlock.backends.postgres.limits import PostgresLimits
from interlock.backends.postgres.locks import PostgresLocks
from interlock.backends.postgres.messages import PostgresMessages
from interlock.backends.postgres.pipelines import PostgresPipelines
from interlock.backends.postgres.pool import Pool
from interlock.backends.postgres.reader import Reader
from interlock.backends.postgres.record_insight import PostgresRecordInsight
from interlock.backends.postgres.records import PostgresRecords
from interlock.backends.postgres.schedules import PostgresSchedules
from interlock.backends.postgres.schema import PostgresMigrations
from interlock.backends.postgres.server import Server
from interlock.backends.postgres.sessions import PostgresSessions
from interlock.ports.store import Capability

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from interlock.clock import Clock
    from interlock.settings import Settings

__all__ = ["PostgresStore", "from_url"]

_CONNECTIONS = 4
_OWN_CONNECTIONS = 2  # of the heartbeat and the listener


def from_url(url: str, *, settings: Settings, clock: Clock | None = None) -> PostgresStore:
    """Return the store in the database that a URL names. libpq's parameters such as ``sslmode=verify-full`` work."""
    return PostgresStore(url, settings, clock)


class PostgresStore:
    """The store in the schema ``interlock`` of one database."""

    name = "postgres"
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

    def __init__(self, url: str, settings: Settings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._server = server = Server(url)
        self._clock = clock
        self._pool = pool = Pool(server, settings.connections - _OWN_CONNECTIONS)
        connections = [OrderedConnection(pool, settings.store_wait / 2) for _ in range(_CONNECTIONS)]
        self._reader = Reader(pool, settings.store_wait / 2)
        self._connections = OrderedConnections(connections, reads=self._reader)
        self.migrations = PostgresMigrations(server, settings.store_wait)
        self.sessions = PostgresSessions(self._connections.first, settings.namespace, clock)
        listener = Server(settings.listen_url) if settings.listen_url else server
        self.messages = PostgresMessages(listener, self._connections.first, settings)
        # Idle connections are closed if the heartbeat or the listener needs one; work has precedence over listening.
        server.on_refused = listener.on_refused = pool.share
        pool.on_starved = self.messages.yield_connection
        self.locks = PostgresLocks(self._connections, pool, settings, clock)
        self.messages.sources.append(lambda session: self.locks.turns(session, ()))
        self.claims = PostgresClaims(self._connections, settings, clock)
        self.cursors = PostgresCursors(self._connections, settings, clock)
        self.journal = PostgresJournal(self._connections.first, self._reader, settings, clock)
        self.records = PostgresRecords(self._connections, pool, self._reader, settings, clock)
        self.record_insight = PostgresRecordInsight(self._connections.first, self._reader, settings.namespace, clock)
        self.pipelines = PostgresPipelines(pool, self._reader, settings, clock)
        self.limits = PostgresLimits(self._connections, settings, clock)
        self.messages.sources.append(lambda session: self.limits.turns(session, ()))
        self.jobs = PostgresJobs(pool, self.messages, settings, clock)
        self.messages.sources.append(self.jobs.turns)
        self.events = PostgresEvents(self._connections, pool, settings, clock, self.jobs.enqueued)
        self.schedules = PostgresSchedules(pool, self._reader, self.messages, settings, clock, self.jobs.enqueued)
        self.insight = PostgresJobInsight(self._reader, settings, clock)

    def snapshot(self) -> AbstractAsyncContextManager[None]:
        """Read one state of the database, in a read-only transaction."""
        return self._reader.snapshot()

    def lifeline(self) -> PostgresSessions:
        """Return sessions that use a connection of their own."""
        pool = Pool(self._server, 1)
        connection = OrderedConnection(pool, self._settings.session_ttl / 6)
        return PostgresSessions(connection, self._settings.namespace, self._clock, own=pool)

    async def open(self) -> None:
        """Detect a pooler, and check the schema."""
        async with self._server.probed(self._settings.store_wait) as connection:
            status = await self.migrations.read(connection)
            if not status.empty:
                self.jobs.identity = await self.migrations.read_identity(connection)
        await self.migrations.ensure(status)
        if status.empty:
            self.jobs.identity = await self.migrations.identity()

    async def close(self) -> None:
        """Close all connections."""
        await self.messages.close()
        await self.locks.close()
        await self.claims.close()
        await self.records.close()
        await self.journal.close()
        await self.pipelines.close()
        await self.limits.close()
        await self.events.close()
        await self.schedules.close()
        await self.jobs.close()
        await self._connections.close()
        await self._pool.close()
        await self._server.close()
