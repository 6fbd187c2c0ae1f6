"""Vacuums the space of jobs that have ended, in stores that would otherwise slow down until they do so themselves."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from typing import TYPE_CHECKING

from interlock.errors import StoreUnavailableError
from interlock.jobs.worker.outcomes import one_line
from interlock.telemetry.lasting import LastingFailure
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from interlock.jobs.engine import JobEngine

__all__ = ["vacuum"]

_log = logging.getLogger("interlock.jobs")
_AT_FIRST = 2.0
_WHILE_AWAY = 2.0
_AFTER_FAILURE = 60.0


async def vacuum(engine: JobEngine) -> None:
    """Call the store when it asks to be called. Returns if the store has nothing to vacuum."""
    delay = _AT_FIRST
    failure = LastingFailure(engine.monotonic)
    while delay < math.inf:
        await asyncio.sleep(delay * random.uniform(0.75, 1.25))  # noqa: S311 - only keeps the workers apart
        try:
            delay = await engine.jobs.vacuum()
            failure.over()
        except StoreUnavailableError as error:
            delay = _WHILE_AWAY
            if failure.failed(error):
                emit(_log, logging.WARNING, "job_chore_failed", chore="vacuum", error=one_line(error))
        except Exception as error:  # noqa: BLE001 - jobs go on without it, more slowly
            delay = _AFTER_FAILURE
            emit(_log, logging.ERROR, "job_chore_failed", chore="vacuum", error=one_line(error))
