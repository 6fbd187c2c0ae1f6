"""Runs of pipelines as rows and pages, each with the stage that it is at and what that waits for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, cast

from interlock.clock import as_text
from interlock.errors import InvalidArgumentError, NotFoundError
from interlock.explanation import Explanation, Subject, brief, command, span
from interlock.insight.jobs import explain_a_job, job_rows_of
from interlock.insight.views import Listing
from interlock.ports.jobs import JobState
from interlock.ports.pipelines import RunPosition, RunState, StageState
from interlock.reasons import Reason

if TYPE_CHECKING:
    from interlock.insight.job_rows import JobRow
    from interlock.insight.stores import Stores
    from interlock.insight.views import Seen
    from interlock.ports.job_views import JobView
    from interlock.ports.pipelines import RunFilter, StoredRun, StoredStage

__all__ = ["RunPage", "RunRow", "StageRow", "explain_a_run", "run_listing", "run_of_job", "run_page", "with_stage"]

JOB_PREFIX = "pipeline."
WAITING, PENDING = "waiting", "pending"
_REASONS = {
    RunState.COMPLETED: Reason.DONE,
    RunState.SKIPPED: Reason.DONE,
    RunState.FAILED: Reason.FAILED,
    RunState.RUNNING: Reason.CANCELLED,
}


class StageRow(NamedTuple):
    """One stage of a run."""

    name: str
    position: int
    state: str
    """pending, running, completed or failed."""
    attempt: int
    started_at: float | None
    ended_at: float | None
    seconds: float | None
    """How long its last attempt took, or has been running; None if it has not started."""
    error: str


class RunRow(NamedTuple):
    """One run."""

    id: int
    pipeline: str
    kind: str
    record: str
    mode: str
    state: str
    """waiting, running, completed, failed or skipped; or how its job ended otherwise, such as cancelled."""
    started_at: float | None
    ended_at: float | None
    seconds: float | None
    """From its start to its end, or until now."""
    error: str
    stages: tuple[StageRow, ...]
    reason: str
    why: str

    @property
    def stage(self) -> StageRow | None:
        """The stage that it is at: the one that runs, or that failed last, or else the first that has not started."""
        for state in (StageState.RUNNING, PENDING):
            found = next((one for one in self.stages if one.state == state), None)
            if found is not None and self.state in (RunState.RUNNING, WAITING):
                return found
        return next((one for one in reversed(self.stages) if one.state == StageState.FAILED), None)


class RunPage(NamedTuple):
    """One run in detail."""

    run: RunRow
    job: JobRow | None
    """Its job; None if that is no longer kept."""
    explanation: Explanation[Reason]
    seen: tuple[Seen, ...]


async def run_listing(stores: Stores, wanted: RunFilter, limit: int, before: str) -> Listing[RunRow]:
    """Runs that have started, the last one first."""
    found = await stores.store.pipelines.list(wanted, limit=limit + 1, before=_position(before))
    shown = found[:limit]
    open_runs = [run.id for run in shown if not run.state.final]
    jobs = {row.job.id: row for row in await job_rows_of(stores, open_runs)}
    rows = tuple(_row(stores, run, jobs.get(run.id)) for run in shown)
    more = f"{shown[-1].started_at!r}:{shown[-1].id}" if len(found) > limit else None
    return Listing(rows, more, stores.now())


async def run_page(stores: Stores, number: int) -> RunPage:
    """One run in detail. Raises ``NotFoundError`` if it is unknown."""
    row, job = await _run(stores, number)
    why = await _explained(stores, row, job)
    return RunPage(row, job, why, stores.seen(stores.now(), "jobs", "records"))


async def explain_a_run(stores: Stores, number: int) -> Explanation[Reason]:
    """Explain a run: its stage, and what that waits for."""
    return await _explained(stores, *await _run(stores, number))


async def run_of_job(stores: Stores, job: JobView) -> RunRow | None:
    """The run that a job is, if it is one."""
    if not job.name.startswith(JOB_PREFIX) or "records" not in stores.parts:
        return None
    found = await stores.store.pipelines.get(job.id)
    if found is None and "record" not in _arguments(job):
        return None
    return _row(stores, found, None, job)


async def with_stage(stores: Stores, why: Explanation[Reason]) -> Explanation[Reason]:
    """Add the stage to the explanation of a job that is a run."""
    if "records" not in stores.parts:
        return why
    found = await stores.store.pipelines.get(int(why.subject.ref))
    return why if found is None else _with_line(why, _row(stores, found, None))


# -- parts -------------------------------------------------------------------------------------------------------------


async def _run(stores: Stores, number: int) -> tuple[RunRow, JobRow | None]:
    stored = await stores.store.pipelines.get(number)
    rows = await job_rows_of(stores, [number])
    job = rows[0] if rows else None
    if stored is None and (job is None or not job.job.name.startswith(JOB_PREFIX)):
        raise NotFoundError(f"There is no run {number}.", remedy=f"List them: {command('pipelines', 'list')}.")
    whole = None
    if stored is None:
        whole = await stores.store.insight.get(number)
    return _row(stores, stored, job, whole), job


async def _explained(stores: Stores, row: RunRow, job: JobRow | None) -> Explanation[Reason]:
    if job is not None:
        return _with_line(await explain_a_job(stores, row.id), row)
    lines = [_sentence(row), "Its job is no longer kept."]
    return Explanation.of(Subject("job", str(row.id)), Reason(row.reason), row.why, lines, "", {"run": row.id})


def _with_line(why: Explanation[Reason], row: RunRow) -> Explanation[Reason]:
    """Add where the run stands to the explanation of its job: a run is a job."""
    first, at = _sentence(row), row.stage
    told = why.lines[: len(why.lines) - bool(why.remedy)]
    short = why.why if at is None else brief(f"stage {at.name!r}: {why.why}" if why.why else f"stage {at.name!r}")
    stage = None if at is None else {"name": at.name, "state": at.state, "attempt": at.attempt}
    about = {"pipeline": row.pipeline, "record": f"{row.kind}/{row.record}", "state": row.state, "stage": stage}
    lines = [first, *told]
    return Explanation.of(why.subject, why.reason, short, lines, why.remedy, {**why.data, "run": about})


def _sentence(row: RunRow) -> str:
    """Where a run stands."""
    name = f"Run {row.id} of the pipeline {row.pipeline!r} for {row.kind} {row.record!r}"
    done = sum(one.state == StageState.COMPLETED for one in row.stages)
    at, total = row.stage, len(row.stages)
    if row.state == WAITING:
        return f"{name} has not started; it has {total} stages."
    if row.state == RunState.RUNNING and at is not None:
        place = f"stage {at.position + 1} of {total}, {at.name!r}"
        if at.state != StageState.RUNNING or at.started_at is None:
            return f"{name} is before {place}."
        attempt = f", attempt {at.attempt}" if at.attempt > 1 else ""
        return f"{name} is at {place}{attempt}, which started at {as_text(at.started_at)}."
    took = "" if row.seconds is None else f" after {span(row.seconds)}"
    if row.state == RunState.FAILED and at is not None:
        return f"{name} failed{took} at stage {at.position + 1} of {total}, {at.name!r}: {row.error}"
    if row.state == RunState.SKIPPED:
        return f"{name} ran no stage: there was nothing to do."
    failed = sum(one.state == StageState.FAILED for one in row.stages)
    beside = f", {failed} failed" if failed else ""
    return f"{name} was {row.state}{took}: {done} of {total} stages were completed{beside}."


def _row(stores: Stores, run: StoredRun | None, job: JobRow | None, view: JobView | None = None) -> RunRow:
    view = view or (None if job is None else job.job)
    ended = view is not None and view.state.final and view.state is not JobState.DONE
    reason, why = ("", "") if job is None else (job.reason, job.why)
    if run is None:
        assert view is not None
        arguments = _arguments(view)
        kind, _, record = view.lane.partition(":")
        state = str(view.state) if ended else WAITING
        mode = str(arguments.get("mode", ""))
        name = view.name.removeprefix(JOB_PREFIX)
        return RunRow(view.id, name, kind, record, mode, state, None, None, None, "", (), reason, why)
    state = str(view.state) if view is not None and ended and not run.state.final else str(run.state)
    found = {stage.name: stage for stage in run.stages}
    names = dict.fromkeys([*run.names, *found])
    now = stores.now()
    stages = tuple(_stage(name, place, found.get(name), now) for place, name in enumerate(names))
    until = run.ended_at if run.ended_at is not None else now
    if run.state.final or job is None:
        reason = str(_REASONS[run.state])
        why = brief(run.error) if run.error else str(run.state)
    seconds = max(0.0, until - run.started_at)
    what = (run.id, run.pipeline, run.kind, run.record, run.mode, state)
    return RunRow(*what, run.started_at, run.ended_at, seconds, run.error, stages, reason, why)


def _stage(name: str, place: int, stored: StoredStage | None, now: float) -> StageRow:
    if stored is None:
        return StageRow(name, place, PENDING, 0, None, None, None, "")
    until = now if stored.ended_at is None else stored.ended_at
    seconds = max(0.0, until - stored.started_at)
    times = (stored.started_at, stored.ended_at, seconds)
    return StageRow(name, place, str(stored.state), stored.attempt, *times, stored.error)


def _arguments(job: JobView) -> dict[str, object]:
    try:
        found = json.loads(job.arguments)
    except ValueError:
        return {}
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


def _position(text: str) -> RunPosition | None:
    if not text:
        return None
    at, _, number = text.rpartition(":")
    try:
        return RunPosition(float(at), int(number))
    except ValueError:
        raise InvalidArgumentError(f"Invalid position {text[:40]!r}.", remedy="Use more of the page before.") from None
