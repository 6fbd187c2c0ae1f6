"""A virtual clock for tests, and waiting for conditions instead of for time."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["VirtualClock", "until"]


class VirtualClock:
    """A clock that moves only when the test advances it. Both of its readings move together."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._epoch = now
        self._elapsed = 0.0

    def monotonic(self) -> float:
        """Seconds since the clock was created."""
        return self._elapsed

    def now(self) -> float:
        """Seconds since 1970 in UTC."""
        return self._epoch + self._elapsed

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        if seconds < 0:
            raise ValueError(f"time cannot go back: {seconds} s")
        self._elapsed += seconds

    def set_back(self, seconds: float) -> None:
        """Set the wall clock back, as an administrator may; the monotonic clock is not affected."""
        self._epoch -= seconds


async def until(condition: Callable[[], object], *, within: float = 10.0, what: str = "") -> None:
    """Wait until a condition holds, and fail if it does not in time. The condition may be a coroutine function."""
    give_up = time.monotonic() + within
    while not await _seen(condition):
        if time.monotonic() >= give_up:
            raise AssertionError(f"did not happen within {within} s: {what or condition}")
        await asyncio.sleep(0.002)


async def _seen(condition: Callable[[], object]) -> object:
    seen = condition()
    return await seen if inspect.isawaitable(seen) else seen
