"""External servers, named by the environment or by a URL."""

from __future__ import annotations

import os
from urllib.parse import urlsplit, urlunsplit

from interlock.testing.servers.postgres import create_database, drop_database
from interlock.testing.servers.redis import redis_command

__all__ = [
    "ExternalPostgres",
    "ExternalRedis",
    "postgres_url_from_environment",
    "redis_url_from_environment",
]


class ExternalPostgres:
    """An external PostgreSQL server, named by a URL whose user may create databases."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)

    def url(self, database: str | None = None) -> str:
        """The URL as given, or that of another database on the same server."""
        return urlunsplit(self._url if database is None else self._url._replace(path=f"/{database}"))

    def create_database(self, name: str, template: str = "template0") -> None:
        """Create an empty database, or a copy of another one."""
        create_database(self.url(), name, template)

    def drop_database(self, name: str) -> None:
        """Drop a database if it exists, and disconnect its clients."""
        drop_database(self.url(), name)


class ExternalRedis:
    """An external Redis server, named by a URL; only the database in the URL is used."""

    def __init__(self, url: str) -> None:
        self._url = url

    def url(self) -> str:
        """The URL as given."""
        return self._url

    def flush(self) -> None:
        """Empty the database that the URL names, and no other."""
        redis_command(self._url, "FLUSHDB")


def postgres_url_from_environment() -> str | None:
    """The PostgreSQL that `INTERLOCK_TEST_POSTGRES_URL` names, if it is set."""
    return os.environ.get("INTERLOCK_TEST_POSTGRES_URL") or None


def redis_url_from_environment() -> str | None:
    """The Redis that `INTERLOCK_TEST_REDIS_URL` names, if it is set."""
    return os.environ.get("INTERLOCK_TEST_REDIS_URL") or None
