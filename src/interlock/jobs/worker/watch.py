"""One look at everything now and then, instead of a timer for each job.

It stops what runs when the session's time is over, should even its heartbeat be silent; and it returns what was
fetched in advance and turns out to stand behind long jobs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.runner_pool import Crew
    from interlock.sessions import Session

__all__ = ["Watch"]

_EVERY = 0.5
_LEAST_PAUSE = 0.01
_STALLED_LOOKS = 2
_LONG = 1.0


class Watch:
    """Looks after what one worker has fetched. ``lose`` is called with a session whose time is over."""

    def __init__(self, engine: JobEngine, crew: Crew, lose: Callable[[Session], None]) -> None:
        self._monotonic = engine.monotonic
        self._crew = crew
        self._lose = lose
        self._timer: asyncio.TimerHandle | None = None
        self._taken = 0
        self._stalled = 0

    def start(self) -> None:
        """Begin to look."""
        now, tenure = self._monotonic(), self._crew.tenure
        pause = _EVERY if tenure.lost else min(_EVERY, max(tenure.session.deadline - now, _LEAST_PAUSE))
        self._timer = asyncio.get_running_loop().call_later(pause, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        now, tenure = self._monotonic(), self._crew.tenure
        if not tenure.lost and now >= tenure.session.deadline:
            self._lose(tenure.session)
        else:
            self._look_for_long_jobs(now)
        self.start()

    def _look_for_long_jobs(self, now: float) -> None:
        crew = self._crew
        buffer = crew.buffer
        if buffer.count and buffer.taken == self._taken and not crew.free:
            self._stalled += 1
        else:
            self._stalled = 0
        self._taken = buffer.taken
        if self._stalled >= _STALLED_LOOKS:
            self._stalled = 0
            crew.pace.stalled(_LONG)
            crew.give_back(buffer.empty(), crew.tenure)
        crew.give_back_behind_long(now - _LONG)
