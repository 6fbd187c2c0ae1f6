"""Debian's PostgreSQL 15 for the system tests, and a PgBouncer in front of it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from interlock.testing.servers import PostgresServer
from tests.system.pgbouncer import DEBIAN_POSTGRES, PgBouncer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def debian_postgres() -> Iterator[PostgresServer]:
    with PostgresServer(bin_dir=DEBIAN_POSTGRES) as server:
        yield server


@pytest.fixture(scope="session")
def pgbouncer(debian_postgres: PostgresServer) -> Iterator[PgBouncer]:
    with PgBouncer(debian_postgres) as pooler:
        yield pooler


@pytest.fixture
def database(debian_postgres: PostgresServer) -> Iterator[str]:
    """The name of a new, empty database."""
    name = f"interlock_{uuid.uuid4().hex}"
    debian_postgres.create_database(name)
    yield name
    debian_postgres.drop_database(name)
