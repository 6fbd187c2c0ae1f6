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
    "GOES_ON",
    "LateStartError",
    "UnpreparedError",
    "Why",
    "failed_for_good",
    "note",
    "one_line",
    "returned",
    "stopped",
    "told",
    "unreadable",
]

_log = logging.getLogger("interlock.jobs")
UNLOADED_DELAY = 5.0
"""Seconds until a job is tried again whose event could not be loaded."""
_MOST_LINE = 2000
_MOST_TRACE = 20_000
_OWN = str(Path(__file__).parent)

GOES_ON = frozenset({Outcome.DONE, Outcome.DISCARDED, Outcome.CANCELLED})
"""After these the next job of the lane may follow. After any other the lane may have to wait."""


class UnpreparedError(Exception):
    """What the handler takes could not be had, so that it never began."""

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


class LateStartError(Exception):
    """The handler did not begin, as it would have come too close to the next start under the same rate or cooldown."""


class Why(IntEnum):
    """Why a handler was told to stop, the stronger reason last."""

    NOTHING = 0
    TIMEOUT = 1
    CANCELLED = 2
    """A person cancelled the job."""
    STOPPED = 3
    """The worker was stopped."""
    LOST = 4
    """The session was lost: others may run the job soon."""


def note(job: FetchedJob, acknowledgement: Acknowledgement) -> None:
    """Log an end that somebody may want to hear of."""
    if acknowledgement.outcome is Outcome.FAILED:
        emit(
            _log, logging.ERROR, "job_failed", id=job.id, job=job.name, attempt=job.attempt, error=acknowledgement.error
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
    """It never started."""
    return Acknowledgement(job.id, job.fence, Outcome.RETURNED)


def unreadable(job: FetchedJob, error: BaseException, reads: HandlerVersion) -> Acknowledgement:
    """This version cannot read its arguments; another may."""
    version = json.dumps([reads.fingerprint, reads.version])
    who = f"refused by version {reads.version} ({reads.fingerprint})"
    return Acknowledgement(job.id, job.fence, Outcome.UNREADABLE, result=version, error=one_line(error), trace=who)


def failed_for_good(job: FetchedJob, ran: float, error: BaseException) -> Acknowledgement:
    """What its handler gave is no good, and would not be next time."""
    return Acknowledgement(job.id, job.fence, Outcome.FAILED, ran, error=one_line(error))


def stopped(job: FetchedJob, ran: float, why: str) -> Acknowledgement:
    """It is to start again, and has not failed."""
    return Acknowledgement(job.id, job.fence, Outcome.SNOOZED, ran, error=_bounded(why))


def told(job: FetchedJob, ran: float, error: BaseException, terms: Terms, why: Why, why_text: str) -> Acknowledgement:
    """What an exception of the handler means, which may have been told to stop before."""
    if why is Why.CANCELLED:
        return Acknowledgement(job.id, job.fence, Outcome.CANCELLED, ran, error=_bounded(why_text))
    if why is Why.STOPPED:
        return stopped(job, ran, why_text)
    if isinstance(error, LateStartError):
        return returned(job)
    if isinstance(error, UnpreparedError):
        return _unprepared(job, ran, error.why)
    signal = _signal_in(error)
    if isinstance(signal, Discard):
        return Acknowledgement(job.id, job.fence, Outcome.DISCARDED, ran, error=_bounded(signal.reason))
    if isinstance(signal, Snooze):
        return Acknowledgement(job.id, job.fence, Outcome.SNOOZED, ran, signal.seconds, error=_bounded(signal.reason))
    if isinstance(signal, RetryLater):
        outcome = Outcome.RETRY if job.attempt < terms.retry.attempts else Outcome.FAILED
        delay = signal.seconds if outcome is Outcome.RETRY else 0.0
        return Acknowledgement(job.id, job.fence, outcome, ran, delay, error=_bounded(signal.reason) or "RetryLater")
    trace = _trace(error)
    if isinstance(error, asyncio.CancelledError):
        if why is Why.TIMEOUT:
            error = TimeoutError(why_text)
        else:
            error = asyncio.CancelledError("The handler was cancelled, and not by its worker.")
    again_in = _again_in(job, error, terms)
    if again_in is None:
        return Acknowledgement(job.id, job.fence, Outcome.FAILED, ran, error=one_line(error), trace=trace)
    return Acknowledgement(job.id, job.fence, Outcome.RETRY, ran, again_in, error=one_line(error), trace=trace)


def _unprepared(job: FetchedJob, ran: float, why: Exception) -> Acknowledgement:
    """The event of a job could not be loaded. Only one that is gone, or that nobody can read, fails the job."""
    if isinstance(why, StoreUnavailableError):
        return returned(job)  # loading has waited for the store already
    if isinstance(why, (EventGoneError, MalformedEventError)):
        return failed_for_good(job, ran, why)
    delay = UNLOADED_DELAY * random.uniform(0.8, 1.2)  # noqa: S311 - only spreads them out
    return Acknowledgement(job.id, job.fence, Outcome.SNOOZED, ran, delay, error=f"Not loaded: {one_line(why)}")


def one_line(error: BaseException) -> str:
    """What kind of error, and what it says."""
    kind = type(error).__qualname__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an error that cannot even say what it is
        text = "(it cannot be shown)"
    return _bounded(f"{kind}: {text}" if text else kind)


def _again_in(job: FetchedJob, error: BaseException, terms: Terms) -> float | None:
    try:
        return terms.retry.again_in(error, job.attempt)
    except Exception as mistake:  # noqa: BLE001 - a predicate of the app's own may be wrong
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
    """Where it happened, without the steps on the way to the handler."""
    try:
        lines = traceback.format_exception(type(error), error, _from_handler(error.__traceback__))
    except Exception as mistake:  # noqa: BLE001 - an error that cannot be shown
        return one_line(mistake)
    text = _plain("".join(lines))
    return text if len(text) <= _MOST_TRACE else f"{text[: _MOST_TRACE // 2]}\n…\n{text[-_MOST_TRACE // 2 :]}"


def _from_handler(trace: TracebackType | None) -> TracebackType | None:
    first = trace
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_OWN):
        first = first.tb_next
    return first or trace


def _bounded(text: str) -> str:
    line = _plain(" ".join(text.split("\n")).strip())
    return line if len(line) <= _MOST_LINE else f"{line[:_MOST_LINE]}…"


def _plain(text: str) -> str:
    """As text that every store can keep."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
