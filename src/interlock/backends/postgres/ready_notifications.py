"""Notifications that jobs are ready: one channel per pool, passed on to the workers of this process."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from interlock.backends.postgres.scan_positions import LOWEST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.backends.postgres.messages import PostgresMessages

__all__ = ["ReadyNotifications"]


class ReadyNotifications:
    """Callbacks by pool. ``lower`` is called first, with the sort key from which on jobs may be ready."""

    def __init__(self, messages: PostgresMessages, lower: Callable[[str, int], None]) -> None:
        self._messages = messages
        self._lower = lower
        self._calls: dict[str, list[Callable[[], None]]] = {}

    def listen(self, pools: Sequence[str], call: Callable[[], None]) -> Callable[[], None]:
        """Call back when jobs may be ready. Returns a function that ends it."""
        for pool in dict.fromkeys(pools):
            calls = self._calls.setdefault(pool, [])
            calls.append(call)
            if len(calls) == 1:
                self._messages.follow(_channel(pool), self._hearer(pool))
        ended = False

        def end() -> None:
            nonlocal ended
            if ended:
                return
            ended = True
            for pool in dict.fromkeys(pools):
                calls = self._calls[pool]
                calls.remove(call)
                if not calls:
                    del self._calls[pool]
                    self._messages.unfollow(_channel(pool))

        return end

    def _hearer(self, pool: str) -> Callable[[str | None], None]:
        def hear(message: str | None) -> None:
            self._lower(pool, LOWEST if message is None else int(message))
            for call in list(self._calls.get(pool, ())):
                call()

        return hear


def _channel(pool: str) -> str:
    # The name that job_notify uses.
    return "interlock_jobs_" + hashlib.md5(pool.encode(), usedforsecurity=False).hexdigest()
