"""Waiting for the end of a job, and its result or error for the caller."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from interlock.errors import (
    DeadlockError,
    JobCancelledError,
    JobExpiredError,
    JobFailedError,
    JobTimeoutError,
    NotFoundError,
    ResultGoneError,
    StoreUnavailableError,
)
from interlock.jobs.current import CURRENT, current_engine
from interlock.jobs.explain import explain_job
from interlock.jobs.options import after_in
from interlock.operations import unknown_job
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from interlock.jobs.definition import Definition
    from interlock.jobs.engine import JobEngine
    from interlock.ports.job_views import JobView
    from interlock.ports.jobs import FetchedJob

__all__ = ["end_of", "newest", "result_in"]

_REMEDY = "Enqueue it without waiting, or give it a lane and limits other than those of the waiting job."


async def newest(engine: JobEngine, job: int) -> JobView:
    """A job, or the one that superseded it; ``NotFoundError`` for an unknown job."""
    seen: set[int] = set()
    while True:
        number = job
        view = await engine.repeat(lambda: engine.insight.get(number))  # noqa: B023 - awaited at once
        if view is None:
            raise unknown_job(job)
        seen.add(job)
        if view.state is not JobState.SUPERSEDED or view.superseded_by is None or view.superseded_by in seen:
            return view
        job = view.superseded_by


async def end_of(engine: JobEngine, job: int, wait: float | None) -> JobView:
    """The ended job, or the one that superseded it. Waits for this many seconds; None for no limit."""
    give_up = None if wait is None else engine.monotonic() + wait
    me = CURRENT.get() if current_engine.get() is engine else None
    while True:
        try:
            view = await newest(engine, job)
        except NotFoundError:
            raise ResultGoneError(f"Job {job} is no longer kept.", job=job) from None
        if view.state.final:
            return view
        job = view.id
        if me is not None:
            _refuse_deadlock(me.fetched, view, engine.awaited)
        left = None if give_up is None else give_up - engine.monotonic()
        if left is not None and left <= 0:
            raise await _timed_out(engine, job, wait)
        await _sleep(engine, job, left, me.fetched.id if me is not None else None)
        engine.ensure_open()


def result_in(view: JobView, definition: Definition | None) -> Any:
    """The result of an ended job. Raises the error that says why there is none."""
    if view.state is JobState.DONE:
        if view.result is None:
            if view.result_kept_until is not None:
                raise ResultGoneError(f"The result of {_job(view)} is no longer kept.", job=view.id)
            return None
        return json.loads(view.result) if definition is None else definition.read_result(view.result)
    cause = f": {view.error}" if view.error else ""
    if view.state is JobState.EXPIRED:
        raise JobExpiredError(
            f"{_job(view)} expired{cause}.",
            job=view.id,
            remedy=f"Enqueue another with more time, or run it after all: interlock jobs retry {view.id}.",
        )
    if view.state in (JobState.CANCELLED, JobState.DISCARDED):
        raise JobCancelledError(
            f"{_job(view)} was {view.state}{cause}.",
            job=view.id,
            remedy=f"Enqueue another, or retry it: interlock jobs retry {view.id}.",
        )
    if view.state is JobState.QUARANTINED:
        cause = f": {view.crashes} workers died while it was their only suspect"
    raise JobFailedError(
        f"{_job(view)} {'was quarantined' if view.state is JobState.QUARANTINED else 'failed'}{cause}.",
        job=view.id,
        state=str(view.state),
        error=view.error,
        trace=view.attempts[-1].trace if view.attempts else "",
        remedy=f"Fix the cause, then retry: interlock jobs retry {view.id}.",
    )


async def _sleep(engine: JobEngine, job: int, seconds: float | None, waiter: int | None) -> None:
    """Wait until the job may have ended. If a job waits, it is recorded in ``engine.awaited``."""
    if waiter is None:
        await engine.end_watcher.wait(job, seconds)
        return
    awaited = engine.awaited.setdefault(waiter, [])
    awaited.append(job)
    try:
        await engine.end_watcher.wait(job, seconds)
    finally:
        awaited.remove(job)
        if not awaited:
            engine.awaited.pop(waiter, None)


async def _timed_out(engine: JobEngine, job: int, wait: float | None) -> JobTimeoutError:
    try:
        found = await engine.insight.situations([job])
        cause = explain_job(found[0]).lines[0] if found else "it has just ended"
    except StoreUnavailableError:
        cause = "the store is unavailable"
    return JobTimeoutError(
        f"Job {job} has not ended within {wait or 0:g} s: {cause}.",
        job=job,
        remedy=f"Wait longer (wait=…, or FOREVER), or see what it waits for: interlock explain job {job}.",
    )


def _refuse_deadlock(me: FetchedJob, other: JobView, awaited: dict[int, list[int]]) -> None:
    """Raise an error if a handler waits for a job that cannot run before the handler has ended."""
    waits = f"job {me.id} ({me.name}) waits for job {other.id} ({other.name})"
    if other.id == me.id:
        raise DeadlockError(f"{waits}, which is itself.", cycle=[waits], remedy="A job cannot await its own result.")
    if me.lane and other.lane == me.lane:
        behind = f"job {other.id} is behind job {me.id} in the lane {me.lane!r}"
        raise DeadlockError(f"{waits}, and {behind}.", cycle=[waits, behind], remedy=_REMEDY)
    if other.state is JobState.BLOCKED and me.id in after_in(other.options):
        after = f"job {other.id} starts after job {me.id} has ended"
        raise DeadlockError(f"{waits}, and {after}.", cycle=[waits, after], remedy="Let the handler end first.")
    for use in other.uses:
        if not use.per and use.key in me.slots:
            needs = f"job {other.id} needs room in {use.key!r}, of which job {me.id} has a part"
            raise DeadlockError(f"{waits}, and {needs}.", cycle=[waits, needs], remedy=_REMEDY)
    chain = _chain(other.id, me.id, awaited)
    if chain:
        cycle = [waits, *(f"job {one} waits for job {two}" for one, two in pairwise(chain))]
        raise DeadlockError(f"{', '.join(cycle)}.", cycle=cycle, remedy="Let one of them end without waiting.")


def _chain(start: int, end: int, awaited: dict[int, list[int]]) -> list[int]:
    """The path from one job to another along the waits of this process; empty if there is none."""
    paths = [[start]]
    seen = {start}
    while paths:
        path = paths.pop()
        for after in awaited.get(path[-1], ()):
            if after == end:
                return [*path, after]
            if after not in seen:
                seen.add(after)
                paths.append([*path, after])
    return []


def _job(view: JobView) -> str:
    return f"Job {view.id} ({view.name})"
