"""The designs that the example must not inherit, each as small as it can be, for tests to show that they catch it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from sentinel.database import execute_query

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_JOB = -1
"""The table wants every target in processing to have a job; these designs have none."""
background: list[asyncio.Task[None]] = []


class UnlockedCooldowns:
    """Reads, does something else, and writes: two callers read the same."""

    def __init__(self, cooldown: float = 90.0) -> None:
        self._last: dict[int, float] = {}
        self._cooldown = cooldown

    async def check_cooldown(self, account_id: int) -> float:
        last = self._last.get(account_id, -self._cooldown)
        await asyncio.sleep(0)  # any await between the read and the write is enough
        now = time.monotonic()
        wait = max(0.0, self._cooldown - (now - last)) if account_id in self._last else 0.0
        self._last[account_id] = now + wait
        return wait


class SleepingLockCooldowns:
    """Sleeps while it holds the lock of all accounts."""

    def __init__(self, cooldown: float) -> None:
        self._lock = asyncio.Lock()
        self._last: dict[int, float] = {}
        self._cooldown = cooldown

    async def check_and_wait_cooldown(self, account_id: int) -> None:
        async with self._lock:
            passed = time.monotonic() - self._last.get(account_id, 0.0)
            if passed < self._cooldown:
                await asyncio.sleep(self._cooldown - passed)
            self._last[account_id] = time.monotonic()


class TwiceLockedCooldowns:
    """Takes the lock once to read and once more to write: two callers read before either writes."""

    def __init__(self, cooldown: float = 90.0) -> None:
        self._lock = asyncio.Lock()
        self._last: dict[int, float] = {}
        self._cooldown = cooldown

    async def check_cooldown(self, account_id: int) -> float:
        async with self._lock:
            now = time.monotonic()
            last = self._last.get(account_id)
            wait = 0.0 if last is None else max(0.0, self._cooldown - (now - last))
        await asyncio.sleep(0)
        async with self._lock:
            self._last[account_id] = now + wait
        return wait


async def claim_all_but_processing(target_id: int) -> bool:
    """Claims every target that is not being processed, completed ones included, without an owner."""
    rows = await execute_query(
        "update targets set status = 'processing', job_id = ? where id = ? and status <> 'processing' returning id",
        (NO_JOB, target_id),
    )
    return bool(rows)


class ClaimInTwoSteps:
    """Looks first and claims then; all five of the check look before one of them claims."""

    def __init__(self) -> None:
        self._all_have_looked = asyncio.Barrier(5)

    async def claim(self, target_id: int) -> bool:
        rows = await execute_query("select status from targets where id = ?", (target_id,))
        await self._all_have_looked.wait()
        if rows[0]["status"] == "processing":
            return False
        await execute_query("update targets set status = 'processing', job_id = ? where id = ?", (NO_JOB, target_id))
        return True


async def execute_without_claim(target_id: int) -> dict[str, str]:
    """Sets the status without a claim, and forgets the task."""
    await execute_query("update targets set status = 'processing', job_id = ? where id = ?", (NO_JOB, target_id))
    background.append(asyncio.create_task(_report(target_id)))  # kept only so that the tests can end it
    return {"status": "accepted"}


async def _report(target_id: int) -> None:
    try:
        await asyncio.sleep(0.05)
        await execute_query("update targets set status = 'completed' where id = ?", (target_id,))
    except Exception:  # a cancellation is not one
        await execute_query("update targets set status = 'failed' where id = ?", (target_id,))


class StaleEdits:
    """Reads a row, changes it in memory and writes all of it back; two of them read before either writes."""

    def __init__(self) -> None:
        self._both_have_read = asyncio.Barrier(2)

    async def update_task(self, task_id: int, data: Mapping[str, Any]) -> None:
        row = (await execute_query("select * from scheduled_tasks where id = ?", (task_id,)))[0] | dict(data)
        await self._both_have_read.wait()
        await execute_query(
            "update scheduled_tasks set task_type = ?, interval_seconds = ?, is_active = ? where id = ?",
            (row["task_type"], row["interval_seconds"], int(row["is_active"]), task_id),
        )


async def write_task_before_validating(task_id: int, data: Mapping[str, Any]) -> None:
    """Writes first, and finds out then."""
    await execute_query(
        "update scheduled_tasks set interval_seconds = ? where id = ?", (data["interval_seconds"], task_id)
    )
    if not 10 <= data["interval_seconds"] <= 30 * 86400:
        raise ValueError("Invalid trigger configuration: interval out of range")


async def claim_and_verify_afterwards(target_id: int) -> bool:
    """Sets the status, and asks then whether it is set."""
    await execute_query("update targets set status = 'processing', job_id = ? where id = ?", (NO_JOB, target_id))
    rows = await execute_query("select status from targets where id = ?", (target_id,))
    return rows[0]["status"] == "processing"
