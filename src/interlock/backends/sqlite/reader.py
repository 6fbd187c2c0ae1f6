"""Read connections: each sees a snapshot of the file and never waits for writers.

Each read uses a snapshot of its own, unless its task has opened one for several reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.backends.sqlite.connection import connect, execute_when_free, translate_errors

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from interlock.backends.sqlite.file import DatabaseFile

__all__ = ["Reader"]

T = TypeVar("T")
_MAX_IDLE = 2


class _Look:
    """A connection inside a transaction, and the task that reads through it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.task = asyncio.current_task()
        self.broken = False
        """A read was abandoned and may still be running."""
        self.failed = False


class Reader:
    """Connections for reading; a few idle ones are kept."""

    def __init__(self, file: DatabaseFile, wait: float) -> None:
        self._file = file
        self._wait = wait
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = True
        self._looking: ContextVar[_Look | None] = ContextVar("interlock_sqlite_look", default=None)

    def open(self) -> None:
        """Start keeping idle connections."""
        self._closed = False

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()

    async def run(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``do`` in the snapshot that this task has opened, or else in one of its own."""
        look = self._looking.get()
        if look is None or look.task is not asyncio.current_task():
            return await asyncio.to_thread(self._alone, do)
        work = asyncio.get_running_loop().run_in_executor(None, self._within, look.db, do)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            look.broken = True
            look.db.interrupt()
            work.add_done_callback(lambda done: _ended(done, look.db))
            raise
        except BaseException:
            look.failed = True
            raise

    @contextlib.asynccontextmanager
    async def snapshot(self) -> AsyncGenerator[None]:
        """Make everything that this task reads inside see one snapshot."""
        look = _Look(await asyncio.to_thread(self._take))
        token = self._looking.set(look)
        try:
            yield
        finally:
            self._looking.reset(token)
            if not look.broken:
                self._give_back(look.db, keep=not look.failed)

    # -- on any thread -------------------------------------------------------------------------------------------------

    def _alone(self, do: Callable[[sqlite3.Connection], T]) -> T:
        db = self._take()
        keep = False
        try:
            result = self._within(db, do)
            keep = True
        finally:
            self._give_back(db, keep=keep)
        return result

    def _within(self, db: sqlite3.Connection, do: Callable[[sqlite3.Connection], T]) -> T:
        with translate_errors(self._file.path):
            return do(db)

    def _take(self) -> sqlite3.Connection:
        """Return a connection whose snapshot starts now."""
        with self._lock:
            db = self._idle.pop() if self._idle else None
        deadline = time.monotonic() + self._wait
        with translate_errors(self._file.path):
            if db is None:
                db = connect(self._file, deadline, any_thread=True)
            try:
                self._file.check()
                db.execute("begin")
                execute_when_free(db, "select 1 from sqlite_schema limit 1", deadline).fetchone()
            except BaseException:
                db.close()
                raise
        return db

    def _give_back(self, db: sqlite3.Connection, *, keep: bool) -> None:
        with contextlib.suppress(sqlite3.Error):
            db.rollback()
            with self._lock:
                if keep and not self._closed and len(self._idle) < _MAX_IDLE:
                    self._idle.append(db)
                    return
        db.close()


def _ended(work: asyncio.Future[Any], db: sqlite3.Connection) -> None:
    if not work.cancelled():
        work.exception()
    db.close()
