"""D1: cooldowns of accounts are reserved atomically, follow the configuration, and are released and cleaned up."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from interlock import JobState
from sentinel import cooldowns
from sentinel.config import COOLDOWN, get_config, update_config
from sentinel.cooldowns import _cleanup_stale_cooldowns, check_and_wait_cooldown, check_cooldown
from sentinel.current import working_on
from sentinel.target_service import process_target
from tests.examples.sentinel.checks import check_turns_are_apart, check_waits_hold_up_nobody
from tests.examples.sentinel.flawed import SleepingLockCooldowns, TwiceLockedCooldowns
from tests.examples.sentinel.targets import create_test_target, stored

if TYPE_CHECKING:
    from sentinel.console import Console


async def test_concurrent_cooldown_checks(console: Console, other: Console) -> None:
    async def check(account_id: int, number: int) -> float:
        with working_on((console, other)[number % 2]):
            return await check_cooldown(account_id)

    await check_turns_are_apart(check, COOLDOWN)


async def test_a_check_that_locks_twice_is_caught() -> None:
    """Common mistake 2: the lock taken once to read and once to write."""
    flawed = TwiceLockedCooldowns()

    with pytest.raises(AssertionError, match="the same turn"):
        await check_turns_are_apart(lambda account_id, _: flawed.check_cooldown(account_id), COOLDOWN)


async def test_ten_different_accounts_wait_together(console: Console) -> None:
    await check_waits_hold_up_nobody(check_and_wait_cooldown, within=20)

    await update_config(0.3, by="test")
    await asyncio.gather(*(check_cooldown(account_id) for account_id in range(100, 110)))
    begun = time.monotonic()
    await asyncio.gather(*(check_and_wait_cooldown(account_id) for account_id in range(100, 110)))
    assert time.monotonic() - begun < 5 * 0.3


async def test_a_lock_that_is_held_while_waiting_is_caught() -> None:
    flawed = SleepingLockCooldowns(90)

    with pytest.raises(AssertionError, match="waited for the cooldown of another one"):
        await check_waits_hold_up_nobody(flawed.check_and_wait_cooldown, within=0.1)


async def test_the_cooldown_is_configured_at_run_time(console: Console, other: Console) -> None:
    assert await get_config() == {"cooldown": 90}
    assert await check_cooldown(1) == 0
    with working_on(other):
        await update_config(10, by="ann")
    assert 9 < await check_cooldown(1) <= 10
    for invalid in (0, -1, float("nan"), 1e9):
        with pytest.raises(ValueError, match="Invalid cooldown"):
            await update_config(invalid, by="ann")
    assert await get_config() == {"cooldown": 10}


async def test_a_cancelled_wait_gives_its_turn_to_the_next(console: Console) -> None:
    assert await check_cooldown(1) == 0
    waiting = asyncio.create_task(check_and_wait_cooldown(1))
    async with asyncio.timeout(10):
        while not (await console.app.limits.get("cooldown:account:1")).waiting:
            await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    async with asyncio.timeout(10):
        while (await console.app.limits.get("cooldown:account:1")).waiting:
            await asyncio.sleep(0.01)
    assert 80 < await check_cooldown(1) <= 90


async def test_work_that_is_cancelled_after_its_check_gives_its_turn_to_the_next(console: Console) -> None:
    assert await check_cooldown(1) == 0
    checked = asyncio.Event()

    async def work() -> None:
        wait = await check_cooldown(1)
        checked.set()
        await asyncio.sleep(wait)

    working = asyncio.create_task(work())
    await checked.wait()
    assert len(console.turns) == 1
    working.cancel()
    async with asyncio.timeout(10):
        while console.turns or not working.done():
            await asyncio.sleep(0)

    assert 80 < await check_cooldown(1) <= 90


async def test_turns_that_nobody_took_for_an_hour_are_removed(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cooldowns.STALE_SECONDS == 3600
    await asyncio.gather(*(check_cooldown(1) for _ in range(3)))
    assert await _cleanup_stale_cooldowns() == 0
    assert len(console.turns) == 2

    monkeypatch.setattr(cooldowns, "STALE_SECONDS", -120)  # as if it were later: the turn in 90 s is stale by then
    assert await _cleanup_stale_cooldowns() == 1
    assert len(console.turns) == 1


async def test_a_turn_counts_when_its_time_has_come(console: Console) -> None:
    await update_config(0.2, by="test")
    assert await check_cooldown(1) == 0
    assert 0 < await check_cooldown(1) <= 0.2

    async with asyncio.timeout(10):
        while console.turns:
            await asyncio.sleep(0.01)
    await check_and_wait_cooldown(1)  # 0.2 s after the turn that was reserved, and not at once


async def test_the_check_and_the_job_use_one_limit(console: Console) -> None:
    """Otherwise a check would bypass the reports, as an endpoint could bypass the claim."""
    target = await create_test_target()
    assert await check_cooldown(target["account_id"]) == 0
    await process_target(target)

    await console.app.drain()
    job = (await stored(target["id"]))["job_id"]
    assert (await console.app.jobs.get(job)).state is JobState.WAITING
    await update_config(0.05, by="ann")  # applies to the report that waits already
    async with console.app.worker():
        await console.app.jobs.handle(job).result(wait=10)
    assert (await stored(target["id"]))["status"] == "completed"
    (override,) = await console.app.limits.overrides()
    assert (override.per, override.by) == (0.05, "ann")


async def test_a_report_uses_the_account_for_the_check(console: Console) -> None:
    target = await create_test_target()
    await process_target(target)
    await console.app.drain()

    assert 80 < await check_cooldown(target["account_id"]) < 96  # a start counts up to 5 s late
    assert await check_cooldown(target["account_id"] + 1) == 0
