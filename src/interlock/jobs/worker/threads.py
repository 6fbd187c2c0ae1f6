"""Threads for handlers that are plain functions.

Each runner has a thread of its own, made when it first needs one, so there are never more than runners. Nothing can
stop a function in a thread: whoever wants its end has to wait for it. They are daemons, so that a function that never
ends cannot keep the process from ending.
"""

from __future__ import annotations

import contextlib
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

__all__ = ["Hand"]


class Hand:
    """One thread, which does one thing at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._tasks: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._waiter: asyncio.Future[None] | None = None
        self._left: Callable[[], None] | None = None
        self.busy = False
        self._result: tuple[Any, BaseException | None] = (None, None)
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def begin(self, work: Callable[[], Any]) -> None:
        """Have something done."""
        self.busy = True
        self._tasks.put(work)

    async def end(self) -> None:
        """Wait until it is done; returns with ``busy`` still true if it was left."""
        while self.busy and self._left is None:
            self._waiter = self._loop.create_future()
            await self._waiter

    def result(self) -> tuple[Any, BaseException | None]:
        """What came of it, once: what was returned, or what was raised."""
        result, self._result = self._result, (None, None)
        return result

    def leave(self, at_end: Callable[[], None]) -> None:
        """Nobody waits any longer. Should it end all the same, this is to be done."""
        self._left = at_end
        self._wake()

    def retire(self) -> None:
        """Let the thread end once it has nothing to do."""
        self._tasks.put(None)

    def _work(self) -> None:
        while (work := self._tasks.get()) is not None:
            value: Any = None
            error: BaseException | None = None
            try:
                value = work()
            except BaseException as caught:  # noqa: BLE001 - whatever it is, the runner decides what it means
                error = caught
            del work
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody is left to tell
                self._loop.call_soon_threadsafe(self._ended, value, error)
            del value, error

    def _ended(self, value: Any, error: BaseException | None) -> None:
        self.busy = False
        self._result = (value, error)
        self._wake()
        if self._left is not None:
            self._left()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
