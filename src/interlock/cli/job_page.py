"""One job at length, for a person: what it is, what happened to it, and what to do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interlock.cli.output import brief, console, shown
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from interlock.ports.job_views import Attempt, JobView, Outlook, WorkerView

__all__ = ["print_page"]


def print_page(outlook: Outlook, head: Outlook | None, *, traces: bool) -> None:
    """Print the words first: they are what was asked for; then the facts, what happened, and tracebacks."""
    from interlock.jobs.explain import explain_job

    out, job = console(), outlook.job
    for line in explain_job(outlook, head).lines:
        out.print(shown(line), soft_wrap=True)
    out.print()
    out.print(_facts(job))
    out.print(_timeline(job))
    failed = [attempt for attempt in job.attempts if attempt.trace]
    for attempt in failed if traces else failed[-1:]:
        _print_trace(out, attempt)
    if len(failed) > 1 and not traces:
        out.print(f"Earlier attempts left {_tracebacks(len(failed) - 1)}: --traces.")


def _facts(job: JobView) -> RenderableType:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _fact_rows(job):
        grid.add_row(f"  {name}", value)
    return grid


def _fact_rows(job: JobView) -> Iterator[tuple[str, str]]:
    from interlock.clock import as_text
    from interlock.limits.explain import figure

    yield "queue", shown(job.queue)
    if job.lane:
        yield "lane", shown(job.lane)
    yield "priority", str(job.priority)
    for use in job.uses:
        yield "limit", shown(f"{use.key}: {figure(use.most, use.per)}")
    yield "arguments", _compact(job.arguments)
    options = json.loads(job.options or "{}")
    if options:
        yield "options", brief(options)
    if job.fence:
        yield "fence", str(job.fence)
    if job.result is not None:
        yield "result", _compact(job.result)
    if job.result is not None and job.result_kept_until is not None:
        yield "kept until", as_text(job.result_kept_until)


def _compact(text: str) -> str:
    """JSON from the store on one line, and not at any length."""
    data = json.loads(text or "{}")
    full = json.dumps(data, ensure_ascii=False)
    return shown(full if len(full) <= _MOST_SHOWN else f"{full[:_MOST_SHOWN]}… ({len(full):,} characters: --json)")


_MOST_SHOWN = 300


def _timeline(job: JobView) -> RenderableType:
    from rich import box
    from rich.table import Table

    from interlock.cli.job_words import span, where
    from interlock.clock import as_datetime

    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True)
    table.add_column("when (UTC)", no_wrap=True)
    table.add_column("what", overflow="fold")
    table.add_column("took", justify="right", no_wrap=True)
    table.add_column("worker", overflow="fold")
    for at, what, took, worker in _moments(job):
        table.add_row(
            f"{as_datetime(at):%Y-%m-%d %H:%M:%S.%f}"[:-3],
            shown(what),
            "" if took is None else span(took),
            "" if worker is None else shown(where(worker)),
        )
    return table


def _moments(job: JobView) -> Iterator[tuple[float, str, float | None, WorkerView | None]]:
    """When what happened, how long that took, and in which worker."""
    yield job.enqueued_at, "enqueued", None, None
    for attempt in job.attempts:
        error = f": {attempt.error}" if attempt.error and attempt.outcome != "crashed" else ""
        what = f"attempt {attempt.number} {_ENDS.get(attempt.outcome, attempt.outcome)}{error}"
        yield attempt.started_at, what, attempt.ended_at - attempt.started_at, attempt.worker
    if job.state is JobState.RUNNING and job.claimed_at is not None:
        yield job.claimed_at, f"attempt {job.attempt} runs", job.seen_at - job.claimed_at, job.worker
    elif job.state is JobState.LATER:
        yield job.due_at, "due", None, None
    if job.finished_at is not None and job.state in _WITHOUT_ATTEMPT:
        yield job.finished_at, str(job.state), None, None


_WITHOUT_ATTEMPT = (JobState.CANCELLED, JobState.SUPERSEDED, JobState.QUARANTINED)
"""How a job ends with no attempt that says so, or not the last one."""
_ENDS = {
    "done": "done",
    "failed": "failed for good",
    "retry": "failed, to be retried",
    "snoozed": "snoozed",
    "discarded": "discarded",
    "cancelled": "cancelled",
    "parked": "set aside",
    "crashed": "ended when its worker died",
}


def _print_trace(out: Console, attempt: Attempt) -> None:
    out.print(f"traceback of attempt {attempt.number}", style="bold")
    for line in attempt.trace.rstrip("\n").split("\n"):
        out.print(shown(f"  {line}"), soft_wrap=True)


def _tracebacks(count: int) -> str:
    return "another traceback" if count == 1 else f"{count} more tracebacks"
