"""Direct runs and their callers: what has started goes on, and what has not leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Retry
from interlock.errors import DeadlockError, MisuseError
from interlock.jobs.jobs import engine_of
from interlock.jobs.worker.direct import direct_worker_of
from interlock.ports.records import lock_key
from interlock.testing.clock import until
from tests.pipelines.documents import Document, nothing, run_states

if TYPE_CHECKING:
    from interlock.ports.jobs import FetchRequest

ONCE_MORE = Retry(attempts=3, delay=1, transient=(ValueError,))


class FailsOnce:
    """A stage whose first attempt fails."""

    name = "fails-once"

    def __init__(self) -> None:
        self.failed = asyncio.Event()

    async def run(self, document: Document) -> None:
        if not self.failed.is_set():
            self.failed.set()
            raise ValueError("once")
        document.payload["done"] = True


async def count(document: Document) -> None:
    document.count += 1


async def test_a_started_run_that_waits_for_its_retry_is_not_withdrawn(url: str) -> None:
    app = App(url)
    documents = app.records(Document)
    pipeline = app.pipeline("p", documents, stages=[count, FailsOnce()], retry=ONCE_MORE)
    async with app:
        await documents.create(Document(id="a"))
        run = await pipeline.run("a", wait=0.2)
        assert (run.state, run.record.count, run.record.payload) == ("completed", 1, {"done": True})


async def test_a_started_run_goes_on_without_its_caller_and_without_a_worker(url: str) -> None:
    app = App(url)
    documents, stage = app.records(Document), FailsOnce()
    pipeline = app.pipeline("p", documents, stages=[count, stage], retry=ONCE_MORE)
    async with app:
        await documents.create(Document(id="a"))
        caller = asyncio.create_task(pipeline.run("a", wait=60))

        async def waits_for_its_retry() -> bool:
            return await run_states(app) == ["scheduled"]

        async def is_done() -> bool:
            return await run_states(app) == ["done"]

        await until(waits_for_its_retry)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await until(is_done)
        assert (await documents.get("a")).count == 1


async def test_a_caller_that_is_cancelled_while_it_enqueues_leaves_no_run(url: str) -> None:
    app = App(url)
    documents = app.records(Document)
    pipeline = app.pipeline("p", documents, stages=[nothing])
    async with app:
        await documents.create(Document(id="a"))
        await app.lanes.hold(pipeline.lane("a"), by="test", reason="so that it cannot start")
        jobs: Any = engine_of(app.jobs).jobs
        enqueue, stored, go_on = jobs.enqueue, asyncio.Event(), asyncio.Event()

        async def slow(*args: Any, **options: Any) -> Any:
            made = await enqueue(*args, **options)
            stored.set()
            await go_on.wait()
            return made

        jobs.enqueue = slow
        caller = asyncio.create_task(pipeline.run("a"))
        async with asyncio.timeout(20):
            await stored.wait()
        caller.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await caller

        async def is_withdrawn() -> bool:
            return await run_states(app) == ["cancelled"]

        await until(is_withdrawn)


async def test_a_caller_that_would_wait_for_itself_leaves_no_run(url: str) -> None:
    app = App(url)
    documents = app.records(Document)
    pipeline = app.pipeline("p", documents, stages=[count])

    @app.job(lane="Document:{name}", retry=Retry.NEVER)
    async def in_the_same_lane(name: str) -> None:
        with pytest.raises(DeadlockError):
            await pipeline.run(name)

    async with app, app.worker():
        await documents.create(Document(id="a"))
        await (await in_the_same_lane.enqueue(name="a")).result(wait=20)
        assert await run_states(app) == ["cancelled"]
        assert (await documents.get("a")).count == 0


async def test_a_drain_waits_for_a_run_that_was_fetched_for_a_caller_who_has_left(url: str) -> None:
    app = App(url)
    documents, go_on = app.records(Document), asyncio.Event()

    async def slow(document: Document) -> None:
        await go_on.wait()
        document.count += 1

    pipeline = app.pipeline("p", documents, stages=[slow])
    async with app:
        await documents.create(Document(id="a"))
        engine = engine_of(app.jobs)
        jobs: Any = engine.jobs
        fetch, asks, enqueued, fetched = jobs.fetch, asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def late(request: FetchRequest) -> Any:
            if not request.lanes:
                return await fetch(request)
            asks.set()
            await enqueued.wait()
            found = await fetch(request)
            fetched.set()
            return found

        jobs.fetch = late
        engine.direct_names.add("pipeline.p")
        async with asyncio.timeout(20):
            with direct_worker_of(engine, "default").serving(pipeline.lane("a")):
                await asks.wait()
            run = await pipeline.enqueue("a")
            enqueued.set()
            await fetched.wait()
        asyncio.get_running_loop().call_later(0.2, go_on.set)
        await app.drain()
        assert (await run.view()).state == "completed"


async def test_a_run_of_another_pipeline_that_a_dead_process_left_is_run_first(url: str) -> None:
    app = App(url)
    documents = app.records(Document)
    one = app.pipeline("one", documents, stages=[nothing])
    two = app.pipeline("two", documents, stages=[count])
    async with app:
        await documents.create(Document(id="a"))
        left = await two.enqueue("a")
        assert (await one.run("a", wait=20)).state == "completed"
        assert (await left.view()).state == "completed"


async def test_a_task_that_edits_a_record_cannot_wait_for_its_run(url: str) -> None:
    app = App(url)
    documents = app.records(Document)
    pipeline = app.pipeline("p", documents, stages=[count])
    async with app:
        await documents.create(Document(id="a"))
        handle = await pipeline.enqueue("a")
        async with documents.edit("a"):
            with pytest.raises(MisuseError, match="would have to wait for this task"):
                await handle.result()


async def test_a_run_does_not_belong_to_the_edit_of_the_first_caller(url: str) -> None:
    app = App(url)
    documents = app.records(Document)

    async def change_another(document: Document) -> None:
        await documents.update("a", {"count": 1}, wait=20)

    first = app.pipeline("first", documents, stages=[nothing])
    second = app.pipeline("second", documents, stages=[change_another])
    async with app:
        for name in "abc":
            await documents.create(Document(id=name))

        async def is_waited_for() -> object:
            return (await app.locks.get(lock_key("Document", "a"))).waiters

        async with documents.edit("a"):
            await first.run("b")  # starts the direct worker
            other = asyncio.create_task(second.run("c", wait=20), context=contextvars.Context())
            await until(is_waited_for)
        await other
        assert (await documents.get("a")).count == 1
