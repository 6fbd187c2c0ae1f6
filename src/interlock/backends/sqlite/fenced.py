"""Fenced transactions: a caller's own statements, committed only while the lease is live."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.backends.sqlite.connection import begin, connect, translate_errors
from interlock.errors import LeaseLostError, MisuseError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Sequence

    from interlock.backends.sqlite.file import DatabaseFile

__all__ = ["FencedWriter"]

T = TypeVar("T")


class _Transaction:
    """Runs statements in the thread of the fenced connection."""

    def __init__(self, writer: FencedWriter) -> None:
        self._writer = writer

    async def execute(self, sql: str, *args: Any) -> None:
        """Run a statement."""
        await self._writer.on_thread(lambda db: _in_transaction(db).execute(sql, args).close())

    async def fetch(self, sql: str, *args: Any) -> Sequence[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return await self._writer.on_thread(lambda db: _in_transaction(db).execute(sql, args).fetchall())


class FencedWriter:
    """One connection and thread for fenced transactions, one at a time. No other connection writes meanwhile."""

    def __init__(self, file: DatabaseFile, wait: float, yield_to_others: Callable[[float], None]) -> None:
        self._file = file
        self._wait = wait
        self._end_superseded = yield_to_others
        self._turn = asyncio.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = None

    @asynccontextmanager
    async def transaction(
        self, key: str, fence: int, live: Callable[[sqlite3.Connection], bool]
    ) -> AsyncIterator[_Transaction]:
        """Begin, check the lease, run the caller's statements and commit; roll back on any error."""
        async with self._turn:
            committed, begun = False, time.monotonic()
            try:
                if not await self.on_thread(lambda db: self._begin(db, live)):
                    raise LeaseLostError(f"The write to {key!r} with fence {fence} was refused: it is no longer live.")
                yield _Transaction(self)
                await self.on_thread(self._commit)
                committed = True
            finally:
                if not committed:
                    # Not awaited, because the caller may be cancelled. The thread runs it before anything else.
                    self._submit(_rollback)
                self._end_superseded(time.monotonic() - begun)

    async def on_thread(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``do`` with the connection."""
        return await asyncio.wrap_future(self._submit(do))

    async def close(self) -> None:
        """Close the connection and stop the thread."""
        if self._executor is not None:
            await asyncio.wrap_future(self._submit(self._close))
            await asyncio.to_thread(self._executor.shutdown)
            self._executor = None

    def _submit(self, do: Callable[[sqlite3.Connection], T]) -> Any:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="interlock-fenced")
        return self._executor.submit(self._with_connection, do)

    def _with_connection(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``do``. Its errors are raised to the caller as they are."""
        if self._connection is None:
            with translate_errors(self._file.path):
                self._connection = connect(self._file, time.monotonic() + self._wait)
        return do(self._connection)

    def _begin(self, db: sqlite3.Connection, live: Callable[[sqlite3.Connection], bool]) -> bool:
        with translate_errors(self._file.path):
            begin(db, time.monotonic() + self._wait)
            self._file.check()
            return live(db)

    def _commit(self, db: sqlite3.Connection) -> None:
        with translate_errors(self._file.path):
            _in_transaction(db).execute("commit")
            self._file.check()

    def _close(self, db: sqlite3.Connection) -> None:
        db.close()
        self._connection = None


def _in_transaction(db: sqlite3.Connection) -> sqlite3.Connection:
    if not db.in_transaction:
        raise MisuseError(
            "A statement ended the fenced transaction, so the lease no longer protects the block.",
            remedy="Do not commit or roll back inside the block.",
        )
    return db


def _rollback(db: sqlite3.Connection) -> None:
    if db.in_transaction:
        db.execute("rollback")
