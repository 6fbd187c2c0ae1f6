"""The logs of jobs: appending within bounds, dropping the middle of a long one, and reading."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlock.backends.log_chunks import decode_chunks, encode_chunk
from interlock.backends.pacing import micros, seconds
from interlock.backends.sqlite.job_rows import JobRows, sql
from interlock.ports.job_logs import JobLogStatus, Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.job_logs import JobReport, LogBounds, LogSlice

__all__ = ["append_logs", "delete_logs", "log", "log_statuses"]


def append_logs(rows: JobRows, reports: Sequence[JobReport], bounds: LogBounds) -> list[bool]:
    """Append the reports whose fetches are in force."""
    wanted = json.dumps([report.id for report in reports])
    known = {row[0]: row[1:] for row in rows.all(sql.fetches_in_force, ids=wanted)}
    accepted: list[bool] = []
    logs: list[dict[str, Any]] = []
    chunks: list[tuple[Any, ...]] = []
    oversized: list[int] = []
    for report in reports:
        fetched, fence, last_report, *figures = known.get(report.id, (None,) * 6)
        accepted.append(fetched == report.fence)
        if fetched != report.fence or (fence == report.fence and last_report >= report.number):
            continue
        lines, kept_lines, kept_bytes = (figure or 0 for figure in figures)
        for chunk in report.chunks:
            content, size = encode_chunk(chunk)
            count = len(chunk.lines)
            head = lines < bounds.head_lines and kept_bytes < bounds.head_bytes
            first = lines + chunk.skipped + 1
            chunks.append((report.id, first, count, size, head, report.attempt, report.fence, content))
            lines, kept_lines, kept_bytes = lines + chunk.skipped + count, kept_lines + count, kept_bytes + size
        progress = report.progress
        logs.append(
            {
                "id": report.id,
                "fence": report.fence,
                "attempt": report.attempt,
                "report": report.number,
                "lines": lines,
                "kept_lines": kept_lines,
                "kept_bytes": kept_bytes,
                "progress": None if progress is None else progress.fraction,
                "message": None if progress is None else progress.message,
                "progress_at": None if progress is None else micros(progress.at),
            }
        )
        if kept_lines > bounds.lines or kept_bytes > bounds.bytes:
            oversized.append(len(logs) - 1)
    rows.each(sql.add_chunk, chunks)
    for index in oversized:
        _drop(rows, logs[index], bounds)
    rows.each_named(sql.set_log, logs)
    return accepted


def _drop(rows: JobRows, log: dict[str, Any], bounds: LogBounds) -> None:
    """Drop the oldest chunks after the head until the log is within its bounds."""
    last = 0
    for first, lines, size in rows.all(sql.droppable_chunks, id=log["id"]):
        if log["kept_lines"] <= bounds.lines and log["kept_bytes"] <= bounds.bytes:
            break
        last = first
        log["kept_lines"] -= lines
        log["kept_bytes"] -= size
    rows.run(sql.drop_chunks, id=log["id"], last=last)


def delete_logs(rows: JobRows, ids: Sequence[int]) -> None:
    """Delete the logs of jobs."""
    wanted = json.dumps(list(ids))
    rows.run(sql.delete_chunks, ids=wanted)
    rows.run(sql.delete_logs, ids=wanted)


def log_statuses(rows: JobRows, ids: Sequence[int]) -> dict[int, JobLogStatus]:
    """Return the progress of jobs and the length of their logs."""
    found: dict[int, JobLogStatus] = {}
    for id, attempt, fence, lines, kept, fraction, message, at in rows.all(  # noqa: A001
        sql.log_statuses, ids=json.dumps(list(ids))
    ):
        progress = None if at is None else Progress(fraction, message, seconds(at))
        found[id] = JobLogStatus(id, attempt, fence, lines, lines - kept, progress)
    return found


def log(rows: JobRows, id: int, after: int, limit: int) -> LogSlice:  # noqa: A002
    """Return the lines of a job's log after a number."""
    # Each chunk has at least one of the lines; one more shows whether there are others.
    chunks = rows.all(sql.log_chunks, id=id, after=after, limit=limit + 1)
    return decode_chunks(chunks[:limit], after, limit, more=len(chunks) > limit)
