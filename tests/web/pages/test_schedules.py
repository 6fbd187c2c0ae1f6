"""Schedules: the list, the page with its buttons, and the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock import App
from interlock.errors import NotFoundError
from tests.web.pages.asking import Asker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Floor:
    def __init__(self, app: App) -> None:
        self.app = app
        self.asker = Asker(app, credentials=True)


@pytest.fixture
async def floor() -> AsyncIterator[Floor]:
    app = App("memory://")

    @app.job()
    async def report(account: str = "<b>a</b>") -> None:
        """Do nothing."""

    @app.cron("*/5 * * * *", timezone="Europe/Berlin")
    async def health() -> None:
        """Do nothing."""

    async with app:
        await app.schedules.save("nightly", job=report, cron="0 3 * * *", arguments={"account": "<i>x</i>"}, by="ann")
        yield Floor(app)


async def test_the_list_shows_every_schedule_and_why_it_does_not_fire(floor: Floor) -> None:
    page = (await floor.asker.get("/schedules")).text

    assert "/schedules/nightly" in page
    assert "every 5 minutes (Europe/Berlin)" in page
    assert "no live worker has the job" in page


async def test_the_page_shows_the_next_five_times_and_the_last_firings(floor: Floor) -> None:
    handle = await floor.app.schedules.trigger("nightly", by="ann")
    page = (await floor.asker.get("/schedules/nightly")).text

    assert page.count('data-key="next-') == 5
    assert "03:00 UTC (in" in page
    assert f"/jobs/{handle.id}" in page
    assert "triggered" in page
    assert "&lt;i&gt;x&lt;/i&gt;" in page
    assert "<i>x</i>" not in page
    assert (await floor.asker.get("/schedules/unknown")).status == 404


async def test_the_buttons_pause_resume_trigger_and_delete(floor: Floor) -> None:
    for act, said in (("pause", "is paused"), ("resume", "was resumed"), ("trigger", "was enqueued now")):
        answer = await floor.asker.post("/schedules/nightly", act=act, reason="a test")
        assert answer.status == 303
        assert said in (await floor.asker.get(answer.header("location") or "")).text
    deleted = await floor.asker.post("/schedules/nightly", act="delete", reason="a test")
    assert "was deleted" in (await floor.asker.get(deleted.header("location") or "")).text
    with pytest.raises(NotFoundError):
        await floor.app.schedules.get("nightly")
    refused = await floor.asker.post("/schedules/health", act="delete", reason="a test")
    assert "declared in the code" in refused.text
    journal = (await floor.asker.get("/api/journal?kind=schedule&key=nightly")).json["rows"]
    assert [entry["action"] for entry in journal][:4] == [
        "schedule.delete",
        "schedule.trigger",
        "schedule.resume",
        "schedule.pause",
    ]
    assert "/schedules/nightly" in (await floor.asker.get("/journal?kind=schedule&key=nightly")).text


async def test_schedules_are_data_too(floor: Floor) -> None:
    rows = (await floor.asker.get("/api/schedules")).json["rows"]
    one = (await floor.asker.get("/api/schedules/health")).json
    why = (await floor.asker.get("/api/explain/schedule/health")).json

    assert [row["name"] for row in rows] == ["health", "nightly"]
    assert len(one["next"]) == 5
    assert why["reason"] == "no-worker"


async def test_the_api_saves_with_a_version_check_and_backfills(floor: Floor) -> None:
    asker = floor.asker
    fields = {"act": "save", "job": "report", "every": "60", "arguments": '{"account": "a1"}'}
    saved = await asker.call("/api/schedules/minutely", fields)
    again = await asker.call("/api/schedules/minutely", fields | {"every": "90"})
    version = str(saved.json["version"])
    edited = await asker.call("/api/schedules/minutely", fields | {"every": "90", "version": version})
    wrong = await asker.call("/api/schedules/other", fields | {"every": "1"})
    span = {"start": "2027-01-01T00:00+00:00", "end": "2027-01-01T00:09+00:00"}
    filled = await asker.call("/api/schedules/minutely", {"act": "backfill", "reason": "lost", **span})

    assert (saved.status, again.status, edited.status, wrong.status) == (200, 409, 200, 400)
    assert len(filled.json["jobs"]) == 6
    assert (await floor.app.schedules.get("minutely")).every == 90
