"""Fixtures that all tests share."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from interlock import portal as portals
from interlock.testing.proxy import ThreadedFaultProxy
from tests.databases import CleanDatabases, new_database
from tests.remote import Remote

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path


# How fast this machine is right now says nothing about the code.
settings.register_profile("interlock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("interlock")

FRESH = {"postgres": "complete_postgres_url", "redis": "interlock_redis_url"}
STORES = ("memory", "sqlite", "postgres", "redis")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Split large test classes by store between the processes: one process would still run them after the others."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope, _, test = nodeid.rpartition("::")
            parameters = test.partition("[")[2].rstrip("]").split("-")
            return scope + "".join(f"[{store}]" for store in STORES if store in parameters and "::" in scope)

    return Scheduling(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture(autouse=True)
def close_background_threads() -> Iterator[None]:
    """Close the apps that synchronous calls have opened, as the end of a program would."""
    yield
    for portal in list(portals._open_portals):
        portal.close()


@pytest.fixture(scope="session")
def complete_database(interlock_postgres_server: Any) -> Iterator[str]:
    """The name of a PostgreSQL database with the whole schema and nothing in it, for tests to have copies of."""
    yield from new_database(interlock_postgres_server, migrated=True)


@pytest.fixture(scope="session")
def clean_databases(interlock_postgres_server: Any, complete_database: str) -> Iterator[CleanDatabases]:
    """The databases that tests take turns with."""
    databases = CleanDatabases(interlock_postgres_server, complete_database)
    yield databases
    databases.close()


@pytest.fixture
def complete_postgres_url(interlock_postgres_server: Any, clean_databases: CleanDatabases) -> Iterator[str]:
    """The URL of a PostgreSQL database of the test's own that has the whole schema and nothing in it."""
    name = clean_databases.take()
    yield interlock_postgres_server.url(name)
    clean_databases.give_back(name)


@pytest.fixture(params=STORES)
def every_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh, empty store of every kind, in turn."""
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/interlock.db"
    return str(request.getfixturevalue(FRESH[request.param]))


@pytest.fixture
def store_url(every_store_url: str) -> str:
    """The same, under the name that the public suites use."""
    return every_store_url


@pytest.fixture(params=["postgres", "redis"])
def remote(request: pytest.FixtureRequest) -> Iterator[Remote]:
    """A fresh, empty store behind a proxy, on every kind of server in turn."""
    direct = str(request.getfixturevalue(FRESH[request.param]))
    server: Any = request.getfixturevalue(f"interlock_{request.param}_server")
    with ThreadedFaultProxy("127.0.0.1", server.port) as proxy:
        yield Remote(direct, proxy)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Keep the collected tests out of garbage collections, which otherwise traverse them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
