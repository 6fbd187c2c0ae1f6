"""PostgreSQL's errors in Interlock's terms."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import asyncpg

from interlock.errors import InterlockError, SchemaMismatchError, StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = [
    "LOCKED_REMEDY",
    "LOCK_NOT_AVAILABLE",
    "TEMPORARY",
    "UNIQUE_VIOLATION",
    "gone_translated",
    "sqlstate",
    "translated",
]

LOCK_NOT_AVAILABLE = "55P03"
UNIQUE_VIOLATION = "23505"

# Errors of a server that starts, stops, fails over or is too busy: temporary.
TEMPORARY = (
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
_NO_SCHEMA = (
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedFunctionError,
    asyncpg.UndefinedColumnError,
    asyncpg.InvalidSchemaNameError,
)
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
    except TEMPORARY as error:
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
