"""One job at length, for a person: what it is, what happened to it, and what to do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interlock.cli.output import brief, console, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from interlock.insight import JobPage
    from interlock.ports.job_views import Attempt

__all__ = ["print_page"]


def print_page(page: JobPage, *, traces: bool) -> None:
    """Print the words first: they are what was asked for; then the facts, what happened, and tracebacks."""
    out, job = console(), page.job
    for line in page.explanation.lines:
        out.print(shown(line), soft_wrap=True)
    out.print()
    out.print(_facts(page))
    out.print(_timeline(page))
    failed = [attempt for attempt in job.attempts if attempt.trace]
    for attempt in failed if traces else failed[-1:]:
        _print_trace(out, attempt)
    if len(failed) > 1 and not traces:
        out.print(f"Earlier attempts left {_tracebacks(len(failed) - 1)}: --traces.")


def _facts(page: JobPage) -> RenderableType:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _fact_rows(page):
        grid.add_row(f"  {name}", value)
    return grid


def _fact_rows(page: JobPage) -> Iterator[tuple[str, str]]:
    from interlock.cli.job_cells import progress_text
    from interlock.clock import as_text
    from interlock.jobs.causes import read_cause
    from interlock.jobs.options import after_in
    from interlock.limits.explain import figure

    job = page.job
    if page.log.progress is not None:
        yield "progress", shown(progress_text(page.log.progress))
    yield "queue", shown(job.queue)
    if job.lane:
        yield "lane", shown(job.lane)
    yield "priority", str(job.priority)
    for use in job.uses:
        yield "limit", shown(f"{use.key}: {figure(use.max_count, use.per)}")
    if page.event is not None:
        yield "event", shown(f"{page.event.id} ({page.event.source}.{page.event.type})")
    if after := after_in(job.options):
        yield "after", shown(f"{'job' if len(after) == 1 else 'jobs'} {', '.join(map(str, after))}")
    cause = read_cause(job.cause)
    if cause is not None and (page.event is None or cause.kind != "event"):
        yield "enqueued by", shown(cause.words)
    yield "arguments", _compact(job.arguments)
    options = json.loads(job.options or "{}")
    if options:
        yield "options", brief(options)
    if job.fence:
        yield "fence", str(job.fence)
    if page.log.lines:
        lines = "1 line" if page.log.lines == 1 else f"{page.log.lines:,} lines"
        yield "log", f"{lines}: interlock jobs logs {job.id}"
    if job.result is not None:
        yield "result", _compact(job.result)
    if job.result is not None and job.result_kept_until is not None:
        yield "kept until", as_text(job.result_kept_until)


def _compact(text: str) -> str:
    """JSON from the store on one line, and not at any length."""
    data = json.loads(text or "{}")
    full = json.dumps(data, ensure_ascii=False)
    return shown(full if len(full) <= _MAX_SHOWN else f"{full[:_MAX_SHOWN]}… ({len(full):,} characters: --json)")


_MAX_SHOWN = 300


def _timeline(page: JobPage) -> RenderableType:
    from rich import box
    from rich.table import Table

    from interlock.cli.job_cells import span, where
    from interlock.clock import as_datetime

    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True)
    table.add_column("when (UTC)", no_wrap=True)
    table.add_column("what", overflow="fold")
    table.add_column("took", justify="right", no_wrap=True)
    table.add_column("worker", overflow="fold")
    for moment in page.timeline:
        table.add_row(
            f"{as_datetime(moment.at):%Y-%m-%d %H:%M:%S.%f}"[:-3],
            shown(moment.what),
            "" if moment.took is None else span(moment.took),
            "" if moment.worker is None else shown(where(moment.worker)),
        )
    return table


def _print_trace(out: Console, attempt: Attempt) -> None:
    out.print(f"traceback of attempt {attempt.number}", style="bold")
    for line in attempt.trace.rstrip("\n").split("\n"):
        out.print(shown(f"  {line}"), soft_wrap=True)


def _tracebacks(count: int) -> str:
    return "another traceback" if count == 1 else f"{count} more tracebacks"
