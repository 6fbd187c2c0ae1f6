"""The store for many machines that need speed more than certainty: Redis 6.2 or later, one primary with replicas.

Each operation is one script. A restart without its data, or a fail-over, may forget leases and grant a key twice; the
fence still grows and protects whatever checks it.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from interlock.backends.redis import claims, cursors, limits, locks, sessions
from interlock.backends.redis.address import Address
from interlock.backends.redis.claims import RedisClaims
from interlock.backends.redis.credentials import Credentials
from interlock.backends.redis.cursors import RedisCursors
from interlock.backends.redis.keyspace import Place
from interlock.backends.redis.lane import Lane
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
"""What a heartbeat needs: sessions, and what is swept with them."""


def from_url(url: str, *, settings: Settings, clock: Clock | None = None) -> RedisStore:
    """A store in the database that a URL names.

    ``redis://user:password@server:port/database``, ``rediss://`` for TLS, ``redis+unix:///path``. With ``auth=entra``
    the user is a managed identity of Azure, the one that ``client_id`` names or else the machine's own.
    """
    return RedisStore(url, settings, clock)


class RedisStore:
    """Everything under keys that begin with ``interlock:``, the namespace and a colon.

    ``credentials`` gives users and passwords that change, such as tokens; see redis-py's ``CredentialProvider``.
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
        self._place = Place(settings.namespace, clock)
        wait = settings.store_wait / 2
        self._lane = Lane(self._server, wait, (*locks.scripts, *cursors.scripts, *_LIFELINE))
        self.sessions = RedisSessions(self._lane, self._place)
        self.messages = RedisMessages(self._server, self._place, wait)
        self.locks = RedisLocks(self._lane, self._place)
        self.claims = RedisClaims(self._lane, self._place)
        self.cursors = RedisCursors(self._lane, self._place)
        self.limits = RedisLimits(self._lane, self._place)
        self._lane.on_restored = self.messages.ask_all

    def snapshot(self) -> AbstractAsyncContextManager[None]:
        """Nothing to do: each read is one script, and so one state; two of them are two."""
        return nullcontext()

    def lifeline(self) -> RedisSessions:
        """Sessions through a connection of their own."""
        lane = Lane(self._server, self._settings.session_ttl / 6, _LIFELINE)
        return RedisSessions(lane, self._place, owns_lane=True)

    async def open(self) -> None:
        """Find out what is at the other end."""
        await probe(self._lane)

    async def close(self) -> None:
        """Close all connections."""
        await self.messages.close()
        await self._lane.close()
