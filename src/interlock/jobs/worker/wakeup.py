"""A wait that another task can cut short, and the signal that makes a worker fetch."""

from __future__ import annotations

import asyncio
import math

__all__ = ["FetchSignal", "Wakeup"]


class Wakeup:
    """Wakes the one task that waits. A wakeup without a waiting task is kept for the next wait."""

    __slots__ = ("_kept", "_waiter")

    def __init__(self) -> None:
        self._kept = False
        self._waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Wake the waiting task."""
        if self._waiter is None:
            self._kept = True
        elif not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float = math.inf) -> None:
        """Wait for a wakeup, at most this many seconds."""
        if self._kept or seconds <= 0:
            self._kept = False
            await asyncio.sleep(0)  # a source that wakes without end must not keep other tasks from running
            return
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = None if seconds == math.inf else loop.call_later(seconds, self.wake)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()


class FetchSignal(Wakeup):
    """Wakes the fetcher of one worker: because a runner or the buffer has room, or because jobs may be ready."""

    __slots__ = ("draining", "pending")

    def __init__(self) -> None:
        super().__init__()
        self.pending = True
        """Whether there may be jobs to fetch. The fetcher clears it before it asks the store."""
        self.draining = False
        """Whether a caller waits until no job is left, so that every acknowledgement is a reason to fetch."""

    def announce(self) -> None:
        """Wake the fetcher: there may be jobs to fetch."""
        self.pending = True
        self.wake()
