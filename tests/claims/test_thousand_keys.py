"""Exactly one new for each key, no done repeated, no failed lost: up to 1,000 keys, with 20 claimants each."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from interlock import Claims

CLAIMANTS = 20


@pytest.mark.parametrize("keys", [200, pytest.param(1000, marks=pytest.mark.full)])
async def test_one_new_each_no_done_repeated_no_failed_lost(store_url: str, keys: int) -> None:
    chance = random.Random(1)
    fails_first = {key for key in range(keys) if chance.random() < 0.2}
    started: Counter[int] = Counter()
    done: Counter[int] = Counter()
    async with AsyncExitStack() as stack:
        processes = 1 if store_url == "memory://" else 2
        pods = [
            await stack.enter_async_context(Claims.from_url(store_url, session_ttl=60, stuck_work="report"))
            for _ in range(processes)
        ]

        async def claimant(number: int) -> None:
            order = random.Random(number).sample(range(keys), keys)
            for key in order:
                claim = await pods[number % len(pods)].claim(f"delivery-{key}")
                if not claim.new:
                    continue
                started[key] += 1
                if key in fails_first and started[key] == 1:
                    await claim.fail("at first", retry_in=0)
                else:
                    done[key] += 1
                    await claim.done()

        await asyncio.gather(*(claimant(number) for number in range(CLAIMANTS)))

        # A key whose failed attempt came last has nobody left who claims it: whoever asks next gets it.
        for key in set(range(keys)) - set(done):
            claim = await pods[0].claim(f"delivery-{key}")
            assert claim.new, "a failed claim was lost"
            started[key] += 1
            done[key] += 1
            await claim.done()
        assert done == Counter(range(keys)), "done more or less than once"
        assert started == Counter([*range(keys), *fails_first]), "new more than once"
