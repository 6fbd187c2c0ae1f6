"""Debian's PostgreSQL 15 and Redis 7 for the system tests, a PgBouncer, and two certificate authorities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock.testing.servers import PostgresServer, RedisServer
from tests.databases import new_database
from tests.system.authority import Authority
from tests.system.pgbouncer import DEBIAN_POSTGRES, PgBouncer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def debian_postgres() -> Iterator[PostgresServer]:
    with PostgresServer(bin_dir=DEBIAN_POSTGRES, settings={"fsync": "off"}) as server:
        yield server


@pytest.fixture(scope="session")
def pgbouncer(debian_postgres: PostgresServer) -> Iterator[PgBouncer]:
    with PgBouncer(debian_postgres) as pooler:
        yield pooler


@pytest.fixture
def database(debian_postgres: PostgresServer) -> Iterator[str]:
    """The name of a new, empty database."""
    yield from new_database(debian_postgres)


@pytest.fixture(scope="session")
def shared_database(debian_postgres: PostgresServer) -> Iterator[str]:
    """The name of one for many tests, each of which has a namespace of its own."""
    yield from new_database(debian_postgres, migrated=True)


@pytest.fixture(scope="session")
def debian_redis() -> Iterator[RedisServer]:
    with RedisServer(binary="/usr/bin/redis-server") as server:
        yield server


@pytest.fixture(scope="session")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    """The authority that signed the server's certificate, and one that did not."""
    directory = tmp_path_factory.mktemp("tls")
    return Authority(directory / "ours", "Ours"), Authority(directory / "theirs", "Theirs")
