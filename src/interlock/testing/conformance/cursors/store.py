"""The cursors port: positions that move by compare-and-set, and their history."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from interlock.ports.cursors import MOVES_KEPT, CursorView, Move, Moved, Overtaken
from interlock.ports.store import Capability
from interlock.testing.clock import VirtualClock
from interlock.testing.conformance.base import needs
from interlock.testing.conformance.driver import ANN, DriverSuite

if TYPE_CHECKING:
    from interlock.ports.cursors import CursorStore

__all__ = ["CursorStoreConformance"]

_BY = "poller@host:7"


async def moved(cursors: CursorStore, expected: int, value: str, id: str = "", name: str = "c") -> CursorView:  # noqa: A002
    """Move, expect success, and return the new position."""
    answer = await cursors.move(Move(name, expected, value, id or f"{name}:{value}", _BY))
    assert isinstance(answer, Moved), answer
    return answer.view


async def overtaken(cursors: CursorStore, expected: int, value: str, name: str = "c") -> CursorView | None:
    """Move, expect a refusal, and return the current position."""
    answer = await cursors.move(Move(name, expected, value, f"refused:{name}:{value}", _BY))
    assert isinstance(answer, Overtaken), answer
    return answer.view


class CursorStoreConformance(DriverSuite):
    """The promises of the cursors port."""

    async def test_a_cursor_that_was_never_moved_is_none(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            assert await b.store.cursors.read("c") is None
            assert await b.store.cursors.history("c") == []
            assert await b.store.cursors.list() == []
            assert await b.store.cursors.forget("c", ANN) is None

    async def test_a_move_is_read_back(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            view = await moved(b.store.cursors, 0, '{"page": "ключ 🔑"}')

            assert (view.name, view.value, view.by) == ("c", '{"page": "ключ 🔑"}', _BY)
            assert view.version > 0
            assert view.moved_at == pytest.approx(b.clock.now(), abs=0.01)
            assert await b.store.cursors.read("c") == view

    async def test_a_cursor_moves_from_the_version_that_was_read(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            first = await moved(b.store.cursors, 0, "1")
            b.clock.advance(5)
            second = await moved(b.store.cursors, first.version, "2")

            assert second.version > first.version
            assert second.moved_at == pytest.approx(b.clock.now(), abs=0.01)
            assert await b.store.cursors.read("c") == second

    async def test_a_cursor_that_stands_elsewhere_is_not_moved(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            first = await moved(b.store.cursors, 0, "1")
            second = await moved(b.store.cursors, first.version, "2")

            for expected in (0, first.version, second.version + 1):
                assert await overtaken(b.store.cursors, expected, "3") == second
            assert await b.store.cursors.read("c") == second
            assert await b.store.cursors.history("c") == [second, first]

    async def test_a_cursor_that_is_not_there_is_not_moved_from_a_version(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            assert await overtaken(b.store.cursors, 7, "1") is None
            assert await b.store.cursors.read("c") is None

    async def test_repeating_a_move_finds_it_done(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            first = await moved(b.store.cursors, 0, "1", "one")
            b.clock.advance(5)
            assert await moved(b.store.cursors, 0, "1", "one") == first
            second = await moved(b.store.cursors, first.version, "2", "two")
            b.clock.advance(5)
            assert await moved(b.store.cursors, first.version, "2", "two") == second

            assert await b.store.cursors.read("c") == second
            assert await b.store.cursors.history("c") == [second, first]

    async def test_repeating_a_move_after_another_one_finds_it_done_and_changes_nothing(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            first = await moved(b.store.cursors, 0, "1", "one")
            second = await moved(b.store.cursors, first.version, "2", "two")

            assert await moved(b.store.cursors, 0, "1", "one") == first
            assert await b.store.cursors.read("c") == second

    async def test_an_id_counts_for_one_cursor(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            one = await moved(b.store.cursors, 0, "1", "same", "x")
            two = await moved(b.store.cursors, 0, "2", "same", "y")

            assert (one.value, two.value) == ("1", "2")

    async def test_the_last_moves_are_remembered_the_newest_first(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            moves: list[CursorView] = []
            for number in range(MOVES_KEPT + 5):
                b.clock.advance(1)
                moves.insert(0, await moved(b.store.cursors, moves[0].version if moves else 0, f"{number}"))

            assert list(await b.store.cursors.history("c")) == moves[:MOVES_KEPT]

    async def test_forgetting_removes_a_cursor_and_its_history(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            first = await moved(b.store.cursors, 0, "1")
            second = await moved(b.store.cursors, first.version, "2")

            assert await b.store.cursors.forget("c", ANN) == second
            assert await b.store.cursors.forget("c", ANN) is None
            assert await b.store.cursors.read("c") is None
            assert await b.store.cursors.history("c") == []
            assert await b.store.cursors.list() == []

    async def test_no_version_ever_comes_back(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            fence = await b.granted("a1")
            old = await moved(b.store.cursors, 0, "1", "one")
            await b.store.cursors.forget("c", ANN)
            assert await overtaken(b.store.cursors, old.version, "2") is None
            new = await moved(b.store.cursors, 0, "1", "one")

            assert fence < old.version < new.version
            assert await overtaken(b.store.cursors, old.version, "2") == new
            assert await b.granted("a2", "other") > new.version

    async def test_a_look_shows_all_cursors_by_name(self, store_url: str) -> None:
        names = ["b", "a/2", "B", "a'", "é", "a%", "🔑"]
        async with self.driver(store_url) as b:
            views = [await moved(b.store.cursors, 0, "1", name=name) for name in names]
            await moved(b.store.cursors, views[0].version, "2", name="b")

            found = await b.store.cursors.list()
            assert [(view.name, view.value) for view in found] == [
                (name, "2" if name == "b" else "1") for name in sorted(names)
            ]
            assert [view.name for view in await b.store.cursors.list(limit=2)] == sorted(names)[:2]

    async def test_namespaces_do_not_see_one_anothers_cursors(self, store_url: str) -> None:
        clock = VirtualClock()
        async with (
            self.driver(store_url, clock, namespace=f"{self.namespace}-one") as one,
            self.driver(store_url, clock, namespace=f"{self.namespace}-two") as two,
        ):
            await moved(one.store.cursors, 0, "1")

            assert await two.store.cursors.read("c") is None
            assert await two.store.cursors.list() == []
            assert await two.store.cursors.forget("c", ANN) is None
            await moved(two.store.cursors, 0, "2")
            view = await one.store.cursors.read("c")
            assert view is not None
            assert view.value == "1"

    @needs(Capability.DURABLE)
    async def test_a_cursor_is_found_where_it_was_by_the_next_process(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            view = await moved(b.store.cursors, 0, "1")
        async with self.driver(store_url) as b:
            assert await b.store.cursors.read("c") == view
            assert await b.store.cursors.history("c") == [view]

    @needs(Capability.PROCESSES)
    async def test_of_all_who_move_a_cursor_at_once_one_does(self, store_url: str) -> None:
        clock = VirtualClock()
        async with AsyncExitStack() as stack:
            drivers = [await stack.enter_async_context(self.driver(store_url, clock)) for _ in range(8)]
            stores = [driver.store.cursors for driver in drivers]
            version = 0
            for round_ in range(MOVES_KEPT + 10):
                moves = [Move("c", version, f"{round_}-{i}", f"{round_}-{i}", _BY) for i in range(16)]
                answers: list[Any] = await asyncio.gather(
                    *(stores[i % len(stores)].move(move) for i, move in enumerate(moves))
                )
                (won,) = [answer.view for answer in answers if isinstance(answer, Moved)]
                lost = [answer.view for answer in answers if isinstance(answer, Overtaken)]
                assert lost == [won] * 15
                assert won.version > version
                version = won.version
            history = await stores[0].history("c")

            assert len(history) == MOVES_KEPT
            assert history[0].version == version

    @needs(Capability.PROCESSES)
    async def test_repeats_of_one_move_by_several_ways_are_one_move(self, store_url: str) -> None:
        clock = VirtualClock()
        async with AsyncExitStack() as stack:
            drivers = [await stack.enter_async_context(self.driver(store_url, clock)) for _ in range(5)]
            version = 0
            for round_ in range(15):
                move = Move("c", version, f"{round_}", f"{round_}", _BY)
                answers: list[Any] = await asyncio.gather(*(driver.store.cursors.move(move) for driver in drivers))
                assert answers == [Moved(answers[0].view)] * 5
                version = answers[0].view.version

            assert len(await drivers[0].store.cursors.history("c")) == 15
