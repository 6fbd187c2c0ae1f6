"""Checks of a design, which run on the example and on the flawed designs alike."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sentinel.target_service import reset_target
from tests.examples.sentinel.targets import create_test_target, stored

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Check = Callable[[int, int], Awaitable[float]]
    Claim = Callable[[int], Awaitable[bool]]


async def check_turns_are_apart(check: Check, cooldown: float) -> None:
    """Ten concurrent checks of one account have ten different turns, each a cooldown after the one before."""
    begun = time.monotonic()
    results = sorted(await asyncio.gather(*(check(1, number) for number in range(10))))
    took = time.monotonic() - begun

    assert results[0] == 0
    for first, second in pairwise(results):
        assert second - first > cooldown / 2, f"two checks have the same turn: {results}"
    for number, result in enumerate(results):
        assert number * cooldown - took <= result <= number * cooldown, results


async def check_waits_hold_up_nobody(wait: Callable[[int], Awaitable[Any]], *, within: float) -> None:
    """While ten accounts wait for a long cooldown, an account that has none is not held up."""
    waiting = [asyncio.create_task(wait(account_id)) for account_id in range(10) for _ in range(2)]
    try:
        async with asyncio.timeout(within):
            while sum(task.done() for task in waiting) < 10:  # the first of each account passes
                await asyncio.sleep(0.005)
            await wait(99)
    except TimeoutError:
        raise AssertionError("an account waited for the cooldown of another one") from None
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def check_one_of_many_claims(claim: Claim) -> None:
    """Of five concurrent claims exactly one wins."""
    target = await create_test_target()
    results = await asyncio.gather(*(claim(target["id"]) for _ in range(5)))

    assert sum(results) == 1, f"{sum(results)} of 5 claims won"
    assert (await stored(target["id"]))["status"] == "processing"


async def check_completed_is_not_claimable(claim: Claim) -> None:
    """A completed target is left alone until it is reset."""
    target = await create_test_target("completed")

    assert not await claim(target["id"]), "a completed target was claimed"
    assert (await stored(target["id"]))["status"] == "completed"
    assert await reset_target(target["id"])
    assert await claim(target["id"])
