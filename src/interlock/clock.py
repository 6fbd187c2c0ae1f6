"""The two clocks Interlock reads, behind one small protocol so that tests can inject their own.

``monotonic`` measures how long something has lasted in this process and decides local deadlines. ``now`` is the
wall clock, used as the store's clock by stores that live on this machine.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Clock", "SystemClock", "as_datetime", "as_optional_datetime", "as_text"]


class Clock(Protocol):
    """The clocks that Interlock needs."""

    def monotonic(self) -> float:
        """Seconds that never go back; also counts time during which the machine was suspended, if it can."""
        ...

    def now(self) -> float:
        """Seconds since 1970 in UTC."""
        ...


class SystemClock:
    """The machine's own clocks. They are read for every lease, so they are the built-in functions themselves."""

    def __init__(self) -> None:
        self.now: Callable[[], float] = time.time
        self.monotonic: Callable[[], float] = time.monotonic
        # This one goes on while a laptop sleeps, as a lease in a remote store does.
        if hasattr(time, "CLOCK_BOOTTIME"):
            self.monotonic = partial(time.clock_gettime, time.CLOCK_BOOTTIME)


def as_datetime(seconds: float) -> datetime:
    """An aware UTC datetime for a store's time."""
    return datetime.fromtimestamp(seconds, UTC)


def as_text(seconds: float) -> str:
    """A store's time as people and programs read it: ISO 8601 in UTC, to the millisecond."""
    return as_datetime(seconds).isoformat(timespec="milliseconds")


def as_optional_datetime(seconds: float | None) -> datetime | None:
    """An aware UTC datetime for a store's time; None for None."""
    return None if seconds is None else as_datetime(seconds)
