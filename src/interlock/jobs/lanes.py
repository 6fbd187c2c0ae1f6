"""Lanes: ``app.lanes``, or ``Lanes(jobs)`` on jobs that are used alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.arguments import checked_key, checked_limit
from interlock.errors import InvalidArgumentError, NotFoundError
from interlock.jobs.jobs import engine_of, explain_with
from interlock.jobs.listing import list_lanes
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

__all__ = ["Lanes"]


class Lanes:
    """The lanes of jobs: jobs of one lane run in order, one at a time."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def get(self, lane: str) -> LaneView:
        """One lane; raises ``NotFoundError`` if it has no jobs and is neither held nor parked."""
        row = await engine_of(self._jobs).insight.lane(checked_key(lane))
        if row is None:
            raise NotFoundError(f"Lane {lane!r} is empty.", remedy="List lanes with: interlock lanes list.")
        return lane_view(row)

    async def explain(self, lane: str) -> Explanation[Reason]:
        """Why a lane waits, or where its head is running, and what to do about it."""
        return await explain_with(self._jobs, "lane", checked_key(lane))

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

        ``show`` is one of ``running``, ``fetched``, ``waiting`` (has jobs, none at a worker), ``held`` (by a person),
        ``parked`` (after a failure), or empty for all.
        """
        return await self._operations.matching(_filter(prefix, show))

    @property
    def _operations(self) -> Operations:
        return engine_of(self._jobs).store_client.operations

    async def list(self, *, limit: int = 100) -> Sequence[LaneView]:
        """Lanes that have jobs, or are held or parked, by name, as one snapshot."""
        engine, count = engine_of(self._jobs), checked_limit(limit)
        async with engine.store_client.store.snapshot():
            return [lane_view(row) for row in await list_lanes(engine.insight, count)]


def _filter(prefix: str, show: str) -> LaneFilter:
    if show not in set(LaneShow):
        raise InvalidArgumentError(
            f"Invalid show {show!r}.", remedy=f"Valid values: {', '.join(filter(None, LaneShow))}."
        )
    return LaneFilter(prefix, LaneShow(show))
