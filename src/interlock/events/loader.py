"""Brings events to the handlers of their jobs: what several ask for at the same time comes in one answer."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Any

from interlock.errors import EventGoneError
from interlock.store_client import repeat
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.ports.events import EventStore, EventView

__all__ = ["Loader"]

_log = logging.getLogger("interlock.events")
_BREATH = 2
_MOST_AT_ONCE = 100
_TELL_EVERY = 10.0


class Loader:
    """Asks for what was wanted while the last answer was under way. Needs only that the store is open."""

    def __init__(self, events: EventStore, wait: float, monotonic: Callable[[], float]) -> None:
        self._events = events
        self._wait = wait
        self._monotonic = monotonic
        self._wanted: dict[int, list[asyncio.Future[EventView]]] = {}
        self._work: asyncio.Task[None] | None = None
        self._tell_at = -math.inf

    async def load(self, id: int) -> EventView:  # noqa: A002
        """One event; ``EventGoneError`` if it is not kept any more."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[EventView] = loop.create_future()
        if self._work is None or self._work.done() or self._work.get_loop() is not loop:
            self._wanted = {}  # whatever is in it was wanted on an event loop that is no more
            self._work = loop.create_task(self._run(), name="interlock-event-loader")
        self._wanted.setdefault(id, []).append(found)
        return await found

    async def _run(self) -> None:
        while self._wanted:
            # Runners are woken one after the other: those who start in the same breath ask together.
            for _ in range(_BREATH):
                await asyncio.sleep(0)
            ids = list(self._wanted)[:_MOST_AT_ONCE]
            asking = {id: self._wanted.pop(id) for id in ids}  # noqa: A001
            await self._answer(asking)

    async def _answer(self, asking: dict[int, list[asyncio.Future[EventView]]]) -> None:
        found: dict[int, Any]

        def wanted() -> bool:
            return any(not future.done() for waiting in asking.values() for future in waiting)

        try:
            ids = list(asking)
            views = await repeat(lambda: self._events.find_many(ids), self._wait, self._monotonic, failed=wanted)
            found = {view.id: view for view in views}
        except Exception as error:  # noqa: BLE001 - each of those who asked hears it
            found = dict.fromkeys(asking, error)
            self._note(error, len(asking))
        for id, waiting in asking.items():  # noqa: A001
            answer = found.get(id) or EventGoneError(
                f"Event {id} is no longer kept.",
                remedy="Keep events for longer (keep_events=…), or have it delivered again.",
            )
            for future in waiting:
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _note(self, error: Exception, events: int) -> None:
        """Log a failure at intervals: their jobs come back while it lasts, and fail again."""
        now = self._monotonic()
        if now >= self._tell_at:
            self._tell_at = now + _TELL_EVERY
            emit(_log, logging.WARNING, "event_load_failed", events=events, error=str(error) or repr(error))
