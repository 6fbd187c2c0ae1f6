"""Flaws of cooldowns seen in the field, each as a check that the flawed design fails and Interlock passes."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from interlock import Cooldown, Limits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

GAP = 90.0
ACCOUNT = Cooldown("account", GAP, key="{account}")


class SleepingCooldown:
    """Says how long to wait, and every caller sleeps that long in a task of its own."""

    def __init__(self) -> None:
        self.last: dict[str, float] = {}
        self.asleep = 0

    async def check_and_wait(self, account: str) -> None:
        now = asyncio.get_running_loop().time()
        at = max(now, self.last.get(account, -GAP) + GAP)
        self.last[account] = at
        self.asleep += at > now
        try:
            await asyncio.sleep(at - now)
        finally:
            self.asleep -= at > now


class UnlockedCooldown:
    """HandlerVersion the last time, waits for the configuration, writes: two callers read the same."""

    def __init__(self) -> None:
        self.last: dict[str, float] = {}

    async def check(self, account: str) -> float:
        now = asyncio.get_running_loop().time()
        at = max(now, self.last.get(account, -GAP) + GAP)
        await asyncio.sleep(0)
        self.last[account] = at
        return at


async def smallest_gap(check: Callable[[str], Awaitable[float]]) -> float:
    """The smallest gap between the times that ten concurrent checks of one account were given."""
    times = sorted(await asyncio.gather(*(check("a1") for _ in range(10))))
    return min(later - earlier for earlier, later in itertools.pairwise(times))


async def test_f_d5_ten_checks_of_one_account_lie_90_s_apart_and_hold_no_task(store_url: str) -> None:
    flawed = SleepingCooldown()
    sleeping = [asyncio.create_task(flawed.check_and_wait("a1")) for _ in range(10)]
    await asyncio.sleep(0)
    assert flawed.asleep == 9, "the check does not bite: up to 810 s of sleeping tasks"
    for task in sleeping:
        task.cancel()
    await asyncio.gather(*sleeping, return_exceptions=True)

    async with Limits.from_url(store_url) as limits:
        tasks = len(asyncio.all_tasks())
        reservations = [await limits.reserve(ACCOUNT, account="a1") for _ in range(10)]

        assert len(asyncio.all_tasks()) < tasks + 9, "waiting work holds a task"
        times = [reservation.starts_at for reservation in reservations if reservation.starts_at is not None]
        assert [(at - times[0]).total_seconds() for at in times] == [n * GAP for n in range(10)]


async def test_f_d5_ten_accounts_wait_together(store_url: str) -> None:
    async with Limits.from_url(store_url) as limits:
        accounts = [f"a{n}" for n in range(10)]
        for account in accounts:
            assert await (await limits.reserve(ACCOUNT, account=account)).start()
        second = [await limits.reserve(ACCOUNT, account=account) for account in accounts]

        times = [reservation.starts_at for reservation in second if reservation.starts_at is not None]
        assert len(times) == 10
        assert (max(times) - min(times)).total_seconds() < 60, "one account waits for another"


async def test_f_d6_the_check_for_a_cooldown_fails_for_code_that_races(store_url: str) -> None:
    flawed = UnlockedCooldown()
    waits = await asyncio.gather(*(flawed.check("a0") for _ in range(10)))
    assert all(wait >= 0 for wait in waits), "a check like this one passes for the broken code too"
    assert await smallest_gap(flawed.check) < GAP, "the check does not bite"

    async with Limits.from_url(store_url) as limits:

        async def check(account: str) -> float:
            reservation = await limits.reserve(ACCOUNT, account=account)
            assert reservation.starts_at is not None
            return reservation.starts_at.timestamp()

        assert await smallest_gap(check) == GAP
