"""The graph of waits: every cycle is found when it closes, and nothing else is reported."""

from __future__ import annotations

import pytest

from interlock.ports.locks import Busy, Deadlocked, Granted, Wait, Waiting
from interlock.testing.conformance.driver import DriverSuite

__all__ = ["GraphConformance"]


class GraphConformance(DriverSuite):
    """Deadlocks."""

    async def test_a_holder_that_asks_for_its_own_key_is_told(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", caller="P")
            answer = await b.ask("a2", caller="P", nested=True)

            assert answer == Deadlocked((Wait("P", "k", "P"),))

    @pytest.mark.parametrize("size", [2, 3, 5])
    async def test_whoever_closes_a_cycle_is_told_the_whole_of_it(self, store_url: str, size: int) -> None:
        async with self.driver(store_url) as b:
            for i in range(size):
                await b.granted(f"a{i}", f"k{i}", caller=f"P{i}")
            for i in range(size - 1):
                await b.waiting(f"b{i}", f"k{i + 1}", caller=f"P{i}", nested=True)
            last = size - 1
            answer = await b.ask(f"b{last}", "k0", caller=f"P{last}", nested=True)

            assert isinstance(answer, Deadlocked)
            around = [last, *range(size)]
            assert answer.cycle == tuple(
                Wait(f"P{caller}", f"k{(caller + 1) % size}", f"P{(caller + 1) % size}") for caller in around[:size]
            )

    async def test_the_one_that_was_told_is_not_in_the_queue_and_the_rest_go_on(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", "x", caller="P")
            await b.granted("b1", "y", caller="Q")
            await b.waiting("a2", "y", caller="P", nested=True)
            assert isinstance(await b.ask("b2", "x", caller="Q", nested=True), Deadlocked)

            assert (await b.leave("b1")).next_owner == "a2"
            await b.granted("a2", "y", caller="P", nested=True)
            (x, _) = await b.locks.list()
            assert x.waiters == ()

    async def test_a_wait_that_closes_no_cycle_is_let_be(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", "x", caller="P")
            await b.granted("b1", "y", caller="Q")
            await b.granted("c1", "z", caller="R")
            await b.waiting("a2", "y", caller="P", nested=True)
            await b.waiting("c2", "y", caller="R", nested=True)
            await b.waiting("c3", "x", caller="S")

            assert isinstance(await b.ask("b2", "free", caller="Q", nested=True), Granted)

    async def test_the_dead_are_no_part_of_a_cycle(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", "x", caller="P", ttl=300.0)
            await b.granted("b1", "y", caller="Q", ttl=2.0)
            await b.waiting("a2", "y", caller="P", nested=True)
            b.clock.advance(3)

            assert isinstance(await b.ask("c1", "x", caller="Q", nested=True), Waiting)

    async def test_a_party_may_wait_for_several_keys_at_once(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", "x", caller="P")
            await b.granted("b1", "y", caller="Q")
            await b.granted("c1", "z", caller="R")
            await b.waiting("a2", "z", caller="P", nested=True)
            await b.waiting("a3", "y", caller="P", nested=True)
            answer = await b.ask("b2", "x", caller="Q", nested=True)

            assert answer == Deadlocked((Wait("Q", "x", "P"), Wait("P", "y", "Q")))

    async def test_who_does_not_wait_closes_no_cycle(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", caller="P")

            assert isinstance(await b.ask("a2", caller="P", nested=True, wait=0), Busy)
