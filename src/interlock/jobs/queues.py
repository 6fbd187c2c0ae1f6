"""Queues: ``app.queues``, or ``Queues(jobs)`` on jobs that are used alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from interlock.errors import MisuseError, NotFoundError
from interlock.jobs.jobs import engine_of
from interlock.jobs.options import checked_name
from interlock.jobs.views import queue_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.explanation import Explanation
    from interlock.jobs.jobs import Jobs
    from interlock.jobs.views import QueueView
    from interlock.ports import job_views as port
    from interlock.reasons import Reason
    from interlock.service import Explainer

__all__ = ["Queues"]


class Queues:
    """The queues of jobs: pools of work that workers subscribe to."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._explainer: Explainer | None = None

    def explain_with(self, explainer: Explainer) -> None:
        """Let :class:`Insight` explain. An App does this."""
        self._explainer = explainer

    async def get(self, queue: str) -> QueueView:
        """One queue; raises ``NotFoundError`` if it has no jobs and no worker."""
        found = await self._find(queue)
        if found is None:
            raise NotFoundError(
                f"Queue {queue!r} has no jobs and no workers.", remedy="List queues with: interlock queues list."
            )
        return queue_view(found)

    async def explain(self, queue: str) -> Explanation[Reason]:
        """Why the jobs of a queue do not run, or which workers run them, and what to do about it."""
        name = checked_name("queue", queue)
        if self._explainer is None:
            raise MisuseError("Queues are explained by an App.", remedy="Use app.queues.explain(…).")
        return cast("Explanation[Reason]", await self._explainer("queue", name))

    async def list(self) -> Sequence[QueueView]:
        """All queues with their jobs and workers, as one snapshot."""
        return [queue_view(row) for row in await engine_of(self._jobs).jobs.queues()]

    async def _find(self, queue: str) -> port.QueueView | None:
        name = checked_name("queue", queue)
        return next((row for row in await engine_of(self._jobs).jobs.queues() if row.queue == name), None)
