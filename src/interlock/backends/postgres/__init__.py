"""The store for many machines: PostgreSQL 13 or later, directly or behind a pooler in transaction mode.

Each operation is one short statement. Messages come by LISTEN on one connection of their own; where a pooler
swallows them the store says so and looks for itself instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.postgres.claims import PostgresClaims
from interlock.backends.postgres.cursors import PostgresCursors
from interlock.backends.postgres.events import PostgresEvents
from interlock.backends.postgres.job_insight import PostgresJobInsight
from interlock.backends.postgres.jobs import PostgresJobs
from interlock.backends.postgres.journal import PostgresJournal
from interlock.backends.postgres.lane import Lane, Lanes, Server
from interlock.backends.postgres.limits import PostgresLimits
from interlock.backends.postgres.locks import PostgresLocks
from interlock.backends.postgres.messages import PostgresMessages
from interlock.backends.postgres.pool import Pool
from interlock.backends.postgres.reader import Reader
from interlock.backends.postgres.schema import PostgresMigrations
from interlock.backends.postgres.sessions import PostgresSessions
from interlock.ports.store import Capability

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from interlock.clock import Clock
    from interlock.settings import Settings

__all__ = ["PostgresStore", "from_url"]

_LANES = 4
_OWN_CONNECTIONS = 2  # of the heartbeat and the listener


def from_url(url: str, *, settings: Settings, clock: Clock | None = None) -> PostgresStore:
    """A store in the database that a URL names, with libpq's parameters such as ``sslmode=verify-full``."""
    return PostgresStore(url, settings, clock)


class PostgresStore:
    """Everything in the schema ``interlock`` of one database."""

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
        lanes = [Lane(pool, settings.store_wait / 2) for _ in range(_LANES)]
        self._reader = Reader(pool, settings.store_wait / 2)
        self._lanes = Lanes(lanes, aside=self._reader)
        self.migrations = PostgresMigrations(server, settings.store_wait)
        self.sessions = PostgresSessions(self._lanes.first, settings.namespace, clock)
        listener = Server(settings.listen_url) if settings.listen_url else server
        self.messages = PostgresMessages(listener, self._lanes.first, settings)
        # What the heartbeat or the listener needs, idle connections make room for; work comes before listening.
        server.on_refused = listener.on_refused = pool.share
        pool.on_starved = self.messages.yield_connection
        self.locks = PostgresLocks(self._lanes, pool, settings, clock)
        self.messages.sources.append(lambda session: self.locks.turns(session, ()))
        self.claims = PostgresClaims(self._lanes, settings, clock)
        self.cursors = PostgresCursors(self._lanes, settings, clock)
        self.journal = PostgresJournal(self._lanes.first, self._reader, settings.namespace, clock)
        self.limits = PostgresLimits(self._lanes, settings, clock)
        self.messages.sources.append(lambda session: self.limits.turns(session, ()))
        self.jobs = PostgresJobs(self._lanes, pool, self.messages, settings, clock)
        self.messages.sources.append(self.jobs.turns)
        self.events = PostgresEvents(self._lanes, pool, settings, clock, self.jobs.enqueued)
        self.insight = PostgresJobInsight(self._reader, settings, clock)

    def snapshot(self) -> AbstractAsyncContextManager[None]:
        """One state of the database, in a read-only transaction of its own."""
        return self._reader.snapshot()

    def lifeline(self) -> PostgresSessions:
        """Sessions through a connection of their own."""
        pool = Pool(self._server, 1)
        lane = Lane(pool, self._settings.session_ttl / 6)
        return PostgresSessions(lane, self._settings.namespace, self._clock, own=pool)

    async def open(self) -> None:
        """Find out what is at the other end, and see that the schema fits."""
        await self._server.probe(self._settings.store_wait)
        await self.migrations.ensure()

    async def close(self) -> None:
        """Close all connections."""
        await self.messages.close()
        await self.locks.close()
        await self.claims.close()
        await self.limits.close()
        await self.events.close()
        await self.jobs.close()
        await self._lanes.close()
        await self._pool.close()
        await self._server.close()
