"""The time that statements are given: none, so that the server's clock decides, unless a test brings its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.clock import Clock

__all__ = ["given_by"]


def given_by(clock: Clock | None) -> Callable[[], float | None]:
    """What to pass for ``p_clock``."""
    return _nothing if clock is None else clock.now


def _nothing() -> None:
    return None
