"""A pipeline of an app: ``app.pipeline("intake", intents, stages=[…])``."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel

from interlock.arguments import Wait, checked_key, checked_limit, checked_wait
from interlock.errors import (
    DeadlockError,
    InterlockError,
    InvalidArgumentError,
    JobTimeoutError,
    LockTimeoutError,
    MisuseError,
    NotFoundError,
    PipelineError,
)
from interlock.jobs.current import current_job
from interlock.jobs.definition import Definition
from interlock.jobs.jobs import engine_of
from interlock.jobs.options import JobOptions, checked_name
from interlock.jobs.results import end_of, result_in
from interlock.jobs.retry import Retry
from interlock.jobs.worker.direct import direct_worker_of
from interlock.operations import attributed
from interlock.pipelines.execution import Execution
from interlock.pipelines.stages import Mode, checked_mode, checked_stages
from interlock.pipelines.views import Run, RunView, run_view, waiting_run
from interlock.ports.jobs import JobState
from interlock.ports.pipelines import RunFilter, RunState
from interlock.ports.records import subject_key
from interlock.records.edit import open_record
from interlock.records.engine import Ref, existing
from interlock.records.machine import status_text
from interlock.sessions import program
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.job import Call
    from interlock.jobs.jobs import Jobs
    from interlock.jobs.worker.direct import DirectWorker
    from interlock.limits.kinds import Limit
    from interlock.ports.job_views import JobView
    from interlock.ports.pipelines import StoredRun
    from interlock.records.engine import RecordEngine
    from interlock.records.fields import Codec
    from interlock.records.records import Records
    from interlock.telemetry.pipelines import PipelineMetrics

__all__ = ["DEFAULT_FAILED", "JOB_PREFIX", "Pipeline", "RunHandle"]

M = TypeVar("M", bound=BaseModel)
_log = logging.getLogger("interlock.pipelines")
JOB_PREFIX = "pipeline."
"""The name of a pipeline's job is this and the pipeline's name."""
DEFAULT_FAILED = "failed"
"""The status of records whose run has failed, if their machine has it."""
_DEFAULT_WAIT = 5.0
_RESULT_WAIT = 60.0


class Pipeline(Generic[M]):
    """Ordered stages over the records of one kind.

    A run is a job in the record's lane: two runs of one record never overlap. :meth:`run` runs it in this process, and
    :meth:`enqueue` leaves it to the workers; whichever process dies, another continues at the next stage.
    """

    def __init__(
        self,
        jobs: Jobs,
        name: str,
        records: Records[M],
        engine: RecordEngine,
        metrics: PipelineMetrics,
        stages: Iterable[object],
        *,
        mode: str = Mode.FAILFAST,
        failed: object = DEFAULT_FAILED,
        queue: str = "default",
        priority: int = 50,
        limits: Iterable[Limit] = (),
        retry: Retry = Retry.NEVER,
    ) -> None:
        self.name = checked_name("pipeline", name)
        self.records = records
        self.engine = engine
        self.metrics = metrics
        self.stages = checked_stages(stages)
        self.mode = checked_mode(mode)
        self.failed = self._checked_failed(failed)
        self._jobs = jobs
        # The end of a run is decided here, by the stage's own error, and not once more by the error that says so.
        decided = replace(retry, permanent=(_is_decided, *retry.permanent))
        given = {"queue": queue, "priority": priority, "limits": limits, "retry": decided, "lane": self._lane_of}
        definition = Definition(self._handle, JobOptions.of(given), name=f"{JOB_PREFIX}{self.name}")
        self._job = jobs.define(definition)
        self._retry = retry
        self._callers: dict[int, Exception | None] = {}
        """The runs that callers in this process wait for, and the errors with which they failed."""

    @property
    def kind(self) -> str:
        """The kind of its records."""
        return self.records.kind

    @property
    def codec(self) -> Codec[M]:
        """The codec of its records."""
        return self.records.codec

    @property
    def queue(self) -> str:
        """The queue of its jobs."""
        return self._job.chosen.queue

    def lane(self, record_id: str) -> str:
        """The lane of a record: give it to other jobs that must not overlap with runs."""
        return checked_key(subject_key(self.kind, record_id))

    # -- running -------------------------------------------------------------------------------------------------------

    async def run(self, record_id: str, wait: Wait = _DEFAULT_WAIT, *, mode: str | None = None, by: str = "") -> Run[M]:
        """Run the stages for a record in this process, and return the run with the record.

        The run is durable before its first stage starts: if this process dies, any worker continues it. Raises
        :class:`LockTimeoutError` if it cannot start within ``wait`` seconds because another run of the record, a hold
        or a limit is in its way; then it is withdrawn. Raises :class:`PipelineError` if it fails, and
        :class:`RecordNotFoundError` if there is no such record. Canceling the caller withdraws a run that has not
        started; one that has started goes on.
        """
        seconds = checked_wait(wait)
        call = await self._call(record_id, mode, by)
        engine = engine_of(self._jobs)
        engine.direct_names.update(name for name in engine.definitions if name.startswith(JOB_PREFIX))
        worker = direct_worker_of(engine, self.queue)
        enqueuing = asyncio.ensure_future(engine.enqueue([call]))
        try:
            (run,) = await asyncio.shield(enqueuing)
        except asyncio.CancelledError:
            self._withdraw_later(engine, worker, call.lane, enqueuing)
            raise
        self._callers[run] = None
        try:
            with worker.serving(call.lane) as asked:
                try:
                    view = await self._end_of(engine, run, record_id, seconds, asked)
                except asyncio.CancelledError:
                    self._withdraw_later(engine, worker, call.lane, enqueuing)
                    raise
                except DeadlockError:
                    await self._withdraw(engine, run, "Its caller would wait for itself.")
                    raise
            return await self._result(view)
        finally:
            self._callers.pop(run, None)

    async def enqueue(self, record_id: str, *, mode: str | None = None, by: str = "") -> RunHandle[M]:
        """Have a worker run the stages for a record. Durable when this returns."""
        (run,) = await engine_of(self._jobs).enqueue([await self._call(record_id, mode, by)])
        return RunHandle(self, run, record_id)

    async def _call(self, record_id: str, mode: str | None, by: str) -> Call[Any]:
        ref = self.refuse_own(record_id)
        chosen = self.mode if mode is None else checked_mode(mode)
        actor = attributed("A pipeline", by or program(), "", optional=True).actor
        existing(ref, await self.engine.read(ref))
        return self._job.call(record=record_id, mode=str(chosen), by=actor)

    def refuse_own(self, record_id: object) -> Ref:
        """Raise if this task is changing the record, for which a run would have to wait."""
        ref = self._ref(record_id)
        if open_record(self.engine, ref) is not None:
            raise MisuseError(
                f"{ref} is being changed by this task, so a run of it would have to wait for this task itself.",
                remedy="Run the pipeline after the edit or the stage.",
            )
        return ref

    def _ref(self, record_id: object) -> Ref:
        if not isinstance(record_id, str) or not record_id:
            raise InvalidArgumentError(f"Invalid record ID {record_id!r:.60}.", remedy="Use text.")
        self.lane(record_id)
        return Ref(self.kind, record_id)

    async def _end_of(
        self, engine: JobEngine, run: int, record_id: str, wait: float | None, asked: asyncio.Future[None]
    ) -> JobView:
        """Wait for the end of a run, and withdraw it if it has not started in time."""
        try:
            return await end_of(engine, run, wait)
        except JobTimeoutError as error:
            cause = error.message.partition(": ")[2]
        # It counts as not started only if this process has tried.
        await asyncio.wait([asked], timeout=engine.settings.store_wait)
        if await self._withdraw(engine, run, f"It did not start within {wait or 0:g} s."):
            raise LockTimeoutError(
                f"The run of {self.name!r} for {self.kind} {record_id!r} did not start within {wait or 0:g} s and was "
                f"withdrawn: {cause}",
                remedy="Wait longer (wait=…), or enqueue it.",
            )
        return await end_of(engine, run, None)

    async def _withdraw(self, engine: JobEngine, run: int, reason: str) -> bool:
        """Cancel a run that has not started; return whether it was cancelled."""
        attribution = attributed("Withdrawing a run", program(), reason)
        state = await engine.repeat(lambda: engine.jobs.cancel(run, attribution, unless_fetched=True))
        return state is JobState.CANCELLED

    def _withdraw_later(
        self, engine: JobEngine, worker: DirectWorker, lane: str, enqueuing: asyncio.Future[Any]
    ) -> None:
        """Withdraw a run whose caller does not wait for it any more, or let it go on here if it has started."""

        async def withdraw() -> None:
            run: int | None = None
            try:
                (run,) = await enqueuing
                withdrawn = await self._withdraw(engine, run, "Its caller was cancelled.")
            except Exception as error:  # noqa: BLE001 - the run stays queued, and workers run it
                emit(_log, logging.WARNING, "pipeline_run_not_withdrawn", run=run, error=repr(error))
                return
            if not withdrawn:
                # There may be no worker, and it may have to be tried again.
                with worker.serving(lane), suppress(InterlockError):
                    await end_of(engine, run, None)

        task = asyncio.get_running_loop().create_task(withdraw(), name="interlock-withdrawal")
        _withdrawals.add(task)
        task.add_done_callback(_withdrawals.discard)

    async def _handle(self, record: str, mode: str, by: str) -> None:
        """Run the stages that are left: the handler of the pipeline's job."""
        await Execution(self, current_job(), Ref(self.kind, record), checked_mode(mode), by).run()

    def _lane_of(self, record: str, **_: Any) -> str:
        return self.lane(record)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def retry_delay(self, error: Exception, attempt: int) -> float | None:
        """Seconds until a run is tried again whose stage failed with this error; None if it has failed."""
        return self._retry.retry_delay(error, attempt)

    def note_failure(self, run: int, error: Exception) -> None:
        """Keep the error of a failed run for the caller that waits for it."""
        if run in self._callers:
            self._callers[run] = error

    def failure(self, run: int, ref: Ref, stage: str, text: str) -> PipelineError:
        """The error of a failed run."""
        return PipelineError(
            f"The stage {stage!r} of {self.name!r} failed for {ref}: {text}.",
            job=run,
            stage=stage,
            record=ref.id,
            error=text,
            remedy=f"Fix the cause, then run the pipeline again. See: interlock pipelines show {run}.",
        )

    async def result_of(self, run: int, wait: float | None) -> Run[M]:
        """Wait for the end of a run, and return it with its record."""
        return await self._result(await end_of(engine_of(self._jobs), run, wait))

    async def _result(self, view: JobView) -> Run[M]:
        stored = await self._stored(view.id)
        if stored is not None and stored.state is RunState.FAILED and view.state is JobState.FAILED:
            stage = next((one.name for one in reversed(stored.stages) if one.error), "")
            ref = Ref(stored.kind, stored.record)
            raise self.failure(view.id, ref, stage, stored.error) from self._callers.get(view.id)
        result_in(view, None)  # raises unless it is done
        ref = self._ref(json.loads(view.arguments)["record"])
        return Run(await self.records.get(ref.id), self._view(stored, view))

    def _checked_failed(self, failed: object) -> str | None:
        machine = self.records.machine
        if failed is None:
            return None
        status = status_text(failed)
        if machine is None or status not in machine.statuses:
            if status == DEFAULT_FAILED:
                return None
            raise InvalidArgumentError(
                f"The machine of {self.kind} has no status {status!r}.",
                remedy="Pass failed=… one that it has, or None.",
            )
        return status

    # -- reading -------------------------------------------------------------------------------------------------------

    async def get(self, run: int) -> RunView:
        """Return a run. Raises :class:`NotFoundError` if it is unknown or no longer kept."""
        stored = await self._stored(run)
        engine = engine_of(self._jobs)
        job = await engine.repeat(lambda: engine.insight.get(run))
        mine = (stored is None and job is not None and job.name == self._job.name) or (
            stored is not None and stored.pipeline == self.name
        )
        if not mine:
            raise NotFoundError(f"{self.name!r} has no run {run}.", remedy="Find it: interlock pipelines list.")
        return self._view(stored, job)

    async def list(self, record_id: str = "", *, state: str = "", limit: int = 100) -> Sequence[RunView]:
        """List runs that have started, the last one first."""
        wanted = RunFilter(self.name, self.kind, record_id, RunState(state) if state else None)
        client = self.engine.store_client
        found = await client.repeat(lambda: client.store.pipelines.list(wanted, limit=checked_limit(limit)))
        return [run_view(one) for one in found]

    async def _stored(self, run: int) -> StoredRun | None:
        client = self.engine.store_client
        return await client.repeat(lambda: client.store.pipelines.get(run))

    def _view(self, stored: StoredRun | None, job: JobView | None) -> RunView:
        ended = job is not None and job.state.final and job.state is not JobState.DONE
        if stored is not None:
            return run_view(stored, str(job.state) if job is not None and ended and not stored.state.final else "")
        assert job is not None
        arguments = json.loads(job.arguments)
        names = tuple(stage.name for stage in self.stages)
        view = waiting_run(job.id, self.name, self.kind, arguments["record"], arguments["mode"], names)
        return replace(view, state=str(job.state)) if ended else view

    def __repr__(self) -> str:
        return f"<Pipeline {self.name}>"


class RunHandle(Generic[M]):
    """A run that was enqueued."""

    __slots__ = ("_pipeline", "_record", "id")

    def __init__(self, pipeline: Pipeline[M], id: int, record: str) -> None:  # noqa: A002
        self._pipeline = pipeline
        self._record = record
        self.id = id

    async def result(self, wait: Wait = _RESULT_WAIT) -> Run[M]:
        """Wait for the end of the run, and return it with its record; errors are those of :meth:`Pipeline.run`.

        Raises :class:`JobTimeoutError` if it has not ended within ``wait``; the run is not affected.
        """
        self._pipeline.refuse_own(self._record)
        return await self._pipeline.result_of(self.id, checked_wait(wait))

    async def view(self) -> RunView:
        """Return how far the run is."""
        return await self._pipeline.get(self.id)

    def __repr__(self) -> str:
        return f"<RunHandle of run {self.id}>"


_withdrawals: set[asyncio.Task[None]] = set()


def _is_decided(error: BaseException) -> bool:
    return isinstance(error, PipelineError)
