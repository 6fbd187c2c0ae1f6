"""Flaws of other designs, each as a test that fails on the flawed design. Races run in separate processes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from interlock import App
from interlock.errors import PipelineError
from interlock.testing.processes import Worker
from tests.pipelines.intake import MACHINE, TTL, Intent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from interlock.records import Records


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that several processes can use."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/interlock.db"
    return str(request.getfixturevalue("complete_postgres_url"))


@asynccontextmanager
async def _open(url: str) -> AsyncIterator[tuple[App, Records[Intent]]]:
    app = App(url)
    intents = app.records(Intent, machine=MACHINE, correctable=["payload"])
    async with app:
        yield app, intents


async def test_f_b5_a_slow_stage_holds_nothing_and_corrects_its_own_record(url: str) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    async with _open(url) as (app, intents), _open(url) as (_, elsewhere):

        async def slow(intent: Intent) -> None:
            begun.set()
            await go_on.wait()
            async with asyncio.timeout(2):  # it would wait for itself
                await intents.correct(intent.id, {"payload.own": 1}, source="stage", reason="feedback")
                await intents.update(intent.id, {"count": 1})

        pipeline = app.pipeline("slow", intents, stages=[slow])
        await intents.create(Intent(id="a"))
        running = asyncio.create_task(pipeline.run("a"))
        await begun.wait()
        # Others change the record at once, in every way, although the stage has been running all the while.
        async with asyncio.timeout(2):
            await elsewhere.correct("a", {"payload.fixed": 1}, source="kana", reason="wrong", wait=0)
            await elsewhere.update("a", {"payload": {"fixed": 1, "more": 2}}, wait=0)
            async with elsewhere.edit("a", wait=0) as edited:
                edited.payload["edited"] = 3
        assert [lock for lock in await app.locks.list() if lock.holder is not None] == []
        go_on.set()
        run = await running
        assert run.record.payload == {"fixed": 1, "more": 2, "edited": 3, "own": 1}
        assert (run.record.count, run.record.status) == (1, "corrected")


async def test_f_b6_failfast_stores_the_failure(url: str) -> None:
    async with _open(url) as (app, intents), _open(url) as (_, elsewhere):

        async def broken(intent: Intent) -> None:
            intent.count = 99
            raise ValueError("out of order")

        pipeline = app.pipeline("broken", intents, stages=[broken])
        await intents.create(Intent(id="a"))
        with pytest.raises(PipelineError):
            await pipeline.run("a")
        stored = await elsewhere.get("a")
        assert (stored.status, stored.count) == ("failed", 0)
        actions = {entry.action for entry in await elsewhere.history("a")}
        assert {"record.stage_fail", "record.transition"} <= actions


async def test_f_b7_the_object_that_a_stage_returns_is_the_one_that_is_saved(url: str) -> None:
    async with _open(url) as (app, intents), _open(url) as (_, elsewhere):

        async def new_object(intent: Intent) -> Intent:
            return Intent(id=intent.id, status="normalized", count=5)

        async def copy(intent: Intent) -> Intent:
            return intent.model_copy(update={"count": intent.count + 1}, deep=True)

        pipeline = app.pipeline("objects", intents, stages=[new_object, copy])
        await intents.create(Intent(id="a"))
        run = await pipeline.run("a")
        stored = await elsewhere.get("a")
        assert stored == run.record
        assert (stored.status, stored.count) == ("normalized", 6)


async def test_a_second_run_waits_and_gets_the_stored_result_when_the_first_ends_in_time(url: str) -> None:
    async with _open(url) as (app, intents):
        await intents.create(Intent(id="a"))
        async with Worker.spawn("tests.pipelines.intake:run_slowly", (url,)) as first:
            await first.wait_for("begun", timeout=30)
            async with Worker.spawn("tests.pipelines.intake:run_meanwhile", (url, 30.0)) as second:
                await second.wait_for("running", timeout=30)
                while len(await app.jobs.list(name="pipeline.meeting")) < 2:
                    await asyncio.sleep(0.005)
                first.send("go on")
                assert await first.result(30) == {"state": "completed", "count": 1, "status": "completed"}
                assert await second.result(30) == {"state": "skipped", "count": 1, "status": "completed"}


async def test_a_second_run_times_out_when_the_first_does_not_end_in_time(url: str) -> None:
    async with _open(url) as (app, intents):
        await intents.create(Intent(id="a"))
        async with Worker.spawn("tests.pipelines.intake:run_slowly", (url,)) as first:
            await first.wait_for("begun", timeout=30)
            async with Worker.spawn("tests.pipelines.intake:run_meanwhile", (url, 0.2)) as second:
                answer = await second.result(30)
                assert "did not start within 0.2 s and was withdrawn" in answer["error"]
            first.send("go on")
            assert await first.result(30) == {"state": "completed", "count": 1, "status": "completed"}
        states = sorted(str(job.state) for job in await app.jobs.list(name="pipeline.meeting"))
        assert states == ["cancelled", "done"]


async def test_a_run_that_a_dead_process_left_is_continued_by_the_next_caller_without_a_worker(url: str) -> None:
    app = App(url, session_ttl=TTL)
    intents = app.records(Intent, machine=MACHINE, correctable=["payload"])

    async def slow(intent: Intent) -> None:
        intent.count += 1
        intent.status = "normalized"

    async def finish(intent: Intent) -> None:
        intent.status = "completed"

    pipeline = app.pipeline("meeting", intents, stages=[slow, finish])
    async with app:
        await intents.create(Intent(id="a"))
        async with Worker.spawn("tests.pipelines.intake:run_slowly", (url,)) as first:
            await first.wait_for("begun", timeout=30)
            first.kill()
        run = await pipeline.run("a", 60)
        assert (run.state, run.record.count, run.record.status) == ("skipped", 1, "completed")
        (other,) = [one for one in await pipeline.list("a") if one.id != run.id]
        assert (other.state, [stage.attempt for stage in other.stages]) == ("completed", [2, 1])
