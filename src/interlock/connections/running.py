"""Executing a store's steps on a caller's connection, and the driver's errors in Interlock's terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from interlock.connections.adapters import adapter_of
from interlock.connections.drivers import describe
from interlock.deadlocks import sqlstate_of
from interlock.errors import (
    InterlockError,
    InvalidArgumentError,
    MisuseError,
    SchemaMismatchError,
    StoreError,
    StoreUnavailableError,
)
from interlock.ports.transactions import StepError

if TYPE_CHECKING:
    from interlock.ports.transactions import Steps

__all__ = ["run_steps", "run_steps_blocking"]

T = TypeVar("T")

_NO_SCHEMA = ("3F000", "42P01", "42703", "42883")  # no such schema, table, column, function
_NO_PRIVILEGE = "42501"
_ABORTED = "25P02"
_READ_ONLY = "25006"
_INVALID_VALUE = "22023"
_SQLITE_ERROR, _SQLITE_BUSY, _SQLITE_READONLY = 1, 5, 8


async def run_steps(connection: object, steps: Steps[T]) -> T:
    """Execute steps on an asynchronous connection; raises ``MisuseError`` for one that would block the event loop."""
    adapter = adapter_of(connection)
    if adapter.blocking:
        raise MisuseError(
            f"{describe(connection)} would block the event loop.",
            remedy="Call enqueue_sync with it, in a thread or where blocking is harmless; or pass an asynchronous"
            " connection.",
        )
    try:
        step = next(steps)
        while True:
            try:
                result = await adapter.perform(step)
            except Exception as error:
                translated = _translated(steps, error)
                if translated is error:
                    raise
                raise translated from error
            step = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def run_steps_blocking(connection: object, steps: Steps[T]) -> T:
    """Execute steps on a synchronous connection; raises ``MisuseError`` for one that has to be awaited."""
    adapter = adapter_of(connection)
    if not adapter.blocking:
        raise MisuseError(
            f"{describe(connection)} is asynchronous, and cannot be used without its event loop.",
            remedy="Await enqueue(…) with it; or pass a synchronous connection.",
        )
    try:
        step = next(steps)
        while True:
            try:
                result = adapter.perform(step)
            except Exception as error:
                translated = _translated(steps, error)
                if translated is error:
                    raise
                raise translated from error
            step = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _translated(steps: Steps[Any], error: Exception) -> Exception:
    """Interlock's error for what concerns Interlock; other errors of the driver stay as they are."""
    code = sqlstate_of(error)
    cause = getattr(error, "orig", None) or error  # SQLAlchemy's error wraps that of an adapter, if there is one
    cause = cause.__cause__ or cause
    if code is not None:
        try:
            steps.throw(StepError(code, str(cause).partition("\n")[0]))
        except StepError:
            pass  # the store has nothing to say about it
        except InterlockError as refusal:
            return refusal
    found: Any = getattr(error, "sqlite_errorcode", None)
    result = found & 0xFF if isinstance(found, int) else None
    if code in _NO_SCHEMA or (result == _SQLITE_ERROR and str(cause).startswith("no such")):
        return SchemaMismatchError(
            f"The database of this connection does not have this version of Interlock's schema: {cause}.",
            remedy="Pass a connection to the app's own database, or run: interlock migrate up.",
        )
    if code == _NO_PRIVILEGE:
        return StoreError(
            f"PostgreSQL refused to enqueue: {cause}.",
            remedy="Grant the role what it needs: interlock migrate grants --enqueuer ROLE.",
        )
    if code == _ABORTED or type(error).__name__ == "PendingRollbackError":
        return MisuseError(
            f"An earlier error has aborted the transaction: {cause}.", remedy="Roll it back, and run it again."
        )
    if code == _READ_ONLY or result == _SQLITE_READONLY:
        return MisuseError(f"The transaction is read-only: {cause}.", remedy="Pass a connection that may write.")
    if code == _INVALID_VALUE:
        return InvalidArgumentError(f"PostgreSQL refused the job: {cause}.")
    if result == _SQLITE_BUSY:
        return StoreUnavailableError(
            f"Another transaction has the SQLite file locked: {cause}.",
            remedy="Roll back and run the transaction again; begin it with BEGIN IMMEDIATE, and give the connection a"
            " timeout.",
        )
    return error
