"""Starts per second under limits, bound and not bound, with nothing to do in between."""

from __future__ import annotations

import asyncio
import time

from interlock import Limits, Slots

__all__ = ["starts_per_second"]


async def starts_per_second(url: str, slots: int, tasks: int, seconds: float) -> float:
    """Starts, each finished at once, by so many tasks that share so many slots."""
    count = 0
    async with Limits.from_url(url) as limits:
        begun = time.perf_counter()

        async def work() -> None:
            nonlocal count
            while time.perf_counter() - begun < seconds:
                async with limits.acquire(Slots("bench", slots)):
                    pass
                count += 1

        await asyncio.gather(*(work() for _ in range(tasks)))
        return count / (time.perf_counter() - begun)
