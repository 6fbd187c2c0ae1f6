"""Concurrent claims: exactly one claimant gets a new claim."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from interlock.ports.claims import Claimed, ClaimState, Known
from interlock.ports.store import Capability
from interlock.testing.conformance.base import needs
from interlock.testing.conformance.claims.driver import ClaimDriver, ClaimSuite
from interlock.testing.conformance.driver import ANN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

__all__ = ["ClaimRaceConformance"]

_STORES = 10
_CLAIMANTS = 20
_ROUNDS = 25


async def claimants(drivers: Sequence[ClaimDriver], key: str, count: int = _CLAIMANTS) -> list[Any]:
    """Claim from all connections at once, in alternation."""
    asking = [drivers[i % len(drivers)].claim(f"{'abc'[i % 3]}-{key}-{i}", key) for i in range(count)]
    return await asyncio.gather(*asking)


def the_one(answers: Sequence[Any], attempt: int) -> Claimed:
    """The single new claim; all other answers must say that it is in progress."""
    (mine,) = [answer for answer in answers if isinstance(answer, Claimed)]
    assert mine.attempt == attempt
    for answer in answers:
        assert answer is mine or isinstance(answer, Known)
        if isinstance(answer, Known):
            assert (answer.view.state, answer.view.fence) == (ClaimState.IN_PROGRESS, mine.fence)
    return mine


class ClaimRaceConformance(ClaimSuite):
    """Checking and marking are one atomic step."""

    async def test_of_all_tasks_that_claim_a_key_at_once_one_is_told_that_it_is_new(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            for round_ in range(_ROUNDS):
                the_one(await claimants([b], f"k{round_}"), 1)

    @needs(Capability.PROCESSES)
    async def test_of_all_processes_that_claim_a_key_at_once_one_is_told_that_it_is_new(self, store_url: str) -> None:
        async with self.claim_drivers(store_url, _STORES) as drivers:
            fences = [the_one(await claimants(drivers, f"k{round_}"), 1).fence for round_ in range(_ROUNDS)]

            assert fences == sorted(set(fences))

    @needs(Capability.PROCESSES)
    async def test_of_all_who_take_over_from_a_dead_holder_one_is_told_that_it_is_new(self, store_url: str) -> None:
        async with self.claim_drivers(store_url, _STORES) as drivers:
            keys = [f"k{round_}" for round_ in range(_ROUNDS)]
            await drivers[0].begin("d", seconds=5.0)
            dead = [await drivers[0].claimed(f"d-{key}", key, lease=300.0) for key in keys]
            drivers[0].clock.advance(5)

            for key, before in zip(keys, dead, strict=True):
                assert the_one(await claimants(drivers, key), 2).fence > before.fence

    @needs(Capability.PROCESSES)
    async def test_of_all_who_claim_what_failed_and_is_due_one_is_told_that_it_is_new(self, store_url: str) -> None:
        async with self.claim_drivers(store_url, _STORES) as drivers:
            for round_ in range(_ROUNDS):
                key = f"k{round_}"
                before = await drivers[0].claimed(f"a-{key}", key)
                await drivers[0].failed(f"a-{key}", key)

                assert the_one(await claimants(drivers, key), 2).fence > before.fence

    @needs(Capability.PROCESSES)
    async def test_of_all_who_claim_what_is_no_longer_kept_one_is_told_that_it_is_new(self, store_url: str) -> None:
        async with self.claim_drivers(store_url, _STORES) as drivers:
            keys = [f"k{round_}" for round_ in range(_ROUNDS)]
            for key in keys:
                await drivers[0].claimed(f"a-{key}", key, lease=1.0, keep=1.0)
            drivers[0].clock.advance(2)

            for key in keys:
                answers, _ = await asyncio.gather(claimants(drivers, key), drivers[1].store.sessions.sweep())
                the_one(answers, 1)

    @needs(Capability.PROCESSES)
    async def test_a_claim_is_either_settled_late_or_taken_over_never_both(self, store_url: str) -> None:
        async with self.claim_drivers(store_url, 4) as drivers:
            for round_ in range(4 * _ROUNDS):
                key = f"k{round_}"
                await drivers[0].claimed(f"a-{key}", key, lease=0.001)
                drivers[0].clock.advance(0.001)
                steps: list[Awaitable[Any]] = [
                    drivers[0].done(f"a-{key}", key, result="1"),
                    *(drivers[i].claim(f"b-{key}-{i}", key) for i in (1, 2, 3)),
                ]
                if round_ % 2:
                    steps.reverse()
                answers = await asyncio.gather(*steps)
                finished, taken = (answers[-1], answers[:-1]) if round_ % 2 else (answers[0], answers[1:])
                (view,) = await drivers[1].claims.list(key)

                assert sum(isinstance(answer, Claimed) for answer in taken) == (0 if finished.done else 1)
                assert view.state is (ClaimState.DONE if finished.done else ClaimState.IN_PROGRESS)
                for answer in taken:
                    assert isinstance(answer, Claimed) or answer.view.state is view.state

    @needs(Capability.PROCESSES)
    async def test_repeats_of_one_request_by_several_ways_are_one_claim(self, store_url: str) -> None:
        async with self.claim_drivers(store_url, 5) as drivers:
            for round_ in range(_ROUNDS):
                key = f"k{round_}"
                answers = await asyncio.gather(*(driver.claim("a1", key) for driver in drivers))
                assert {(type(answer), answer.fence, answer.attempt) for answer in answers} == {
                    (Claimed, answers[0].fence, 1)
                }
                finished = await asyncio.gather(*(driver.done("a1", key, result=f"{round_}") for driver in drivers))
                assert all(one.done for one in finished)

    @needs(Capability.PROCESSES)
    async def test_each_claim_of_a_key_has_a_larger_fence_than_all_before_it_also_when_it_is_forgotten(
        self, store_url: str
    ) -> None:
        async with self.claim_drivers(store_url, 6) as drivers:
            granted: list[int] = []

            async def claim_and_forget(driver: ClaimDriver, who: int) -> None:
                for turn in range(_ROUNDS):
                    answer = await driver.claim(f"a-{who}-{turn}")
                    if isinstance(answer, Claimed):
                        # A claim after this one was forgotten must get a larger fence.
                        granted.append(answer.fence)
                        await driver.claims.forget("k", "why", ANN)

            await asyncio.gather(*(claim_and_forget(driver, who) for who, driver in enumerate(drivers)))

            assert len(granted) >= 10
            assert granted == sorted(set(granted))

    @needs(Capability.PROCESSES)
    async def test_many_keys_claimed_and_settled_at_once_in_any_order_come_out_right(self, store_url: str) -> None:
        async with self.claim_drivers(store_url, 4) as drivers:
            keys = [f"k{number}" for number in range(40)]

            claimed: list[str] = []

            async def work(driver: ClaimDriver, who: int, key: str) -> None:
                if isinstance(await driver.claim(f"a-{who}-{key}", key), Claimed):
                    assert (await driver.done(f"a-{who}-{key}", key, result=f"{who}")).done
                    claimed.append(key)

            orders = [(driver, who, keys[who * 10 :] + keys[: who * 10]) for who, driver in enumerate(drivers)]
            await asyncio.gather(*(work(driver, who, key) for driver, who, order in orders for key in order))

            assert sorted(claimed) == sorted(keys)
            views = await drivers[0].claims.list()
            assert {view.state for view in views} == {ClaimState.DONE}
            assert sorted(view.key for view in views) == sorted(keys)
