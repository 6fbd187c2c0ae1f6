"""Workers fire by themselves: promptly, also after an edit by another process, and in a drain."""

from __future__ import annotations

import sqlite3
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock import App
from interlock.schedules import timing
from interlock.testing.clock import until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(timing, "MIN_EVERY", 0.05)
    if request.param == "postgres":
        return str(request.getfixturevalue("complete_postgres_url"))
    return f"sqlite:///{tmp_path}/interlock.db" if request.param == "sqlite" else "memory://"


def _bot(url: str) -> tuple[App, list[str]]:
    app, ran = App(url), list[str]()

    @app.job()
    async def note(text: str) -> None:
        ran.append(text)

    return app, ran


async def test_a_worker_fires_promptly_and_wakes_when_a_schedule_is_saved(url: str) -> None:
    app, ran = _bot(url)
    async with app, app.worker():
        await app.schedules.save("first", job="note", every=0.05, arguments={"text": "first"}, by="ann")
        await until(lambda: "first" in ran)
        await app.schedules.pause("first", by="ann", reason="so that there is no time to wait for")
        other = app if url.startswith("memory") else _bot(url)[0]
        async with nullcontext() if other is app else other:
            await other.schedules.save("s", job="note", every=0.2, arguments={"text": "a"}, by="ann")
            await until(lambda: ran.count("a") >= 3)
        firings = await app.schedules.firings("s")

    late = [(firing.fired_at - firing.at).total_seconds() for firing in firings[:2]]
    assert max(late) < 1.0


async def test_a_drain_fires_what_is_due_first(url: str) -> None:
    app, ran = _bot(url)
    async with app:
        await app.schedules.save("s", job="note", every=0.05, arguments={"text": "a"}, by="ann")

        async def ran_in_a_drain() -> bool:
            await app.drain()
            return bool(ran)

        await until(ran_in_a_drain)
        assert (await app.schedules.get("s")).fired >= 1


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_a_bad_row_is_switched_off_when_a_worker_starts(url: str) -> None:
    app, ran = _bot(url)
    told: list[str] = []

    @app.schedules.on_switched_off
    async def tell(schedule: Any) -> None:
        told.append(f"{schedule.name}: {schedule.state_reason}")

    async with app:
        for name in ("bad", "good"):
            await app.schedules.save(name, job="note", every=0.2, arguments={"text": name}, by="ann")
        await _edit_by_sql(url)
        async with app.worker():
            await until(lambda: "good" in ran and told)
        assert (await app.schedules.get("bad")).state == "off"
        assert told == ["bad: Invalid interval -5.0."]
        problems = [problem.text for problem in (await app.insight.overview()).problems]
        assert any("schedule 'bad' was switched off" in text for text in problems)


async def _edit_by_sql(url: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db:
            db.execute("update interlock_schedule set every = -5000000 where name = 'bad'")
            db.commit()
        return
    connection = await asyncpg.connect(url)
    await connection.execute("update interlock.schedule set every = -5000000 where name = 'bad'")
    await connection.close()
