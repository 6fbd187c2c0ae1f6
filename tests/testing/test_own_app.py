"""Tests of one's own app: a fresh store for an app of a module, and time that the test moves."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from interlock import App, Cooldown, Retry
from interlock.errors import InvalidArgumentError, MisuseError
from interlock.jobs import JobState, Outcome
from interlock.testing import drain, fresh, virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable


class Note(BaseModel):
    """A record of the app."""

    id: str
    text: str = ""


# As a program has it: in a module, with concepts that were taken from it when it was imported.
app = App("sqlite:////nonexistent/bot.db")
LOCKS, NOTES = app.locks, app.records(Note)
RAN: list[tuple[str, datetime]] = []


def ran(name: str) -> None:
    RAN.append((name, NOW[0]()))


NOW: list[Callable[[], datetime]] = [lambda: datetime.now(UTC)]


@app.job()
async def note(name: str) -> None:
    async with LOCKS.acquire(f"note:{name}"):
        await NOTES.create(Note(id=name))
    ran(name)


async def write(record: Note) -> None:
    record.text = "written"


WRITING = app.pipeline("writing", NOTES, stages=[write])


@app.job(retry=Retry(attempts=3, delay=60, jitter=0))
async def flaky() -> None:
    ran("flaky")
    if len(RAN) < 3:
        raise ConnectionError("again")


@app.job(limits=[Cooldown("account", 90, key="{account}")])
async def report(account: str) -> None:
    ran(f"report {account}")


@app.cron("0 9 * * *")
async def daily() -> None:
    ran("daily")


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@pytest.mark.parametrize("turn", [1, 2])
async def test_each_test_gets_an_empty_store_for_everything_taken_from_the_app(turn: int) -> None:
    with fresh(app):
        async with app:
            await note.enqueue(name="a")
            assert await app.drain() == {Outcome.DONE: 1}
            assert (await WRITING.run("a")).record.text == "written"
            assert [found.id for found in await NOTES.list()] == ["a"]
            assert (await app.insight.explain("record", "Note/a")).reason == "free"
            assert (await app.jobs.explain(1)).reason == "done"
            assert len(await app.journal.list(kind="record")) >= 2
    assert [name for name, _ in RAN] == ["a"]


async def test_a_fresh_store_may_be_any_other(tmp_path: object) -> None:
    for _ in range(2):
        with fresh(app, f"sqlite:///{tmp_path}/fresh.db"):
            async with app:
                await note.options(delay=60).enqueue(name="a")
    with fresh(app, f"sqlite:///{tmp_path}/fresh.db"):
        async with app:
            assert len(await app.jobs.list()) == 2


async def test_the_app_gets_its_own_store_back(tmp_path: object) -> None:
    own = App(f"sqlite:///{tmp_path}/own.db")
    with fresh(own):
        assert own.store_name == "sqlite"
        async with own:
            await own.claims.claim("a")
    async with own:
        assert await own.claims.list() == []


async def test_a_store_is_not_replaced_under_an_open_app() -> None:
    own = App("memory://")
    with ExitStack() as stack:
        async with own:
            with pytest.raises(MisuseError, match="app is open"):
                stack.enter_context(fresh(own))
    with pytest.raises(MisuseError, match="before the end of the block"), fresh(own):
        await own.__aenter__()
    await own.__aexit__(None, None, None)


def test_the_fixture_replaces_the_stores_until_the_end_of_the_test(
    interlock_fresh: Callable[[App], App],
) -> None:
    async def use() -> None:
        async with interlock_fresh(app):
            await note.enqueue(name="a")
            await app.drain()

    asyncio.run(use())
    assert [name for name, _ in RAN] == ["a"]


# -- time --------------------------------------------------------------------------------------------------------------


async def test_what_is_due_runs_in_order_at_its_own_time() -> None:
    async with virtual_time(app, datetime(2027, 3, 1, 8, 0, tzinfo=UTC)) as time:
        NOW[0] = lambda: time.now
        await note.options(delay=timedelta(hours=2)).enqueue(name="later")
        await note.options(delay=30).enqueue(name="soon")
        assert await drain(app) == {}
        assert await drain(app, until=timedelta(hours=3)) == {Outcome.DONE: 3}
        assert time.now == datetime(2027, 3, 1, 11, 0, tzinfo=UTC)
    assert [(name, at.strftime("%H:%M:%S")) for name, at in RAN] == [
        ("soon", "08:00:30"),
        ("daily", "09:00:00"),
        ("later", "10:00:00"),
    ]


async def test_retries_and_cooldowns_take_virtual_time_only() -> None:
    async with virtual_time(app, datetime(2027, 3, 1, 10, 0, tzinfo=UTC)) as time:
        NOW[0] = lambda: time.now
        handle = await flaky.enqueue()
        assert await drain(app, until=600) == {Outcome.RETRY: 2, Outcome.DONE: 1}
        assert (await handle.status()).state is JobState.DONE
        assert RAN[1][1] - RAN[0][1] >= timedelta(seconds=59)
        RAN.clear()
        for _ in range(3):
            await report.enqueue(account="a1")
        await report.enqueue(account="b1")
        assert await drain(app, until=timedelta(minutes=10)) == {Outcome.DONE: 4}
        starts = [at for name, at in RAN if name == "report a1"]
        gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(starts)]
        assert all(90 <= gap < 92 for gap in gaps), gaps  # a start counts from the latest time at which it may happen


async def test_a_month_of_schedules_passes_at_once_and_the_session_lives_on() -> None:
    async with virtual_time(app, datetime(2027, 3, 1, 8, 0, tzinfo=UTC)) as time:
        NOW[0] = lambda: time.now
        async with app.locks.acquire("repo", ttl=3600 * 24 * 60):
            assert await drain(app, until=datetime(2027, 3, 31, 12, 0, tzinfo=UTC)) == {Outcome.DONE: 31}
            assert await app.locks.try_acquire("repo") is None
        assert {at.hour for _, at in RAN} == {9}


async def test_an_open_worker_sees_that_time_has_passed() -> None:
    async with virtual_time(app) as time, app.worker():
        handle = await note.options(delay=3600).enqueue(name="a")
        await time.advance(3601)
        await handle.result(wait=10)
        with pytest.raises(InvalidArgumentError):
            await time.advance(-1)
        with pytest.raises(InvalidArgumentError):
            await time.travel(time.now - timedelta(seconds=1))
        await time.travel(time.now + timedelta(days=1))


async def test_a_drain_to_a_time_needs_virtual_time() -> None:
    async with App("memory://") as own:
        with pytest.raises(MisuseError, match="no virtual time"):
            await drain(own, until=10)
