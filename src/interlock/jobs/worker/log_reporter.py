"""Appends what running jobs have reported to the store: from the watchdog's timer, and before an acknowledgement.

A job that reports nothing causes no statement, and a line causes none of its own: reports of all jobs are sent
together, at most once a second, and those of a job that has ended right before its acknowledgement. So the log of an
ended job is complete, and a crash loses the lines of the last second or so. Logs never hold an acknowledgement back: if
they cannot be appended, the jobs are acknowledged without. See docs/decisions/0070-workers-append-logs-in-batches.md.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from interlock.jobs.worker.chore import Chore
from interlock.jobs.worker.outcomes import one_line
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.log_buffer import LogBuffer
    from interlock.jobs.worker.chore import Health
    from interlock.ports.job_logs import JobReport
    from interlock.ports.jobs import Acknowledgement

__all__ = ["LogReporter"]

_log = logging.getLogger("interlock.jobs")
_INTERVAL = 1.0
_PAUSE_AFTER_FAILURE = 5.0
_MAX_BATCH = 1000
_MAX_BATCH_CHARACTERS = 2 * 1024 * 1024
_ROUNDS = 3
"""How often to look for more lines before an acknowledgement: the answer to a report may have been lost, and tasks that
outlive their handler may still write."""


class LogReporter:
    """One for all workers of an engine. Reports are sent one batch after the other."""

    def __init__(self, engine: JobEngine, health: Health) -> None:
        self._jobs = engine.jobs
        self._logs = engine.logs
        self._monotonic = engine.monotonic
        self._chore = Chore("append_logs", engine.monotonic, health)
        self._sending = asyncio.Lock()
        self._next_at = -math.inf
        self._retry_at = -math.inf
        self._failed = False
        self._task: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Append what there is, if it is time."""
        if self._logs.open and self._task is None and self._monotonic() >= self._next_at:
            self._next_at = self._monotonic() + _INTERVAL
            self._task = asyncio.create_task(self._report(), name="interlock-log-reporter")

    async def stop(self) -> None:
        """Cancel a report that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None  # a task that never ran has not cleared it

    async def flush(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        """Append what jobs have reported that are about to be acknowledged. Never fails."""
        wanted = [(acknowledgement.id, acknowledgement.fence) for acknowledgement in acknowledgements]
        if self._monotonic() < self._retry_at or not any(fetch in self._logs.open for fetch in wanted):
            return
        try:
            for _ in range(_ROUNDS):
                buffers = [self._logs.open[fetch] for fetch in wanted if fetch in self._logs.open]
                if not await self._send(buffers):
                    return
        except Exception as error:  # noqa: BLE001 - the acknowledgement matters more
            self._failed = True
            emit(_log, logging.WARNING, "job_logs_not_appended", jobs=len(wanted), error=one_line(error))

    def acknowledged(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        """Close the logs of fetches that have ended."""
        if self._failed:
            # The store takes acknowledgements and not logs. It is not asked again for each batch.
            self._failed = False
            self._retry_at = self._monotonic() + _PAUSE_AFTER_FAILURE
        self._logs.close((acknowledgement.id, acknowledgement.fence) for acknowledgement in acknowledgements)

    async def _report(self) -> None:
        async def report() -> bool:
            return await self._send(list(self._logs.open.values()))

        try:
            await self._chore.attempt(report)
        finally:
            self._task = None

    async def _send(self, buffers: Sequence[LogBuffer]) -> bool:
        """Append what these have; returns whether there was anything."""
        async with self._sending:
            taken = [(buffer, report) for buffer in buffers if (report := buffer.take()) is not None]
            for batch in _batches(taken):
                answers = await self._jobs.append_logs([report for _, report in batch], self._logs.bounds)
                for (buffer, _), accepted in zip(batch, answers, strict=True):
                    if accepted:
                        buffer.confirm()
                    else:
                        self._logs.close([buffer.fetch])
            return bool(taken)


def _batches(taken: Sequence[tuple[LogBuffer, JobReport]]) -> Iterator[list[tuple[LogBuffer, JobReport]]]:
    """Parts of a bounded size."""
    batch: list[tuple[LogBuffer, JobReport]] = []
    size = 0
    for one in taken:
        batch.append(one)
        size += sum(len(line.text) for chunk in one[1].chunks for line in chunk.lines)
        if len(batch) == _MAX_BATCH or size > _MAX_BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
