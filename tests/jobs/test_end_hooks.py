"""End hooks, as a program defines them."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from interlock import INJECTED, App, Discard, JobEnd, JobState, Retry
from interlock.errors import InvalidArgumentError, MisuseError
from interlock.ports.jobs import Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

on_every_store = pytest.mark.parametrize("every_store_url", ["memory", "sqlite", "postgres"], indirect=True)


class Console:
    """Where hooks of these tests report."""

    def __init__(self) -> None:
        self.ends: list[JobEnd] = []


@on_every_store
async def test_a_hook_runs_after_each_end_that_it_is_for(store_url: str) -> None:
    console = Console()

    async def lifespan(_: App) -> AsyncIterator[dict[Any, Any]]:
        yield {Console: console}

    app = App(store_url, lifespan=lifespan)

    @app.job(retry=Retry.NEVER, lane="{target}")
    async def report(target: int, how: str = "done") -> None:
        if how == "failed":
            raise ValueError("broken")
        if how == "discarded":
            raise Discard("nothing to do")

    @report.on_end("failed", "cancelled")
    async def put_back(end: JobEnd, console: Console = INJECTED) -> None:
        console.ends.append(end)

    @app.job()
    async def unrelated() -> None: ...

    async with app:
        done, failed, discarded, cancelled = [
            await report.enqueue(number, how) for number, how in enumerate(("done", "failed", "discarded", "later"))
        ]
        await unrelated.enqueue()
        await app.jobs.cancel(cancelled, by="ann", reason="not wanted")
        assert await app.drain() == {Outcome.DONE: 4, Outcome.FAILED: 1, Outcome.DISCARDED: 1}
        first, second = sorted(console.ends, key=lambda end: end.job)
        assert (first.job, first.name, first.state, first.error) == (
            failed.id, "report", JobState.FAILED, "ValueError: broken"
        )  # fmt: skip
        assert (first.arguments, first.attempt, first.lane, first.queue) == (
            {"target": 1, "how": "failed"}, 1, "1", "default"
        )  # fmt: skip
        assert abs((datetime.now(UTC) - first.ended_at).total_seconds()) < 60
        assert (second.job, second.state, second.attempt) == (cancelled.id, JobState.CANCELLED, 0)
        assert "not wanted" in second.error
        causes = {view.cause for view in await app.jobs.list(name="put_back")}
        assert causes == {f"end:{failed.id}", f"end:{cancelled.id}"}
        assert {done.id, discarded.id}.isdisjoint(end.job for end in console.ends)


async def test_a_hook_of_the_app_runs_after_the_end_of_every_job_but_not_of_hooks() -> None:
    app, seen = App("memory://"), []

    @app.job()
    async def before() -> None: ...

    @app.on_end(queue="hooks", priority=90)
    def told(end: JobEnd) -> None:
        seen.append((end.name, end.state))

    @app.job()
    async def after() -> None: ...

    @after.on_end("done", name="own")
    async def own_hook(end: JobEnd) -> None:
        seen.append(("own", end.state))

    async with app:
        await app.jobs.enqueue_many([before.call(), after.call()])
        await app.drain()
        assert sorted(seen) == [("after", "done"), ("before", "done"), ("own", "done")]
        assert {(view.queue, view.priority) for view in await app.jobs.list(name="told")} == {("hooks", 90)}


async def test_a_hook_that_fails_is_retried_like_any_job() -> None:
    app, tries = App("memory://"), []

    @app.job()
    async def report() -> None: ...

    @report.on_end(retry=Retry(attempts=3, delay=0.001))
    async def told(end: JobEnd) -> None:
        tries.append(end.job)
        if len(tries) < 3:
            raise ConnectionError("away")

    async with app, app.worker():
        handle = await report.enqueue()
        while len(tries) < 3:
            await asyncio.sleep(0.005)
        assert tries == [handle.id] * 3


def test_hooks_that_cannot_be_are_refused() -> None:
    app = App("memory://")

    @app.job()
    async def report() -> None: ...

    given: Any = report
    with pytest.raises(InvalidArgumentError, match=r"'ready' is not a final job state\. Valid states: done, failed"):
        given.on_end("ready")
    with pytest.raises(MisuseError, match="on_end is used without parentheses"):
        given.on_end(lambda end: None)
    with pytest.raises(MisuseError, match=r"Unknown option 'lane' of an end hook\. Valid options: aliases"):
        given.on_end(lane="l")
    with pytest.raises(MisuseError, match="'two' takes 2 arguments; an end hook takes one"):

        @given.on_end()
        async def two(end: JobEnd, more: JobEnd) -> None: ...

    with pytest.raises(MisuseError, match="Parameter 'end' of 'odd' is not declared as the end of a job"):

        @given.on_end()
        async def odd(end: int) -> None: ...

    @report.on_end()
    async def hook(end: JobEnd) -> None: ...

    with pytest.raises(MisuseError, match="'hook' is an end hook itself"):

        @hook.on_end()
        async def of_hook(end: JobEnd) -> None: ...

    with pytest.raises(MisuseError, match="'elsewhere' is not defined here"):

        @app.jobs.named("elsewhere").on_end()
        async def of_other(end: JobEnd) -> None: ...

    assert set(app.jobs.names) == {"report", "hook"}
    with pytest.raises(InvalidArgumentError, match="'hook' takes the end of a job"):
        hook.call(7)  # type: ignore[arg-type]


async def test_a_hook_can_be_tried_with_an_end_of_its_own() -> None:
    app, seen = App("memory://"), []

    @app.job()
    async def report() -> None: ...

    @report.on_end()
    async def hook(end: JobEnd) -> None:
        seen.append(end)

    end = JobEnd(
        job=7,
        name="report",
        queue="default",
        lane="",
        state=JobState.FAILED,
        error="broken",
        attempt=1,
        superseded_by=None,
        ended_at=datetime(2026, 1, 1, tzinfo=UTC),
        arguments={"target": 7},
    )
    async with app:
        await hook(end)
        await hook.enqueue(end)
        await app.drain()
    assert seen == [end, end]


async def test_the_log_of_a_failure_has_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    app = App("memory://")

    @app.job(retry=Retry.NEVER)
    async def fails(text: str) -> None:
        raise ValueError(text)

    async with app:
        with caplog.at_level(logging.ERROR, "interlock.jobs"):
            await fails.enqueue("broken")
            await fails.enqueue("x" * 100_000)
            await app.drain()
    short, long = (record.fields["traceback"] for record in caplog.records)  # type: ignore[attr-defined]
    assert short.startswith("Traceback (most recent call last):")
    assert "in fails" in short
    assert short.endswith("ValueError: broken\n")
    assert len(long) < 4100
