"""Waiting that can be cut short: by a ring, or by time."""

from __future__ import annotations

import asyncio
import math

__all__ = ["Bell"]


class Bell:
    """Wakes the one task that waits. A ring that nobody waits for is kept for the next to wait."""

    __slots__ = ("_rung", "_waiter")

    def __init__(self) -> None:
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake whoever waits."""
        if self._waiter is None:
            self._rung = True
        elif not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float = math.inf) -> None:
        """Wait for a ring, or for so many seconds."""
        if self._rung or seconds <= 0:
            self._rung = False
            await asyncio.sleep(0)  # whoever rings without end must not keep everybody else from running
            return
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = None if seconds == math.inf else loop.call_later(seconds, self.ring)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
