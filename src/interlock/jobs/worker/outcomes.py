"""What the end of a handler means for its job."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import traceback
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, cast

from interlock.errors import EventGoneError, MalformedEventError, StoreUnavailableError
from interlock.jobs.signals import Discard, RetryLater, Signal, Snooze
from interlock.ports.jobs import Acknowledgement, Outcome
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from types import TracebackType

    from interlock.jobs.definition import Terms
    from interlock.ports.jobs import FetchedJob, HandlerVersion

__all__ = [
    "LANE_CONTINUES",
    "LateStartError",
    "PreparationError",
    "StopCause",
    "failed",
    "log_outcome",
    "one_line",
    "outcome_of",
    "returned",
    "stopped",
    "unreadable",
]

_log = logging.getLogger("interlock.jobs")
UNLOADED_DELAY = 5.0
"""Seconds until a job is retried whose event could not be loaded."""
_MAX_LINE = 2000
_MAX_TRACE = 20_000
_MAX_LOGGED_TRACE = 4000
_OWN = str(Path(__file__).parent)

LANE_CONTINUES = frozenset({Outcome.DONE, Outcome.DISCARDED, Outcome.CANCELLED})
"""After these outcomes the next job of the lane may start. After any other the lane may have to wait."""


class PreparationError(Exception):
    """The handler's arguments could not be loaded, so it never started."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class LateStartError(Exception):
    """The handler did not start: it would have been too close to the next start under the same rate or cooldown."""


class StopCause(IntEnum):
    """Why a handler was told to stop. The stronger cause has the larger number."""

    NONE = 0
    TIMEOUT = 1
    CANCELLED = 2
    """A person cancelled the job."""
    STOPPED = 3
    """The worker was stopped."""
    LOST = 4
    """The session was lost: another worker may run the job soon."""


def log_outcome(job: FetchedJob, acknowledgement: Acknowledgement) -> None:
    """Log a failure, a retry or unreadable arguments."""
    if acknowledgement.outcome is Outcome.FAILED:
        emit(
            _log,
            logging.ERROR,
            "job_failed",
            id=job.id,
            job=job.name,
            attempt=job.attempt,
            error=acknowledgement.error,
            traceback=_short(acknowledgement.trace),
        )
    elif acknowledgement.outcome is Outcome.RETRY:
        emit(
            _log,
            logging.WARNING,
            "job_to_be_retried",
            id=job.id,
            job=job.name,
            attempt=job.attempt,
            delay=round(acknowledgement.delay, 3),
            error=acknowledgement.error,
        )
    elif acknowledgement.outcome is Outcome.UNREADABLE:
        emit(_log, logging.ERROR, "job_unreadable", id=job.id, job=job.name, error=acknowledgement.error)


def returned(job: FetchedJob) -> Acknowledgement:
    """Return a job that never started."""
    return Acknowledgement(job.id, job.fence, Outcome.RETURNED)


def unreadable(job: FetchedJob, error: BaseException, reads: HandlerVersion) -> Acknowledgement:
    """Return a job whose arguments this version of the handler cannot read; another version may."""
    version = json.dumps([reads.fingerprint, reads.version])
    refused = f"refused by version {reads.version} ({reads.fingerprint})"
    return Acknowledgement(job.id, job.fence, Outcome.UNREADABLE, result=version, error=one_line(error), trace=refused)


def failed(job: FetchedJob, ran: float, error: BaseException) -> Acknowledgement:
    """Fail a job permanently: it would fail in the same way again."""
    return Acknowledgement(job.id, job.fence, Outcome.FAILED, ran, error=one_line(error))


def stopped(job: FetchedJob, ran: float, cause: str) -> Acknowledgement:
    """Return a job that was interrupted. It starts again and has not failed."""
    return Acknowledgement(job.id, job.fence, Outcome.SNOOZED, ran, error=_bounded(cause))


def outcome_of(
    job: FetchedJob, ran: float, error: BaseException, terms: Terms, cause: StopCause, cause_text: str
) -> Acknowledgement:
    """The outcome of a handler that raised an exception, perhaps because it was told to stop."""
    if cause is StopCause.CANCELLED:
        return Acknowledgement(job.id, job.fence, Outcome.CANCELLED, ran, error=_bounded(cause_text))
    if cause is StopCause.STOPPED:
        return stopped(job, ran, cause_text)
    if isinstance(error, LateStartError):
        return returned(job)
    if isinstance(error, PreparationError):
        return _unprepared(job, ran, error.cause)
    signal = _signal_in(error)
    if isinstance(signal, Discard):
        return Acknowledgement(job.id, job.fence, Outcome.DISCARDED, ran, error=_bounded(signal.reason))
    if isinstance(signal, Snooze):
        return Acknowledgement(job.id, job.fence, Outcome.SNOOZED, ran, signal.delay, error=_bounded(signal.reason))
    if isinstance(signal, RetryLater):
        outcome = Outcome.RETRY if job.attempt < terms.retry.attempts else Outcome.FAILED
        delay = signal.delay if outcome is Outcome.RETRY else 0.0
        return Acknowledgement(job.id, job.fence, outcome, ran, delay, error=_bounded(signal.reason) or "RetryLater")
    trace = _trace(error)
    if isinstance(error, asyncio.CancelledError):
        if cause is StopCause.TIMEOUT:
            error = TimeoutError(cause_text)
        else:
            error = asyncio.CancelledError("The handler was cancelled, and not by its worker.")
    delay_or_none = _retry_delay(job, error, terms)
    if delay_or_none is None:
        return Acknowledgement(job.id, job.fence, Outcome.FAILED, ran, error=one_line(error), trace=trace)
    return Acknowledgement(job.id, job.fence, Outcome.RETRY, ran, delay_or_none, error=one_line(error), trace=trace)


def _unprepared(job: FetchedJob, ran: float, cause: Exception) -> Acknowledgement:
    """The outcome of a job whose event could not be loaded. Only an event that is gone or malformed fails the job."""
    if isinstance(cause, StoreUnavailableError):
        return returned(job)  # loading has waited for the store already
    if isinstance(cause, (EventGoneError, MalformedEventError)):
        return failed(job, ran, cause)
    delay = UNLOADED_DELAY * random.uniform(0.8, 1.2)  # noqa: S311 - only spreads the retries
    return Acknowledgement(job.id, job.fence, Outcome.SNOOZED, ran, delay, error=f"Not loaded: {one_line(cause)}")


def one_line(error: BaseException) -> str:
    """The type and message of an error in one line."""
    kind = type(error).__qualname__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an error whose __str__ fails
        text = "(its message cannot be shown)"
    return _bounded(f"{kind}: {text}" if text else kind)


def _retry_delay(job: FetchedJob, error: BaseException, terms: Terms) -> float | None:
    try:
        return terms.retry.retry_delay(error, job.attempt)
    except Exception as mistake:  # noqa: BLE001 - the app's own predicates may raise anything
        emit(_log, logging.ERROR, "job_classification_failed", id=job.id, job=job.name, error=one_line(mistake))
        return None if job.attempt >= terms.retry.attempts else terms.retry.delay_after(job.attempt)


def _signal_in(error: BaseException) -> Signal | None:
    """The signal that a handler raised, perhaps out of a task group."""
    while isinstance(error, BaseExceptionGroup):
        first, *others = cast("BaseExceptionGroup[BaseException]", error).exceptions
        if others:
            return None
        error = first
    return error if isinstance(error, Signal) else None


def _trace(error: BaseException) -> str:
    """The traceback without the worker's own frames before the handler."""
    try:
        lines = traceback.format_exception(type(error), error, _from_handler(error.__traceback__))
    except Exception as mistake:  # noqa: BLE001 - an error that cannot be formatted
        return one_line(mistake)
    text = _plain("".join(lines))
    return text if len(text) <= _MAX_TRACE else f"{text[: _MAX_TRACE // 2]}\n…\n{text[-_MAX_TRACE // 2 :]}"


def _short(trace: str) -> str:
    """A traceback for the log: its beginning and its end, where the error is."""
    if len(trace) <= _MAX_LOGGED_TRACE:
        return trace
    return f"{trace[: _MAX_LOGGED_TRACE // 4]}\n…\n{trace[-3 * _MAX_LOGGED_TRACE // 4 :]}"


def _from_handler(trace: TracebackType | None) -> TracebackType | None:
    first = trace
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_OWN):
        first = first.tb_next
    return first or trace


def _bounded(text: str) -> str:
    line = _plain(" ".join(text.split("\n")).strip())
    return line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…"


def _plain(text: str) -> str:
    """Text that every store can keep."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
