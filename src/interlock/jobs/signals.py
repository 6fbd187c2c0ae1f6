"""What a handler raises to say how its job goes on. These are no errors: nothing has failed by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.arguments import checked_seconds

if TYPE_CHECKING:
    from interlock.arguments import Seconds

__all__ = ["Discard", "RetryLater", "Signal", "Snooze"]


class Signal(Exception):  # noqa: N818 - a signal is no error
    """What all of them are."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class RetryLater(Signal):
    """Try again after so many seconds. It counts as an attempt: when they are used up, the job has failed."""

    def __init__(self, seconds: Seconds, reason: str = "") -> None:
        self.seconds = checked_seconds("seconds", seconds)
        super().__init__(reason)


class Snooze(Signal):
    """Come back after so many seconds. It does not count as an attempt."""

    def __init__(self, seconds: Seconds, reason: str = "") -> None:
        self.seconds = checked_seconds("seconds", seconds)
        super().__init__(reason)


class Discard(Signal):
    """There is nothing to do any more: the job ends here, and has not failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
