"""A PostgreSQL and its hot standby by streaming replication, which a test can fail over."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import asyncpg

from interlock.testing.servers import PostgresServer
from interlock.testing.servers.local import START_SECONDS
from tests.system.pgbouncer import DEBIAN_POSTGRES

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Pair", "Standby"]

_SETTINGS = {"fsync": "off", "wal_level": "replica", "max_wal_senders": "5", "hot_standby": "on"}


class Standby(PostgresServer):
    """Follows another server until it is promoted. Until then it answers, and refuses to write."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__(bin_dir=DEBIAN_POSTGRES, settings=_SETTINGS)
        self._primary = primary

    async def promote(self) -> None:
        """Make it a primary, and return when it is one."""
        connection = await asyncpg.connect(self.url())
        assert await connection.fetchval("select pg_promote(true, 60)")
        await connection.close()

    def _creation_command(self) -> list[str]:
        primary = f"host=127.0.0.1 port={self._primary.port} user=postgres application_name=standby"
        return ["pg_basebackup", "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", primary]


class Pair:
    """A primary and a standby. A commit is acknowledged when the standby has it, unless `synchronous` is false."""

    def __init__(self, *, synchronous: bool = True) -> None:
        self.primary = PostgresServer(bin_dir=DEBIAN_POSTGRES, settings=_SETTINGS)
        self.standby = Standby(self.primary)
        self._synchronous = synchronous

    def __enter__(self) -> Self:
        self.primary.start()
        try:
            self.standby.start()
            asyncio.run(self._follow())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.standby.close()
        self.primary.close()

    @property
    def url(self) -> str:
        """Both hosts in one URL."""
        return f"postgresql://postgres@127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}/postgres"

    async def _follow(self) -> None:
        connection = await asyncpg.connect(self.primary.url())
        if self._synchronous:
            await connection.execute("alter system set synchronous_standby_names = 'standby'")
            await connection.execute("select pg_reload_conf()")
        state, give_up = "sync" if self._synchronous else "async", time.monotonic() + START_SECONDS
        while await connection.fetchval("select sync_state from pg_stat_replication") != state:
            assert time.monotonic() < give_up, "the standby does not follow"
            await asyncio.sleep(0.05)
        await connection.close()
