"""Removes the history of jobs when it is old, and the events that they came from."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from interlock.errors import StoreUnavailableError
from interlock.jobs.worker.outcomes import one_line
from interlock.telemetry.lasting import LastingFailure
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.rescuer import Health

__all__ = ["prune_now_and_then"]

_log = logging.getLogger("interlock.jobs")
_EVERY = 60.0
_MOST = 10_000
_PLENTY = 1000


async def prune_now_and_then(engine: JobEngine, health: Health) -> None:
    """Prune about every minute, for ever, each time until little is found."""
    failure = LastingFailure(engine.monotonic)
    while True:
        await asyncio.sleep(_EVERY * random.uniform(0.75, 1.25))  # noqa: S311 - only keeps the workers apart
        try:
            found = _PLENTY
            while found >= _PLENTY:
                found = await engine.jobs.prune(engine.settings.keep_history_seconds, most=_MOST)
                if engine.events is not None:
                    found = max(found, await engine.events.prune(most=_MOST))
        except StoreUnavailableError as error:
            health.trouble()
            if failure.failed(error):
                emit(_log, logging.WARNING, "job_chore_failed", chore="prune", error=one_line(error))
        except Exception as error:  # noqa: BLE001 - whatever failed is tried again
            emit(_log, logging.ERROR, "job_chore_failed", chore="prune", error=one_line(error))
        else:
            failure.over()
