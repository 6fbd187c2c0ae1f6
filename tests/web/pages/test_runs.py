"""Runs of pipelines on the pages of their jobs and records, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from interlock import App
from interlock.errors import PipelineError
from tests.web.pages.asking import Asker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Note(BaseModel):
    id: str
    count: int = 0


class Floor:
    def __init__(self, app: App, good: int, bad: int, waiting: int) -> None:
        self.asker = Asker(app)
        self.good, self.bad, self.waiting = good, bad, waiting


@pytest.fixture
async def floor() -> AsyncIterator[Floor]:
    app = App("memory://")
    notes = app.records(Note)

    async def first(note: Note) -> None:
        note.count += 1

    async def second(note: Note) -> None:
        if note.id == "<b>bad</b>":
            raise ValueError("<i>out of order</i>")

    pipeline = app.pipeline("intake", notes, stages=[first, second])
    async with app:
        for name in ("good", "<b>bad</b>"):
            await notes.create(Note(id=name))
        good = (await pipeline.run("good")).id
        with pytest.raises(PipelineError) as caught:
            await pipeline.run("<b>bad</b>")
        yield Floor(app, good, caught.value.job, (await pipeline.enqueue("good")).id)


async def test_the_page_of_a_job_shows_the_stages_of_its_run(floor: Floor) -> None:
    good = (await floor.asker.get(f"/jobs/{floor.good}")).text
    bad = (await floor.asker.get(f"/jobs/{floor.bad}")).text
    waiting = (await floor.asker.get(f"/jobs/{floor.waiting}")).text

    assert "Run of intake" in good
    assert good.count(">completed after ") == 2
    assert "/records/Note/good" in good
    assert "failed after" in bad
    assert "<i>out of order</i>" not in bad
    assert "&lt;i&gt;out of order&lt;/i&gt;" in bad
    assert "It has not started" in waiting


async def test_the_page_of_a_record_shows_its_runs(floor: Floor) -> None:
    page = (await floor.asker.get("/records/Note/good")).text

    assert "Run of intake" in page
    assert f"run {floor.good}" in page
    assert "Stage <bdi>first</bdi> started" in page
    assert "Stage <bdi>second</bdi> completed" in page


async def test_runs_are_data_too(floor: Floor) -> None:
    rows = (await floor.asker.get("/api/runs")).json["rows"]
    failed = (await floor.asker.get("/api/runs?state=failed&pipeline=intake")).json["rows"]
    of_record = (await floor.asker.get("/api/runs?record=Note/good")).json["rows"]
    one = (await floor.asker.get(f"/api/runs/{floor.good}")).json
    unknown = await floor.asker.get("/api/runs/999999")
    wrong = await floor.asker.get("/api/runs?state=sometimes")

    assert [row["id"] for row in rows] == [floor.bad, floor.good]
    assert [row["id"] for row in failed] == [floor.bad]
    assert [row["id"] for row in of_record] == [floor.good]
    assert [stage["name"] for stage in one["run"]["stages"]] == ["first", "second"]
    assert (unknown.status, wrong.status) == (404, 400)
