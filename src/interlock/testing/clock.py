"""Time that tests hold in their hands, and waiting for conditions instead of for time."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["VirtualClock", "until"]


class VirtualClock:
    """A clock that stands still until it is told to go on. Both of its readings move together."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._epoch = now
        self._elapsed = 0.0

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed

    def now(self) -> float:
        """Seconds since 1970 in UTC."""
        return self._epoch + self._elapsed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"time does not go back, not even by {-seconds} s")
        self._elapsed += seconds

    def set_back(self, seconds: float) -> None:
        """Set the clock on the wall back, as an administrator may; the monotonic one does not notice."""
        self._epoch -= seconds


async def until(condition: Callable[[], object], *, within: float = 10.0, what: str = "") -> None:
    """Wait for a condition to hold, and fail if it does not in time. The condition may be a coroutine function."""
    give_up = time.monotonic() + within
    while not await _seen(condition):
        if time.monotonic() >= give_up:
            raise AssertionError(f"did not happen within {within} s: {what or condition}")
        await asyncio.sleep(0.002)


async def _seen(condition: Callable[[], object]) -> object:
    seen = condition()
    return await seen if inspect.isawaitable(seen) else seen
