"""``interlock pipelines``: lists and single runs, with the stage that each is at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from interlock import App
from interlock.errors import PipelineError
from tests.cli.job_floor import data, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class Note(BaseModel):
    id: str
    count: int = 0


async def first(note: Note) -> None:
    note.count += 1


async def second(note: Note) -> None:
    if note.id == "bad":
        raise ValueError("out of order")


@pytest.fixture
async def runs(jobs_url: str) -> AsyncIterator[tuple[int, int, int]]:
    """A completed, a failed and a waiting run."""
    app = App(jobs_url)
    notes = app.records(Note)
    pipeline = app.pipeline("intake", notes, stages=[first, second])
    async with app:
        for name in ("good", "bad", "later"):
            await notes.create(Note(id=name))
        good = (await pipeline.run("good")).id
        with pytest.raises(PipelineError) as caught:
            await pipeline.run("bad")
        yield good, caught.value.job, (await pipeline.enqueue("later")).id


async def test_runs_are_listed_with_their_stages(
    cli: Callable[..., Any], jobs_url: str, runs: tuple[int, int, int]
) -> None:
    good, bad, _ = runs
    text = await run(cli, jobs_url, "pipelines", "list")
    listed = await data(cli, jobs_url, "pipelines", "list")
    failed = await data(cli, jobs_url, "pipelines", "list", "--state", "failed", "--pipeline", "intake")
    of_record = await data(cli, jobs_url, "pipelines", "list", "--record", "Note/good")
    nothing = await run(cli, jobs_url, "pipelines", "list", "--pipeline", "other")

    assert "Note/bad" in text.stdout
    assert "1/2 second" in text.stdout
    assert [row["id"] for row in listed] == [bad, good]
    assert [(row["id"], row["error"]) for row in failed] == [(bad, "ValueError: out of order")]
    assert [row["id"] for row in of_record] == [good]
    assert "No runs match." in nothing.stderr


async def test_a_run_is_shown_with_durations_and_explained(
    cli: Callable[..., Any], jobs_url: str, runs: tuple[int, int, int]
) -> None:
    good, bad, later = runs
    text = await run(cli, jobs_url, "pipelines", "show", str(bad))
    page = await data(cli, jobs_url, "pipelines", "show", str(good))
    waiting = await run(cli, jobs_url, "pipelines", "show", str(later))
    why = await data(cli, jobs_url, "explain", "run", str(bad))
    of_job = await data(cli, jobs_url, "jobs", "explain", str(bad))

    assert "failed" in text.stdout
    assert "at stage 2 of 2, 'second': ValueError: out of order" in " ".join(text.stdout.split())
    assert [stage["state"] for stage in page["run"]["stages"]] == ["completed", "completed"]
    assert all(stage["seconds"] >= 0 for stage in page["run"]["stages"])
    assert "has not started" in waiting.stdout
    assert why["run"]["stage"] == {"name": "second", "state": "failed", "attempt": 1}
    assert of_job["run"] == why["run"]
