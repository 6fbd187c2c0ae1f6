"""The pipelines port, step by step on a clock that the test moves."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from interlock.ports.journal import Attribution, JournalFilter, NewEntry
from interlock.ports.pipelines import (
    Checkpoint,
    FetchEnded,
    RunFilter,
    RunPosition,
    RunState,
    Saved,
    StageProgress,
    StageState,
)
from interlock.ports.records import Busy, Conflict, RecordChange, Written, lock_key
from interlock.ports.store import Capability
from interlock.testing.conformance.jobs.driver import JobDriver, JobSuite, near

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.ports.jobs import FetchedJob
    from interlock.testing.clock import VirtualClock

__all__ = ["PipelineStoreConformance"]

RUNNING = StageProgress("first", 0, StageState.RUNNING, 1)
COMPLETED = StageProgress("first", 0, StageState.COMPLETED, 1)


def _entry(action: str = "record.update") -> NewEntry:
    return NewEntry(Attribution("test", "why", None, 7, 8), action, "record", "doc:a", None, '{"n": "ü"}')


def _change(expected: int | None, body: str = '{"n":1}', owner: str | None = None) -> RecordChange:
    return RecordChange("doc", "a", "uid", expected, "", body, owner, None, _entry())


class _Lab:
    def __init__(self, driver: JobDriver) -> None:
        self.driver = driver
        self.store = driver.store
        self.pipelines = driver.store.pipelines

    async def job(self, session: str = "a", **changes: Any) -> FetchedJob:
        """A fetched job."""
        await self.driver.add(lane="doc:a", **changes)
        return await self.driver.one(session)

    async def record(self) -> None:
        """Create the record ``a`` at version 0."""
        (answer,) = await self.store.records.write([_change(None, '{"n":0}')])
        assert isinstance(answer, Written)

    def checkpoint(self, job: FetchedJob, step: int, state: RunState = RunState.RUNNING, **changes: Any) -> Checkpoint:
        what = ("intake", "doc", "a", "failfast", ("first", "second"))
        return Checkpoint(job.id, job.fence, step, *what, state, "uid", 0)._replace(**changes)

    async def actions(self) -> list[str]:
        """The actions in the journal of the record, the oldest first."""
        entries = await self.store.journal.list(JournalFilter(subject_kind="record", subject_key="doc:a"))
        return [entry.action for entry in reversed(entries)]


class PipelineStoreConformance(JobSuite):
    """A checkpoint is stored as a whole, once, and only while its fetch is in force."""

    needed_capabilities: ClassVar[tuple[Capability, ...]] = (Capability.JOBS, Capability.RECORDS)

    @asynccontextmanager
    async def lab(self, url: str, clock: VirtualClock | None = None) -> AsyncIterator[_Lab]:
        async with self.job_driver(url, clock) as driver:
            yield _Lab(driver)

    async def test_a_checkpoint_stores_run_stage_record_and_journal_together(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            await b.record()
            job = await b.job()
            assert await b.pipelines.get(job.id) is None
            start = b.driver.now
            entry = _entry("record.stage_start")
            assert isinstance(await b.pipelines.save(b.checkpoint(job, 1, stage=RUNNING, entries=(entry,))), Saved)
            b.driver.clock.advance(2.0)
            done = b.checkpoint(job, 2, RunState.COMPLETED, stage=COMPLETED, change=_change(0))
            saved = await b.pipelines.save(done._replace(entries=(_entry("record.stage_complete"),)))

            assert saved == (1, near(start + 2.0))
            (record,) = await b.store.records.get("doc", ["a"])
            assert (record.version, record.body) == (1, '{"n":1}')
            run = await b.pipelines.get(job.id)
            assert run is not None
            assert run[:7] == (job.id, "intake", "doc", "a", "failfast", "completed", ("first", "second"))
            assert run[7:] == (near(start), near(start + 2.0), "uid", 1, "", run.stages)
            (stage,) = run.stages
            assert stage == ("first", 0, "completed", 1, near(start), near(start + 2.0), "")
            assert await b.actions() == [
                "record.update",
                "record.stage_start",
                "record.update",
                "record.stage_complete",
            ]
            (newest, *_) = await b.store.journal.list(JournalFilter(subject_kind="record"))
            assert (newest.actor, newest.reason, newest.cause_job, newest.cause_fence) == ("test", "why", 7, 8)
            assert newest.after is not None
            assert "ü" in newest.after

    async def test_a_run_whose_fetch_has_ended_stores_nothing(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            await b.record()
            job = await b.job()
            await b.driver.crash("a")
            late = b.checkpoint(job, 1, stage=RUNNING, change=_change(0), entries=(_entry("record.stage_start"),))
            assert await b.pipelines.save(late) == FetchEnded()
            again = await b.driver.one("b")
            assert again.id == job.id
            assert await b.pipelines.save(late) == FetchEnded(), "not under the fence before"
            assert await b.pipelines.get(job.id) is None
            assert await b.actions() == ["record.update"]
            assert isinstance(await b.pipelines.save(b.checkpoint(again, 1, stage=RUNNING)), Saved)
            await b.driver.done(again)
            assert await b.pipelines.save(b.checkpoint(again, 2)) == FetchEnded()

    async def test_a_checkpoint_that_is_repeated_is_stored_once(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            await b.record()
            job = await b.job()
            checkpoint = b.checkpoint(
                job, 1, stage=COMPLETED, change=_change(0), entries=(_entry("record.stage_start"),)
            )
            first = await b.pipelines.save(checkpoint)
            b.driver.clock.advance(1.0)
            assert isinstance(first, Saved)
            assert await b.pipelines.save(checkpoint) == first
            assert await b.actions() == ["record.update", "record.update", "record.stage_start"]

    async def test_a_refused_change_stores_nothing(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            await b.record()
            job = await b.job()
            entries = (_entry("record.stage_complete"),)
            stale = b.checkpoint(job, 1, stage=COMPLETED, change=_change(4), entries=entries)
            assert await b.pipelines.save(stale) == Conflict(0)
            await b.driver.granted("b.l1", lock_key("doc", "a"))
            busy = await b.pipelines.save(stale._replace(change=_change(0)))
            assert isinstance(busy, Busy)
            assert busy.holder.owner == "b.l1"
            assert await b.pipelines.get(job.id) is None
            assert await b.actions() == ["record.update"]
            own = stale._replace(change=_change(0, owner="b.l1"))
            assert isinstance(await b.pipelines.save(own), Saved), "the holder of the lease may"

    async def test_a_stage_that_starts_again_has_new_times(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            job = await b.job()
            await b.pipelines.save(b.checkpoint(job, 1, stage=RUNNING))
            failed = StageProgress("first", 0, StageState.FAILED, 1, "ValueError: no")
            await b.pipelines.save(b.checkpoint(job, 2, stage=failed))
            b.driver.clock.advance(3.0)
            await b.pipelines.save(b.checkpoint(job, 3, stage=RUNNING._replace(attempt=2)))
            run = await b.pipelines.get(job.id)
            assert run is not None
            assert run.stages == (("first", 0, "running", 2, near(b.driver.now), None, ""),)

    async def test_runs_are_listed_by_their_start(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            ids: list[int] = []
            for number in range(4):
                job = await b.job()
                record = "a" if number % 2 else "b"
                state = RunState.COMPLETED if number else RunState.FAILED
                await b.pipelines.save(b.checkpoint(job, 1, state, record=record, error="" if number else "no"))
                await b.driver.done(job)
                ids.append(job.id)

            async def found(*wanted: Any, **more: Any) -> list[int]:
                return [ids.index(run.id) for run in await b.pipelines.list(RunFilter(*wanted), **more)]

            assert await found() == [3, 2, 1, 0]
            assert await found(limit=2) == [3, 2]
            page = await b.pipelines.list(RunFilter(), limit=2)
            assert await found(before=RunPosition(page[-1].started_at, page[-1].id)) == [1, 0]
            assert await found("intake", "doc", "a") == [3, 1]
            assert await found("", "", "", RunState.FAILED) == [0]
            assert await found("other") == []
            assert await found("", "doc") == [3, 2, 1, 0]
            assert await found("", "other") == []

    async def test_old_runs_are_removed(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            old = await b.job()
            await b.pipelines.save(b.checkpoint(old, 1, RunState.COMPLETED, stage=COMPLETED))
            await b.driver.done(old)
            running = await b.job()
            await b.pipelines.save(b.checkpoint(running, 1, stage=RUNNING))
            await b.driver.let_pass(100.0)
            assert await b.pipelines.prune(200.0) == 0
            assert await b.pipelines.prune(50.0) == 1
            assert await b.pipelines.get(old.id) is None
            assert await b.pipelines.get(running.id) is not None
