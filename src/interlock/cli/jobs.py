"""``interlock jobs``: list, show, retry and cancel jobs, and read their logs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from interlock.cli.confirmation import By, Yes, confirm, named
from interlock.cli.explanations import explain_subject
from interlock.cli.insight_reader import ask, whole_list
from interlock.cli.job_logs import print_logs
from interlock.cli.operations import All, Bulk, OptionalReason, apply_to_store, check_choice
from interlock.cli.output import Json, Limit, print_json, say, say_if_cut, shown
from interlock.cli.store_url import StoreUrl, opened, with_store
from interlock.cli.tables import Column, Table, moment, state_cell
from interlock.cli.tables import tail as tail_cell
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock.insight import Insight, JobRow
    from interlock.operations import Operations
    from interlock.ports.job_views import JobFilter, JobSituation, JobView

__all__ = ["Id", "app", "nothing"]

app = typer.Typer(help="List, show, retry and cancel jobs, and read their logs.", no_args_is_help=True)
_MAX_ID = 2**63 - 1
_MAX_TOLD = 10
_UNDER_WAY = (
    JobState.READY,
    JobState.BEHIND,
    JobState.WAITING,
    JobState.BLOCKED,
    JobState.HELD,
    JobState.FETCHED,
    JobState.RUNNING,
)
_STANDS = {
    JobState.BEHIND: "waits behind others in its lane",
    JobState.WAITING: "waits for a limit",
    JobState.BLOCKED: "waits for other jobs",
    JobState.HELD: "waits in a lane that is held or parked",
}


def _number(text: str) -> int:
    """Parse a job ID."""
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or not 1 <= int(text) <= _MAX_ID:
        raise typer.BadParameter(f"{text[:40]!r} is not a job ID.")
    return int(text)


Id = Annotated[int, typer.Argument(metavar="ID", parser=_number, help="The job's ID.")]
Ids = Annotated[list[int] | None, typer.Argument(metavar="ID", parser=_number, help="The IDs of jobs.")]
States = Annotated[
    list[JobState] | None,
    typer.Option(metavar="STATE", help=f"Only jobs in this state: {', '.join(JobState)}. May be repeated."),
]
Name = Annotated[str, typer.Option(help="Only jobs with this name.")]
Queue = Annotated[str, typer.Option(help="Only jobs in this queue.")]
Lane = Annotated[str, typer.Option(help="Only jobs in this lane.")]


_QUEUE: Column[JobRow] = Column("queue", lambda row: row.job.queue)
_LANE: Column[JobRow] = Column("lane", lambda row: row.job.lane)
_FIRST: tuple[Column[JobRow], ...] = (
    Column("id", lambda row: str(row.job.id), number=True),
    Column("job", lambda row: row.job.name),
    Column("state", lambda row: state_cell(row.job.state), fixed=True),
)
_LAST: tuple[Column[JobRow], ...] = (
    Column("attempt", lambda row: row.job.attempt or None, number=True),
    Column("since (UTC)", lambda row: moment(_since(row.job)), fixed=True),
    Column("why, or what happens next", lambda row: tail_cell(_why(row)), min_width=25),
)


@app.command("list")
@with_store
def list_jobs(
    store_url: StoreUrl,
    state: States = None,
    name: Name = "",
    queue: Queue = "",
    lane: Lane = "",
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List jobs, newest first, including those that ended and are still kept, with the reason for each."""
    from interlock.cli.job_cells import job_data
    from interlock.ports.job_views import JobFilter
    from interlock.ports.store import Capability

    wanted = _filter(state, name, queue, lane)

    async def look(insight: Insight) -> list[JobRow]:
        return await whole_list(limit, lambda limit, before: insight.jobs(wanted, limit=limit, before=before))

    rows = ask(store_url, Capability.JOBS, look)
    if json:
        print_json([{**job_data(row.job, brief=True), **_about(row)} for row in rows])
    elif rows:
        _print(rows)
    else:
        say("There are no jobs." if wanted == JobFilter() else "No jobs match.")
    say_if_cut(len(rows), limit)


@app.command()
@with_store
def show(
    store_url: StoreUrl,
    job_id: Id,
    traces: Annotated[
        bool, typer.Option("--traces", help="Print the traceback of every attempt, not only the last.")
    ] = False,
    json: Json = False,
) -> None:
    """Show one job: what it is, its history, why it waits or failed, and what to do."""
    from interlock.cli.job_cells import job_data, progress_data
    from interlock.cli.job_report import print_page
    from interlock.errors import NotFoundError
    from interlock.ports.store import Capability

    try:
        page = ask(store_url, Capability.JOBS, lambda insight: insight.job(job_id))
    except NotFoundError:
        if json:
            print_json(nothing(job_id))
        else:
            say(nothing(job_id)["explain"][0])
        return
    if json:
        event = None if page.event is None else page.event.id
        log = {"progress": progress_data(page.log.progress), "log_lines": page.log.lines}
        about = {"reason": page.reason, "why": page.why, "event": event, "explain": page.explanation.lines} | log
        print_json({**job_data(page.job), **about})
    else:
        print_page(page, traces=traces)


@app.command()
@with_store
def logs(
    store_url: StoreUrl,
    job_id: Id,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for further lines until the job ends.")] = False,
    after: Annotated[int, typer.Option(min=0, metavar="NUMBER", help="Only lines with larger numbers.")] = 0,
    tail: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, metavar="COUNT", help="Start with the last lines only.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each line.")] = False,
) -> None:
    """Print the log of a job, and its state at the end. With --follow, wait for further lines until the job ends."""
    print_logs(store_url, job_id, follow=follow, after=after, tail=tail, json=json)


@app.command()
@with_store
def explain(store_url: StoreUrl, job_id: Id, json: Json = False) -> None:
    """Explain a job: its state, what it waits for, what is ahead of it, and what to do."""
    from interlock.insight import Kind

    explain_subject(store_url, Kind.JOB, job_id, json, missing=lambda: nothing(job_id))


@app.command()
@with_store
def retry(
    store_url: StoreUrl,
    ids: Ids = None,
    state: States = None,
    name: Name = "",
    queue: Queue = "",
    lane: Lane = "",
    everything: All = False,
    reason: OptionalReason = "",
    by: By = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Make jobs ready that are scheduled, parked, or ended without success."""
    from interlock.ports.journal import Action

    by = named("A retry", reason or None, by)
    wanted = _chosen(ids, state, name, queue, lane, everything)
    if wanted is not None:
        bulk = Bulk(Action.JOB_RETRY, wanted, "A retry", "jobs", "Run them now?", "Retried")
        _apply(store_url, bulk, by, reason, yes, json)
        return
    ids = ids or []
    if not yes:
        confirm("A retry", "Run it now?" if len(ids) == 1 else "Run them now?", lambda: _all_of(store_url, ids))

    async def act(operations: Operations, job_id: int) -> JobState:
        return await operations.retry(job_id, by=by, reason=reason)

    acts = asyncio.run(_each(store_url, ids, act))
    _tell([_retried(*act) for act in acts], {"by": by, "reason": reason}, json)


@app.command()
@with_store
def cancel(
    store_url: StoreUrl,
    reason: Annotated[str, typer.Option(help="Why; kept with the job and in the journal.")],
    ids: Ids = None,
    state: States = None,
    name: Name = "",
    queue: Queue = "",
    lane: Lane = "",
    everything: All = False,
    by: By = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Cancel jobs. A running job is stopped by its worker."""
    from interlock.ports.journal import Action

    by = named("A cancellation", reason, by)
    wanted = _chosen(ids, state, name, queue, lane, everything)
    if wanted is not None:
        bulk = Bulk(Action.JOB_CANCEL, wanted, "A cancellation", "jobs", "Cancel them?", "Cancelled")
        _apply(store_url, bulk, by, reason, yes, json)
        return
    ids = ids or []
    if not yes:
        confirm("A cancellation", "Cancel it?" if len(ids) == 1 else "Cancel them?", lambda: _all_of(store_url, ids))

    async def act(operations: Operations, job_id: int) -> JobState:
        return await operations.cancel(job_id, by=by, reason=reason)

    acts = asyncio.run(_each(store_url, ids, act))
    _tell([_cancelled(*act) for act in acts], {"by": by, "reason": reason}, json)


def nothing(job_id: int) -> dict[str, Any]:
    """Data about a job that does not exist."""
    from interlock.operations import unknown_job

    return {"id": job_id, "state": None, "explain": [unknown_job(job_id).message]}


# -- everything that matches -------------------------------------------------------------------------------------------


def _filter(state: Sequence[JobState] | None, name: str, queue: str, lane: str) -> JobFilter:
    from interlock.arguments import checked_prefix
    from interlock.ports.job_views import JobFilter

    return JobFilter(tuple(state or ()), *map(checked_prefix, (name, queue, lane)))


def _chosen(
    ids: Sequence[int] | None,
    state: Sequence[JobState] | None,
    name: str,
    queue: str,
    lane: str,
    everything: bool,
) -> JobFilter | None:
    """The filter that was given instead of IDs."""
    given = {"state": state, "name": name, "queue": queue, "lane": lane}
    return _filter(state, name, queue, lane) if check_choice("job IDs", ids, given, everything=everything) else None


def _apply(store_url: StoreUrl, bulk: Bulk, by: str, reason: str, yes: bool, json: bool) -> None:
    from interlock.ports.store import Capability

    apply_to_store(store_url, Capability.JOBS, bulk, by=by, reason=reason, yes=yes, json=json)


# -- acts --------------------------------------------------------------------------------------------------------------


class _Act(NamedTuple):
    """The outcome of an operation on one job."""

    id: int
    before: JobState | None
    state: JobState | None
    done: bool
    words: str


async def _each(
    store_url: StoreUrl, ids: Sequence[int], act: Callable[[Operations, int], Awaitable[JobState]]
) -> list[tuple[int, JobState | None, JobState | None]]:
    """Perform an operation on each job; return its state before and after."""
    from interlock.operations import Operations
    from interlock.ports.store import Capability

    acts: list[tuple[int, JobState | None, JobState | None]] = []
    async with opened(store_url, Capability.JOBS) as store:
        operations = Operations(store)
        for job_id in dict.fromkeys(ids):
            before = await store.insight.get(job_id)
            if before is None:
                acts.append((job_id, None, None))
            else:
                acts.append((job_id, before.state, await act(operations, job_id)))
    return acts


def _retried(job_id: int, before: JobState | None, state: JobState | None) -> _Act:
    if before is None or state is None:
        return _Act(job_id, None, None, False, _nowhere(job_id))
    if state.final or before in _UNDER_WAY:
        return _Act(job_id, before, state, False, f"Job {job_id} is {state}: there is nothing to retry.")
    return _Act(
        job_id, before, state, True, f"Job {job_id}, which was {before}, {_STANDS.get(state, f'is {state}')} now."
    )


def _cancelled(job_id: int, before: JobState | None, state: JobState | None) -> _Act:
    if before is None or state is None:
        return _Act(job_id, None, None, False, _nowhere(job_id))
    if before.final or (state.final and state is not JobState.CANCELLED):
        return _Act(
            job_id, before, state, False, f"Job {job_id} has already ended ({state}): there is nothing to cancel."
        )
    if state is JobState.CANCELLED:
        return _Act(job_id, before, state, True, f"Cancelled job {job_id}, which was {before}.")
    return _Act(job_id, before, state, True, f"Job {job_id} is {state}; its worker was asked to stop it.")


def _nowhere(job_id: int) -> str:
    return f"Job {job_id} does not exist. List jobs with: interlock jobs list."


def _tell(acts: Sequence[_Act], also: dict[str, str], json: bool) -> None:
    """Print the outcomes; exit code 1 if an operation had nothing to do."""
    if json:
        print_json([{**act._asdict(), **also} for act in acts])
    else:
        for act in acts:
            typer.echo(shown(act.words), err=not act.done)
    if not all(act.done for act in acts):
        raise typer.Exit(1)


def _all_of(store_url: StoreUrl, ids: Sequence[int]) -> str | None:
    """Describe each job for the question; None if none of them exists."""
    from interlock.jobs.explain import explain_job

    ids = list(dict.fromkeys(ids))
    found = asyncio.run(_situations(store_url, ids[:_MAX_TOLD]))
    lines = [f"{explain_job(situation).lines[0]}." for situation in found]
    if len(ids) > _MAX_TOLD:
        lines.append(f"And {len(ids) - _MAX_TOLD} more.")
    for line in lines[:-1]:
        say(line)
    return lines[-1] if lines else None


# -- looking -----------------------------------------------------------------------------------------------------------


async def _situations(store_url: StoreUrl, ids: Sequence[int]) -> Sequence[JobSituation]:
    from interlock.ports.store import Capability

    async with opened(store_url, Capability.JOBS) as store:
        return await store.insight.situations(ids)


def _print(rows: Sequence[JobRow]) -> None:
    """Print jobs; queue and lane only if they tell the jobs apart."""
    several = len({row.job.queue for row in rows}) > 1
    laned = any(row.job.lane for row in rows)
    table: Table[JobRow] = Table(*_FIRST, *([_QUEUE] if several else []), *([_LANE] if laned else []), *_LAST)
    table.print(rows)


def _why(row: JobRow) -> str:
    """Its progress, if it has reported any, and the reason."""
    from interlock.cli.job_cells import progress_text

    return row.why if row.progress is None else f"{progress_text(row.progress)}. {row.why}"


def _about(row: JobRow) -> dict[str, Any]:
    from interlock.cli.job_cells import progress_data

    return {"reason": row.reason, "why": row.why, "progress": progress_data(row.progress)}


def _since(view: JobView) -> float:
    """When it ended, was fetched or became ready; otherwise when it was enqueued."""
    ready = view.state is JobState.READY or (view.state is JobState.SCHEDULED and view.due_at <= view.seen_at)
    return view.finished_at or view.fetched_at or (view.due_at if ready else view.enqueued_at)
