"""Status changes per second, each with its journal entry, and corrections of one record that come all at once."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.harness import percentile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    SetStatus = Callable[[str, str, str], Awaitable[None]]
    """Gives a record another status: ID, old status, new status. Durable when it returns."""
    Correct = Callable[[int], Awaitable[None]]
    """Adds one field to the record's payload."""

__all__ = ["BODY", "Corrections", "changes_per_second", "corrections", "edit_times"]

BODY = json.dumps({"payload": {"text": "x" * 200}})
_STATUSES = ("open", "closed")
_WARM_UP = 10


async def changes_per_second(set_status: SetStatus, ids: list[str], seconds: float) -> float:
    """One task per record changes its status to and fro."""
    count = 0

    async def work(id_: str, until: float, times: int) -> None:
        nonlocal count
        for number in range(times):
            if time.perf_counter() >= until and number % 2 == 0:  # an even number leaves the record as it was
                return
            await set_status(id_, _STATUSES[number % 2], _STATUSES[1 - number % 2])
            count += 1

    await asyncio.gather(*(work(id_, float("inf"), _WARM_UP) for id_ in ids))
    count = 0
    begun = time.perf_counter()
    await asyncio.gather(*(work(id_, begun + seconds, 1_000_000) for id_ in ids))
    return count / (time.perf_counter() - begun)


async def edit_times(set_status: SetStatus, id_: str, times: int) -> list[float]:
    """Milliseconds of each edit, one after the other."""
    took = []
    for number in range(_WARM_UP + times):
        begun = time.perf_counter()
        await set_status(id_, _STATUSES[number % 2], _STATUSES[1 - number % 2])
        took.append((time.perf_counter() - begun) * 1000)
    return took[_WARM_UP:]


class Corrections(NamedTuple):
    """How long all of them took, in seconds, and each of them, in milliseconds."""

    total: float
    mean: float
    p95: float


async def corrections(correct: Correct, tasks: int) -> Corrections:
    """Let this many tasks correct one record at the same time."""

    async def work(number: int) -> float:
        await correct(number)
        return (time.perf_counter() - begun) * 1000

    begun = time.perf_counter()
    took = await asyncio.gather(*(work(number) for number in range(tasks)))
    total = time.perf_counter() - begun
    return Corrections(total, sum(took) / tasks, percentile(took, 0.95))
