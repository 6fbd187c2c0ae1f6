"""Runs: directly and by workers, one at a time for each record, each stage once."""

from __future__ import annotations

import asyncio
import contextvars
import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, Field

from interlock.errors import (
    InvalidArgumentError,
    JobCancelledError,
    LockTimeoutError,
    MisuseError,
    NotFoundError,
    RecordNotFoundError,
)
from interlock.pipelines import Stage, StageRun
from interlock.testing.conformance.records.apps import Intent, RecordAppSuite, Status

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from interlock.testing.conformance.records.apps import RecordApp

__all__ = ["PipelineRunConformance", "complete", "elsewhere", "normalize", "process", "stage_log"]


async def normalize(intent: Intent) -> None:
    """The first stage."""
    intent.status = Status.NORMALIZED
    intent.payload["normalized"] = True


async def process(intent: Intent) -> Intent:
    """The second stage, which returns another object."""
    return intent.model_copy(update={"status": Status.PROCESSED, "count": intent.count + 1})


async def complete(intent: Intent) -> None:
    """The last stage."""
    intent.status = Status.COMPLETED


async def elsewhere(change: Coroutine[Any, Any, Any]) -> None:
    """Await a change as somebody else: in a task with a context of its own."""
    await asyncio.create_task(change, context=contextvars.Context())


async def stage_log(b: RecordApp, id: str) -> list[tuple[str, str]]:  # noqa: A002
    """What the journal says about the stages of a record: what happened to which, the oldest first."""
    entries = reversed(await b.intents.history(id))
    return [
        (entry.action.removeprefix("record.stage_"), json.loads(entry.after or "{}")["_stage"])
        for entry in entries
        if entry.action.startswith("record.stage_")
    ]


class Note(BaseModel):
    """A record without a machine."""

    id: str
    runs: int = 0
    text: str = ""
    data: dict[str, Any] = Field(default_factory=dict)


class PipelineRunConformance(RecordAppSuite):
    """A run is a job in its record's lane, and each of its stages has its effect once."""

    async def test_a_direct_run_needs_no_worker(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize, process, complete])
            await b.new("a")

            run = await pipeline.run("a")

            assert (run.state, run.mode) == ("completed", "failfast")
            assert [(one.name, one.state, one.attempt) for one in run.stages] == [
                ("normalize", "completed", 1),
                ("process", "completed", 1),
                ("complete", "completed", 1),
            ]
            assert all(one.duration is not None and one.duration >= 0 for one in run.stages)
            assert run.record == await b.intents.get("a")
            assert (run.record.status, run.record.count, run.record.payload) == (
                Status.COMPLETED,
                1,
                {"normalized": True},
            )
            assert run.record.version == 3

    async def test_workers_run_what_is_enqueued(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize, complete])
            await b.new("a")
            handle = await pipeline.enqueue("a", by="ann")
            waiting = await handle.view()
            assert (waiting.state, [one.state for one in waiting.stages]) == ("waiting", ["pending", "pending"])

            await b.app.drain()

            run = await handle.result()
            assert (run.id, run.state, run.record.status) == (handle.id, "completed", Status.COMPLETED)
            assert {entry.actor for entry in await b.intents.history("a")} == {"eva", "ann"}

    async def test_every_stage_is_journaled_with_its_change(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize, complete])
            await b.new("a")
            run = await pipeline.run("a")

            entries = list(reversed(await b.intents.history("a")))

            assert [entry.action for entry in entries] == [
                "record.create",
                *["record.stage_start", "record.update", "record.stage_complete"] * 2,
            ]
            assert {entry.cause_job for entry in entries[1:]} == {run.id}

    async def test_a_stage_may_take_the_run_and_have_options(self, store_url: str) -> None:
        seen: list[StageRun] = []

        class Enrich:
            name = "enrich"

            async def run(self, intent: Intent, run: StageRun) -> None:
                seen.append(run)
                intent.payload["enriched"] = True

        class Publish:
            async def __call__(self, intent: Intent, run: StageRun) -> None:
                seen.append(run)

        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[Enrich(), Stage(Publish(), name="out", timeout=30)])
            await b.new("a")
            run = await pipeline.run("a", mode="continue")

            assert [(one.stage, one.record_id, one.attempt, one.id) for one in seen] == [
                ("enrich", "a", 1, run.id),
                ("out", "a", 1, run.id),
            ]
            assert {one.mode for one in seen} == {"continue"}
            assert run.record.payload == {"enriched": True}

    async def test_a_stage_that_changes_nothing_writes_no_version(self, store_url: str) -> None:
        async def look(intent: Intent) -> Intent:
            return intent

        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[look])
            await b.new("a")
            assert (await pipeline.run("a")).record.version == 0
            assert await stage_log(b, "a") == [("start", "look"), ("complete", "look")]

    async def test_two_runs_at_once_run_the_stages_once_and_both_get_the_record(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize, process, complete])
            await b.new("a")

            runs = await asyncio.gather(*(pipeline.run("a", 30) for _ in range(4)))

            assert sorted(run.state for run in runs) == ["completed", "skipped", "skipped", "skipped"]
            assert [run.record.count for run in runs] == [1, 1, 1, 1]
            assert {run.record.status for run in runs} == {Status.COMPLETED}

    async def test_a_run_that_cannot_start_in_time_is_withdrawn(self, store_url: str) -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow(intent: Intent) -> None:
            begun.set()
            await go_on.wait()
            intent.count += 1

        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[slow, normalize, complete])
            await b.new("a")
            first = asyncio.create_task(pipeline.run("a"))
            await begun.wait()

            for wait in (0.05, 0):
                with pytest.raises(LockTimeoutError, match=r"did not start within .* and was withdrawn"):
                    await pipeline.run("a", wait)

            go_on.set()
            run = await first
            assert (run.state, run.record.count) == ("completed", 1)
            states = sorted(str(job.state) for job in await b.app.jobs.list(name="pipeline.intake"))
            assert states == ["cancelled", "cancelled", "done"]

    async def test_a_direct_run_waits_while_the_queue_is_paused(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize], queue="slow")
            await b.new("a")
            await b.app.queues.pause("slow", by="ann", reason="deploying")
            with pytest.raises(LockTimeoutError, match=r"did not start within .* and was withdrawn"):
                await pipeline.run("a", 0.05)
            run = asyncio.create_task(pipeline.run("a", 30))
            await asyncio.sleep(0)
            await b.app.queues.resume("slow", by="ann")
            assert (await run).state == "completed"

    async def test_a_free_record_needs_no_wait(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize])
            await b.new("a")
            assert (await pipeline.run("a", wait=0)).state == "completed"

    async def test_runs_of_different_records_go_side_by_side(self, store_url: str) -> None:
        together = asyncio.Barrier(10)

        async def meet(intent: Intent) -> None:
            await together.wait()

        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[meet])
            ids = [f"r{number}" for number in range(10)]
            await b.new(*ids)
            async with asyncio.timeout(30):
                runs = await asyncio.gather(*(pipeline.run(one) for one in ids))
            assert {run.state for run in runs} == {"completed"}

    async def test_a_caller_that_is_cancelled_withdraws_a_run_that_has_not_started(self, store_url: str) -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow(intent: Intent) -> None:
            begun.set()
            await go_on.wait()

        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[slow])
            await b.new("a")
            first = asyncio.create_task(pipeline.run("a"))
            await begun.wait()
            second = asyncio.create_task(pipeline.run("a", 30))
            while len(await b.app.jobs.list(name="pipeline.intake")) < 2:  # noqa: ASYNC110 - it is being enqueued
                await asyncio.sleep(0.001)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            withdrawn, _ = await b.app.jobs.list(name="pipeline.intake")
            with pytest.raises(JobCancelledError):
                await b.app.jobs.result_of(withdrawn.id)
            go_on.set()
            assert (await first).state == "completed"

    async def test_a_final_record_runs_no_stage(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize, complete])
            await b.new("a")
            await b.intents.transition("a", Status.FAILED)
            run = await pipeline.run("a")
            assert (run.state, run.record.status, run.record.version) == ("skipped", Status.FAILED, 1)
            assert [one.state for one in run.stages] == ["pending", "pending"]

    async def test_without_a_machine_a_run_that_was_asked_for_meanwhile_is_not_run_again(self, store_url: str) -> None:
        go_on = asyncio.Event()

        async def count(note: Note) -> None:
            await go_on.wait()
            note.runs += 1

        async with self.record_app(store_url) as b:
            notes = b.app.records(Note)
            pipeline = b.app.pipeline("notes", notes, stages=[count])
            await notes.create(Note(id="a"))
            both = [asyncio.create_task(pipeline.run("a", 30)) for _ in range(2)]
            while len(await b.app.jobs.list(name="pipeline.notes")) < 2:  # noqa: ASYNC110 - it is being enqueued
                await asyncio.sleep(0.001)
            go_on.set()
            assert sorted([(await one).state for one in both]) == ["completed", "skipped"]
            assert (await notes.get("a")).runs == 1

            assert (await pipeline.run("a")).record.runs == 2, "a later run runs"

    async def test_a_run_without_a_record_is_refused(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize])
            with pytest.raises(RecordNotFoundError):
                await pipeline.run("nobody")
            with pytest.raises(RecordNotFoundError):
                await pipeline.enqueue("nobody")
            assert await b.app.jobs.list() == []

    async def test_a_task_that_edits_the_record_cannot_wait_for_its_run(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize])
            await b.new("a")
            async with b.intents.edit("a"):
                with pytest.raises(MisuseError, match="wait for this task itself"):
                    await pipeline.run("a")

    async def test_what_cannot_work_is_refused_when_it_is_declared(self, store_url: str) -> None:
        def plain(intent: Intent) -> None: ...

        async def nothing() -> None: ...

        async with self.record_app(store_url) as b:
            for stages in ([], [normalize, normalize], "text"):
                with pytest.raises(InvalidArgumentError):
                    b.app.pipeline("wrong", b.intents, stages=stages)
            for stage in (plain, nothing, 7, Intent):
                with pytest.raises(MisuseError):
                    b.app.pipeline("wrong", b.intents, stages=[stage])
            with pytest.raises(InvalidArgumentError, match="Invalid mode"):
                b.app.pipeline("wrong", b.intents, stages=[normalize], mode="sometimes")
            with pytest.raises(InvalidArgumentError, match="no status 'broken'"):
                b.app.pipeline("wrong", b.intents, stages=[normalize], failed="broken")

    async def test_runs_are_listed_and_found(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize])
            other = b.app.pipeline("other", b.intents, stages=[normalize])
            await b.new("a", "b")
            first, second = (await pipeline.run("a")).id, (await pipeline.run("b")).id

            assert [run.id for run in await pipeline.list()] == [second, first]
            assert [run.id for run in await pipeline.list("a")] == [first]
            assert [run.id for run in await pipeline.list(state="failed")] == []
            found = await pipeline.get(first)
            assert (found.pipeline, found.kind, found.record_id, found.state) == ("intake", "Intent", "a", "completed")
            with pytest.raises(NotFoundError):
                await other.get(first)
