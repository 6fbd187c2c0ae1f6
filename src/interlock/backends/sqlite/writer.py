"""The writer thread of a process.

It runs all work that callers have submitted so far in one transaction, commits once, and delivers the results. Work
runs in the order in which it was submitted, even if its caller is cancelled meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.backends.sqlite.connection import begin, connect, translate_errors

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from interlock.backends.sqlite.file import DatabaseFile

__all__ = ["Writer"]

T = TypeVar("T")
_MAX_AT_ONCE = 256
# After the file was locked for long, requests of several processes wait for it. Each process lets the others write
# before it continues, so that all these requests are known before the next grant.
_LONG_HOLD = 0.25
_YIELD = 0.05


class _Work:
    """Work to do in a transaction, and the future of its result."""

    __slots__ = ("deadline", "do", "error", "future", "result")

    def __init__(self, do: Callable[[sqlite3.Connection], Any], future: asyncio.Future[Any], deadline: float) -> None:
        self.do = do
        self.future = future
        self.deadline = deadline
        self.result: Any = None
        self.error: BaseException | None = None

    def deliver(self) -> None:
        if self.future.cancelled():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Writer:
    """A connection, its thread and its queue. The first use starts the thread."""

    def __init__(self, file: DatabaseFile, wait: float, *, name: str = "interlock-writer") -> None:
        self._file = file
        self._wait = wait
        self._name = name
        self._queue: deque[_Work] = deque()
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._not_before = 0.0

    def start(self) -> None:
        """Start the thread."""
        if self._thread is None:
            self._closing = False
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    async def run(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``do`` in a transaction and return its result after the commit."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._news:
            self.start()
            self._queue.append(_Work(do, future, time.monotonic() + self._wait))
            self._news.notify()
        return await future

    async def close(self) -> None:
        """Finish what was submitted, then stop the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            with self._news:
                self._closing = True
                self._news.notify()
            await asyncio.to_thread(thread.join)

    def yield_to_others(self, after: float) -> None:
        """Let other processes write first if the file was locked for long; ``after`` is for how many seconds."""
        if after >= _LONG_HOLD:
            self._not_before = time.monotonic() + _YIELD

    # -- on the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        try:
            while True:
                with self._news:
                    while not self._queue and not self._closing:
                        self._news.wait()
                if (way := self._not_before - time.monotonic()) > 0:
                    time.sleep(way)
                with self._news:
                    batch = [self._queue.popleft() for _ in range(min(len(self._queue), _MAX_AT_ONCE))]
                if not batch:
                    return
                try:
                    with translate_errors(self._file.path):
                        # The batch fails at the deadline of its first work. Trying for longer would only make the
                        # work behind it wait longer.
                        deadline = batch[0].deadline
                        if connection is None:
                            connection = connect(self._file, deadline)
                        self._do(connection, batch, deadline)
                        # Report a commit only if it went to the file that other processes see.
                        self._file.check()
                except Exception as error:  # noqa: BLE001 - every caller gets the error
                    if connection is not None:
                        connection.close()
                        connection = None
                    for work in batch:
                        work.error = error
                _deliver(batch)
        finally:
            if connection is not None:
                connection.close()

    def _do(self, connection: sqlite3.Connection, batch: list[_Work], deadline: float) -> None:
        begun = time.monotonic()
        begin(connection, deadline)
        self.yield_to_others(time.monotonic() - begun)
        try:
            for work in batch:
                work.result = work.do(connection)
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            if len(batch) == 1:
                raise
        else:
            return
        # One of them failed and must not fail the others: run each in a transaction of its own.
        for work in batch:
            try:
                with translate_errors(self._file.path):
                    self._do(connection, [work], deadline)
            except Exception as error:  # noqa: BLE001 - its caller gets the error
                work.error = error


def _deliver(batch: list[_Work]) -> None:
    """Deliver results with one wake-up per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Work]] = {}
    for work in batch:
        by_loop.setdefault(work.future.get_loop(), []).append(work)
    for loop, works in by_loop.items():
        try:
            loop.call_soon_threadsafe(_deliver_all, works)
        except RuntimeError:  # that event loop is closed
            continue


def _deliver_all(works: list[_Work]) -> None:
    for work in works:
        work.deliver()
