"""What holds on the bundled PostgreSQL holds on Debian's PostgreSQL 15, directly and through PgBouncer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest

from interlock.testing.conformance import (
    ClaimStoreConformance,
    CursorsConformance,
    LimitsConformance,
    LockStoreConformance,
    ProcessConformance,
)
from tests.conformance.suites import SHARING, SUITES

if TYPE_CHECKING:
    from interlock.testing.servers import PostgresServer
    from tests.system.pgbouncer import PgBouncer

pytestmark = pytest.mark.system


class _OnPostgres15:
    test_a_crashed_holders_key_is_granted_to_the_next_in_twenty_seconds_with_default_settings = (
        None  # 15 s, once is enough
    )

    @pytest.fixture
    def store_url(self, request: pytest.FixtureRequest, debian_postgres: PostgresServer) -> str:
        return debian_postgres.url(database_of(self, request))


class _ThroughPgBouncer:
    test_a_crashed_holders_key_is_granted_to_the_next_in_twenty_seconds_with_default_settings = None
    # Without messages every hand-over between processes waits for a look, some 0.25 s: see test_pgbouncer.py, which
    # also shows that they are quick with listen_url.
    test_two_engines_hand_over_in_order_without_polling = None
    test_slots_hold_across_processes_and_the_next_is_woken = None

    @pytest.fixture
    def store_url(self, request: pytest.FixtureRequest, pgbouncer: PgBouncer) -> str:
        return pgbouncer.url(database_of(self, request))


def database_of(suite: object, request: pytest.FixtureRequest) -> str:
    """One for each test, or for all that can share it: making one takes longer than most of them."""
    shares = any(isinstance(suite, sharing) for sharing in SHARING)
    return str(request.getfixturevalue("shared_database" if shares else "database"))


# A pooler matters to how statements travel, not to what they say: one suite for each port is enough there.
THROUGH_POOLER = {
    LockStoreConformance,
    ProcessConformance,
    ClaimStoreConformance,
    CursorsConformance,
    LimitsConformance,
}

for suite in SUITES:
    for place in (_OnPostgres15, _ThroughPgBouncer):
        if place is _OnPostgres15 or suite in THROUGH_POOLER:
            name = f"Test{suite.__name__}{place.__name__}"
            globals()[name] = type(name, (place, suite), {})


async def test_it_is_the_debian_build(debian_postgres: PostgresServer) -> None:
    connection = await asyncpg.connect(debian_postgres.url())
    version = await connection.fetchval("select version()")
    await connection.close()

    assert version.startswith("PostgreSQL 15.")
    assert "Debian" in version
