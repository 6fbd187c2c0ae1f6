"""Direct runs, enqueued runs and workers at the same time: each record goes through its stages once."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from interlock import App
from interlock.errors import LockTimeoutError, StoreUnavailableError
from interlock.pipelines import Stage
from tests.pipelines.documents import Document
from tests.pipelines.intake import STAGES, Intent, declare

RECORDS = 12


async def test_direct_and_enqueued_runs_share_workers_and_lanes(url: str) -> None:
    one, two = App(url), App(url)
    intents, pipeline = declare(one)
    _, other = declare(two)
    async with one, two, two.worker(concurrency=4):
        ids = [f"r{number}" for number in range(RECORDS)]
        for name in ids:
            await intents.create(Intent(id=name))
        async with asyncio.timeout(50), asyncio.TaskGroup() as tasks:
            direct = [tasks.create_task(pipeline.run(name, 50)) for name in ids]
            again = [tasks.create_task(other.run(name, 50)) for name in ids]
            handles = [await pipeline.enqueue(name) for name in ids]
        states = [(await one).state for one in (*direct, *again)]
        states += [(await handle.result(50)).state for handle in handles]
        assert (states.count("completed"), states.count("skipped")) == (RECORDS, 2 * RECORDS)
        for intent in await intents.list():
            assert (intent.status, intent.count) == ("completed", len(STAGES))
            assert intent.payload == dict.fromkeys(STAGES, 1) | {"own": 1}


@pytest.mark.full
async def test_withdrawn_runs_have_no_effect_and_started_ones_have_it_once(url: str) -> None:
    rng = random.Random(7)
    apps = [App(url) for _ in range(1 if url.startswith("memory") else 3)]

    async def count(document: Document) -> None:
        document.count += 1
        await asyncio.sleep(rng.random() * 0.02)

    parts = [(app.records(Document), app) for app in apps]
    pipelines = [app.pipeline("p", records, stages=[count]) for records, app in parts]
    documents = parts[0][0]
    async with AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app)
        await stack.enter_async_context(apps[-1].worker(concurrency=2))
        for name in "ab":
            await documents.create(Document(id=name))

        async def call(number: int) -> None:
            await asyncio.sleep(rng.random() * 0.5)
            wait = rng.choice([0, 0.005, 0.02, 0.1, 20])
            caller = asyncio.create_task(pipelines[number % len(pipelines)].run("ab"[number % 2], wait))
            if rng.random() < 0.3:
                await asyncio.sleep(rng.random() * 0.05)
                caller.cancel()
            with suppress(LockTimeoutError, asyncio.CancelledError):
                await caller

        async with asyncio.timeout(50):
            await asyncio.gather(*(call(number) for number in range(60)))
            while any(not job.state.final for job in await apps[0].jobs.list(name="pipeline.p", limit=1000)):
                await asyncio.sleep(0.02)
        runs = [run for name in "ab" for run in await pipelines[0].list(name, limit=1000)]
        completed = [run for run in runs if run.state == "completed"]
        assert sum([(await documents.get(name)).count for name in "ab"]) == len(completed)
        jobs = await apps[0].jobs.list(name="pipeline.p", limit=1000)
        assert not {job.id for job in jobs if job.state == "cancelled"} & {run.id for run in runs}
        for name in "ab":
            await pipelines[0].run(name)


@pytest.mark.full
async def test_stages_have_their_effect_once_when_every_third_answer_is_lost(url: str) -> None:
    app = App(url)
    documents = app.records(Document)

    def stage(name: str) -> Stage:
        async def count(document: Document) -> None:
            document.payload[name] = document.payload.get(name, 0) + 1
            await asyncio.sleep(0.005)

        return Stage(count, name=name)

    names = ["one", "two", "three", "four"]
    pipeline = app.pipeline("p", documents, stages=[stage(name) for name in names])
    async with app:
        await documents.create(Document(id="a"))
        store: Any = pipeline.engine.store_client.store.pipelines
        save, saved = store.save, 0

        async def lose_answers(checkpoint: Any) -> Any:
            nonlocal saved
            saved += 1
            number = saved
            answer = await save(checkpoint)
            if number % 3 == 0:
                raise StoreUnavailableError("The answer was lost.")
            return answer

        async def edit() -> None:
            while True:
                async with documents.edit("a", wait=50) as document:
                    document.count += 1
                    await asyncio.sleep(0.001)

        store.save = lose_answers
        editors = [asyncio.create_task(edit()) for _ in range(2)]
        async with asyncio.timeout(50):
            for _ in range(3):
                assert (await pipeline.run("a", wait=30)).state == "completed"
        for editor in editors:
            editor.cancel()
        await asyncio.gather(*editors, return_exceptions=True)
        assert (await documents.get("a")).payload == dict.fromkeys(names, 3)
        actions = [entry.action for entry in await documents.history("a", limit=1000)]
        assert [actions.count(f"record.stage_{end}") for end in ("start", "complete")] == [12, 12]
