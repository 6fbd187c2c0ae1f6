"""Real PostgreSQL and Redis servers for tests: on loopback, each over a temporary directory of its own.

A server can be stopped, killed with SIGKILL and started again over the same data and port. Nothing stays
behind: a watchdog process ends the server and removes its directory when the owner dies, however it dies.
"""

from interlock.testing.servers.external import (
    ExternalPostgres,
    ExternalRedis,
    postgres_url_from_environment,
    redis_url_from_environment,
)
from interlock.testing.servers.installation import bundled_postgres, bundled_redis
from interlock.testing.servers.local import LocalServer
from interlock.testing.servers.postgres import PostgresServer
from interlock.testing.servers.process import ServerFailedError
from interlock.testing.servers.redis import RedisServer
from interlock.testing.servers.tcp import free_port

__all__ = [
    "ExternalPostgres",
    "ExternalRedis",
    "LocalServer",
    "PostgresServer",
    "RedisServer",
    "ServerFailedError",
    "bundled_postgres",
    "bundled_redis",
    "free_port",
    "postgres_url_from_environment",
    "redis_url_from_environment",
]
