"""The Redis store: fast, for many machines. Redis 6.2 or later, one primary with replicas.

Each operation is one script. A restart without persistence, or a failover, can lose leases and grant a lock twice.
Fences still grow, and protect resources that check them.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from interlock.backends.redis import claims, cursors, limits, locks, sessions
from interlock.backends.redis.address import Address
from interlock.backends.redis.claims import RedisClaims
from interlock.backends.redis.connection import Connection
from interlock.backends.redis.credentials import Credentials
from interlock.backends.redis.cursors import RedisCursors
from interlock.backends.redis.keyspace import Keyspace
from interlock.backends.redis.limits import RedisLimits
from interlock.backends.redis.locks import RedisLocks
from interlock.backends.redis.messages import RedisMessages
from interlock.backends.redis.probe import probe
from interlock.backends.redis.server import Server
from interlock.backends.redis.sessions import RedisSessions
from interlock.ports.store import Capability

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from redis.credentials import CredentialProvider

    from interlock.clock import Clock
    from interlock.settings import Settings

__all__ = ["RedisStore", "from_url"]

_LIFELINE = (*sessions.scripts, *claims.scripts, *limits.scripts)
"""The scripts of a heartbeat: sessions, and what is swept with them."""


def from_url(url: str, *, settings: Settings, clock: Clock | None = None) -> RedisStore:
    """Return a store in the database that a URL names.

    ``redis://user:password@server:port/database``, ``rediss://`` for TLS, ``redis+unix:///path``. With ``auth=entra``
    the user is an Azure managed identity: the one with ``client_id``, or the machine's own.
    """
    return RedisStore(url, settings, clock)


class RedisStore:
    """Stores everything under keys that start with ``interlock:NAMESPACE:``.

    ``credentials`` provides users and passwords that change, such as tokens; see redis-py's ``CredentialProvider``.
    """

    name = "redis"
    capabilities = frozenset(
        {Capability.LOCKS, Capability.CLAIMS, Capability.CURSORS, Capability.LIMITS, Capability.PROCESSES}
    )
    migrations = None

    def __init__(
        self,
        url: str,
        settings: Settings,
        clock: Clock | None = None,
        *,
        credentials: CredentialProvider | None = None,
    ) -> None:
        address = Address.of(url)
        if credentials is None and address.entra:
            from interlock.backends.redis.entra import EntraCredentials

            credentials = EntraCredentials(address.client_id, settings.store_wait / 2)
        self._settings = settings
        self._server = Server(address, None if credentials is None else Credentials(credentials))
        self._keyspace = Keyspace(settings.namespace, clock)
        timeout = settings.store_wait / 2
        self._connection = Connection(self._server, timeout, (*locks.scripts, *cursors.scripts, *_LIFELINE))
        self.sessions = RedisSessions(self._connection, self._keyspace)
        self.messages = RedisMessages(self._server, self._keyspace, timeout)
        self.locks = RedisLocks(self._connection, self._keyspace)
        self.claims = RedisClaims(self._connection, self._keyspace)
        self.cursors = RedisCursors(self._connection, self._keyspace)
        self.limits = RedisLimits(self._connection, self._keyspace)
        self._connection.on_restored = self.messages.ask_all

    def snapshot(self) -> AbstractAsyncContextManager[None]:
        """Do nothing: each read is one script and so one snapshot; two reads are two snapshots."""
        return nullcontext()

    def lifeline(self) -> RedisSessions:
        """Return sessions that use a connection of their own."""
        connection = Connection(self._server, self._settings.session_ttl / 6, _LIFELINE)
        return RedisSessions(connection, self._keyspace, owns_connection=True)

    async def open(self) -> None:
        """Connect and check that the server is suitable."""
        await probe(self._connection)

    async def close(self) -> None:
        """Close all connections."""
        await self.messages.close()
        await self._connection.close()
