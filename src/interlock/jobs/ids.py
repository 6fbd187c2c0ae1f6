"""IDs for jobs, allocated in blocks so that one round trip serves many."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Ids"]

_MIN_BLOCK = 100
_MAX_BLOCK = 10_000
_SOON = 1.0
_MAX_AGE = 10.0


class Ids:
    """The IDs that this process may use. A block that is used up within a second is followed by a larger one.

    A block that lasts long is dropped, so that the order of IDs is about the order of time, which lists rely on.
    """

    def __init__(self, allocate: Callable[[int], Awaitable[range]], monotonic: Callable[[], float]) -> None:
        self._allocate = allocate
        self._monotonic = monotonic
        self._blocks: deque[range] = deque()
        self._left = 0
        self._size = _MIN_BLOCK
        self._asked_at = float("-inf")
        self._lock = asyncio.Lock()

    async def take(self, count: int) -> list[int]:
        """Take this many IDs; each is given once."""
        if self._left and self._monotonic() - self._asked_at > _MAX_AGE:
            self._blocks.clear()
            self._left = 0
        while self._left < count:
            async with self._lock:  # callers that arrive meanwhile share the block
                if self._left < count:
                    await self._fill(count)
        self._left -= count
        taken: list[int] = []
        while len(taken) < count:
            block = self._blocks.popleft()
            part, rest = block[: count - len(taken)], block[count - len(taken) :]
            taken.extend(part)
            if rest:
                self._blocks.appendleft(rest)
        return taken

    async def _fill(self, count: int) -> None:
        now = self._monotonic()
        self._size = min(self._size * 2, _MAX_BLOCK) if now - self._asked_at < _SOON else _MIN_BLOCK
        self._asked_at = now
        block = await self._allocate(max(self._size, count - self._left))
        self._blocks.append(block)
        self._left += len(block)
