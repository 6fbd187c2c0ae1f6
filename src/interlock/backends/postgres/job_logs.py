"""The logs of jobs: one statement appends those of many jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.backends.log_chunks import encode_chunk
from interlock.backends.pacing import micros, seconds
from interlock.backends.postgres.queries import JobQueries
from interlock.ports.job_logs import JobLogStatus, Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.postgres.connection import OrderedConnection
    from interlock.ports.job_logs import JobReport, LogBounds

__all__ = ["append_logs", "log_status"]

_sql = JobQueries()


async def append_logs(
    connection: OrderedConnection,
    namespace: str,
    clock: float | None,
    reports: Sequence[JobReport],
    bounds: LogBounds,
) -> Sequence[bool]:
    """Append to the logs of fetched jobs; return which reports were accepted."""
    if not reports:
        return []
    # In the order of their IDs, in which every transaction locks them.
    places = sorted(range(len(reports)), key=lambda place: reports[place].id)
    columns: list[tuple[Any, ...]] = []
    chunks: list[tuple[Any, ...]] = []
    for index, place in enumerate(places, 1):
        report = reports[place]
        progress = report.progress
        fraction, message, at = (
            (None, None, None) if progress is None else (progress.fraction, progress.message, micros(progress.at))
        )
        columns.append((report.id, report.fence, report.attempt, report.number, fraction, message, at))
        for chunk in report.chunks:
            content, size = encode_chunk(chunk)
            chunks.append((index, chunk.skipped, len(chunk.lines), size, content))
    jobs = [list(column) for column in zip(*columns, strict=True)]
    lines = [list(column) for column in zip(*chunks, strict=True)] if chunks else [[], [], [], [], []]
    limits = (bounds.lines, bounds.bytes, bounds.head_lines, bounds.head_bytes)
    ((refused,),) = await connection.fetch(_sql.append_logs, namespace, *jobs, *lines, *limits, clock)
    accepted = [True] * len(reports)
    for index in refused or ():
        accepted[places[index - 1]] = False
    return accepted


def log_status(row: Sequence[Any]) -> JobLogStatus:
    """Return the progress of a job and the length of its log."""
    id, attempt, fence, lines, kept, fraction, message, at = row  # noqa: A001
    progress = None if at is None else Progress(fraction, message, seconds(at))
    return JobLogStatus(id, attempt, fence, lines, lines - kept, progress)
