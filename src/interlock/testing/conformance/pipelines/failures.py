"""Failed stages: what each mode makes of them, and what is stored."""

from __future__ import annotations

import asyncio

import pytest

from interlock.errors import InvalidTransitionError, PipelineError
from interlock.jobs import Retry, Snooze
from interlock.pipelines import Stage
from interlock.testing.conformance.pipelines.running import complete, elsewhere, normalize, process, stage_log
from interlock.testing.conformance.records.apps import Intent, RecordAppSuite, Status

__all__ = ["PipelineFailureConformance"]


async def broken(intent: Intent) -> None:
    """A stage that changes the record and fails."""
    intent.count = 99
    raise ValueError("out of order")


class PipelineFailureConformance(RecordAppSuite):
    """A failed stage changes nothing but what its mode says."""

    async def test_failfast_stores_the_failure_and_names_the_stage(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize, broken, complete])
            await b.new("a")

            with pytest.raises(PipelineError, match=r"stage 'broken'.*ValueError: out of order") as caught:
                await pipeline.run("a")

            error = caught.value
            assert (error.stage, error.record, error.error) == ("broken", "a", "ValueError: out of order")
            assert isinstance(error.__cause__, ValueError)
            stored = await b.intents.get("a")
            assert (stored.status, stored.count, stored.payload) == (Status.FAILED, 0, {"normalized": True})
            assert await stage_log(b, "a") == [
                ("start", "normalize"),
                ("complete", "normalize"),
                ("start", "broken"),
                ("fail", "broken"),
            ]
            view = await pipeline.get(error.job)
            assert (view.state, view.error) == ("failed", "ValueError: out of order")
            assert [one.state for one in view.stages] == ["completed", "failed", "pending"]

    async def test_the_failure_of_an_enqueued_run_reaches_who_asks_for_its_result(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[broken])
            await b.new("a")
            handle = await pipeline.enqueue("a")
            await b.app.drain()
            with pytest.raises(PipelineError) as caught:
                await handle.result()
            assert (caught.value.stage, caught.value.job) == ("broken", handle.id)

    async def test_a_record_without_the_failed_status_keeps_its_own(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize, broken], failed=None)
            await b.new("a")
            with pytest.raises(PipelineError):
                await pipeline.run("a")
            assert (await b.intents.get("a")).status is Status.NORMALIZED

    async def test_continue_runs_the_later_stages(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize, broken, complete], mode="continue")
            await b.new("a")
            run = await pipeline.run("a")
            assert (run.state, [one.name for one in run.failures]) == ("completed", ["broken"])
            assert (run.record.status, run.record.count) == (Status.COMPLETED, 0)

    async def test_continue_ends_the_run_also_if_the_last_stage_failed(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize, broken], mode="continue")
            await b.new("a")
            run = await pipeline.run("a")
            assert (run.state, run.record.status) == ("completed", Status.NORMALIZED)

    async def test_selective_fails_only_with_a_required_stage(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            stages = [Stage(normalize, required=True), broken, complete]
            lenient = b.app.pipeline("lenient", b.intents, stages=stages, mode="selective")
            strict = b.app.pipeline("strict", b.intents, stages=[Stage(broken, required=True), complete])
            await b.new("a", "b")
            assert (await lenient.run("a")).record.status is Status.COMPLETED
            with pytest.raises(PipelineError):
                await strict.run("b", mode="selective")
            assert (await b.intents.get("b")).status is Status.FAILED

    async def test_a_forbidden_status_fails_the_stage(self, store_url: str) -> None:
        async def too_early(intent: Intent) -> None:
            intent.status = Status.CORRECTED

        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[too_early])
            await b.new("a")
            with pytest.raises(PipelineError) as caught:
                await pipeline.run("a")
            assert isinstance(caught.value.__cause__, InvalidTransitionError)
            assert (await b.intents.get("a")).status is Status.FAILED

    async def test_a_stage_that_takes_too_long_fails(self, store_url: str) -> None:
        async def endless(intent: Intent) -> None:
            await asyncio.Event().wait()

        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[Stage(endless, timeout=0.05)])
            await b.new("a")
            with pytest.raises(PipelineError, match=r"TimeoutError: It ran for more than 0.05 s"):
                await pipeline.run("a")

    async def test_a_retry_goes_on_at_the_failed_stage(self, store_url: str) -> None:
        calls: list[int] = []

        async def flaky(intent: Intent) -> None:
            calls.append(intent.count)
            if len(calls) < 3:
                raise ConnectionError("not yet")

        async with self.record_app(store_url) as b:
            retry = Retry(attempts=3, delay=0.01)
            pipeline = b.app.pipeline("intake", b.intents, stages=[process, flaky, complete], retry=retry)
            await b.new("a")
            run = await pipeline.run("a")
            assert (calls, run.record.count, run.record.status) == ([1, 1, 1], 1, Status.COMPLETED)
            assert [one.attempt for one in run.stages] == [1, 3, 1]

    async def test_the_last_retry_stores_the_failure(self, store_url: str) -> None:
        seen: list[Status] = []

        async def broken_again(intent: Intent) -> None:
            seen.append(intent.status)
            raise ValueError("out of order")

        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline(
                "intake", b.intents, stages=[normalize, broken_again], retry=Retry(attempts=2, delay=0.01)
            )
            await b.new("a")
            with pytest.raises(PipelineError):
                await pipeline.run("a")
            assert seen == [Status.NORMALIZED, Status.NORMALIZED]
            assert (await b.intents.get("a")).status is Status.FAILED

    async def test_a_failed_run_that_a_person_retries_goes_on_at_the_failed_stage(self, store_url: str) -> None:
        mended: list[int] = []

        async def repaired(intent: Intent) -> None:
            if not mended:
                raise ValueError("out of order")
            intent.payload["repaired"] = True

        async with self.record_app(store_url) as b:
            stages = [process, repaired, complete]
            pipeline = b.app.pipeline("intake", b.intents, stages=stages, failed=None)
            await b.new("a")
            with pytest.raises(PipelineError) as caught:
                await pipeline.run("a")
            mended.append(1)
            await b.app.jobs.retry(caught.value.job, by="ann")
            await b.app.drain()
            view = await pipeline.get(caught.value.job)
            assert (view.state, [one.attempt for one in view.stages]) == ("completed", [1, 2, 1])
            stored = await b.intents.get("a")
            assert (stored.status, stored.count, stored.payload) == (Status.COMPLETED, 1, {"repaired": True})

    async def test_a_failed_run_of_a_final_record_stays_failed(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[normalize, broken])
            await b.new("a")
            with pytest.raises(PipelineError) as caught:
                await pipeline.run("a")
            await b.app.jobs.retry(caught.value.job, by="ann")
            await b.app.drain()
            assert (await pipeline.get(caught.value.job)).state == "failed"
            assert (await stage_log(b, "a")).count(("start", "broken")) == 1

    async def test_a_stage_may_postpone_its_run(self, store_url: str) -> None:
        calls: list[int] = []

        async def later(intent: Intent) -> None:
            calls.append(intent.count)
            if len(calls) == 1:
                raise Snooze(0.01, "not yet")

        async with self.record_app(store_url) as b:
            pipeline = b.app.pipeline("intake", b.intents, stages=[process, later])
            await b.new("a")
            run = await pipeline.run("a")
            assert (calls, run.state, run.stages[1].attempt) == ([1, 1], "completed", 2)

    async def test_a_record_that_is_deleted_meanwhile_fails_the_run(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:

            async def removed(intent: Intent) -> None:
                await elsewhere(b.intents.delete("a"))
                intent.count += 1

            pipeline = b.app.pipeline("intake", b.intents, stages=[removed])
            await b.new("a")
            with pytest.raises(PipelineError, match="does not exist"):
                await pipeline.run("a")
            assert [run.state for run in await pipeline.list("a")] == ["failed"]

    async def test_a_record_that_is_created_again_meanwhile_is_another_one(self, store_url: str) -> None:
        async with self.record_app(store_url) as b:

            async def replaced(intent: Intent) -> None:
                await elsewhere(b.intents.delete("a"))
                await elsewhere(b.intents.create(Intent(id="a", owner="new")))
                intent.count += 1

            pipeline = b.app.pipeline("intake", b.intents, stages=[replaced], failed=None)
            await b.new("a")
            with pytest.raises(PipelineError, match="created again"):
                await pipeline.run("a")
            stored = await b.intents.get("a")
            assert (stored.count, stored.owner) == (0, "new")
