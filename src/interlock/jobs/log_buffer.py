"""Buffers for the log lines and the progress of running jobs, until the store has them.

A handler writes into memory and never waits, from any thread. The worker appends the buffers to the store in batches;
see ``jobs.worker.log_reporter``. A buffer is created when a handler first reports something, so a job that reports
nothing costs nothing. It is bounded like the log in the store: it keeps the first lines and the latest ones.
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
import sys
import threading
import traceback
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from interlock.ports.job_logs import MAX_LINE, MAX_MESSAGE, JobReport, LogBounds, LogChunk, LogLine, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from interlock.clock import Clock
    from interlock.jobs.definition import Definition
    from interlock.ports.jobs import FetchedJob
    from interlock.settings import Settings
    from interlock.telemetry.jobs import JobMetrics

__all__ = ["LogBuffer", "LogBuffers", "clean_lines", "message_text"]

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colors and cursor movements
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings for a terminal
    r"|[ -/]*[0-~])?"
)
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_LINE_BYTES = 24
"""About how many bytes a line takes besides its text."""


class LogBuffers:
    """The buffers of one engine, by fetch."""

    def __init__(
        self, settings: Settings, clock: Clock, metrics: JobMetrics, definitions: dict[str, Definition]
    ) -> None:
        self.bounds = LogBounds(settings.job_log_lines, settings.job_log_bytes)
        self.chunk_lines, self.chunk_bytes = self.bounds.chunk_lines, self.bounds.chunk_bytes
        self.now = clock.now
        self.metrics = metrics
        self.open: dict[tuple[int, int], LogBuffer] = {}
        """The buffers of jobs that have reported something and are not acknowledged, by ID and fence."""
        self._capture = settings.capture_logs
        self._definitions = definitions
        self._lock = threading.Lock()

    def of(self, job: FetchedJob) -> LogBuffer:
        """The buffer of a running job."""
        with self._lock:
            key = (job.id, job.fence)
            return self.open.get(key) or self.open.setdefault(key, LogBuffer(job, self))

    def capture_level(self, name: str) -> int | None:
        """The level from which the log records of a job's handler are kept; None for none."""
        definition = self._definitions.get(name)
        level = None if definition is None else definition.options.capture_logs
        return self._capture if level is None else level

    @property
    def captures(self) -> bool:
        """Whether the log records of any handler are to be kept."""
        levels = [self._capture, *(definition.options.capture_logs for definition in self._definitions.values())]
        return self.bounds.lines > 0 and any(level is not None for level in levels)

    def close(self, fetches: Iterable[tuple[int, int]]) -> None:
        """Close the buffers of fetches that have ended. What they still contain is lost."""
        with self._lock:
            closed = [buffer for fetch in fetches if (buffer := self.open.pop(fetch, None)) is not None]
        for buffer in closed:
            buffer.close()


class LogBuffer:
    """The buffer of one fetch of a job. Thread-safe."""

    __slots__ = (
        "_closed",
        "_head",
        "_head_room",
        "_job",
        "_lock",
        "_number",
        "_owner",
        "_progress",
        "_skipped",
        "_tail",
        "_tail_bytes",
        "_unconfirmed",
        "_unsent_progress",
    )

    def __init__(self, job: FetchedJob, owner: LogBuffers) -> None:
        self._job = job
        self._owner = owner
        self._lock = threading.Lock()
        self._head: list[LogLine] = []
        self._head_room = owner.bounds.head_lines
        self._tail: deque[LogLine] = deque()
        self._tail_bytes = 0
        self._skipped = 0
        self._progress: Progress | None = None
        self._unsent_progress = False
        self._number = 0
        self._unconfirmed: JobReport | None = None
        self._closed = False

    @property
    def fetch(self) -> tuple[int, int]:
        """The ID of the job and the fence of the fetch."""
        return self._job.id, self._job.fence

    def write(self, level: int, text: str) -> None:
        """Add text as one or more lines."""
        owner = self._owner
        if not owner.bounds.lines:
            return
        now = owner.now()
        if len(text) > MAX_LINE or not text.isprintable():
            self._add(LogLine(now, level, line) for line in clean_lines(text, owner.bounds.bytes))
            return
        line = LogLine(now, level, text)
        with self._lock:
            if self._head_room > 0 and not self._closed:  # the usual case: a few plain lines
                self._head_room -= 1
                self._head.append(line)
                return
        self._add((line,))

    def set_progress(self, fraction: object, message: object) -> None:
        """Set the progress. An invalid fraction is reported in the log and never fails the job."""
        valid, text = _fraction(fraction), message
        if valid is None or fraction != valid:
            self.write(logging.WARNING, f"Invalid progress {_safe_repr(fraction)}: use a number from 0 to 1.")
        if valid is None:
            return
        with self._lock:
            if text is None:
                text = "" if self._progress is None else self._progress.message
            elif (lines := " ".join(clean_lines(_safe_str(text), MAX_LINE)))[MAX_MESSAGE:]:
                text = f"{lines[:MAX_MESSAGE]}…"
            else:
                text = lines
            self._progress = Progress(valid, str(text), self._owner.now())
            self._unsent_progress = True

    def take(self) -> JobReport | None:
        """What is to be appended; the same again until :meth:`confirm`. None if there is nothing."""
        with self._lock:
            if self._unconfirmed is not None:
                return self._unconfirmed
            if not (self._head or self._tail or self._unsent_progress):
                return None
            chunks = [*self._chunks(self._head, 0), *self._chunks(self._tail, self._skipped)]
            self._number += 1
            progress = self._progress if self._unsent_progress else None
            job = self._job
            self._unconfirmed = JobReport(job.id, job.fence, job.attempt, self._number, chunks, progress)
            self._head, self._tail = [], deque()
            self._tail_bytes = self._skipped = 0
            self._unsent_progress = False
            return self._unconfirmed

    def confirm(self) -> None:
        """Note that the store has the report that was taken."""
        with self._lock:
            if self._unconfirmed is not None:
                self._owner.metrics.log_lines += _lines_in(self._unconfirmed)
                self._unconfirmed = None

    def close(self) -> None:
        """Accept nothing more. What the store does not have is lost."""
        with self._lock:
            lost = len(self._head) + len(self._tail)
            if self._unconfirmed is not None:
                lost += _lines_in(self._unconfirmed)
            self._owner.metrics.log_lines_dropped += lost
            self._head, self._tail, self._unconfirmed = [], deque(), None
            self._unsent_progress = False
            self._closed = True

    def _add(self, lines: Iterable[LogLine]) -> None:
        bounds, dropped = self._owner.bounds, 0
        with self._lock:
            if self._closed:
                return
            for line in lines:
                if self._head_room > 0:
                    self._head_room -= 1
                    self._head.append(line)
                    continue
                self._tail.append(line)
                self._tail_bytes += _size(line)
                while len(self._tail) > bounds.lines or (self._tail_bytes > bounds.bytes and len(self._tail) > 1):
                    self._tail_bytes -= _size(self._tail.popleft())
                    dropped += 1
            self._skipped += dropped
        if dropped:
            self._owner.metrics.log_lines_dropped += dropped

    def _chunks(self, lines: Iterable[LogLine], skipped: int) -> Iterator[LogChunk]:
        max_lines, max_size = self._owner.chunk_lines, self._owner.chunk_bytes
        chunk: list[LogLine] = []
        size = 0
        for line in lines:
            chunk.append(line)
            size += len(line.text) + _LINE_BYTES
            if len(chunk) >= max_lines or size >= max_size:
                yield LogChunk(skipped, chunk)
                chunk, size, skipped = [], 0, 0
        if chunk:
            yield LogChunk(skipped, chunk)


def clean_lines(text: str, limit: int) -> list[str]:
    """The lines of a text without what would control a terminal, or what a store could not keep.

    Of a text with more than four times ``limit`` characters, only the beginning and the end are read.
    """
    if len(text) > 4 * limit:
        cut = len(text) - 4 * limit
        text = f"{text[: 2 * limit]}\n… ({cut:,} characters were left out)\n{text[-2 * limit :]}"
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    lines = [_CONTROLS.sub(_written_out, line) for line in text.splitlines() or [""]]
    return [line if len(line) <= MAX_LINE else _cut(line) for line in lines]


def message_text(message: object, args: tuple[Any, ...], exc_info: Any = None) -> str:
    """A message with its arguments and the traceback of an exception. Never fails."""
    text = message if isinstance(message, str) else _safe_str(message)
    if args:
        try:
            text = text % (args[0] if len(args) == 1 and isinstance(args[0], dict) and args[0] else args)
        except Exception:  # noqa: BLE001 - a mistake in a log message never fails a job
            text = f"{text} {_safe_repr(args)}"
    if exc_info:
        with contextlib.suppress(Exception):  # an error that cannot be formatted
            error: BaseException | None = exc_info if isinstance(exc_info, BaseException) else None
            if error is None:
                error = cast("Any", exc_info)[1] if isinstance(exc_info, tuple) else sys.exc_info()[1]
            if error is not None:
                text = f"{text}\n{''.join(traceback.format_exception(error)).rstrip()}"
    return text


def _fraction(value: object) -> float | None:
    """A fraction from 0 to 1, the nearest one if the number is outside; None if it is not a number."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - it may be anything
        return None
    return None if math.isnan(number) or isinstance(value, str) else min(1.0, max(0.0, number))


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def _cut(line: str) -> str:
    return f"{line[:MAX_LINE]}… ({len(line) - MAX_LINE:,} more characters)"


def _safe_str(value: object) -> str:
    return _safe(str, value)


def _safe_repr(value: object) -> str:
    return _safe(repr, value)[:200]


def _safe(convert: Callable[[object], str], value: object) -> str:
    try:
        return convert(value)
    except Exception:  # noqa: BLE001 - an object that cannot be shown
        return f"({type(value).__qualname__} that cannot be shown)"


def _size(line: LogLine) -> int:
    return len(line.text) + _LINE_BYTES


def _lines_in(report: JobReport) -> int:
    return sum(len(chunk.lines) for chunk in report.chunks)
