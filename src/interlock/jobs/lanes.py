"""Lanes: ``app.lanes``, or ``Lanes(jobs)`` on jobs that are used alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from interlock.arguments import checked_key, checked_limit
from interlock.errors import InvalidArgumentError, NotFoundError
from interlock.jobs.explain import explain_lane
from interlock.jobs.jobs import engine_of, live_workers
from interlock.jobs.parked_lanes import failure_of
from interlock.jobs.views import lane_view
from interlock.ports.insight import LaneShow
from interlock.ports.journal import Action
from interlock.selections import LaneFilter

if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence

    from interlock.explanation import Explanation
    from interlock.jobs.jobs import Jobs
    from interlock.jobs.views import LaneView
    from interlock.operations import BulkResult, Operations
    from interlock.reasons import Reason
    from interlock.service import Explainer

__all__ = ["Lanes"]


class Lanes:
    """The lanes of jobs: jobs of one lane run in order, one at a time."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._explainer: Explainer | None = None

    def explain_with(self, explainer: Explainer) -> None:
        """Let :class:`Insight` explain, which also knows the app's locks. An App does this."""
        self._explainer = explainer

    async def get(self, lane: str) -> LaneView:
        """One lane; raises ``NotFoundError`` if it has no jobs and is neither held nor parked."""
        rows = await engine_of(self._jobs).jobs.lanes(checked_key(lane))
        if not rows:
            raise NotFoundError(f"Lane {lane!r} is empty.", remedy="List lanes with: interlock lanes list.")
        return lane_view(rows[0])

    async def explain(self, lane: str) -> Explanation[Reason]:
        """Why a lane waits, or where its head is running, and what to do about it."""
        key = checked_key(lane)
        if self._explainer is not None:
            return cast("Explanation[Reason]", await self._explainer("lane", key))
        engine = engine_of(self._jobs)
        rows = await engine.jobs.lanes(key)
        view = rows[0] if rows else None
        head = None if view is None or view.head is None else await engine.jobs.situation(view.head)
        failure = await failure_of(engine.jobs, key, view)
        return explain_lane(key, view, head, failure=failure, workers=await live_workers(engine))

    async def hold(self, lane: str, *, by: str, reason: str) -> None:
        """Let no further job of a lane start until it is released. A running job continues."""
        await self._operations.hold(lane, by=by, reason=reason)

    async def release(self, lane: str, *, by: str, reason: str = "") -> bool:
        """Let a held or parked lane continue; False if it was neither."""
        return await self._operations.release(lane, by=by, reason=reason)

    async def hold_all(self, *, prefix: str = "", show: str = "", by: str, reason: str) -> BulkResult[str]:
        """Hold every lane that matches and that nobody holds; see :meth:`matching`.

        Only lanes that have jobs now are held: a lane that gets its first job later is not.
        """
        return await self._operations.apply(Action.LANE_HOLD, _filter(prefix, show), by=by, reason=reason)

    async def release_all(self, *, prefix: str = "", show: str = "", by: str, reason: str = "") -> BulkResult[str]:
        """Release every lane that matches and is held or parked; see :meth:`matching`."""
        return await self._operations.apply(Action.LANE_RELEASE, _filter(prefix, show), by=by, reason=reason)

    async def matching(self, *, prefix: str = "", show: str = "") -> builtins.list[str]:
        """The names of all lanes that start with ``prefix``; ``len()`` of it counts them before an operation on all.

        ``show`` is one of ``running``, ``waiting`` (has jobs, none runs), ``held`` (by a person), ``parked`` (after a
        failure), or empty for all.
        """
        return await self._operations.matching(_filter(prefix, show))

    @property
    def _operations(self) -> Operations:
        return engine_of(self._jobs).store_client.operations

    async def list(self, *, limit: int = 100) -> Sequence[LaneView]:
        """Lanes that have jobs, or are held or parked, as one snapshot."""
        return [lane_view(row) for row in await engine_of(self._jobs).jobs.lanes(limit=checked_limit(limit))]


def _filter(prefix: str, show: str) -> LaneFilter:
    if show not in set(LaneShow):
        raise InvalidArgumentError(
            f"Invalid show {show!r}.", remedy=f"Valid values: {', '.join(filter(None, LaneShow))}."
        )
    return LaneFilter(prefix, LaneShow(show))
