"""Processes that fire and edit schedules, for tests that kill them."""

from __future__ import annotations

import asyncio
import random

from interlock import App
from interlock.errors import ConcurrencyConflictError
from interlock.schedules import timing
from interlock.testing.processes import report, wait_at_barrier_async

__all__ = ["EVERY", "bot", "edit", "fire"]

EVERY = 0.05
"""A grid of tests: the shortest interval of programs is longer."""


def bot(url: str) -> App:
    """An app with a schedule that fires twenty times a second and misses nothing."""
    timing.MIN_EVERY = EVERY
    app = App(url, session_ttl=3.0)

    @app.every(EVERY, misfire="catch_up")
    async def tick() -> None:
        """Do nothing."""

    @app.job()
    async def note(text: str) -> None:
        """Do nothing."""

    return app


async def fire(url: str) -> None:
    """Fire until the test kills this process."""
    app = bot(url)
    async with app, app.worker():
        report("ready")
        await asyncio.sleep(3600)


async def edit(url: str, count: int) -> None:
    """Edit one schedule this many times: each edit adds 1 to its grace."""
    app, refused = bot(url), 0
    async with app:
        await wait_at_barrier_async()
        for _ in range(count):
            while True:
                seen = await app.schedules.get("edited")
                try:
                    await app.schedules.save(
                        "edited",
                        job="note",
                        every=3600,
                        arguments={"text": "x"},
                        grace=seen.grace + 1,
                        version=seen.version,
                        by="test",
                    )
                except ConcurrencyConflictError:
                    refused += 1
                    await asyncio.sleep(random.uniform(0, 0.02))
                else:
                    break
    report("refused", count=refused)
