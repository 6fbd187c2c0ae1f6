"""Load the events of jobs: simultaneous requests of several handlers share one query."""

from __future__ import annotations

import logging
import math
from collections import Counter
from typing import TYPE_CHECKING

from interlock.batcher import Batcher
from interlock.errors import EventGoneError
from interlock.store_client import repeat
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.ports.events import EventStore, EventView

__all__ = ["Loader"]

_log = logging.getLogger("interlock.events")
_MAX_BATCH = 100
_LOG_EVERY = 10.0


class Loader:
    """Loads events in batches. The store has to be open."""

    def __init__(self, events: EventStore, wait: float, monotonic: Callable[[], float]) -> None:
        self._events = events
        self._wait = wait
        self._monotonic = monotonic
        self._batcher: Batcher[int, EventView | None] = Batcher(
            self._load, max_batch=_MAX_BATCH, split_on=lambda _: False
        )
        self._waiting: Counter[int] = Counter()
        self._log_at = -math.inf

    async def load(self, id: int) -> EventView:  # noqa: A002
        """Load one event; raises ``EventGoneError`` if it is no longer kept."""
        self._waiting[id] += 1
        try:
            found = await self._batcher.submit(id)
        finally:
            self._waiting[id] -= 1
            if not self._waiting[id]:
                del self._waiting[id]
        if found is None:
            raise EventGoneError(
                f"Event {id} is no longer kept.",
                remedy="Keep events for longer (keep_events=…), or deliver it again.",
            )
        return found

    async def _load(self, ids: list[int]) -> list[EventView | None]:
        wanted = list(dict.fromkeys(ids))

        def anyone_waits() -> bool:
            return any(id in self._waiting for id in wanted)  # noqa: A001

        try:
            views = await repeat(
                lambda: self._events.get_many(wanted), self._wait, self._monotonic, failed=anyone_waits
            )
        except Exception as error:
            self._log_failure(error, len(wanted))
            raise
        found = {view.id: view for view in views}
        return [found.get(id) for id in ids]  # noqa: A001

    def _log_failure(self, error: Exception, events: int) -> None:
        """Log a failure at intervals: the jobs are retried while it lasts, and fail again."""
        now = self._monotonic()
        if now >= self._log_at:
            self._log_at = now + _LOG_EVERY
            emit(_log, logging.WARNING, "event_load_failed", events=events, error=str(error) or repr(error))
