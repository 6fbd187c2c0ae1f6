"""Changes of a record while its pipeline runs: by others, and by the stage itself."""

from __future__ import annotations

import asyncio
import json

import pytest

from interlock.errors import MisuseError
from interlock.testing.conformance.pipelines.running import complete, elsewhere, normalize, process
from interlock.testing.conformance.records.apps import Intent, RecordAppSuite, Status

__all__ = ["PipelineCorrectionConformance"]


class PipelineCorrectionConformance(RecordAppSuite):
    """Nobody waits for a stage, and nobody's change is lost."""

    async def test_a_correction_goes_through_while_a_stage_runs_and_the_next_stage_sees_it(
        self, store_url: str
    ) -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()
        seen: list[object] = []

        async def slow(intent: Intent) -> None:
            begun.set()
            await go_on.wait()
            intent.payload["slow"] = True

        async def look(intent: Intent) -> None:
            seen.append((intent.status, intent.payload))

        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize, slow, look, complete])
            await b.new("a")
            running = asyncio.create_task(pipeline.run("a"))
            await begun.wait()
            async with asyncio.timeout(5):
                result = await b.intents.correct("a", {"payload.fixed": 1}, source="kana", reason="wrong")
            assert result.status == Status.CORRECTED
            go_on.set()
            run = await running

            wanted = {"normalized": True, "slow": True, "fixed": 1}
            assert seen == [(Status.CORRECTED, wanted)]
            assert (run.record.status, run.record.payload) == (Status.COMPLETED, wanted)

    async def test_stages_before_the_last_leave_a_corrected_status(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize, process])
            await b.new("a")
            await b.intents.correct("a", {"payload.fixed": 1}, source="kana", reason="wrong")
            run = await pipeline.run("a")
            assert (run.record.status, run.record.count) == (Status.CORRECTED, 1)
            assert run.record.payload == {"fixed": 1, "normalized": True}

    async def test_a_correction_during_the_last_stage_does_not_keep_it_from_completing(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:

            async def last(intent: Intent) -> None:
                correct = b.intents.correct("a", {"payload.fixed": 1}, source="kana", reason="wrong")
                await elsewhere(correct)
                intent.status = Status.COMPLETED

            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize, last])
            await b.new("a")
            run = await pipeline.run("a")
            assert run.record.status is Status.COMPLETED
            assert run.record.payload == {"normalized": True, "fixed": 1}

    async def test_where_both_changed_a_value_the_other_writers_stays(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:

            async def both(intent: Intent) -> None:
                await elsewhere(b.intents.update("a", {"owner": "ann", "payload": {"x": 1, "y": 1}}))
                intent.owner = "stage"
                intent.count = 7
                intent.payload["x"] = 2
                intent.payload["z"] = 2

            pipeline = b.app.pipeline("intake", b.intents, stages=[both])
            await b.new("a", payload={"x": 0, "gone": 0})
            run = await pipeline.run("a")

            assert (run.record.owner, run.record.count) == ("ann", 7)
            assert run.record.payload == {"x": 1, "y": 1, "z": 2}
            (entry,) = [one for one in await b.intents.history("a") if '"_kept"' in (one.after or "")]
            assert json.loads(entry.after or "")["_kept"] == ["owner", "payload.x"]

    async def test_a_stage_may_change_its_own_record_by_every_means(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:

            async def own(intent: Intent) -> None:
                async with asyncio.timeout(5):
                    await b.intents.correct("a", {"payload.fixed": 1}, source="kana", reason="wrong")
                    await b.intents.update("a", {"count": 1})
                    async with b.intents.edit("a") as again:
                        again.count += 1
                    await b.intents.transition("a", Status.COMPLETED)
                    assert await b.intents.get("a") is intent
                intent.owner = "stage"

            pipeline = b.app.pipeline("intake", b.intents, stages=[own])
            await b.new("a")
            run = await pipeline.run("a")

            record = run.record
            assert (record.status, record.count, record.owner) == (Status.COMPLETED, 2, "stage")
            assert record.payload == {"fixed": 1}
            assert record.version == 1, "all of it is one change"
            again = await b.intents.history("a")
            assert sum("_corrections" in (one.after or "") for one in again) == 1

    async def test_a_failed_stage_discards_its_own_corrections(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:

            async def own(intent: Intent) -> None:
                await b.intents.correct("a", {"payload.fixed": 1}, source="kana", reason="wrong")
                raise ValueError("after all")

            pipeline = b.app.pipeline("intake", b.intents, stages=[own], mode="continue")
            await b.new("a")
            run = await pipeline.run("a")
            assert (run.record.payload, run.record.version) == ({}, 0)

    async def test_edits_of_other_records_inside_a_stage_are_on_their_own(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            seen: list[int] = []

            async def across(intent: Intent) -> None:
                async with b.intents.edit("b") as other:
                    other.count = 5
                    intent.count = 1
                seen.append((await b.intents.get("b")).count)
                seen.append((await b.intents.update("b", {"owner": "x"})).version)

            pipeline = b.app.pipeline("intake", b.intents, stages=[across])
            await b.new("a", "b")
            assert (await pipeline.run("a")).record.count == 1
            assert seen == [5, 2]

    async def test_a_task_that_a_stage_starts_may_not_touch_its_record(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:

            async def parent(intent: Intent) -> None:
                with pytest.raises(MisuseError, match="task that started this one"):
                    await asyncio.create_task(b.intents.update("a", {"count": 9}))

            pipeline = b.app.pipeline("intake", b.intents, stages=[parent])
            await b.new("a")
            assert (await pipeline.run("a")).state == "completed"

    async def test_the_end_of_a_stage_queues_behind_an_edit(self, store_url: str) -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow(intent: Intent) -> None:
            begun.set()
            await go_on.wait()
            intent.count += 1

        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[slow, normalize, complete])
            await b.new("a")
            running = asyncio.create_task(pipeline.run("a"))
            await begun.wait()
            async with b.intents.edit("a") as edited:
                go_on.set()
                while not (await b.app.locks.get("record:Intent:a")).waiters:  # noqa: ASYNC110 - it is queueing
                    await asyncio.sleep(0.001)
                edited.owner = "ann"
            run = await running
            assert (run.record.count, run.record.owner, run.record.status) == (1, "ann", Status.COMPLETED)
