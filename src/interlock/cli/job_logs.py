"""``interlock jobs logs``: the log of a job, as it stands or as it grows."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from interlock.cli.output import print_json_line, say, shown
from interlock.cli.store_url import StoreUrl, opened

if TYPE_CHECKING:
    from interlock.insight import Insight, JobLog, LogRow

__all__ = ["print_logs"]

_PART = 500
_PAUSE = 0.5
_OUTAGE = 30.0
"""How long to wait for the store to come back before giving up."""


def print_logs(store_url: StoreUrl, job_id: int, *, follow: bool, after: int, tail: int | None, json: bool) -> None:
    """Print the lines of a job's log, and its state when there are no more."""
    asyncio.run(_print_logs(store_url, job_id, follow, after, tail, json))


async def _print_logs(
    store_url: StoreUrl, job_id: int, follow: bool, after: int, tail: int | None, as_json: bool
) -> None:
    from interlock.insight import Insight
    from interlock.ports.store import Capability
    from interlock.store_client import repeat

    printer = _JsonPrinter() if as_json else _Printer(after)
    async with opened(store_url, Capability.JOBS) as store:
        insight = Insight(store)
        part = await _first(insight, job_id, after, tail)
        while True:
            for row in part.rows:
                printer.line(row)
                after = row.number
            printer.progress(part)
            if not part.more:
                if part.state.final or not follow:
                    break
                await asyncio.sleep(_PAUSE)
            part = await repeat(partial(insight.job_log, job_id, after=after, limit=_PART), _OUTAGE, time.monotonic)
    printer.end(part)


async def _first(insight: Insight, job_id: int, after: int, tail: int | None) -> JobLog:
    part = await insight.job_log(job_id, after=after, limit=_PART)
    start = 0 if tail is None else part.lines - tail
    return part if start <= after else await insight.job_log(job_id, after=start, limit=_PART)


class _Printer:
    """Lines for a person: lines of the log on standard output, everything else on standard error."""

    def __init__(self, after: int) -> None:
        self._last = after
        self._fence = 0
        self._progress: object = None

    def line(self, row: LogRow) -> None:
        """Print a line; before it, that lines are missing, or that another attempt begins."""
        from interlock.clock import as_datetime

        at = as_datetime(row.at)
        missing = row.number - self._last - 1
        if missing and self._last:
            say(f"… {missing:,} {'line was' if missing == 1 else 'lines were'} dropped")
        if row.fence != self._fence:
            say(f"attempt {row.attempt} (fence {row.fence}), {at:%Y-%m-%d} UTC")
        self._last, self._fence = row.number, row.fence
        level = "" if row.level == "info" else f"{row.level}: "
        typer.echo(f"{at:%H:%M:%S}.{at.microsecond // 1000:03d} {shown(level + row.text)}")

    def progress(self, part: JobLog) -> None:
        """Print a progress that is new."""
        from interlock.cli.job_cells import progress_text

        if part.progress is not None and part.progress != self._progress:
            self._progress = part.progress
            say(progress_text(part.progress))

    def end(self, part: JobLog) -> None:
        """Print the state of the job."""
        if not part.lines:
            say(f"Job {part.id} has logged nothing.")
        say(f"Job {part.id} is {part.state}.")


class _JsonPrinter(_Printer):
    """One JSON object for each line of the log, and one for the state."""

    def __init__(self) -> None:
        super().__init__(0)

    def line(self, row: LogRow) -> None:
        """Print a line."""
        from interlock.insight import data

        print_json_line(data(row))

    def progress(self, part: JobLog) -> None:
        """Print nothing: the last one is part of the end."""

    def end(self, part: JobLog) -> None:
        """Print the state of the job."""
        from interlock.cli.job_cells import progress_data

        about: dict[str, Any] = {"id": part.id, "state": str(part.state), "progress": progress_data(part.progress)}
        print_json_line(about | {"lines": part.lines, "dropped": part.dropped})
