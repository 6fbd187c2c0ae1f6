"""Connections to the file and short immediate transactions."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from interlock.errors import StoreError, StoreReplacedError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from interlock.backends.sqlite.file import DatabaseFile

__all__ = ["begin", "connect", "pin", "translate_errors", "execute_when_free"]


def connect(file: DatabaseFile, deadline: float, *, any_thread: bool = False) -> sqlite3.Connection:
    """Return a connection for the current thread, or with ``any_thread`` for one thread at a time.

    ``deadline`` is a time of ``time.monotonic``.
    """
    connection = file.connect(any_thread=any_thread)
    try:
        execute_when_free(connection, "pragma journal_mode = wal", deadline)
        connection.execute("pragma synchronous = full")
        connection.execute("pragma foreign_keys = on")
        file.check()  # the path leads to the pinned file before and after, so that is the file that was opened
    except BaseException:
        connection.close()
        raise
    return connection


def pin(file: DatabaseFile, deadline: float) -> None:
    """Pin the file that the path leads to now."""
    with translate_errors(file.path):
        before = file.identify()
        connection = connect(file, deadline, any_thread=True)
        try:
            execute_when_free(connection, "select 1 from sqlite_schema limit 1", deadline).fetchall()
            file.pin(connection)
            if file.identify() != before:
                raise StoreReplacedError(f"{file.path} was replaced by another file while it was being opened.")
        except BaseException:
            file.unpin()
            connection.close()
            raise


def begin(connection: sqlite3.Connection, deadline: float) -> None:
    """Begin an immediate transaction, waiting for other writers up to a time of ``time.monotonic``.

    Other writers finish within about a millisecond. SQLite's own busy handler would sleep for up to a hundred.
    """
    execute_when_free(connection, "begin immediate", deadline)


def execute_when_free(connection: sqlite3.Connection, statement: str, deadline: float) -> sqlite3.Cursor:
    """Execute a statement, waiting while other processes have the file locked.

    The first read on a connection may have to wait too: while another process recovers the file after a crash, or
    closes it as the last one.
    """
    pause = 0.0002
    while True:
        try:
            return connection.execute(statement)
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() >= deadline:
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - only spreads the writers out
        pause = min(pause * 1.5, 0.002)


@contextmanager
def translate_errors(path: Path) -> Generator[None]:
    """Raise SQLite's errors as Interlock's."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if _cannot_be_written(path):
            raise StoreError(f"Could not use {path}: {error}.", remedy="Check the path and its permissions.") from error
        raise StoreUnavailableError(
            f"Could not use {path} now: {error}.",
            remedy="Check the path, its permissions and which process has it locked.",
        ) from error
    except sqlite3.DatabaseError as error:
        raise StoreError(f"Could not use {path}: {error}.", remedy="Check that it is an intact SQLite file.") from error


def _cannot_be_written(path: Path) -> bool:
    """Return whether waiting cannot help: the directory does not exist or this process may not write there."""
    if path.is_dir() or not path.parent.is_dir():
        return True
    return not os.access(path if path.exists() else path.parent, os.R_OK | os.W_OK)
