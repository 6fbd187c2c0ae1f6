"""What holds on the bundled PostgreSQL holds on Debian's PostgreSQL 15, directly and through PgBouncer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest

from interlock.testing.conformance import LocksConformance, LockStoreConformance, ProcessConformance

if TYPE_CHECKING:
    from interlock.testing.servers import PostgresServer
    from tests.system.pgbouncer import PgBouncer

pytestmark = pytest.mark.system


class TestPostgres15(LockStoreConformance, LocksConformance, ProcessConformance):
    @pytest.fixture
    def store_url(self, debian_postgres: PostgresServer, database: str) -> str:
        return debian_postgres.url(database)


class TestPostgres15ThroughPgBouncer(LockStoreConformance, LocksConformance, ProcessConformance):
    # Without messages every hand-over between processes waits for a look, some 0.25 s: see test_pgbouncer.py, which
    # also shows that they are quick with listen_url.
    test_two_engines_hand_over_in_order_without_polling = None  # type: ignore[assignment]

    @pytest.fixture
    def store_url(self, pgbouncer: PgBouncer, database: str) -> str:
        return pgbouncer.url(database)


async def test_it_is_the_debian_build(debian_postgres: PostgresServer) -> None:
    connection = await asyncpg.connect(debian_postgres.url())
    version = await connection.fetchval("select version()")
    await connection.close()

    assert version.startswith("PostgreSQL 15.")
    assert "Debian" in version
