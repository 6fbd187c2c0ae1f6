"""Which stage of a run waits for what: the lane, a hold, a limit, an edit of the record, or a retry."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from interlock import App, Retry, Slots
from tests.pipelines.intake import MACHINE, Intent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.explanation import Explanation


async def _until(look: Callable[[], Awaitable[Explanation]], *words: str) -> Explanation:
    """Wait until an explanation says all of these words."""
    async with asyncio.timeout(20):
        while True:
            why = await look()
            if all(word in str(why) for word in words):
                return why
            await asyncio.sleep(0.01)


async def test_the_stage_and_what_it_waits_for_are_named(url: str) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    app = App(url)
    intents = app.records(Intent, machine=MACHINE)

    async def first(intent: Intent) -> None:
        intent.count += 1

    async def slow(intent: Intent) -> None:
        begun.set()
        await go_on.wait()
        intent.count += 1

    pipeline = app.pipeline("intake", intents, stages=[first, slow])
    async with app:
        await intents.create(Intent(id="a"))
        running = asyncio.create_task(pipeline.run("a"))
        await begun.wait()
        (view,) = await pipeline.list("a")
        why = await app.insight.explain("run", view.id)
        assert "is at stage 2 of 2, 'slow', which started at" in why.lines[0]
        assert why.why.startswith("stage 'slow'")

        behind = await pipeline.enqueue("a")
        why = await app.insight.explain("run", behind.id)
        assert why.reason == "behind"
        assert f"job {view.id}" in str(why)

        async with intents.edit("a"):
            go_on.set()
            why = await _until(lambda: app.insight.explain("run", view.id), "record:Intent:a")
            assert why.reason == "lock"
            assert "stage 2 of 2, 'slow'" in why.lines[0]
        assert (await running).state == "completed"
        assert "was completed" in (await app.insight.explain("run", view.id)).lines[0]


async def test_a_hold_a_limit_and_a_retry_are_named(url: str) -> None:
    app = App(url)
    intents = app.records(Intent, machine=MACHINE)

    async def fails(intent: Intent) -> None:
        raise ConnectionError("not yet")

    retried = app.pipeline("retried", intents, stages=[fails], retry=Retry(attempts=2, delay=60))
    go_on = asyncio.Event()

    async def waits(intent: Intent) -> None:
        await go_on.wait()

    limited = app.pipeline("limited", intents, stages=[waits], limits=[Slots("narrow", 1)])
    async with app:
        for name in ("a", "b", "c", "d"):
            await intents.create(Intent(id=name))
        held = await retried.enqueue("a")
        await app.lanes.hold(retried.lane("a"), by="ann", reason="hands off")
        assert "held by ann" in str(await app.insight.explain("run", held.id))

        handle = await retried.enqueue("b")
        await app.drain()
        why = await app.insight.explain("run", handle.id)
        assert why.reason == "to-be-retried"
        assert why.why.startswith("stage 'fails'")

        both = [asyncio.create_task(limited.run(name, 30)) for name in ("c", "d")]

        async def limited_run() -> Explanation:
            jobs = await app.jobs.list(name="pipeline.limited")
            return await app.insight.explain("run", jobs[0].id if jobs else held.id)

        why = await _until(limited_run, "narrow")
        assert why.reason == "limit"
        go_on.set()
        assert [(await one).state for one in both] == ["completed", "completed"]
