"""A wait that another task can cut short, and the signal that makes a worker fetch."""

from __future__ import annotations

import asyncio
import math
import random

__all__ = ["FetchSignal", "Wakeup"]

_LATE_AT_ONCE = 2
_MAX_LATE = 8
_MIN_DELAY, _MAX_DELAY = 0.001, 0.03


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
    """Wakes the fetcher of one worker: because a runner or the buffer has room, or because jobs may be ready.

    A notification reaches every worker of a queue, but its jobs often go to the first that fetches. A worker that came
    too late more often than not waits a random moment before it follows the next notification, up to 30 ms, and those
    that arrive meanwhile count as one. Otherwise each small enqueue would make all workers ask the store.
    """

    __slots__ = ("_delay", "_late", "_notified", "draining", "pending")

    def __init__(self) -> None:
        super().__init__()
        self.pending = True
        """Whether there may be jobs to fetch. The fetcher clears it before it asks the store."""
        self.draining = False
        """Whether a caller waits until no job is left, so that every acknowledgement is a reason to fetch."""
        self._notified = False  # the next fetch follows a notification
        self._late = 0  # fetches that followed a notification and found nothing, less those that found something
        self._delay: asyncio.TimerHandle | None = None

    def announce(self) -> None:
        """Wake the fetcher: there may be jobs to fetch."""
        self.pending = True
        self.wake()

    def notify(self) -> None:
        """Wake the fetcher, at once or after a moment: the store has notified all workers of the queue."""
        if self.pending or self._delay is not None:
            return
        self._notified = True
        if self._late < _LATE_AT_ONCE or self.draining:
            self.announce()
            return
        longest = min(_MAX_DELAY, _MIN_DELAY * 2 ** (self._late - _LATE_AT_ONCE))
        seconds = random.uniform(0.0, longest)  # noqa: S311 - only keeps the workers apart
        self._delay = asyncio.get_running_loop().call_later(seconds, self._after_delay)

    def note_fetch(self, *, found: bool) -> None:
        """Note whether a fetch brought jobs."""
        if found:
            self._late = max(0, self._late - 1)
        elif self._notified:
            self._late = min(self._late + 1, _MAX_LATE)
        self._notified = False

    def stop(self) -> None:
        """Forget a notification that was put off."""
        if self._delay is not None:
            self._delay.cancel()

    def _after_delay(self) -> None:
        self._delay = None
        self.announce()
