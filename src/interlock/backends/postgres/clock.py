"""The time that statements pass to the server: none, so that its clock decides, unless a test has its own clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.clock import Clock

__all__ = ["clock_of"]


def clock_of(clock: Clock | None) -> Callable[[], float | None]:
    """Return a function for the value of ``p_clock``."""
    return _nothing if clock is None else clock.now


def _nothing() -> None:
    return None
