"""Queues: ``app.queues``, or ``Queues(jobs)`` on jobs that are used alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import NotFoundError
from interlock.jobs.jobs import engine_of, explain_with
from interlock.jobs.options import checked_name
from interlock.jobs.views import queue_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.explanation import Explanation
    from interlock.jobs.jobs import Jobs
    from interlock.jobs.views import QueueView
    from interlock.reasons import Reason

__all__ = ["Queues"]


class Queues:
    """The queues of jobs: pools of work that workers subscribe to."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def get(self, queue: str) -> QueueView:
        """One queue; raises ``NotFoundError`` if it has no jobs and no worker and is not paused."""
        name = checked_name("queue", queue)
        for view in await self.list():
            if view.queue == name:
                return view
        raise NotFoundError(
            f"Queue {queue!r} has no jobs and no workers.", remedy="List queues with: interlock queues list."
        )

    async def explain(self, queue: str) -> Explanation[Reason]:
        """Why the jobs of a queue do not run, or which workers run them, and what to do about it."""
        return await explain_with(self._jobs, "queue", checked_name("queue", queue))

    async def pause(self, queue: str, *, by: str, reason: str) -> None:
        """Let no job of a queue start until it is resumed; enqueues go on.

        No process fetches a job of the queue from the moment this returns. Running jobs continue. Workers return the
        jobs that they have fetched and not started, usually within a moment.
        """
        name = checked_name("queue", queue)
        await engine_of(self._jobs).store_client.operations.pause(name, by=by, reason=reason)

    async def resume(self, queue: str, *, by: str, reason: str = "") -> bool:
        """Let the jobs of a paused queue start again; False if it was not paused."""
        name = checked_name("queue", queue)
        return await engine_of(self._jobs).store_client.operations.resume(name, by=by, reason=reason)

    async def list(self) -> Sequence[QueueView]:
        """All queues with their jobs and workers, as one snapshot. Counts end at 10,000."""
        engine = engine_of(self._jobs)
        async with engine.store_client.store.snapshot():
            return [queue_view(row) for row in (await engine.insight.counts()).queues]
