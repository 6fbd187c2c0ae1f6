"""Concurrent reservations through several connections in real time: limits hold."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from interlock.backends import from_url
from interlock.ports.limits import Finished, Plan, Turn, Use
from interlock.ports.sessions import SessionCard
from interlock.ports.store import Capability
from interlock.settings import Settings
from interlock.testing.conformance.base import StoreSuite, needs
from interlock.testing.conformance.limits.driver import pace, slots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from interlock.ports.store import Store

__all__ = ["LimitRaceConformance"]


class _Hand:
    """One connection to the store, with its own session."""

    def __init__(self, store: Store, session: str) -> None:
        self.limits = store.limits
        self.sessions = store.sessions
        self.session = session

    async def ask(self, owner: str, *uses: Use, start: bool = True) -> Turn:
        answer = await self.limits.ask(Plan(owner, owner, self.session, tuple(sorted(uses)), start))
        assert isinstance(answer, Turn), answer
        return answer

    async def finish(self, owner: str) -> Finished:
        return await self.limits.finish(self.session, owner)

    async def start(self, owner: str, *uses: Use) -> Turn:
        """Ask until started, each time after a short pause."""
        while True:
            turn = await self.ask(owner, *uses)
            if turn.started:
                return turn
            await asyncio.sleep(min(turn.recheck_in, random.uniform(0.0, 0.01)))


async def _while(work: Awaitable[Any], do: Callable[[], Awaitable[object]]) -> None:
    """Repeat something until the work is done."""
    over = False

    async def repeat() -> None:
        while not over:
            await do()
            await asyncio.sleep(0)

    repeating = asyncio.create_task(repeat())
    try:
        await work
    finally:
        over = True
        await repeating


class LimitRaceConformance(StoreSuite):
    """Exact even if many ask at the same instant."""

    @asynccontextmanager
    async def _hands(self, url: str, count: int) -> AsyncIterator[list[_Hand]]:
        async with AsyncExitStack() as stack:
            hands = []
            for number in range(count):
                store = from_url(url, settings=Settings())
                await store.open()
                stack.push_async_callback(store.close)
                await store.sessions.begin(SessionCard(f"s{number}", "host", 1, "test"), 120.0)
                hands.append(_Hand(store, f"s{number}"))
            yield hands

    @needs(Capability.PROCESSES)
    async def test_slots_are_never_exceeded_however_many_ask_at_once(self, store_url: str) -> None:
        async with self._hands(store_url, 4) as hands:
            inside = 0
            most_seen: list[int] = []

            async def work(number: int) -> None:
                nonlocal inside
                hand = hands[number % 4]
                for turn in range(8):
                    owner = f"o{number}-{turn}"
                    await hand.start(owner, slots(5))
                    inside += 1
                    assert inside <= 5
                    await asyncio.sleep(random.uniform(0, 0.003))
                    inside -= 1
                    assert (await hand.finish(owner)).started

            async def watch() -> None:
                most_seen.extend(len(view.started) for view in await hands[0].limits.list("k"))

            await _while(asyncio.gather(*(work(number) for number in range(20))), watch)

            assert max(most_seen) <= 5
            assert await hands[0].limits.list() == []

    @needs(Capability.PROCESSES)
    async def test_of_all_who_ask_at_one_instant_as_many_start_as_there_are_slots(self, store_url: str) -> None:
        async with self._hands(store_url, 4) as hands:
            for round_ in range(15):
                owners = [f"o{round_}-{number}" for number in range(20)]
                asks = [hands[i % 4].ask(owner, slots(3, f"k{round_}")) for i, owner in enumerate(owners)]
                turns = await asyncio.gather(*asks)

                assert sum(turn.started for turn in turns) == 3
                # Ask again when all are in the queue: one that arrived late may have started before others.
                again = [
                    await hands[i % 4].ask(owner, slots(3, f"k{round_}"))
                    for i, owner in enumerate(owners)
                    if not turns[i].started
                ]
                assert sorted(turn.ahead for turn in again) == list(range(17))

    @needs(Capability.PROCESSES)
    async def test_a_pace_is_never_exceeded_in_any_span(self, store_url: str) -> None:
        async with self._hands(store_url, 4) as hands:
            max_count, per = 4, 0.2
            starts: list[float] = []

            async def work(number: int) -> None:
                for turn in range(2):
                    owner = f"o{number}-{turn}"
                    begun = await hands[number % 4].start(owner, pace(max_count, per))
                    assert begun.at is not None
                    starts.append(begun.at)
                    await hands[number % 4].finish(owner)

            await asyncio.gather(*(work(number) for number in range(16)))

            _check_pace(starts, max_count, per)
            assert len(starts) == 32

    @needs(Capability.PROCESSES)
    async def test_of_all_who_are_planned_at_one_instant_no_more_share_a_span_than_may(self, store_url: str) -> None:
        async with self._hands(store_url, 4) as hands:
            asks = [hands[i % 4].ask(f"o{i}", pace(3, 100.0), start=False) for i in range(30)]
            times = [turn.at for turn in await asyncio.gather(*asks)]

            _check_pace([at for at in times if at is not None], 3, 100.0)

    @needs(Capability.PROCESSES)
    async def test_limits_taken_in_any_order_never_wait_for_one_another(self, store_url: str) -> None:
        async with self._hands(store_url, 4) as hands:
            keys = [f"k{number}" for number in range(6)]
            inside: dict[str, int] = dict.fromkeys(keys, 0)

            async def work(number: int) -> None:
                chance = random.Random(number)
                hand = hands[number % 4]
                for turn in range(6):
                    mine = chance.sample(keys, 3)
                    owner = f"o{number}-{turn}"
                    await hand.start(owner, *(slots(2, key) for key in mine))
                    for key in mine:
                        inside[key] += 1
                        assert inside[key] <= 2
                    await asyncio.sleep(0.001)
                    for key in mine:
                        inside[key] -= 1
                    await hand.finish(owner)

            async with asyncio.timeout(60):
                await asyncio.gather(*(work(number) for number in range(12)))

    @needs(Capability.PROCESSES)
    async def test_several_limits_are_taken_together_or_not_at_all_when_many_ask(self, store_url: str) -> None:
        async with self._hands(store_url, 4) as hands:
            wide, narrow = slots(6, "wide"), slots(2, "narrow")
            torn: list[Any] = []

            async def watch() -> None:
                views = {view.key: view for view in await hands[3].limits.list()}
                if len(views) == 2:
                    both = {user.owner for user in views["narrow"].started}
                    if len(both) > 2 or not both <= {user.owner for user in views["wide"].started}:
                        torn.append(views)

            async def work(number: int) -> None:
                hand = hands[number % 3]
                for turn in range(5):
                    owner = f"o{number}-{turn}"
                    await hand.start(owner, *((wide, narrow) if number % 2 else (wide,)))
                    await hand.finish(owner)

            await _while(asyncio.gather(*(work(number) for number in range(12))), watch)

            assert torn == []

    @needs(Capability.PROCESSES)
    async def test_repeats_of_one_request_by_several_ways_are_one_reservation(self, store_url: str) -> None:
        async with self._hands(store_url, 4) as hands:
            for round_ in range(20):
                key = f"k{round_}"
                plan = Plan(f"o{round_}", "caller", "s0", (slots(9, key), pace(9, 60.0, f"p{round_}")), True)
                answers = await asyncio.gather(*(hand.limits.ask(plan) for hand in hands))
                assert len({answer.at for answer in answers if isinstance(answer, Turn)}) == 1
                views = {view.key: view for view in await hands[0].limits.list()}
                assert len(views[key].started) == len(views[f"p{round_}"].started) == 1
                ends = await asyncio.gather(*(hand.limits.finish("s0", plan.owner) for hand in hands))
                assert sum(end.known for end in ends) == 1

    @needs(Capability.PROCESSES)
    async def test_sweeping_takes_nothing_away_from_those_who_ask_meanwhile(self, store_url: str) -> None:
        async with self._hands(store_url, 5) as hands:
            inside: dict[str, int] = dict.fromkeys("xy", 0)

            async def work(number: int) -> None:
                hand = hands[number % 4]
                for turn in range(15):
                    owner = f"o{number}-{turn}"
                    await hand.start(owner, slots(1, "x"), slots(1, "y"))
                    for key in "xy":
                        inside[key] += 1
                        assert inside[key] == 1
                    await asyncio.sleep(0)
                    for key in "xy":
                        inside[key] -= 1
                    await hand.finish(owner)

            await _while(asyncio.gather(*(work(number) for number in range(4))), hands[4].sessions.sweep)


def _check_pace(starts: Sequence[float], max_count: int, per: float) -> None:
    micros = sorted(round(at * 1_000_000) for at in starts)
    for earlier, later in zip(micros, micros[max_count:], strict=False):
        assert later - earlier >= round(per * 1_000_000), f"{max_count + 1} starts within {(later - earlier) / 1e6} s"
