"""Connecting to a PostgreSQL server: its hosts, whether it is writable, and waiting for its answers.

A connection that leads to a server which is no longer the right one is terminated, together with all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from interlock.backends.postgres.errors import TEMPORARY, translated
from interlock.backends.postgres.hosts import Hosts
from interlock.backends.postgres.keepalive import kept_alive
from interlock.backends.postgres.session_settings import LOCAL_TIMEOUTS, SESSION_SETTINGS
from interlock.errors import InterlockError, InvalidArgumentError, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from interlock.backends.postgres.hosts import Host

__all__ = ["Server", "answered"]

_TLS_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_servers: weakref.WeakKeyDictionary[Any, Server] = weakref.WeakKeyDictionary()
_STANDBY = "pg_is_in_recovery()"
_READ_ONLY = f"{_STANDBY} or current_setting('transaction_read_only')::boolean"
_UNLESS = """do $$ begin
if {} then
    raise read_only_sql_transaction using message = 'the server is a standby, or read-only';
end if;
begin
    if to_regprocedure('interlock.follow_timeline()') is not null then
        perform interlock.follow_timeline();
    end if;
exception when insufficient_privilege or feature_not_supported or read_only_sql_transaction then
    null; -- a read-only role draws no fence, and not every service reports its timeline
end;
end $$"""
# By the URL's target_session_attrs: one simple query, so that a pooler needs no transaction to keep it together.
_BEATS = {"read-write": _UNLESS.format(_READ_ONLY), "primary": _UNLESS.format(_STANDBY), "any": "select 1"}
# Errors of a server for unknown parameters in the URL or invalid values of them.
_BAD_PARAMETERS = (
    asyncpg.UndefinedObjectError,
    asyncpg.InvalidParameterValueError,
    asyncpg.CantChangeRuntimeParamError,
)
# PgBouncer's messages for a URL that cannot work, which have the error code of a broken connection.
_REFUSED_BY_POOLER = ("unsupported startup parameter", "no such database", "no such user", "authentication failed")


class Server:
    """The server to connect to, with its hosts and what is known about it.

    Of several hosts, the one that worked last is tried first. Connections lead to a writable server. When one turns out
    not to be, all are terminated, because after a failover none of them leads to the right server.
    """

    def __init__(self, url: str) -> None:
        self._hosts, attributes = Hosts.of(url)
        self.beat = _BEATS[attributes]
        """A statement that fails on a server that is no longer the right one."""
        self._preferred = self._hosts[0]
        self._connections: weakref.WeakKeyDictionary[Any, asyncio.AbstractEventLoop] = weakref.WeakKeyDictionary()
        self._guard = threading.Lock()
        self._unwanted: set[asyncio.Future[Any]] = set()
        self.on_refused: Callable[[], None] = lambda: None
        """Called, in any thread, when the server refused a connection because it has too many."""
        self.pooled = False
        """Whether a pooler is in between: then a statement and its parameters need a transaction to stay together."""

    async def connect(self, wait: float) -> Any:
        """Open a connection to the first host that accepts it."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + wait
        preferred = self._preferred
        hosts = [preferred, *(host for host in self._hosts if host is not preferred)]
        failures: list[tuple[Host, Exception]] = []
        for left, host in zip(range(len(hosts), 0, -1), hosts, strict=True):
            try:
                # A host that does not answer leaves time for the others.
                connection = await self._connect_to(host, max(0.0, give_up - loop.time()) / left)
            except InterlockError:
                raise
            except TEMPORARY as error:
                failures.append((host, error))
            else:
                self._preferred = host
                return connection
        for _, failure in failures:
            if len(failures) == 1 or isinstance(failure, asyncpg.TooManyConnectionsError):
                raise failure
        reasons = "; ".join(f"{host.name}: {str(failure) or type(failure).__name__}" for host, failure in failures)
        raise ConnectionError(f"no host is usable ({reasons})") from failures[-1][1]

    def distrust(self, connection: Any) -> None:
        """Terminate all connections: one of them leads to a server that is no longer writable."""
        connection.terminate()
        with self._guard:
            others = list(self._connections.items())
            self._connections.clear()
        for other, loop in others:
            with contextlib.suppress(RuntimeError):  # that loop has ended, and its connections with it
                loop.call_soon_threadsafe(other.terminate)

    async def _open(self, host: Host, wait: float, options: dict[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + wait
        connection = kept_alive(await asyncpg.connect(host.url, timeout=wait, **options))
        try:
            await answered(connection, connection.execute(self.beat), max(0.0, give_up - loop.time()))
        except BaseException:
            connection.terminate()
            raise
        with self._guard:
            self._connections[connection] = loop
            _servers[connection] = self
        return connection

    async def _connect_to(self, host: Host, wait: float) -> Any:
        try:
            if self.pooled:
                options: dict[str, Any] = {"statement_cache_size": 0}
            else:
                named = dict(parse_qsl(urlsplit(host.url).query))
                kept = {name: named[name] for name in ("statement_timeout",) if name in named}
                options = {"server_settings": {**SESSION_SETTINGS, **kept}}
            return await self._whole(self._open(host, wait, options))
        except asyncpg.TooManyConnectionsError:
            self.on_refused()
            raise
        except ssl.SSLError as error:
            raise StoreError(
                f"The certificate of the PostgreSQL server is invalid: {error}.",
                remedy="Check sslrootcert and the host name in the URL.",
            ) from error
        except FileNotFoundError as error:
            for name, path in _missing_files(host.url):
                raise StoreError(f"{name} names {path}, which does not exist.", remedy="Fix the URL.") from error
            raise
        except ValueError as error:
            raise InvalidArgumentError(f"Invalid PostgreSQL URL: {error}.", remedy="Fix it.") from error
        except _BAD_PARAMETERS as error:
            raise StoreError(
                f"PostgreSQL refused: {error}.", remedy="Check the parameters after the '?' in the URL."
            ) from error
        except asyncpg.PostgresConnectionError as error:
            if not any(words in str(error) for words in _REFUSED_BY_POOLER):
                raise
            raise StoreError(
                f"PgBouncer refused: {error}.", remedy="Check user, password, database and parameters in the URL."
            ) from error

    async def close(self) -> None:
        """Wait until abandoned connections are terminated, before the event loop ends."""
        here = asyncio.get_running_loop()
        if mine := [task for task in self._unwanted if task.get_loop() is here]:
            await asyncio.wait(mine, timeout=1)

    async def _whole(self, connecting: Any) -> Any:
        """Connect. Cancelling the caller does not cancel this, because the driver would log errors."""
        work = asyncio.ensure_future(connecting)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self._unwanted.add(work)
            work.add_done_callback(self._end)
            raise

    def _end(self, work: asyncio.Future[Any]) -> None:
        self._unwanted.discard(work)
        if not work.cancelled() and work.exception() is None:
            work.result().terminate()

    @contextlib.asynccontextmanager
    async def probed(self, wait: float) -> AsyncIterator[Any]:
        """Detect whether a pooler is between this process and the server, and yield the connection in a transaction.

        The caller can read what it needs for opening on the same connection.
        """
        with translated():
            async with asyncio.timeout(wait):
                self.pooled = True
                connection = await self.connect(wait)
                try:
                    async with connection.transaction():
                        await connection.execute(LOCAL_TIMEOUTS)
                        real_pid = await connection.fetchval("select pg_backend_pid()")
                        # A pooler gives its clients process IDs of its own.
                        self.pooled = real_pid != connection.get_server_pid()
                        yield connection
                finally:
                    connection.terminate()


async def answered(connection: Any, work: Any, wait: float | None = None) -> Any:
    """Wait for the server's answer, at most ``wait`` seconds if given."""
    loop = asyncio.get_running_loop()
    alarm: asyncio.Handle | None = None

    def ring() -> None:
        # An answer that arrived while the event loop was blocked is processed first.
        nonlocal alarm
        alarm = loop.call_soon(connection.terminate)

    # Terminating the connection is the only way to stop waiting that needs no answer from the server.
    if wait is not None:
        alarm = loop.call_later(wait, ring)
    try:
        return await work
    except asyncpg.ReadOnlySQLTransactionError:
        # The server was demoted, or the address is stale. It would give the same answer again.
        if (server := _servers.get(connection)) is not None:
            server.distrust(connection)
        raise
    except AttributeError as error:
        if not connection.is_closed():
            raise
        # The driver fails with this error if the connection was closed between two of its steps.
        raise ConnectionResetError("the connection was ended") from error
    finally:
        if alarm is not None:
            alarm.cancel()


def _missing_files(url: str) -> list[tuple[str, str]]:
    """Return the TLS files that a URL names and that do not exist."""
    named = [(name, path) for name, path in parse_qsl(urlsplit(url).query) if name in _TLS_FILES]
    return [(name, path) for name, path in named if not Path(path).exists()]
