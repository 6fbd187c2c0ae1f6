"""Exceptions that a handler raises to decide how its job continues. They are not errors: nothing has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.arguments import checked_seconds

if TYPE_CHECKING:
    from interlock.arguments import Seconds

__all__ = ["Discard", "RetryLater", "Signal", "Snooze"]


class Signal(Exception):  # noqa: N818 - a signal is not an error
    """The base class of these exceptions."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class RetryLater(Signal):
    """Retry after ``delay``. This counts as an attempt: after the last one, the job has failed."""

    def __init__(self, delay: Seconds, reason: str = "") -> None:
        self.delay = checked_seconds("delay", delay)
        super().__init__(reason)


class Snooze(Signal):
    """Run again after ``delay``. This does not count as an attempt."""

    def __init__(self, delay: Seconds, reason: str = "") -> None:
        self.delay = checked_seconds("delay", delay)
        super().__init__(reason)


class Discard(Signal):
    """End the job: there is nothing left to do, and it has not failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
