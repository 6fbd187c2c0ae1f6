"""The lines of a job's log as its page shows them, with places where lines are missing or another attempt begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from interlock.insight.job_rows import LogRow

__all__ = ["ShownLine", "shown_lines"]


class ShownLine(NamedTuple):
    """A line, and what is shown above it."""

    row: LogRow
    dropped: int
    """How many lines just before it were dropped."""
    begins: bool
    """Whether another fetch of the job wrote the line before it."""


def shown_lines(rows: Iterable[LogRow]) -> Iterator[ShownLine]:
    """Consecutive lines that were kept."""
    before: LogRow | None = None
    for row in rows:
        if before is None:
            yield ShownLine(row, 0, begins=row.attempt > 1)
        else:
            yield ShownLine(row, row.number - before.number - 1, begins=row.fence != before.fence)
        before = row
