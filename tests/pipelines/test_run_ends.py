"""The ends of runs: which requests they answer, and how long they are kept."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock import App
from interlock.backends.postgres.queries import PipelineQueries
from interlock.errors import PipelineError
from interlock.jobs.jobs import engine_of
from tests.pipelines.documents import Document, nothing

if TYPE_CHECKING:
    from interlock.ports.pipelines import Checkpoint


class Gate:
    """A stage that waits until it may go on."""

    name = "gate"

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        self.passed = 0

    async def run(self, document: Document) -> None:
        self.reached.set()
        await self.open.wait()
        self.passed += 1


async def test_a_run_that_was_asked_for_after_the_end_of_the_last_one_is_not_skipped(url: str) -> None:
    app = App(url)
    documents, gate = app.records(Document), Gate()
    pipeline = app.pipeline("p", documents, stages=[gate])
    async with app, app.worker():
        await documents.create(Document(id="a"))
        first = await pipeline.enqueue("a")
        async with asyncio.timeout(20):
            await gate.reached.wait()
        meanwhile = await pipeline.enqueue("a")
        await app.lanes.hold(pipeline.lane("a"), by="test", reason="so that the third comes before the second starts")
        gate.open.set()
        assert (await first.result()).state == "completed"
        afterwards = await pipeline.enqueue("a")
        await app.lanes.release(pipeline.lane("a"), by="test", reason="both have been asked for")
        assert (await meanwhile.result()).state == "skipped"
        assert (await afterwards.result()).state == "completed"
        assert gate.passed == 2


async def test_a_run_whose_record_is_deleted_has_failed(url: str) -> None:
    app = App(url)
    documents, gate = app.records(Document), Gate()
    pipeline = app.pipeline("p", documents, stages=[gate, nothing])
    async with app:
        await documents.create(Document(id="a"))
        caller = asyncio.create_task(pipeline.run("a"))
        async with asyncio.timeout(20):
            await gate.reached.wait()
        await documents.delete("a")
        gate.open.set()
        with pytest.raises(PipelineError):
            await caller
        (run,) = await pipeline.list("a")
        assert run.state == "failed"


async def test_a_run_is_kept_while_its_job_is(url: str) -> None:
    app = App(url)
    documents = app.records(Document)
    pipeline = app.pipeline("p", documents, stages=[nothing])
    async with app:
        await documents.create(Document(id="a"))
        jobs: Any = engine_of(app.jobs).jobs
        acknowledge, ended, go_on = jobs.acknowledge, asyncio.Event(), asyncio.Event()

        async def slow(*args: Any, **options: Any) -> Any:
            ended.set()
            await go_on.wait()
            return await acknowledge(*args, **options)

        jobs.acknowledge = slow
        caller = asyncio.create_task(pipeline.run("a"))
        async with asyncio.timeout(20):
            await ended.wait()
        # If the process died now, the next one would have to know what the run has behind it.
        removed = await pipeline.engine.store_client.store.pipelines.prune(-1.0)
        go_on.set()
        await caller
        assert removed == 0


async def test_a_checkpoint_that_is_repeated_while_its_commit_is_slow_is_stored_once(
    complete_postgres_url: str,
) -> None:
    app = App(complete_postgres_url)
    documents = app.records(Document)
    pipeline = app.pipeline("p", documents, stages=[nothing])
    one, two = await asyncpg.connect(complete_postgres_url), await asyncpg.connect(complete_postgres_url)
    async with app:
        await documents.create(Document(id="a"))
        store: Any = pipeline.engine.store_client.store.pipelines
        save, sql = store.save, PipelineQueries().save

        async def save_twice(checkpoint: Checkpoint) -> Any:
            if checkpoint.step == 1:
                args = store._arguments(checkpoint)
                async with one.transaction():
                    await one.fetch(sql, *args)
                    again = asyncio.create_task(two.fetch(sql, *args))
                    await _until_blocked(one, two)
                await again
            return await save(checkpoint)

        store.save = save_twice
        await pipeline.run("a")
        actions = [entry.action for entry in await documents.history("a")]
        assert actions.count("record.stage_start") == 1
    await one.close()
    await two.close()


async def _until_blocked(by: Any, connection: Any) -> None:
    async with asyncio.timeout(20):
        while by.get_server_pid() not in await by.fetchval("select pg_blocking_pids($1)", connection.get_server_pid()):
            await asyncio.sleep(0.01)
