"""One fetch of one run: its stages in order, each between two checkpoints.

No transaction, no row lock and no lease is held while a stage runs. Its end is one transaction that checks the job's
fetch and writes checkpoint, record and journal together. If others changed the record meanwhile, the stage's own
changes are applied to the record as it is now; the stage is not run again. docs/decisions/0067 says why.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from interlock.errors import (
    InvalidArgumentError,
    LeaseLostError,
    RecordNotFoundError,
    StoreUnavailableError,
)
from interlock.jobs.signals import RetryLater, Signal, Snooze
from interlock.jobs.worker.outcomes import one_line
from interlock.operations import attributed
from interlock.pipelines.merging import allowed_status, merged_content
from interlock.pipelines.stages import Mode, StageRun
from interlock.ports.journal import Action, NewEntry
from interlock.ports.pipelines import (
    Checkpoint,
    FetchEnded,
    RunFilter,
    RunState,
    Saved,
    StageProgress,
    StageState,
)
from interlock.ports.records import Busy, Conflict, LeaseLost, RecordChange, Written, subject_key
from interlock.records.edit import OpenRecord, opened
from interlock.records.engine import Change, Draft, existing, refusal_error
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from interlock.jobs.current import CurrentJob
    from interlock.pipelines.pipeline import Pipeline
    from interlock.pipelines.stages import Stage
    from interlock.ports.pipelines import StoredRun
    from interlock.ports.records import StoredRecord, WriteAnswer
    from interlock.records.engine import Ref
    from interlock.records.fields import Content

__all__ = ["Execution"]

M = TypeVar("M", bound=BaseModel)
_log = logging.getLogger("interlock.pipelines")
_UNAVAILABLE_DELAY = 2.0
"""Seconds until a run goes on that the store could not keep the progress of."""
_OPTIMISTIC = 3
"""Writes without a lease before a stage queues for the record."""


class _TakenOverError(LeaseLostError):
    """Another worker has the run now."""


class Execution(Generic[M]):
    """Runs the stages that a run has left."""

    def __init__(self, pipeline: Pipeline[M], job: CurrentJob, ref: Ref, mode: Mode, by: str) -> None:
        self._pipeline = pipeline
        self._job = job
        self._ref = ref
        self._mode = mode
        self._attribution = attributed("A pipeline", by, f"pipeline {pipeline.name}", optional=True)
        self._client = pipeline.engine.store_client
        self._store = self._client.store.pipelines
        self._step = 0
        self._names = tuple(stage.name for stage in pipeline.stages)

    async def run(self) -> None:
        """Run the stages that are left. Raises the error that ends the job, if the run has failed."""
        try:
            await self._run()
        except StoreUnavailableError as error:
            # The run goes on where its last checkpoint left it.
            raise Snooze(_UNAVAILABLE_DELAY, f"The store was unavailable: {error.message}") from error

    async def _run(self) -> None:
        stored = await self._client.repeat(lambda: self._store.get(self._job.id))
        if stored is not None and stored.state.final and await self._is_over(stored):
            return
        if stored is None or not stored.stages:
            record = existing(self._ref, await self._pipeline.engine.read(self._ref))
            if await self._has_nothing_to_do(record):
                await self._save(RunState.SKIPPED, record)
                self._count_end(RunState.SKIPPED)
                return
        done = self._done(stored)
        attempts = {} if stored is None else {stage.name: stage.attempt for stage in stored.stages}
        left = [(place, stage) for place, stage in enumerate(self._pipeline.stages) if stage.name not in done]
        for place, stage in left:
            is_last = place == left[-1][0]
            await self._run_stage(place, stage, attempts.get(stage.name, 0) + 1, is_last=is_last)
        if not left and stored is not None and not stored.state.final:
            # The stages that were left have been removed from the pipeline since.
            await self._save(RunState.COMPLETED, await self._pipeline.engine.read(self._ref))
        self._count_end(RunState.COMPLETED)

    async def _is_over(self, stored: StoredRun) -> bool:
        """Whether a run that ended needs nothing more. Raises its failure again if it failed.

        Its process died after the last checkpoint, before the job was acknowledged. Only a failed run that a person has
        retried since goes on, at the failed stage, and only if its record still can.
        """
        if stored.state is not RunState.FAILED:
            return True
        record, machine = await self._pipeline.engine.read(self._ref), self._pipeline.records.machine
        is_final = record is None or (machine is not None and record.status in machine.final)
        if is_final or stored.ended_at is None or self._job.fetched.due_at <= stored.ended_at:
            stage = next((one.name for one in reversed(stored.stages) if one.error), "")
            raise self._pipeline.failure(self._job.id, self._ref, stage, stored.error)
        return False

    def _done(self, stored: StoredRun | None) -> set[str]:
        """The stages that this run has behind it."""
        if stored is None:
            return set()
        by_name = {stage.name: stage for stage in self._pipeline.stages}
        done = {stage.name for stage in stored.stages if stage.state is StageState.COMPLETED}
        for one in stored.stages:
            if one.state is StageState.FAILED and one.name in by_name and not self._stops(by_name[one.name]):
                done.add(one.name)
        return done

    async def _has_nothing_to_do(self, record: StoredRecord) -> bool:
        """Whether the record is final, or an earlier run did the work while this one waited for its turn."""
        machine = self._pipeline.records.machine
        if machine is not None and record.status in machine.final:
            return True
        completed, failed = await self._last(RunState.COMPLETED), await self._last(RunState.FAILED)
        if not completed or (failed and failed[0].started_at > completed[0].started_at):
            return False
        run = completed[0]
        asked_before_its_end = run.ended_at is not None and run.ended_at >= self._job.fetched.enqueued_at
        return asked_before_its_end and (run.uid, run.version) == (record.uid, record.version)

    async def _last(self, state: RunState) -> Sequence[StoredRun]:
        """The last run of the record with a state. Skipped runs did nothing, so they answer no request."""
        wanted = RunFilter(self._pipeline.name, *self._ref, state)
        return await self._client.repeat(lambda: self._store.list(wanted, limit=1))

    def _stops(self, stage: Stage) -> bool:
        """Whether the run fails with this stage."""
        return self._mode is Mode.FAILFAST or (self._mode is Mode.SELECTIVE and stage.required)

    def _count_end(self, state: RunState) -> None:
        pipeline, (kind, record) = self._pipeline.name, self._ref
        self._pipeline.metrics.run_ended(pipeline, state)
        emit(
            _log,
            logging.INFO,
            "pipeline_run_ended",
            run=self._job.id,
            pipeline=pipeline,
            kind=kind,
            record=record,
            state=str(state),
        )

    # -- one stage -----------------------------------------------------------------------------------------------------

    async def _run_stage(self, place: int, stage: Stage, attempt: int, *, is_last: bool) -> None:
        engine = self._pipeline.engine
        stored = await engine.read(self._ref)
        progress = StageProgress(stage.name, place, StageState.RUNNING, attempt)
        entry = self._entry(Action.RECORD_STAGE_START, progress)
        await self._save(RunState.RUNNING, stored, progress, (entry,))
        # Read after the checkpoint: what others wrote before the stage is journaled as started is part of its input.
        current = await engine.read(self._ref)
        begun = self._client.clock.monotonic()
        run = StageRun(
            self._job.id, self._pipeline.name, stage.name, self._ref.id, self._mode, attempt, self._job.fence
        )
        after = RunState.COMPLETED if is_last else RunState.RUNNING
        record: OpenRecord[M] | None = None
        failure: Exception | None = None
        try:
            record = OpenRecord(self._pipeline.codec, self._ref, existing(self._ref, current), self._attribution)
            await self._call(stage, record, run)
        except Signal:
            raise
        except Exception as error:  # noqa: BLE001 - any error of a stage is its failure
            failure = error
        took = self._client.clock.monotonic() - begun
        if record is not None and failure is None:
            try:
                await self._complete(record, self._content(record), progress, after)
            except (_TakenOverError, StoreUnavailableError):
                raise
            except Exception as error:  # noqa: BLE001 - what the stage made of the record cannot be stored
                failure = error
        if failure is not None:
            await self._fail(stage, progress, failure, took, is_last=is_last)
        else:
            self._pipeline.metrics.stage_ended(self._pipeline.name, stage.name, "completed", took)

    async def _call(self, stage: Stage, record: OpenRecord[M], run: StageRun) -> None:
        """Run the stage's code. What it does to its own record applies to the model that it has."""
        with opened(self._pipeline.engine, record):
            try:
                async with asyncio.timeout(stage.timeout) as bound:
                    made = await stage(record.record, run)
            except TimeoutError as error:
                if bound.expired():
                    raise TimeoutError(f"It ran for more than {stage.timeout:g} s.") from error
                raise
            if made is not None:
                record.assign(made)

    def _content(self, record: OpenRecord[M]) -> Content:
        """Return the content that the stage has made. Raises if it is invalid, or its status is not allowed."""
        codec = self._pipeline.codec
        content = codec.write_content(record.record, self._ref.id, record.history)
        status = allowed_status(codec.machine, record.status, content.status)
        if status != content.status:
            record.notes["_kept"] = ["status"]
            return content.with_status(status)
        if codec.machine is not None:
            codec.machine.check(str(self._ref), record.status, content.status)
        return content

    async def _complete(self, record: OpenRecord[M], after: Content, progress: StageProgress, state: RunState) -> None:
        before = record.before
        progress = progress._replace(state=StageState.COMPLETED)
        entry = self._entry(Action.RECORD_STAGE_COMPLETE, progress)
        notes = {**self._notes(progress), **record.notes}

        def draft(current: StoredRecord) -> Draft | None:
            if current.uid != record.stored.uid:
                raise RecordNotFoundError(f"{self._ref} was deleted and created again while the stage ran.")
            if current.version == record.stored.version:
                return (
                    None
                    if after == before
                    else Draft(before, after, Action.RECORD_UPDATE, self._attribution, notes=notes)
                )
            now = self._pipeline.codec.content(current)
            self._pipeline.metrics.merged(self._pipeline.name)
            merged, kept = merged_content(before, after, now, self._pipeline.codec.machine)
            if merged == now:
                return None
            self._check_merged(merged, current)
            told = {**notes, "_merged_from": record.stored.version}
            if kept:
                told["_kept"] = sorted({*notes.get("_kept", ()), *kept})
            return Draft(now, merged, Action.RECORD_UPDATE, self._attribution, notes=told)

        await self._write(record.stored, draft, state, progress, entry)

    def _check_merged(self, merged: Content, current: StoredRecord) -> None:
        try:
            self._pipeline.codec.corrected(self._ref.id, merged, current)
        except ValidationError as error:
            raise InvalidArgumentError(
                f"Others changed {self._ref} while the stage ran, and with the stage's own changes it would not match "
                f"its model.",
                remedy="Run the pipeline again.",
            ) from error

    async def _fail(
        self, stage: Stage, progress: StageProgress, error: Exception, took: float, *, is_last: bool
    ) -> None:
        """Store the failure of a stage. Raises if the run cannot go on."""
        text = one_line(error)
        self._pipeline.metrics.stage_ended(self._pipeline.name, stage.name, "failed", took)
        emit(
            _log,
            logging.WARNING,
            "pipeline_stage_failed",
            run=self._job.id,
            pipeline=self._pipeline.name,
            kind=self._ref.kind,
            record=self._ref.id,
            stage=stage.name,
            error=text,
        )
        progress = progress._replace(state=StageState.FAILED, error=text)
        stops = self._stops(stage)
        delay = self._pipeline.retry_delay(error, self._job.attempt) if stops else None
        fails = stops and delay is None
        state = RunState.FAILED if fails else RunState.COMPLETED if is_last and not stops else RunState.RUNNING
        entry = self._entry(Action.RECORD_STAGE_FAIL, progress)
        try:
            stored = existing(self._ref, await self._pipeline.engine.read(self._ref))
            await self._write(
                stored, lambda now: self._failed_draft(now, progress) if fails else None, state, progress, entry
            )
        except RecordNotFoundError:
            await self._save(state, None, progress, (entry,), text if fails else "")
        if delay is not None:
            raise RetryLater(delay, f"Stage {stage.name}: {text}") from error
        if fails:
            self._pipeline.note_failure(self._job.id, error)
            self._count_end(RunState.FAILED)
            raise self._pipeline.failure(self._job.id, self._ref, stage.name, text) from error

    def _failed_draft(self, current: StoredRecord, progress: StageProgress) -> Draft | None:
        """The change to the declared status of failed records, if the machine allows it."""
        status, machine = self._pipeline.failed, self._pipeline.records.machine
        if (
            status is None
            or current.status == status
            or (machine is not None and not machine.allows(current.status, status))
        ):
            return None
        before = self._pipeline.codec.content(current)
        after = before.with_status(status)
        return Draft(before, after, Action.RECORD_TRANSITION, self._attribution, notes=self._notes(progress))

    # -- writing -------------------------------------------------------------------------------------------------------

    async def _write(
        self, read: StoredRecord, draft: Any, state: RunState, progress: StageProgress, entry: NewEntry
    ) -> None:
        """Write the end of a stage to the record as it is now: at once, or in turn if others keep changing it."""
        current: StoredRecord | None = read
        for _ in range(_OPTIMISTIC):
            answer = await self._attempt(existing(self._ref, current), None, draft, state, progress, entry)
            if isinstance(answer, Saved):
                return
            if isinstance(answer, Busy):
                break
            current = await self._pipeline.engine.read(self._ref)
        while True:
            async with self._lease() as owner:
                current = await self._pipeline.engine.read(self._ref, current=True)
                answer = await self._attempt(existing(self._ref, current), owner, draft, state, progress, entry)
            if isinstance(answer, Saved):
                return

    @asynccontextmanager
    async def _lease(self) -> AsyncIterator[str]:
        """Queue for the record's lease behind those who edit it, however long they take."""
        async with self._pipeline.engine.leases([self._ref], None) as held:
            yield held[self._ref].lease.owner

    async def _attempt(
        self,
        current: StoredRecord,
        owner: str | None,
        draft: Any,
        state: RunState,
        progress: StageProgress,
        entry: NewEntry,
    ) -> Saved | Busy | Conflict | LeaseLost:
        """Save the checkpoint with the change that the current record needs; returns why it was not possible."""
        made = draft(current)
        error = progress.error if state is RunState.FAILED else ""
        if made is None:
            # The version is not checked: there is nothing that could be lost.
            return await self._save(state, current, progress, (entry,), error)
        self._step += 1

        async def send(change: RecordChange) -> WriteAnswer:
            checkpoint = self._checkpoint(state, current, progress, (entry,), error)._replace(change=change)
            answer = await self._store.save(checkpoint)
            if isinstance(answer, FetchEnded):
                raise self._lost()
            return Written(answer.version or 0, answer.updated_at) if isinstance(answer, Saved) else answer

        answer = await self._pipeline.engine.write_by(Change(self._ref, made, current), owner, send)
        if isinstance(answer, Written):
            return Saved(*answer)
        if isinstance(answer, (Busy, Conflict, LeaseLost)):
            return answer
        raise refusal_error(self._ref, answer)

    async def _save(
        self,
        state: RunState,
        record: StoredRecord | None,
        stage: StageProgress | None = None,
        entries: tuple[NewEntry, ...] = (),
        error: str = "",
    ) -> Saved:
        """Save a checkpoint that does not change the record."""
        self._step += 1
        checkpoint = self._checkpoint(state, record, stage, entries, error)
        answer = await self._client.repeat(lambda: self._store.save(checkpoint))
        if isinstance(answer, FetchEnded):
            raise self._lost()
        assert isinstance(answer, Saved)
        return answer

    def _checkpoint(
        self,
        state: RunState,
        record: StoredRecord | None,
        stage: StageProgress | None,
        entries: tuple[NewEntry, ...],
        error: str,
    ) -> Checkpoint:
        return Checkpoint(
            self._job.id,
            self._job.fence,
            self._step,
            self._pipeline.name,
            *self._ref,
            self._mode,
            self._names,
            state,
            "" if record is None else record.uid,
            None if record is None else record.version,
            error,
            stage,
            None,
            entries,
        )

    def _lost(self) -> _TakenOverError:
        return _TakenOverError(
            f"The run {self._job.id} of {self._pipeline.name!r} goes on elsewhere; this process wrote nothing.",
            remedy="Nothing has to be done: another worker has taken the run over.",
        )

    def _notes(self, stage: StageProgress) -> dict[str, Any]:
        return {
            "_pipeline": self._pipeline.name,
            "_run": self._job.id,
            "_stage": stage.name,
            "_attempt": stage.attempt,
        }

    def _entry(self, action: Action, stage: StageProgress) -> NewEntry:
        notes = self._notes(stage) | ({"_error": stage.error} if stage.error else {})
        after = json.dumps(notes, ensure_ascii=False)
        return NewEntry(self._attribution, action, "record", subject_key(*self._ref), None, after)
