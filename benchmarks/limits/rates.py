"""Starts per second under limits that bind or do not bind, without work in between."""

from __future__ import annotations

import asyncio
import time

from interlock import Limits, Slots

__all__ = ["starts_per_second"]


async def starts_per_second(url: str, slots: int, tasks: int, seconds: float) -> float:
    """Starts per second, each finished immediately, by this many tasks that share this many slots."""
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
