"""The log and the progress of jobs: what handlers report while they run, kept with the job within bounds.

A worker collects the lines of its running jobs and appends them in batches, so that a line costs no write of its own
and a job that reports nothing costs nothing. Lines belong to one fetch of the job, named by its fence. The lines of a
job are numbered from 1, across all its attempts. A number is never used twice, so a gap in the numbers means that lines
were dropped: by the worker, which buffers a bounded number of lines, or by the store, which keeps a bounded number.

**Bounds.** A store keeps the first lines of a job (its *head*: about a tenth of the bounds) and the latest ones, and
drops whole chunks in between. The newest chunk is always kept, so a log may exceed its bounds by one chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "MAX_CHUNK_LINES",
    "MAX_LINE",
    "MAX_MESSAGE",
    "JobLogStatus",
    "JobReport",
    "LogBounds",
    "LogChunk",
    "LogEntry",
    "LogLine",
    "LogSlice",
    "Progress",
]

MAX_LINE = 4000
"""The largest number of characters of a line. Longer ones are cut, and say how much is missing."""
MAX_MESSAGE = 500
"""The largest number of characters of the message of a progress."""
MAX_CHUNK_LINES = 100
"""The largest number of lines in a chunk."""


class LogLine(NamedTuple):
    """A line to append."""

    at: float
    """When it was written, by the worker's clock."""
    level: int
    """As in ``logging``."""
    text: str
    """One line without control characters and lone surrogates."""


class LogChunk(NamedTuple):
    """Consecutive lines, kept and dropped as a unit."""

    skipped: int
    """How many lines the worker dropped just before the first of these."""
    lines: Sequence[LogLine]


class Progress(NamedTuple):
    """How far a handler has come."""

    fraction: float
    """0 to 1."""
    message: str
    """The handler's words about it; empty for none."""
    at: float
    """When it was reported, by the worker's clock."""

    @property
    def percent(self) -> int:
        """Whole percent, rounded down, so that nothing but 1 is shown as 100."""
        return int(self.fraction * 100 + 1e-9)


class JobReport(NamedTuple):
    """Lines and progress of one fetch of a job, to append."""

    id: int
    fence: int
    attempt: int
    number: int
    """Increases with every report of the fetch. A report that was applied already is not applied again."""
    chunks: Sequence[LogChunk]
    progress: Progress | None
    """None: unchanged."""


class LogBounds(NamedTuple):
    """How much of the log of one job is kept."""

    lines: int
    bytes: int

    @property
    def chunk_lines(self) -> int:
        """The largest number of lines in a chunk: small enough for a log to consist of many."""
        return max(1, min(MAX_CHUNK_LINES, self.lines // 10))

    @property
    def chunk_bytes(self) -> int:
        """The size at which a chunk is complete."""
        return max(1, min(16 * 1024, self.bytes // 10))

    @property
    def head_lines(self) -> int:
        """A chunk that begins within this many first lines, and ``head_bytes``, is never dropped."""
        return max(1, self.lines // 10)

    @property
    def head_bytes(self) -> int:
        """See ``head_lines``."""
        return max(1, self.bytes // 10)


class LogEntry(NamedTuple):
    """A line that was kept."""

    number: int
    """From 1, across all attempts. A gap between two numbers means that the lines between them were dropped."""
    at: float
    level: int
    text: str
    attempt: int
    fence: int
    """The fetch that wrote it: after a crash or a snooze, the next fetch has the same attempt number."""


class LogSlice(NamedTuple):
    """Lines of one job, in order."""

    entries: Sequence[LogEntry]
    more: bool
    """Whether there are lines after these."""


class JobLogStatus(NamedTuple):
    """How much a job has reported."""

    id: int
    attempt: int
    fence: int
    """The last fetch that reported anything."""
    lines: int
    """How many lines there were: the number of the last one."""
    dropped: int
    """How many of them were dropped."""
    progress: Progress | None
    """The last progress of that fetch."""
