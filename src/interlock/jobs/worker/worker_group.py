"""A worker whose queues have a concurrency of their own: one worker for each, opened and closed together.

Each part has its own runners, buffer and fetches, so a full queue neither takes runners from another nor has jobs
fetched that could not start. Queues without a number of their own share one part.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from interlock.errors import MisuseError
from interlock.jobs.options import checked_name
from interlock.jobs.worker.worker import FINISH_WITHIN, Worker, check_concurrency

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.arguments import Wait
    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.status import WorkerStatus
    from interlock.ports.jobs import Outcome

__all__ = ["WorkerGroup"]


class WorkerGroup(Worker):
    """One worker to its users; see :class:`Worker`."""

    def __init__(
        self,
        engine: JobEngine,
        *,
        queues: Mapping[str, int | None],
        concurrency: int = 50,
        finish_within: Wait = FINISH_WITHIN,
    ) -> None:
        if not queues:
            raise MisuseError("Invalid queues {}.", remedy='Pass queues with their numbers, such as {"mail": 2}.')
        check_concurrency(concurrency)
        shared = tuple(queue for queue, own in queues.items() if own is None)
        parts: list[tuple[tuple[str, ...], int]] = [(shared, concurrency)] if shared else []
        for queue, own in queues.items():
            if own is not None:
                check_concurrency(own, checked_name("queue", queue))
                parts.append(((queue,), own))
        super().__init__(engine, queues=tuple(queues), finish_within=finish_within)
        self.concurrency = sum(count for _, count in parts)
        self.queue_concurrency = {queue: count for names, count in parts for queue in names}
        self._parts = [
            Worker(engine, concurrency=count, queues=names, finish_within=finish_within) for names, count in parts
        ]

    def open(self) -> None:
        """Start to work."""
        for part in self._parts:
            part.open()
        self._state = "working"
        self._ended = asyncio.get_running_loop().create_future()
        for part in self._parts:
            part._ended.add_done_callback(lambda _: self._part_ended())  # noqa: SLF001

    def start_finishing(self) -> None:
        """Begin to finish without waiting for the end; see :meth:`Worker.finish`."""
        if self._state == "working":
            self._state = "finishing"
            for part in self._parts:
                part.start_finishing()

    def start_stopping(self) -> None:
        """Begin to stop without waiting for the end; see :meth:`Worker.stop`."""
        self.start_finishing()
        if self._state == "finishing":
            self._state = "stopping"
            for part in self._parts:
                part.start_stopping()

    async def wait_until_idle(self) -> None:
        """Wait until no job is left that could be fetched, and none is running here."""
        while True:
            before = self.counts
            for part in self._parts:
                await part.wait_until_idle()
            # A job of one part may have enqueued jobs for another that had just become idle.
            if self.counts == before:
                return

    @property
    def counts(self) -> dict[Outcome, int]:
        """Jobs by outcome since the worker was opened."""
        total: Counter[Outcome] = Counter()
        for part in self._parts:
            total.update(part.counts)
        return dict(total)

    def status(self) -> WorkerStatus:
        """What the worker is doing right now."""
        each = [part.status() for part in self._parts]
        counts: Counter[str] = Counter()
        for status in each:
            counts.update(status.counts)
        return each[0]._replace(
            state=self._state,
            queues=self.queues,
            concurrency=self.concurrency,
            running=tuple(sorted((job for status in each for job in status.running), key=lambda job: -job.seconds)),
            buffered=sum(status.buffered for status in each),
            unacknowledged=sum(status.unacknowledged for status in each),
            counts=dict(counts),
            trouble=next((status.trouble for status in each if status.trouble), ""),
            queue_concurrency=self.queue_concurrency,
        )

    def _part_ended(self) -> None:
        """End with the last part. If the store was replaced, one part stops and has to stop the others too."""
        if failed := next((part for part in self._parts if part._failure is not None), None):  # noqa: SLF001
            self._failure = failed._failure  # noqa: SLF001
            self.start_stopping()
        self.unstopped = sum(part.unstopped for part in self._parts)
        if all(part._state == "closed" for part in self._parts) and not self._ended.done():  # noqa: SLF001
            self._state = "closed"
            self._ended.set_result(None)

    async def _closed(self) -> None:
        if self._state != "new":
            await asyncio.shield(self._ended)
