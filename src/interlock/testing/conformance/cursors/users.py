"""The public class ``Cursors``."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from interlock.cursors import Cursor, Cursors
from interlock.errors import ConcurrencyConflictError, InvalidArgumentError
from interlock.ports.store import Capability
from interlock.testing.conformance.base import StoreSuite, needs

if TYPE_CHECKING:
    from interlock.cursors import Position

__all__ = ["CursorsConformance"]


class CursorsConformance(StoreSuite):
    """The promises of ``Cursors``."""

    async def test_a_cursor_moves_from_where_it_was_read(self, store_url: str) -> None:
        async with Cursors.from_url(store_url) as cursors:
            notes: Cursor[datetime] = cursors["gitlab:notes"]
            assert await notes.read() is None

            first = await notes.move(datetime(2026, 1, 1, tzinfo=UTC), after=None)
            second = await notes.move(datetime(2026, 1, 2, tzinfo=UTC), after=first)

            assert await notes.read() == second
            assert second.value == datetime(2026, 1, 2, tzinfo=UTC)
            assert second.version > first.version
            assert await notes.history() == [second, first]

    async def test_a_poller_that_was_overtaken_is_told_and_changes_nothing(self, store_url: str) -> None:
        async with Cursors.from_url(store_url) as cursors:
            cursor: Cursor[int] = cursors["c"]
            start = await cursor.move(1, after=None)
            moved = await cursor.move(2, after=start)

            with pytest.raises(ConcurrencyConflictError, match="was moved by"):
                await cursor.move(0, after=start)
            with pytest.raises(ConcurrencyConflictError, match="was moved by"):
                await cursor.move(0, after=None)
            assert await cursor.read() == moved

    async def test_of_many_who_move_it_one_does(self, store_url: str) -> None:
        async with Cursors.from_url(store_url) as cursors:
            cursor: Cursor[int] = cursors["c"]

            async def move(value: int) -> Position[int] | None:
                try:
                    return await cursor.move(value, after=None)
                except ConcurrencyConflictError:
                    return None

            moved = [position for position in await asyncio.gather(*map(move, range(20))) if position]
            assert moved == [await cursor.read()]

    async def test_the_last_moves_are_kept(self, store_url: str) -> None:
        async with Cursors.from_url(store_url) as cursors:
            cursor: Cursor[int] = cursors["c"]
            position = None
            for value in range(25):
                position = await cursor.move(value, after=position)

            assert [past.value for past in await cursor.history()] == list(range(24, 4, -1))

    async def test_forgetting(self, store_url: str) -> None:
        async with Cursors.from_url(store_url) as cursors:
            cursor: Cursor[str] = cursors["c"]
            before = await cursor.move("x", after=None)

            assert [view.name for view in await cursors.list()] == ["c"]
            assert await cursors.forget("c", by="ann", reason="begin anew")
            assert await cursors.forget("c", by="ann", reason="begin anew") is None
            assert await cursor.read() is None
            with pytest.raises(ConcurrencyConflictError, match="does not exist"):
                await cursor.move("y", after=before)
            assert (await cursor.move("z", after=None)).version > before.version

    async def test_bad_values_are_refused(self, store_url: str) -> None:
        async with Cursors.from_url(store_url) as cursors:
            for value in (float("inf"), object(), datetime(2026, 1, 1), "x" * 70_000):  # noqa: DTZ001
                with pytest.raises(InvalidArgumentError):
                    await cursors["c"].move(value, after=None)
            with pytest.raises(InvalidArgumentError):
                cursors[""]
            assert list(await cursors.list()) == []

    @needs(Capability.PROCESSES)
    async def test_a_cursor_outlives_its_process(self, store_url: str) -> None:
        async with Cursors.from_url(store_url) as before:
            moved = await before["c"].move({"page": 7, "seen": ["a", "b"]}, after=None)
        async with Cursors.from_url(store_url) as after:
            assert await after["c"].read() == moved
