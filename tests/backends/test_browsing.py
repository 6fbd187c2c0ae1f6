"""Lists made of several bounded sources: paging shows everything once, in order, however little each look sees."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from interlock import App
from interlock.backends.browsing import Found, merged
from interlock.ports.job_views import JobFilter

if TYPE_CHECKING:
    from pathlib import Path


def look(numbers: list[int], before: int, scan: int, wanted: int) -> Found:
    """A source that looks at so many numbers below one, and keeps the multiples of another."""
    seen = [number for number in sorted(numbers, reverse=True) if number < before][:scan]
    return Found([number for number in seen if number % wanted == 0], seen[-1] if len(seen) == scan else None)


def test_paging_shows_everything_once_and_in_order() -> None:
    chance = random.Random(7)
    for _ in range(200):
        everything = chance.sample(range(1, 400), chance.randint(0, 120))
        parts: list[list[int]] = [[], [], []]
        for number in everything:
            chance.choice(parts).append(number)
        wanted = chance.choice((1, 3, 10))
        found: list[int] = []
        more: int | None = 10_000
        while more is not None:
            before = more
            sources = [look(part, before, chance.randint(1, 20), wanted) for part in parts]
            page, more = merged(sources, chance.randint(1, 10))
            assert more is None or more < before, "every look gets further"
            found += page

        assert found == sorted((number for number in everything if number % wanted == 0), reverse=True)


def test_nothing_of_nothing() -> None:
    assert merged([], 5) == ([], None)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_a_store_that_answers_slowly_shows_more_than_the_first_look_finds(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    url = f"sqlite:///{tmp_path}/bot.db" if store == "sqlite" else request.getfixturevalue("complete_postgres_url")
    async with App(url, namespace="mine") as mine, App(url, namespace="theirs") as theirs:
        wanted = await mine.job(name="work")(_nothing).enqueue()
        other = theirs.job(name="work")(_nothing)
        for _ in range(12):
            await other.enqueue()
        monkeypatch.setattr(f"interlock.backends.{store}.job_insight.SECONDS", -1.0)

        found = await mine.insight._stores.store.insight.numbers(JobFilter(), limit=9)

    assert (list(found.ids), found.more) == ([wanted.id], None)


async def _nothing() -> None:
    pass
