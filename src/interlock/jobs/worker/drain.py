"""Runs every job that can run now, for tests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from interlock.errors import JobTimeoutError
from interlock.jobs.worker.direct import finish_unused
from interlock.jobs.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.jobs.engine import JobEngine
    from interlock.ports.jobs import Outcome

__all__ = ["drain"]


async def drain(
    engine: JobEngine, *, queues: Sequence[str], wait: float | None = 60.0, concurrency: int = 50
) -> dict[Outcome, int]:
    """Run the jobs of these queues until none is ready; returns counts by outcome. Scheduled jobs are left alone."""
    for step in engine.before_drain:
        await step()
    worker = Worker(engine, concurrency=concurrency, queues=queues)
    try:
        async with asyncio.timeout(wait):
            await finish_unused(engine)
            async with worker:
                await worker.wait_until_idle()
    except TimeoutError:
        raise JobTimeoutError(
            f"Jobs were still left to run after {wait or 0:g} s.",
            remedy="Wait longer (wait=…), or see what is running: interlock jobs list.",
        ) from None
    return worker.counts
