"""Threads for handlers that are plain functions.

Each runner has its own thread, created when first needed, so there are never more threads than runners. Nothing can
stop a function in a thread: the runner has to wait for its end. The threads are daemons, so a function that never ends
cannot keep the process alive.
"""

from __future__ import annotations

import contextlib
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

__all__ = ["HandlerThread"]


class HandlerThread:
    """One thread that runs one function at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._tasks: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._waiter: asyncio.Future[None] | None = None
        self._on_abandoned_end: Callable[[], None] | None = None
        self.busy = False
        self._result: tuple[Any, BaseException | None] = (None, None)
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def start(self, work: Callable[[], Any]) -> None:
        """Run a function in the thread."""
        self.busy = True
        self._tasks.put(work)

    async def wait(self) -> None:
        """Wait until the function has ended; returns with ``busy`` still true if it was abandoned."""
        while self.busy and self._on_abandoned_end is None:
            self._waiter = self._loop.create_future()
            await self._waiter

    def result(self) -> tuple[Any, BaseException | None]:
        """Return once what the function returned or raised."""
        result, self._result = self._result, (None, None)
        return result

    def abandon(self, on_end: Callable[[], None]) -> None:
        """Stop waiting for the function. ``on_end`` is called if it ends after all."""
        self._on_abandoned_end = on_end
        self._wake()

    def close(self) -> None:
        """Let the thread end once it has nothing to run."""
        self._tasks.put(None)

    def _work(self) -> None:
        while (work := self._tasks.get()) is not None:
            value: Any = None
            error: BaseException | None = None
            try:
                value = work()
            except BaseException as caught:  # noqa: BLE001 - the runner decides what any error means
                error = caught
            del work
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no runner waits for the result
                self._loop.call_soon_threadsafe(self._ended, value, error)
            del value, error

    def _ended(self, value: Any, error: BaseException | None) -> None:
        self.busy = False
        self._result = (value, error)
        self._wake()
        if self._on_abandoned_end is not None:
            self._on_abandoned_end()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
