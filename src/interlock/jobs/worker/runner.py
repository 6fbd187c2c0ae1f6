"""Runs jobs, one after the other: a long-lived task that awaits the handlers itself."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from interlock.errors import InvalidArgumentError
from interlock.jobs.current import CurrentJob
from interlock.jobs.definition import Terms
from interlock.jobs.worker.drive import call, first_step, other_steps
from interlock.jobs.worker.outcomes import (
    GOES_ON,
    LateStartError,
    UnpreparedError,
    Why,
    failed_for_good,
    note,
    returned,
    stopped,
    told,
    unreadable,
)
from interlock.jobs.worker.threads import Hand
from interlock.ports.jobs import Acknowledgement, FetchedJob, Outcome
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from contextvars import Context

    from interlock.jobs.definition import Definition
    from interlock.jobs.worker.runner_pool import Crew
    from interlock.jobs.worker.session_batch import Tenure

__all__ = ["Runner"]

_log = logging.getLogger("interlock.jobs")
_DONE = Outcome.DONE


class Runner:
    """One of a worker's runners. ``job`` is what it runs right now."""

    __slots__ = (
        "_arguments",
        "_cancels",
        "_context",
        "_crew",
        "_definition",
        "_hand",
        "_number",
        "_terms",
        "_unwanted",
        "_waits_for",
        "_work",
        "job",
        "started",
        "task",
        "tenure",
        "why",
        "why_text",
    )

    task: asyncio.Task[None]
    tenure: Tenure
    _arguments: dict[str, Any]
    _context: Context
    _definition: Definition
    _terms: Terms | None
    _waits_for: Any
    _work: Coroutine[Any, Any, Any] | None

    def __init__(self, crew: Crew, number: int) -> None:
        self._crew = crew
        self._number = number
        self._hand: Hand | None = None
        self._cancels = 0
        self._unwanted = False
        self.job: FetchedJob | None = None
        self.started = 0.0
        self.why = Why.NOTHING
        self.why_text = ""

    async def work(self) -> None:
        """Run what is in the buffer, for ever."""
        crew = self._crew
        take, add, pace, completer = crew.buffer.take, crew.completer.add, crew.pace, crew.completer
        monotonic, behind = crew.monotonic, crew.behind
        while not self._unwanted:
            run = take()
            if run is None:
                await crew.await_work()
                pace.next_slice(monotonic())
                continue
            tenure = self.tenure = crew.tenure
            if isinstance(run, FetchedJob):
                job = run
            else:
                job = run.popleft()
                if run:
                    behind[job.id, job.fence] = run
            acknowledgement = self._start(job, tenure)
            if acknowledgement is None:
                acknowledgement = await self._go_on(job, tenure)
            if acknowledgement is not None:
                add(tenure, acknowledgement, job)
                if behind and acknowledgement.outcome not in GOES_ON:
                    crew.give_back_behind(job)
            if monotonic() >= pace.until:
                await asyncio.sleep(0)
                pace.next_slice(monotonic())
            if completer.full:
                await completer.room()

    def interrupt(self, why: Why, text: str) -> None:
        """Tell the handler that runs, if one does, to stop. A stronger reason tells it once more."""
        job = self.job
        if job is None or why <= self.why:
            return
        self.why, self.why_text = why, text
        if self._hand is not None and self._hand.busy:
            emit(_log, logging.WARNING, "job_cannot_be_stopped", id=job.id, job=job.name, why=text)
        elif asyncio.current_task() is self.task:
            # It is told by what it does right now. Cancelled while it runs it might be so once more after its end.
            asyncio.get_running_loop().call_soon(self._cancel, job)
        else:
            self._cancel(job)

    def leave(self) -> None:
        """Wait no longer for a thread that does not end."""
        if self._hand is not None and self._hand.busy and self.job is not None:
            self._crew.abandon(self.job, self.tenure, self._hand)

    def retire(self) -> None:
        """Let go of the thread."""
        if self._hand is not None:
            self._hand.retire()

    def _cancel(self, job: FetchedJob) -> None:
        if self.job is job:
            self._cancels += 1
            self.task.cancel(self.why_text)

    def _time_out(self, job: FetchedJob, timeout: float) -> None:
        if self.job is job:
            self.interrupt(Why.TIMEOUT, f"It ran for more than {timeout:g} s.")

    # -- one job -----------------------------------------------------------------------------------------------------

    def _start(self, job: FetchedJob, tenure: Tenure) -> Acknowledgement | None:
        """Begin a job. Its acknowledgement if it has ended by that; None if it goes on, or cannot begin in this
        session."""
        crew = self._crew
        session = tenure.session
        self.started = now = crew.monotonic()
        if session.lost or now >= session.deadline:
            crew.lose(session)
            return None
        definition = crew.definitions.get(job.name)
        if definition is None:
            return returned(job)
        try:
            arguments = definition.read(job.arguments)
            self._terms = definition.terms(job.options) if job.options else None
        except Exception as error:  # noqa: BLE001 - validators are the app's own and may raise anything
            acknowledgement = unreadable(job, error, crew.reads(definition, job.name))
            crew.count(job.name, acknowledgement.outcome)
            note(job, acknowledgement)
            return acknowledgement
        if job.window is not None and definition.prepare is None and not crew.in_time(job, job.window):
            return returned(job)
        crew.waits.observe(max(0.0, now + crew.clock_offset - job.due_at))
        self.job = job
        session.at_work += 1
        self._definition = definition
        context = crew.context.copy()
        if not definition.is_async or definition.prepare is not None:
            self._context, self._work, self._arguments = context, None, arguments
            return None
        try:
            work = definition.function(**arguments)
            self._waits_for = context.run(first_step, CurrentJob(job), work)
        except StopIteration as end:
            return self._ended(job, tenure, end.value, None)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its job's failure
            return self._ended(job, tenure, None, error)
        self._context, self._work, self._arguments = context, work, arguments
        return None

    async def _go_on(self, job: FetchedJob, tenure: Tenure) -> Acknowledgement | None:
        """See a job through to its end. None if nothing can be said about it."""
        if self.job is None:
            return None
        crew = self._crew
        crew.wake_next()
        terms = self._terms
        timeout = self._definition.timeout if terms is None else terms.timeout
        timer = None if timeout is None else crew.loop.call_later(timeout, self._time_out, job, timeout)
        value, error = None, None
        try:
            if self._definition.prepare is not None:
                self._arguments = await _prepared(self._definition.prepare, self._arguments)
                if job.window is not None and not crew.in_time(job, job.window):
                    raise LateStartError
            if self._definition.is_async:
                value = await self._in_task(job)
            else:
                await self._in_thread(job)
                assert self._hand is not None
                value, error = self._hand.result()
        except GeneratorExit:
            self._forget(tenure)
            raise
        except BaseException as caught:  # noqa: BLE001 - whatever a handler raises is its job's failure
            error = caught
        finally:
            if timer is not None:
                timer.cancel()
        if self._hand is not None and self._hand.busy:
            # Its thread goes on without us: left alone, or because this task was cancelled by the loop's end.
            crew.abandon(job, tenure, self._hand)
            self.job = None
            self._unwanted = True
            crew.give_back_behind(job)
            return None
        del self._work, self._context, self._arguments  # however long the next one lets us wait
        try:
            return self._ended(job, tenure, value, error)
        finally:
            error = None  # whose traceback knows this frame

    async def _in_task(self, job: FetchedJob) -> Any:
        work = self._work
        if work is None:
            work = self._work = self._definition.function(**self._arguments)
            try:
                self._waits_for = self._context.run(first_step, CurrentJob(job), work)
            except StopIteration as end:
                return end.value
        return await other_steps(self._context, work, self._waits_for)

    async def _in_thread(self, job: FetchedJob) -> None:
        if self._hand is None:
            self._hand = Hand(self._crew.loop, f"interlock-job-{self._number}")
        work = partial(call, CurrentJob(job), self._definition.function, self._arguments)
        self._hand.begin(partial(self._context.run, work))
        await self._hand.end()

    def _ended(self, job: FetchedJob, tenure: Tenure, value: Any, error: BaseException | None) -> Acknowledgement:
        """Its handler has ended: what to say of it."""
        crew = self._crew
        ran = crew.monotonic() - self.started
        self.job = None
        tenure.session.at_work -= 1
        pace = crew.pace
        pace.finished += 1
        pace.spent += ran
        definition = self._definition
        if self.task.cancelling():
            self._uncancel()
        if error is None and self.why is not Why.LOST:
            acknowledgement = self._done(job, definition, ran, value)
        elif self.why is Why.LOST:
            acknowledgement = stopped(job, ran, self.why_text)
        else:
            assert error is not None
            terms = self._terms or Terms(definition.retry, definition.timeout)
            acknowledgement = told(job, ran, error, terms, self.why, self.why_text)
        self.why = Why.NOTHING
        if acknowledgement.outcome is Outcome.RETURNED:
            return acknowledgement
        crew.count(job.name, acknowledgement.outcome).durations.observe(ran)
        if acknowledgement.outcome is not _DONE:
            note(job, acknowledgement)
        return acknowledgement

    def _done(self, job: FetchedJob, definition: Definition, ran: float, value: Any) -> Acknowledgement:
        if value is None:
            return Acknowledgement(job.id, job.fence, _DONE, ran)
        try:
            return Acknowledgement(job.id, job.fence, _DONE, ran, 0.0, definition.write(value))
        except Exception as error:  # noqa: BLE001 - serialisers are the app's own and may raise anything
            if not isinstance(error, InvalidArgumentError):
                error = InvalidArgumentError(f"The result of {job.name!r} cannot be kept: {error!r}.")
            return failed_for_good(job, ran, error)

    def _uncancel(self) -> None:
        """Take back the cancellations that were meant for the handler. One that was not ours ends the runner."""
        if self.task.cancelling() > self._cancels:
            self._unwanted = True
        while self.task.cancelling():
            self.task.uncancel()
        self._cancels = 0

    def _forget(self, tenure: Tenure) -> None:
        self.job = None
        tenure.session.at_work -= 1


async def _prepared(
    prepare: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]], arguments: dict[str, Any]
) -> dict[str, Any]:
    try:
        return await prepare(arguments)
    except Exception as error:
        raise UnpreparedError(error) from error
