"""Repeated failures: which of them to log, so that a lasting failure is visible and the log stays short."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LastingFailure"]

_EVERY = 30.0


class LastingFailure:
    """One kind of failure, logged when it begins, every 30 seconds while it lasts, and when it is over.

    A failure that comes and goes quickly is logged no more often than one that stays.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since: float | None = None
        self._next = -math.inf
        self._logged = False
        self.error = ""
        """The latest error while the failure lasts; otherwise empty."""
        self.times = 0
        """How often it has failed since it began."""
        self.seconds = 0.0
        """How long it has lasted."""

    def failed(self, error: object) -> bool:
        """Count a failure, and return whether to log it."""
        now = self._monotonic()
        if self._since is None:
            self._since, self.times = now, 0
        self.error = " ".join(str(error).split()) or type(error).__name__
        self.times += 1
        self.seconds = round(now - self._since, 1)
        if now < self._next:
            return False
        self._next, self._logged = now + _EVERY, True
        return True

    def over(self) -> bool:
        """Record a success, and return whether to log that a failure is over."""
        if self._since is None:
            return False
        self.seconds = round(self._monotonic() - self._since, 1)
        logged, self._logged = self._logged, False
        self._since, self.error = None, ""
        return logged
