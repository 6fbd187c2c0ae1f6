"""Connections to PostgreSQL, errors in Interlock's terms, and statements that take effect in order.

A broken connection is dropped, and the next statement takes another one. A statement runs to its end even if its
caller is cancelled, and ends in bounded time.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import ssl
import threading
import weakref
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from interlock.backends.postgres.hosts import Hosts
from interlock.backends.postgres.keepalive import SERVER_KEEPALIVE, kept_alive
from interlock.errors import (
    InterlockError,
    InvalidArgumentError,
    SchemaMismatchError,
    StoreError,
    StoreUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from interlock.backends.postgres.hosts import Host
    from interlock.backends.postgres.pool import Pool

__all__ = [
    "IDLE_TIMEOUT",
    "LOCAL_TIMEOUTS",
    "LOCKED_REMEDY",
    "LOCK_NOT_AVAILABLE",
    "UNIQUE_VIOLATION",
    "OrderedConnection",
    "OrderedConnections",
    "Server",
    "answered",
    "gone_translated",
    "sqlstate",
    "translated",
]

LOCK_NOT_AVAILABLE = "55P03"
UNIQUE_VIOLATION = "23505"

# Errors of a server that starts, stops, fails over or is too busy: temporary.
_PASSING = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.LockNotAvailableError,
    asyncpg.TransactionRollbackError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.PostgresSystemError,
)
_TRANSACTION_TIMEOUT = "25P04"  # not every version of the driver has a class for it
_NOTIFY_FULL = "PreCommit_Notify"  # where the server reports a full NOTIFY queue; the error code has other causes too
# The functions rely on seeing what others have committed meanwhile, and wait only briefly for a row.
LOCK_TIMEOUT = "4s"
# Each statement ends in time by itself. A shorter limit of the role or the database would stop all work.
STATEMENT_TIMEOUT = "120s"
# The server ends a transaction that is idle for so long: the client's host is gone, and must not keep its locks.
IDLE_TIMEOUT = "10s"
# For each transaction of several statements, because a pooler does not keep the settings of a session.
LOCAL_TIMEOUTS = (
    f"set local statement_timeout = '{STATEMENT_TIMEOUT}'; set local lock_timeout = '{LOCK_TIMEOUT}';"
    f" set local idle_in_transaction_session_timeout = '{IDLE_TIMEOUT}'"
)
_SESSION_SETTINGS = {
    "default_transaction_isolation": "read committed",
    "lock_timeout": LOCK_TIMEOUT,
    "statement_timeout": STATEMENT_TIMEOUT,
    "idle_in_transaction_session_timeout": IDLE_TIMEOUT,
    **SERVER_KEEPALIVE,
    "jit": "off",
    "application_name": "interlock",
}
_BEGIN = f"begin isolation level read committed; {LOCAL_TIMEOUTS}"
_TOO_MANY = (
    "Raise max_connections on the server (or the role's limit), run fewer processes, or lower the setting connections."
)
_STATEMENT_TIMEOUT = (
    "Raise statement_timeout in the URL, or remove it there; behind a pooler, raise that of the role or the database."
)
LOCKED_REMEDY = (
    "Another transaction keeps rows of the schema interlock locked: find it with"
    " select pid, state, xact_start, query from pg_stat_activity order by xact_start, and end it."
)
_TURNS_TO_SEND = 2  # iterations of the event loop until the statement has been sent
_TLS_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_NO_SCHEMA = (
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedFunctionError,
    asyncpg.UndefinedColumnError,
    asyncpg.InvalidSchemaNameError,
)


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
# Errors that mean the connection is lost, for a caller's own statements.
_GONE = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the end of an earlier error has not arrived, so nothing more can be sent
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
# Errors of a server for unknown parameters in the URL or invalid values of them.
_BAD_PARAMETERS = (
    asyncpg.UndefinedObjectError,
    asyncpg.InvalidParameterValueError,
    asyncpg.CantChangeRuntimeParamError,
)
# PgBouncer's messages for a URL that cannot work, which have the error code of a broken connection.
_REFUSED_BY_POOLER = ("unsupported startup parameter", "no such database", "no such user", "authentication failed")


@contextlib.contextmanager
def gone_translated() -> Generator[None]:
    """Translate the loss of the connection; other errors are left to the caller."""
    try:
        yield
    except _GONE as error:
        raise StoreUnavailableError(
            f"The connection to PostgreSQL was lost during a transaction: {str(error) or type(error).__name__}.",
            remedy="If it was being committed, the commit may or may not have succeeded. The server also ends a"
            " transaction that is idle for as long as a session lasts.",
        ) from error


@contextlib.contextmanager
def translated() -> Generator[None]:
    """Translate PostgreSQL's errors to Interlock's."""
    try:
        yield
    except InterlockError:
        raise  # one of them is a ConnectionError too
    except _NO_SCHEMA as error:
        raise SchemaMismatchError(f"The PostgreSQL schema is incomplete: {error}.") from error
    except asyncpg.TooManyConnectionsError as error:
        raise StoreUnavailableError(f"PostgreSQL refused a connection: {error}.", remedy=_TOO_MANY) from error
    except asyncpg.QueryCanceledError as error:
        remedy = _STATEMENT_TIMEOUT if "statement timeout" in str(error) else None
        raise StoreUnavailableError(f"PostgreSQL ended a statement: {error}.", remedy=remedy) from error
    except asyncpg.LockNotAvailableError as error:
        raise StoreUnavailableError(f"PostgreSQL is not available: {error}.", remedy=LOCKED_REMEDY) from error
    except _PASSING as error:
        raise StoreUnavailableError(f"PostgreSQL is not available: {str(error) or type(error).__name__}.") from error
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise StoreError(
            f"PostgreSQL refused: {error}.", remedy="Check user, password and database in the URL."
        ) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise StoreError(
            f"PostgreSQL refused: {error}.",
            remedy="Run `interlock migrate up` as a role that may create, then grant this one USAGE on the schema,"
            " EXECUTE on its functions, and all rights on its tables and sequences.",
        ) from error
    except asyncpg.PostgresError as error:
        if getattr(error, "server_source_function", None) == _NOTIFY_FULL:
            raise StoreUnavailableError(
                f"PostgreSQL is not available: {error}.",
                remedy="A session that listens inside a long transaction keeps the queue from being emptied: find it"
                " in pg_stat_activity, end it, and run: select pg_notification_queue_usage().",
            ) from error
        if error.sqlstate == _TRANSACTION_TIMEOUT:
            raise StoreUnavailableError(f"PostgreSQL is not available: {error}.") from error
        raise StoreError(
            f"PostgreSQL failed: {error} (SQLSTATE {error.sqlstate}).", remedy="See the server's log."
        ) from error


def sqlstate(error: StoreError) -> str | None:
    """Return PostgreSQL's error code of a translated error."""
    return getattr(error.__cause__, "sqlstate", None)


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
            except _PASSING as error:
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
                options = {"server_settings": {**_SESSION_SETTINGS, **kept}}
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

    async def probe(self, wait: float) -> None:
        """Detect whether a pooler is between this process and the server."""
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
                finally:
                    connection.terminate()


class OrderedConnection:
    """Operations that take effect one after the other, each on a connection borrowed from the pool."""

    def __init__(self, pool: Pool, wait: float, *, hold: bool = False, bounded: bool = False) -> None:
        self._pool = pool
        self._wait = wait
        self._hold = hold  # its statements may take long and must leave a connection for others
        # A statement that waits for several rows may do so longer than for one. The server ends it, and says why.
        bound = f"set local lock_timeout = 0; set local statement_timeout = '{math.ceil(wait * 800)}ms'"
        self._bound = bound if bounded else ""
        self._turn = asyncio.Lock()
        self._life = 0  # incremented on close: operations from before do not connect afterwards

    async def fetch(self, sql: str, *args: Any) -> Sequence[Any]:
        """Run one statement and return its rows. It runs to its end even if the caller is cancelled."""
        work = asyncio.ensure_future(self._fetch(self._life, sql, args))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_swallow)
            raise

    async def close(self) -> None:
        """Wait for the running operation, and refuse queued ones."""
        async with self._turn:
            self._life += 1
        self._turn = asyncio.Lock()  # the next use may be on another event loop

    async def fetch_here(self, sql: str, *args: Any) -> Sequence[Any]:
        """Run one statement in the current task, which must not be cancelled."""
        return await self._fetch(self._life, sql, args)

    async def run_each(self, sql: str, calls: Iterable[tuple[Any, ...]]) -> None:
        """Run one statement for each call in one transaction. The task must not be cancelled.

        The arguments of a call are prepared while the server works on the call before it.
        """
        life, give_up = self._life, asyncio.get_running_loop().time() + self._wait
        async with self._turn:
            self._check(life)
            with translated():
                # This may take long: if connections are scarce, it leaves one for the others.
                async with self._pool.lent(give_up, hold=not self._pool.roomy) as connection:
                    await _each(connection, sql, calls, self._wait)

    async def _fetch(self, life: int, sql: str, args: tuple[Any, ...]) -> Sequence[Any]:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self._wait
        async with self._turn:
            self._check(life)
            with translated():
                async with self._pool.lent(give_up, hold=self._hold) as connection:
                    if self._bound:
                        work = _in_transaction(connection, self._bound, sql, args)
                    elif self._pool.server.pooled:
                        work = _in_transaction(connection, self._pool.server.beat, sql, args)
                    else:
                        work = connection.fetch(sql, *args)
                    rows: Sequence[Any] = await answered(connection, work, give_up - loop.time())
                    return rows

    def _check(self, life: int) -> None:
        if life != self._life:
            raise StoreUnavailableError("The store was closed meanwhile.")


class OrderedConnections:
    """Several ordered connections, and one for reads, which may take long and must not delay others."""

    def __init__(self, connections: list[OrderedConnection], reads: OrderedConnection) -> None:
        self._connections = connections
        self.first = connections[0]
        self.reads = reads

    def __iter__(self) -> Iterator[OrderedConnection]:
        return iter(self._connections)

    def of(self, key: str) -> OrderedConnection:
        """Return the connection that a key always uses, so that operations on it take effect in order."""
        return self._connections[zlib.crc32(key.encode()) % len(self._connections)]

    async def close(self) -> None:
        """Wait for the running operations of each."""
        for connection in (*self._connections, self.reads):
            await connection.close()


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


async def _in_transaction(connection: Any, before: str, sql: str, args: tuple[Any, ...]) -> Any:
    """Run a statement with settings of its own, or through a pooler, which may use another server than before."""
    try:
        # The settings are part of the first statement, so that the server can end the transaction from the start.
        await connection.execute(f"{_BEGIN}; {before}")
        rows = await connection.fetch(sql, *args)
    except BaseException:
        if not connection.is_closed():
            await connection.execute("rollback")
        raise
    await connection.execute("commit")
    return rows


async def _each(connection: Any, sql: str, calls: Iterable[tuple[Any, ...]], wait: float) -> None:
    under_way: asyncio.Future[Any] | None = None
    try:
        await answered(connection, connection.execute(_BEGIN), wait)
        for args in calls:
            if under_way is not None:
                await under_way
            under_way = asyncio.ensure_future(answered(connection, connection.fetch(sql, *args), wait))
            for _ in range(_TURNS_TO_SEND):
                await asyncio.sleep(0)
        if under_way is not None:
            await under_way
        await answered(connection, connection.execute("commit"), wait)
    except BaseException:
        connection.terminate()  # needs no answer, and rolls everything back
        if under_way is not None:
            under_way.add_done_callback(_swallow)
        raise


def _missing_files(url: str) -> list[tuple[str, str]]:
    """Return the TLS files that a URL names and that do not exist."""
    named = [(name, path) for name, path in parse_qsl(urlsplit(url).query) if name in _TLS_FILES]
    return [(name, path) for name, path in named if not Path(path).exists()]


def _swallow(work: asyncio.Future[Any]) -> None:
    if not work.cancelled():
        work.exception()
