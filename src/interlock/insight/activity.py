"""Recent activity. Spans of time that are over are counted once and cached."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from interlock.insight.views import Activity, Bucket
from interlock.ports.insight import Change

if TYPE_CHECKING:
    from interlock.insight.stores import Stores

__all__ = ["Recorder"]

_FINAL_AFTER = 10.0
"""Seconds after which a span no longer changes: open transactions have committed by then."""
_MAX_KINDS = 8


class Recorder:
    """Caches spans that are over, up to the last one, for each kind of query."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._over: dict[tuple[float, int], list[Change]] = {}

    async def activity(self, width: float, spans: int) -> Activity:
        """The spans up to now."""
        over = self._over.get((width, spans), [])
        found = await self._stores.store.insight.activity(width, spans, since=over[-1].span + 1 if over else 0)
        first = math.floor(found.seen_at / width) - spans + 1
        if over and over[0].span > first:  # the clock has gone back
            over = []
            found = await self._stores.store.insight.activity(width, spans)
        known = {change.span: change for change in (*over, *found.changes)}
        changes = [known.get(span, Change(span, 0, 0, 0)) for span in range(first, first + spans)]
        if len(self._over) >= _MAX_KINDS:
            self._over.clear()
        self._over[width, spans] = [c for c in changes if (c.span + 1) * width + _FINAL_AFTER < found.seen_at]
        buckets = tuple(Bucket(change.span * width, change.accepted, change.done, change.failed) for change in changes)
        return Activity(width, buckets, found.seen_at)
