"""Bounds on how much unauthenticated clients can make a process log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LogBudget"]


class LogBudget:
    """Admits a number of log events per period, and counts the others."""

    def __init__(
        self, limit: int = 10, seconds: float = 60.0, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._seconds = seconds
        self._monotonic = monotonic
        self._began = float("-inf")
        self._used = 0
        self._suppressed = 0

    def admit(self) -> int | None:
        """The number of events suppressed before this one; None if this one is suppressed as well."""
        now = self._monotonic()
        if now - self._began >= self._seconds:
            self._began, self._used = now, 0
        if self._used >= self._limit:
            self._suppressed += 1
            return None
        self._used += 1
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed
