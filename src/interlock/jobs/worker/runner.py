"""A long-lived task that runs jobs one after the other and awaits their handlers itself."""

from __future__ import annotations

import asyncio
import logging
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from interlock.errors import InvalidArgumentError
from interlock.jobs.causes import caused_by_job
from interlock.jobs.current import CurrentJob
from interlock.jobs.definition import Terms
from interlock.jobs.worker.around import run_around
from interlock.jobs.worker.handler_steps import call, first_step, other_steps
from interlock.jobs.worker.outcomes import (
    LANE_CONTINUES,
    LateStartError,
    PreparationError,
    StopCause,
    failed,
    log_outcome,
    outcome_of,
    returned,
    stopped,
    unreadable,
)
from interlock.jobs.worker.threads import HandlerThread
from interlock.ports.jobs import Acknowledgement, FetchedJob, Outcome
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from contextvars import Context

    from interlock.jobs.definition import Definition
    from interlock.jobs.worker.runner_pool import RunnerPool
    from interlock.jobs.worker.session_batch import SessionBatch

__all__ = ["Runner"]

_log = logging.getLogger("interlock.jobs")
_DONE = Outcome.DONE


class Runner:
    """One of a worker's runners. ``job`` is the job it runs right now."""

    __slots__ = (
        "_arguments",
        "_awaited",
        "_cancels",
        "_context",
        "_current",
        "_definition",
        "_ending",
        "_number",
        "_pool",
        "_terms",
        "_thread",
        "_work",
        "job",
        "session_batch",
        "started",
        "stop_cause",
        "stop_text",
        "task",
    )

    task: asyncio.Task[None]
    session_batch: SessionBatch
    _arguments: dict[str, Any]
    _context: Context
    _current: CurrentJob
    _definition: Definition
    _terms: Terms | None
    _awaited: Any
    _work: Coroutine[Any, Any, Any] | None

    def __init__(self, pool: RunnerPool, number: int) -> None:
        self._pool = pool
        self._number = number
        self._thread: HandlerThread | None = None
        self._cancels = 0
        self._ending = False
        self.job: FetchedJob | None = None
        self.started = 0.0
        self.stop_cause = StopCause.NONE
        self.stop_text = ""

    async def work(self) -> None:
        """Run the jobs of the buffer until cancelled."""
        pool = self._pool
        buffer, completer, throughput, monotonic = pool.buffer, pool.completer, pool.throughput, pool.monotonic
        take, add, following = buffer.take, completer.add, buffer.following
        while not self._ending:
            run = take()
            if run is None:
                pool.became_idle()
                await buffer.wait()
                throughput.next_slice(monotonic())
                continue
            session_batch = self.session_batch = buffer.session_batch
            if isinstance(run, FetchedJob):
                job = run
            else:
                job = run.popleft()
                if run:
                    following[job.id, job.fence] = run
            acknowledgement = self._start(job, session_batch)
            if acknowledgement is None:
                acknowledgement = await self._finish(job, session_batch)
            if acknowledgement is not None:
                add(session_batch, acknowledgement, job)
                if following and acknowledgement.outcome not in LANE_CONTINUES:
                    pool.return_following(job)
            if monotonic() >= throughput.until:
                await asyncio.sleep(0)
                throughput.next_slice(monotonic())
            if completer.full:
                await completer.wait_for_room()

    def interrupt(self, cause: StopCause, text: str) -> None:
        """Tell the running handler, if there is one, to stop. A stronger cause tells it once more."""
        job = self.job
        if job is None or cause <= self.stop_cause:
            return
        self.stop_cause, self.stop_text = cause, text
        if self._thread is not None and self._thread.busy:
            emit(_log, logging.WARNING, "job_cannot_be_stopped", id=job.id, job=job.name, cause=text)
        elif asyncio.current_task() is self.task:
            # The handler itself caused this. Cancelled while it runs, it might be cancelled again after its end.
            asyncio.get_running_loop().call_soon(self._cancel, job)
        else:
            self._cancel(job)

    def abandon(self) -> None:
        """Stop waiting for a thread that does not end."""
        if self._thread is not None and self._thread.busy and self.job is not None:
            self._pool.abandon(self.job, self.session_batch, self._thread)

    def close_thread(self) -> None:
        """Let the thread end."""
        if self._thread is not None:
            self._thread.close()

    def _cancel(self, job: FetchedJob) -> None:
        if self.job is job:
            self._cancels += 1
            self.task.cancel(self.stop_text)

    def _time_out(self, job: FetchedJob, timeout: float) -> None:
        if self.job is job:
            self.interrupt(StopCause.TIMEOUT, f"It ran for more than {timeout:g} s.")

    # -- one job -----------------------------------------------------------------------------------------------------

    def _start(self, job: FetchedJob, session_batch: SessionBatch) -> Acknowledgement | None:
        """Start a job. Returns its outcome if that ends it; None if it goes on, or its session is over."""
        pool = self._pool
        session = session_batch.session
        self.started = now = pool.monotonic()
        if session.lost or now >= session.deadline:
            pool.lose_session(session)
            return None
        definition = pool.definitions.get(job.name)
        if definition is None:
            return returned(job)
        try:
            arguments = definition.read(job.arguments)
            self._terms = definition.terms(job.options) if job.options else None
        except Exception as error:  # noqa: BLE001 - the app's own validators may raise anything
            acknowledgement = unreadable(job, error, pool.version_of(definition, job.name))
            pool.count(job.name, acknowledgement.outcome)
            log_outcome(job, acknowledgement)
            return acknowledgement
        if job.window is not None and definition.prepare is None and not pool.in_time(job, job.window):
            return returned(job)
        pool.waits.observe(max(0.0, now + pool.clock_offset - job.due_at))
        self.job = job
        session.at_work += 1
        self._definition = definition
        context = pool.context.copy()
        if not definition.is_async or definition.prepare is not None or pool.middleware:
            self._context, self._work, self._arguments = context, None, arguments
            return None
        try:
            current = self._current = CurrentJob(job, pool.logs, arguments)
            work = definition.function(**arguments)
            self._awaited = context.run(first_step, current, work)
        except StopIteration as end:
            return self._ended(job, session_batch, end.value, None)
        except BaseException as error:  # noqa: BLE001 - any error of a handler is its job's failure
            return self._ended(job, session_batch, None, error)
        self._context, self._work, self._arguments = context, work, arguments
        return None

    async def _finish(self, job: FetchedJob, session_batch: SessionBatch) -> Acknowledgement | None:
        """Run a started job to its end. Returns None if there is no outcome to report."""
        if self.job is None:
            return None
        pool = self._pool
        pool.buffer.wake_runner()
        terms = self._terms
        timeout = self._definition.timeout if terms is None else terms.timeout
        timer = None if timeout is None else pool.loop.call_later(timeout, self._time_out, job, timeout)
        value, error = None, None
        try:
            if self._definition.prepare is not None:
                self._arguments = await _prepared(self._definition.prepare, self._arguments)
                if job.window is not None and not pool.in_time(job, job.window):
                    raise LateStartError
            if self._definition.is_async or pool.middleware:
                value = await self._in_task(job)
            else:
                await self._in_thread(CurrentJob(job, pool.logs, self._arguments), self._context)
                assert self._thread is not None
                value, error = self._thread.result()
        except GeneratorExit:
            self.job = None
            session_batch.session.at_work -= 1
            raise
        except BaseException as caught:  # noqa: BLE001 - any error of a handler is its job's failure
            error = caught
        finally:
            if timer is not None:
                timer.cancel()
        if self._thread is not None and self._thread.busy:
            # The thread goes on alone: it was abandoned, or the end of the loop cancelled this task.
            pool.abandon(job, session_batch, self._thread)
            self.job = None
            self._ending = True
            pool.return_following(job)
            return None
        del self._work, self._context, self._arguments  # the next job may be a long time coming
        try:
            return self._ended(job, session_batch, value, error)
        finally:
            error = None  # its traceback refers to this frame

    async def _in_task(self, job: FetchedJob) -> Any:
        work = self._work
        if work is None:
            current = self._current = CurrentJob(job, self._pool.logs, self._arguments)
            middleware = tuple(self._pool.middleware)
            if middleware:
                work = run_around(middleware, current, partial(self._handle, current))
            else:
                work = self._definition.function(**self._arguments)
            self._work = work
            try:
                self._awaited = self._context.run(first_step, current, work)
            except StopIteration as end:
                return end.value
        return await other_steps(self._context, work, self._awaited)

    async def _handle(self, current: CurrentJob) -> Any:
        """Run the handler inside of middleware."""
        if self._definition.is_async:
            return await self._definition.function(**self._arguments)
        # A copy: while the thread runs in it, the middleware may be resumed in the other, to be cancelled.
        await self._in_thread(current, copy_context())
        thread = self._thread
        assert thread is not None
        if thread.busy:
            raise asyncio.CancelledError("The thread was abandoned.")
        value, error = thread.result()
        if error is not None:
            raise error
        return value

    async def _in_thread(self, current: CurrentJob, context: Context) -> None:
        if self._thread is None:
            self._thread = HandlerThread(self._pool.loop, f"interlock-job-{self._number}")
        self._current = current
        work = partial(call, current, self._definition.function, self._arguments)
        self._thread.start(partial(context.run, work))
        await self._thread.wait()

    def _ended(
        self, job: FetchedJob, session_batch: SessionBatch, value: Any, error: BaseException | None
    ) -> Acknowledgement:
        """Return the outcome of a handler that has ended."""
        pool = self._pool
        ran = pool.monotonic() - self.started
        self.job = None
        session_batch.session.at_work -= 1
        throughput = pool.throughput
        throughput.finished += 1
        throughput.spent += ran
        definition = self._definition
        if self.task.cancelling():
            self._uncancel()
        if error is None and self.stop_cause is not StopCause.LOST:
            acknowledgement = self._done(job, definition, ran, value)
        elif self.stop_cause is StopCause.LOST:
            acknowledgement = stopped(job, ran, self.stop_text)
        else:
            assert error is not None
            terms = self._terms or Terms(definition.retry, definition.timeout)
            acknowledgement = outcome_of(job, ran, error, terms, self.stop_cause, self.stop_text)
        self.stop_cause = StopCause.NONE
        if acknowledgement.outcome is Outcome.RETURNED:
            return acknowledgement
        pool.count(job.name, acknowledgement.outcome).durations.observe(ran)
        if acknowledgement.outcome is not _DONE:
            log_outcome(job, acknowledgement)
        return acknowledgement

    def _done(self, job: FetchedJob, definition: Definition, ran: float, value: Any) -> Acknowledgement:
        follow_ups = self._current.follow_ups
        if value is None and follow_ups is None:
            return Acknowledgement(job.id, job.fence, _DONE, ran)
        try:
            result = None if value is None else definition.write(value)
            if follow_ups is None:
                return Acknowledgement(job.id, job.fence, _DONE, ran, 0.0, result)
            cause = caused_by_job(job.id, self._current.event_id)
            new = tuple(call.new(0, cause) for call in follow_ups)
            return Acknowledgement(job.id, job.fence, _DONE, ran, 0.0, result, follow_ups=new)
        except Exception as error:  # noqa: BLE001 - the app's own serializers may raise anything
            if not isinstance(error, InvalidArgumentError):
                error = InvalidArgumentError(f"Could not serialize the result of {job.name!r}: {error!r}.")
            return failed(job, ran, error)

    def _uncancel(self) -> None:
        """Clear the cancellations that were meant for the handler. Any other cancellation ends the runner."""
        if self.task.cancelling() > self._cancels:
            self._ending = True
        while self.task.cancelling():
            self.task.uncancel()
        self._cancels = 0


async def _prepared(
    prepare: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]], arguments: dict[str, Any]
) -> dict[str, Any]:
    try:
        return await prepare(arguments)
    except Exception as error:
        raise PreparationError(error) from error
