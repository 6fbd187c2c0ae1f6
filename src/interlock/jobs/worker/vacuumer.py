"""Vacuums the tables of jobs, in stores that would otherwise slow down until they do so themselves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from interlock.jobs.worker.chore import Chore

if TYPE_CHECKING:
    from interlock.jobs.engine import JobEngine

__all__ = ["vacuum_periodically"]

_FIRST_DELAY = 2.0
_UNAVAILABLE_DELAY = 2.0
_FAILURE_DELAY = 60.0


async def vacuum_periodically(engine: JobEngine) -> None:
    """Vacuum whenever the store asks for it. Returns if the store never needs it."""
    chore = Chore("vacuum", engine.monotonic)
    delay = _FIRST_DELAY
    while delay < math.inf:
        await chore.pause(delay)
        wanted = await chore.attempt(engine.jobs.vacuum)
        after_failure = _UNAVAILABLE_DELAY if chore.unavailable else _FAILURE_DELAY
        delay = after_failure if wanted is None else wanted
