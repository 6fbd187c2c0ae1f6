"""Takes jobs from sessions that have ended, so that others can run them."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Protocol

from interlock.errors import StoreUnavailableError
from interlock.jobs.worker.outcomes import one_line
from interlock.telemetry.lasting import LastingFailure
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.jobs.engine import JobEngine
    from interlock.ports.jobs import Rescued

    class Health(Protocol):
        """How this process gets on with the store."""

        @property
        def sound(self) -> bool:
            """Whether all has been well for a while."""
            ...

        def trouble(self) -> None:
            """It is not."""
            ...


__all__ = ["rescue_now_and_then"]

_log = logging.getLogger("interlock.jobs")
_EVERY = 2.0
_MOST = 1000


async def rescue_now_and_then(engine: JobEngine, health: Health) -> None:
    """Look every two seconds or so, for ever.

    Only while all is well: after an outage other workers may have lost their sessions though they live, and are to
    have the time to give their jobs back themselves. Otherwise these would count as having killed them.
    """
    failure = LastingFailure(engine.monotonic)
    while True:
        await asyncio.sleep(_EVERY * random.uniform(0.75, 1.25))  # noqa: S311 - only keeps the workers apart
        try:
            while health.sound:
                rescued = await engine.jobs.rescue(most=_MOST)
                _note(engine, rescued)
                if len(rescued) < _MOST:
                    break
        except StoreUnavailableError as error:
            health.trouble()
            if failure.failed(error):
                emit(_log, logging.WARNING, "job_chore_failed", chore="rescue", error=one_line(error))
        except Exception as error:  # noqa: BLE001 - whatever failed is tried again
            emit(_log, logging.ERROR, "job_chore_failed", chore="rescue", error=one_line(error))
        else:
            failure.over()


def _note(engine: JobEngine, rescued: Sequence[Rescued]) -> None:
    engine.metrics.rescued += len(rescued)
    for job in rescued:
        if job.quarantined:
            engine.metrics.quarantined += 1
            emit(
                _log,
                logging.ERROR,
                "job_quarantined",
                id=job.id,
                job=job.name,
                session=job.session,
                crashes=job.crashes,
            )
        else:
            emit(
                _log,
                logging.WARNING,
                "job_rescued",
                id=job.id,
                job=job.name,
                session=job.session,
                crashes=job.crashes,
                half=job.half,
            )
