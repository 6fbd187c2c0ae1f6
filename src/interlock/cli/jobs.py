"""``interlock jobs``: what waits, runs and ended, one job at length, and running or ending one by hand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from interlock.cli.confirmation import By, Yes, confirm, named
from interlock.cli.insight_reader import ask, whole_list
from interlock.cli.operations import OptionalReason, operate
from interlock.cli.output import Json, Limit, console, print_json, say, say_if_cut, shown
from interlock.cli.store_url import Namespace, StoreUrl, Url, chosen_store, opened
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock.insight import Insight, JobRow, QueueRow
    from interlock.operations import Operations
    from interlock.ports.job_views import JobSituation, JobView

__all__ = ["Id", "app", "nothing"]

app = typer.Typer(help="What waits, runs and ended.", no_args_is_help=True)
_MOST_ID = 2**63 - 1
_MOST_TOLD = 10
_UNDER_WAY = (JobState.READY, JobState.BEHIND, JobState.WAITING, JobState.HELD, JobState.RUNNING)
_STANDS = {
    JobState.BEHIND: "waits behind others in its lane",
    JobState.WAITING: "waits for a limit",
    JobState.HELD: "waits in a lane that is held or parked",
}


def _number(text: str) -> int:
    """A job's number. Larger ones than a store can have are no numbers of jobs."""
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or not 1 <= int(text) <= _MOST_ID:
        raise typer.BadParameter(f"{text[:40]!r} is no number of a job.")
    return int(text)


Id = Annotated[int, typer.Argument(metavar="ID", parser=_number, help="The job's number.")]
Ids = Annotated[list[int], typer.Argument(metavar="ID", parser=_number, help="The numbers of jobs.")]


@app.command("list")
def list_jobs(
    context: typer.Context,
    state: Annotated[
        list[JobState] | None,
        typer.Option(metavar="STATE", help=f"Only jobs in this state: {', '.join(JobState)}. May be repeated."),
    ] = None,
    name: Annotated[str, typer.Option(help="Only jobs of this name.")] = "",
    queue: Annotated[str, typer.Option(help="Only jobs of this queue.")] = "",
    lane: Annotated[str, typer.Option(help="Only jobs of this lane.")] = "",
    limit: Limit = 100,
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Show jobs, those that ended too as long as they are kept, the newest first, each with why it stands so."""
    from interlock.arguments import checked_prefix
    from interlock.cli.job_cells import job_data
    from interlock.ports.job_views import JobFilter
    from interlock.ports.store import Capability

    wanted = JobFilter(tuple(state or ()), *map(checked_prefix, (name, queue, lane)))

    async def look(insight: Insight) -> list[JobRow]:
        return await whole_list(limit, lambda most, before: insight.jobs(wanted, limit=most, before=before))

    rows = ask(chosen_store(context, url, namespace), Capability.JOBS, look)
    if json:
        print_json([{**job_data(row.job, brief=True), "reason": row.reason, "why": row.why} for row in rows])
    elif rows:
        _print(rows)
    else:
        say("There is no job." if wanted == JobFilter() else "There is no such job.")
    say_if_cut(len(rows), limit)


@app.command()
def show(
    context: typer.Context,
    job_id: Id,
    traces: Annotated[bool, typer.Option("--traces", help="Every attempt's traceback, not just the last.")] = False,
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Show all about one job: what it is, what happened to it, why it waits or failed, and what to do."""
    from interlock.cli.job_cells import job_data
    from interlock.cli.job_report import print_page
    from interlock.errors import NotFoundError
    from interlock.ports.store import Capability

    try:
        page = ask(chosen_store(context, url, namespace), Capability.JOBS, lambda insight: insight.job(job_id))
    except NotFoundError:
        if json:
            print_json(nothing(job_id))
        else:
            say(nothing(job_id)["explain"][0])
        return
    if json:
        event = None if page.event is None else page.event.id
        about = {"reason": page.reason, "why": page.why, "event": event, "explain": page.explanation.lines}
        print_json({**job_data(page.job), **about})
    else:
        print_page(page, traces=traces)


@app.command()
def retry(
    context: typer.Context,
    ids: Annotated[list[int] | None, typer.Argument(metavar="ID", parser=_number, help="The numbers of jobs.")] = None,
    state: Annotated[
        list[JobState] | None,
        typer.Option(metavar="STATE", help="Instead of numbers: every job in this state. May be repeated."),
    ] = None,
    name: Annotated[str, typer.Option(help="Of those only jobs of this name.")] = "",
    queue: Annotated[str, typer.Option(help="Of those only jobs of this queue.")] = "",
    lane: Annotated[str, typer.Option(help="Of those only jobs of this lane.")] = "",
    reason: OptionalReason = "",
    by: By = None,
    yes: Yes = False,
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Make jobs ready now: those that wait for their time, were set aside, or ended without being done."""
    store_url = chosen_store(context, url, namespace)
    by = named("A retry", reason or None, by)
    if bool(ids) is bool(state) or ((name or queue or lane) and not state):
        raise typer.BadParameter("Give the numbers of jobs, or --state with --name, --queue and --lane, but not both.")
    chosen = bool(state)
    if not ids:
        from interlock.arguments import checked_prefix
        from interlock.ports.job_views import JobFilter
        from interlock.ports.store import Capability

        wanted = JobFilter(tuple(state or ()), *map(checked_prefix, (name, queue, lane)))
        ids = operate(store_url, Capability.JOBS, lambda operations: operations.matching(wanted))
        if not ids:
            say("There is no such job.")
            raise typer.Exit(1)
        if not yes:
            confirm("A retry", "Run them now?", lambda: f"{len(ids or ()):,} of them match.")
    elif not yes:
        confirm("A retry", "Run it now?" if len(ids) == 1 else "Run them now?", lambda: _all_of(store_url, ids))

    async def act(operations: Operations, job_id: int) -> JobState:
        return await operations.retry(job_id, by=by, reason=reason)

    acts = asyncio.run(_each(store_url, ids, act))
    retried = [_retried(*act) for act in acts]
    if chosen and not json:
        say(f"Retried {sum(act.done for act in retried):,} of {len(retried):,}.")
        retried = [act for act in retried if not act.done][:_MOST_TOLD]
    _tell(retried, {"by": by, "reason": reason}, json)


@app.command()
def cancel(
    context: typer.Context,
    ids: Ids,
    reason: Annotated[str, typer.Option(help="Why; it is kept with the job, and its handler's log says so.")],
    by: By = None,
    yes: Yes = False,
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """End jobs that have not ended. One that runs is stopped by its worker."""
    store_url = chosen_store(context, url, namespace)
    by = named("A cancellation", reason, by)
    if not yes:
        confirm("A cancellation", "Cancel it?" if len(ids) == 1 else "Cancel them?", lambda: _all_of(store_url, ids))

    async def act(operations: Operations, job_id: int) -> JobState:
        return await operations.cancel(job_id, by=by, reason=reason)

    acts = asyncio.run(_each(store_url, ids, act))
    _tell([_cancelled(*act) for act in acts], {"by": by, "reason": reason}, json)


@app.command()
def queues(context: typer.Context, json: Json = False, url: Url = None, namespace: Namespace = None) -> None:
    """Show all queues: how many jobs stand how, counted up to 10,000, and who works on them, as one snapshot."""
    from interlock.cli.job_cells import queue_data
    from interlock.ports.store import Capability

    rows = ask(chosen_store(context, url, namespace), Capability.JOBS, lambda insight: insight.queues())
    if json:
        print_json([queue_data(row.queue) for row in rows])
    elif rows:
        _print_queues(rows)
    else:
        say("There is no queue: nothing waits, and nobody works.")


def nothing(job_id: int) -> dict[str, Any]:
    """What there is to say about a job that is not known."""
    line = f"There is no job {job_id}: it was never enqueued here, or is no longer kept."
    return {"id": job_id, "state": None, "explain": [line]}


# -- acts --------------------------------------------------------------------------------------------------------------


class _Act(NamedTuple):
    """What came of an act on one job."""

    id: int
    before: JobState | None
    state: JobState | None
    done: bool
    words: str


async def _each(
    store_url: StoreUrl, ids: Sequence[int], act: Callable[[Operations, int], Awaitable[JobState]]
) -> list[tuple[int, JobState | None, JobState | None]]:
    """Act on each job; its state before and after."""
    from interlock.operations import Operations
    from interlock.ports.store import Capability

    acts: list[tuple[int, JobState | None, JobState | None]] = []
    async with opened(store_url, Capability.JOBS) as store:
        operations = Operations(store)
        for job_id in dict.fromkeys(ids):
            before = await store.jobs.get(job_id)
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
        return _Act(job_id, before, state, False, f"Job {job_id} is {state} already: there is nothing to cancel.")
    if state is JobState.CANCELLED:
        return _Act(job_id, before, state, True, f"Cancelled job {job_id}, which was {before}.")
    return _Act(job_id, before, state, True, f"Job {job_id} is running; its worker was told to stop it.")


def _nowhere(job_id: int) -> str:
    return f"There is no job {job_id}. See: interlock jobs list."


def _tell(acts: Sequence[_Act], also: dict[str, str], json: bool) -> None:
    """Say what came of it; exit code 1 if one of them could not be done."""
    if json:
        print_json([{**act._asdict(), **also} for act in acts])
    else:
        for act in acts:
            typer.echo(shown(act.words), err=not act.done)
    if not all(act.done for act in acts):
        raise typer.Exit(1)


def _all_of(store_url: StoreUrl, ids: Sequence[int]) -> str | None:
    """How each job stands, for the question; None if none of them is known."""
    from interlock.jobs.explain import explain_job

    ids = list(dict.fromkeys(ids))
    found = asyncio.run(_outlooks(store_url, ids[:_MOST_TOLD]))
    lines = [f"{explain_job(situation).lines[0]}." for situation in found]
    if len(ids) > _MOST_TOLD:
        lines.append(f"And {len(ids) - _MOST_TOLD} more.")
    for line in lines[:-1]:
        say(line)
    return lines[-1] if lines else None


# -- looking -----------------------------------------------------------------------------------------------------------


async def _outlooks(store_url: StoreUrl, ids: Sequence[int]) -> list[JobSituation]:
    from interlock.ports.store import Capability

    async with opened(store_url, Capability.JOBS) as store:
        found = [await store.jobs.situation(job_id) for job_id in ids]
    return [situation for situation in found if situation is not None]


def _print(rows: Sequence[JobRow]) -> None:
    from rich import box
    from rich.table import Table

    from interlock.cli.job_cells import moment, state_cell, tail

    views = [row.job for row in rows]
    several = len({view.queue for view in views}) > 1
    laned = any(view.lane for view in views)
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True)
    table.add_column("id", justify="right", no_wrap=True)
    table.add_column("job", overflow="fold")
    table.add_column("state", no_wrap=True)
    if several:
        table.add_column("queue", overflow="fold")
    if laned:
        table.add_column("lane", overflow="fold")
    table.add_column("attempt", justify="right", no_wrap=True)
    table.add_column("since (UTC)", no_wrap=True)
    table.add_column("why, or what happens next", min_width=25)
    for view, _, why in rows:
        table.add_row(
            str(view.id),
            shown(view.name),
            state_cell(view.state),
            *([shown(view.queue)] if several else []),
            *([shown(view.lane)] if laned else []),
            str(view.attempt) if view.attempt else "",
            moment(_since(view)),
            tail(why),
        )
    console().print(table)


def _since(view: JobView) -> float:
    """When it ended, was fetched or became ready; for whatever waits for something else, when it was enqueued."""
    ready = view.state is JobState.READY or (view.state is JobState.SCHEDULED and view.due_at <= view.seen_at)
    return view.finished_at or view.fetched_at or (view.due_at if ready else view.enqueued_at)


def _print_queues(rows: Sequence[QueueRow]) -> None:
    from rich import box
    from rich.table import Table

    from interlock.cli.job_cells import moment

    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True)
    table.add_column("queue", overflow="fold")
    columns = ("ready", "running", "behind", "scheduled", "waiting", "held", "parked", "workers", "runners")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("ready since (UTC)", no_wrap=True)
    for view in (row.queue for row in rows):
        table.add_row(
            shown(view.queue),
            *(_counted(getattr(view, column)) for column in columns),
            "" if view.oldest_ready_at is None else moment(view.oldest_ready_at),
        )
    console().print(table)
    for row in rows:
        if row.why and not row.queue.workers:
            name = row.queue.queue
            say(f"Nobody works on queue {name!r}. Start a worker: interlock run MODULE:APP --queues {name}")


def _counted(count: int) -> str:
    from interlock.insight import MOST_COUNTED

    return f"{count:,}{'+' if count >= MOST_COUNTED else ''}"
