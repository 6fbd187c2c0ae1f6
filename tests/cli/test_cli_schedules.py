"""``interlock schedules``: listing, editing with a version check, and what people do with schedules."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App
from tests.cli.job_floor import data, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

BOT = """
from interlock import App

app = App({url!r})


@app.job()
async def report(account: str) -> None:
    pass
"""


@pytest.fixture
async def saved(jobs_url: str) -> AsyncIterator[App]:
    """A store with one schedule, in an app that is open."""
    app = App(jobs_url)

    @app.job()
    async def report(account: str) -> None:
        """Do nothing."""

    async with app:
        await app.schedules.save("nightly", job=report, cron="0 3 * * *", arguments={"account": "a1"}, by="ann")
        yield app


async def test_schedules_are_listed_shown_and_explained(cli: Callable[..., Any], jobs_url: str, saved: App) -> None:
    text = await run(cli, jobs_url, "schedules", "list")
    (row,) = await data(cli, jobs_url, "schedules", "list")
    shown = await run(cli, jobs_url, "schedules", "show", "nightly")
    why = await data(cli, jobs_url, "explain", "schedule", "nightly")
    times = await data(cli, jobs_url, "schedules", "preview", "nightly", "--count", "2")

    assert "nightly" in text.stdout
    assert (row["state"], row["words"]) == ("active", "at 03:00 every day (UTC)")
    assert "Next: " in shown.stdout
    assert why["reason"] == "no-worker"
    assert len(times["next"]) == 2


async def test_people_pause_resume_trigger_backfill_and_delete(
    cli: Callable[..., Any], jobs_url: str, saved: App
) -> None:
    await run(cli, jobs_url, "schedules", "pause", "nightly", "--reason", "moving")
    assert (await saved.schedules.get("nightly")).state == "paused"
    await run(cli, jobs_url, "schedules", "resume", "nightly")
    assert (await saved.schedules.get("nightly")).state == "active"
    triggered = await data(cli, jobs_url, "schedules", "trigger", "nightly")
    span = ("--start", "2027-01-01T00:00+00:00", "--end", "2027-01-04T00:00+00:00")
    filled = await data(cli, jobs_url, "schedules", "backfill", "nightly", *span, "--reason", "lost")
    jobs = await saved.jobs.list(name="report")
    assert {job.id for job in jobs} == {triggered["job"], *filled["jobs"]}
    assert len(filled["jobs"]) == 3
    await run(cli, jobs_url, "schedules", "delete", "nightly", "--reason", "x", "--yes")
    assert await saved.schedules.list() == []


async def test_saving_validates_with_the_app_and_checks_the_version(
    cli: Callable[..., Any], jobs_url: str, saved: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = f"bot_{abs(hash(jobs_url))}"  # another one for each store: modules are imported once
    (tmp_path / f"{module}.py").write_text(BOT.format(url=jobs_url))
    version = (await saved.schedules.get("nightly")).version
    save = ("schedules", "save", "nightly", "--app", f"{module}:app")
    refused = await asyncio.to_thread(cli, *save, "--grace", "5")
    edited = await asyncio.to_thread(cli, *save, "--every", "3600", "--version", str(version), "--json")
    replaced = json.loads(edited.stdout)["version"]
    wrong = await asyncio.to_thread(cli, *save, "--every", "1", "--version", str(replaced))

    assert (refused.exit_code, edited.exit_code, wrong.exit_code) == (1, 0, 2)
    assert "concurrency-conflict" in refused.output
    assert "Invalid interval" in wrong.output
    schedule = await saved.schedules.get("nightly")
    assert (schedule.every, schedule.cron, schedule.arguments) == (3600, None, {"account": "a1"})
