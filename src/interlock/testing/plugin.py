"""Pytest plugin: fixtures that give each test an empty database on a real server, or an app a fresh store.

Servers start when a test first asks for one and live for the session. `INTERLOCK_TEST_POSTGRES_URL` and
`INTERLOCK_TEST_REDIS_URL` name servers to use instead. Nothing but pytest is imported until then.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from interlock.app import App
    from interlock.testing.servers import ExternalPostgres, ExternalRedis, PostgresServer, RedisServer

__all__ = [
    "interlock_fresh",
    "interlock_postgres_server",
    "interlock_postgres_url",
    "interlock_redis_server",
    "interlock_redis_url",
]


@pytest.fixture
def interlock_fresh() -> Iterator[Callable[..., App]]:
    """Give an app of a module a fresh store until the end of the test: ``interlock_fresh(bot.app)``; see ``fresh``."""
    from interlock.testing.apps import fresh

    with ExitStack() as stack:
        yield lambda app, url="memory://": stack.enter_context(fresh(app, url))


@pytest.fixture(scope="session")
def interlock_postgres_server() -> Iterator[PostgresServer | ExternalPostgres]:
    """A running PostgreSQL, shared by the session's tests: do not stop it."""
    from interlock.testing import servers

    if url := servers.postgres_url_from_environment():
        yield servers.ExternalPostgres(url)
        return
    # Data survives every end of the server except a crash of the machine, and databases are created and dropped faster.
    with servers.PostgresServer(settings={"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}) as server:
        yield server


@pytest.fixture(scope="session")
def interlock_redis_server() -> Iterator[RedisServer | ExternalRedis]:
    """A running Redis, shared by the session's tests: do not stop it."""
    from interlock.testing import servers

    if url := servers.redis_url_from_environment():
        yield servers.ExternalRedis(url)
        return
    with servers.RedisServer() as server:
        yield server


@pytest.fixture
def interlock_postgres_url(interlock_postgres_server: PostgresServer | ExternalPostgres) -> Iterator[str]:
    """The URL of a new, empty PostgreSQL database, dropped after the test."""
    name = f"interlock_{uuid.uuid4().hex}"
    interlock_postgres_server.create_database(name)
    try:
        yield interlock_postgres_server.url(name)
    finally:
        interlock_postgres_server.drop_database(name)


@pytest.fixture
def interlock_redis_url(interlock_redis_server: RedisServer | ExternalRedis) -> Iterator[str]:
    """The URL of an empty Redis database, emptied again after the test."""
    interlock_redis_server.flush()
    try:
        yield interlock_redis_server.url()
    finally:
        interlock_redis_server.flush()
